"""Training run in a folder: checkpoints, metrics, held-out evaluation and model export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elmokit import weights
from elmokit.config import ModelConfig
from elmokit.disk.digest import file_sha256
from elmokit.disk.manifest import Checked, Manifest
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.pretrain.corpus import Corpus, count_overlap
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.export import export, is_card
from elmokit.pretrain.grow import grow_bilm_, grow_head_
from elmokit.pretrain.loop import TrainingStep, train
from elmokit.pretrain.output_vocabulary import build_vocabulary, check_vocabulary
from elmokit.pretrain.perplexity import Perplexity, perplexity
from elmokit.pretrain.predictions import sample
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.training import checkpoint, metrics
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.metrics import MetricsLog
from elmokit.training.settings_fields import flag
from elmokit.weights.files import NATIVE_FOLDER

CHECKPOINTS = "checkpoints"
SOFTMAX = "softmax"  # subfolder of a fine-tuning run: the run that fits the softmax

_OWN = Manifest(
    "a run of `elmo pretrain`",
    marks=(*checkpoint.FOLDER.marks_inside(CHECKPOINTS), Checked(metrics.FILE, metrics.is_metrics)),
    parts=(
        *checkpoint.FOLDER.inside(CHECKPOINTS), metrics.FILE, metrics.BOARD, Checked("README.md", is_card),
        *NATIVE_FOLDER.marks, *(part for part in NATIVE_FOLDER.parts if part != "README.md"),
        *NATIVE_FOLDER.inside(".model"),
    ),
)  # fmt: skip
RUN_FOLDER = replace(_OWN, marks=(*_OWN.marks, *_OWN.marks_inside(SOFTMAX)), parts=(*_OWN.parts, *_OWN.inside(SOFTMAX)))


@dataclass(frozen=True)
class HeldoutEvaluation:
    """Evaluation on the held-out text."""

    step: int
    perplexity: Perplexity
    is_best: bool  # lowest perplexity so far
    sample: str  # start of a held-out sentence and predicted next words


class PretrainRun:
    """Training run, started or resumed by `open_run`; `go` executes it."""

    def __init__(self, folder: Path, state: TrainingState, processes: Processes, *, faults: list[str]) -> None:
        self.folder, self.state, self.processes = folder, state, processes
        self.faults = faults  # errors of damaged checkpoints that were skipped
        self.lost: str | None = None  # error of the best checkpoint, if it could not be read at the end
        self.corpus = corpus_of(state.settings)

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[TrainingStep | HeldoutEvaluation]:
        """Train until the run is complete or `stop` returns True; writes metrics, checkpoints and the best model."""
        if not self.processes.is_first:
            yield from train(self.state, self.corpus, processes=self.processes, stop=stop)
            return
        settings = self.state.settings
        with MetricsLog(self.folder, self.state.step) as record:
            for step in train(self.state, self.corpus, processes=self.processes, stop=stop):
                if step.step % settings.log_every == 0 or step.is_last:
                    values = asdict(step)
                    record.write("step", values.pop("step"), {k: v for k, v in values.items() if k != "stopped"})
                yield step
                evaluation = None
                if settings.heldout and (step.step % settings.heldout_every == 0 or step.is_last):
                    evaluation = self._evaluate()
                    record.write("heldout", evaluation.step, perplexity_values(evaluation.perplexity))
                is_due = step.step % settings.checkpoint_every == 0 or step.is_last or step.stopped
                if is_due or (evaluation and evaluation.is_best):
                    self._save()
                if evaluation:
                    yield evaluation
        if self.state.done >= 1:
            self._prune()  # a run that was killed after its last checkpoint comes here without a step
            self._export_best()

    def _evaluate(self) -> HeldoutEvaluation:
        state, settings = self.state, self.state.settings
        assert settings.heldout is not None
        figures = heldout_perplexity(state, settings)
        value = figures.geometric_mean
        is_best = state.best is None or value < state.best["geometric_mean"]
        if is_best:
            state.best = {"step": state.step, **perplexity_values(figures)}
        example = sample(state, Path(settings.heldout), state.step)
        return HeldoutEvaluation(state.step, figures, is_best, example)

    def _save(self) -> None:
        folder, best = self.folder / CHECKPOINTS, self.state.best
        checkpoint.write(self.state.to_checkpoint(), folder)
        self._prune()
        if best is None or best["step"] == self.state.step:
            export(self.state, self.folder)

    def _prune(self) -> None:
        best = self.state.best
        checkpoint.prune(self.folder / CHECKPOINTS, int(best["step"]) if best else None)

    def _export_best(self) -> None:
        """Export the best weights at the end, in case an earlier export was interrupted."""
        state, best = self.state, self.state.best
        if best is not None and best["step"] != state.step:
            try:
                kept = checkpoint.read(checkpoint.path_of(self.folder / CHECKPOINTS, int(best["step"])))
                state = TrainingState.from_checkpoint(kept)
            except (FormatError, ConfigError) as error:  # missing or damaged; its weights were exported earlier
                self.lost = str(error)
                return
        export(state, self.folder)


def open_run(
    folder: Path,
    processes: Processes,
    begin: Callable[[], TrainingState],
    *,
    resume: bool = False,
    overwrite: bool = False,
    given: dict[str, Any] | None = None,
    decay_now: float | None = None,
    replaces: Path | None = None,
) -> PretrainRun:
    """Start a run in a folder, or resume it.

    begin: creates the state of a new run; called by rank 0 only, and with `resume` only if there is no run yet, so that
        one command both starts and resumes.
    given: settings chosen by the user, compared with those of an existing run.
    decay_now: end an existing run with a learning-rate decay over this fraction of the whole run.
    replaces: folder of an old run, deleted as soon as the new one can start.
    """
    kept: Checkpoint | None = None
    faults: list[str] = []
    if processes.is_first:
        replaces = replaces or run_to_replace(folder, resume=resume, overwrite=overwrite)
        found, faults = (None, []) if replaces else checkpoint.latest(folder / CHECKPOINTS, TrainingState.check)
        if found is None:
            state = begin()
            state.notes |= {"processes": processes.world, "heldout": _digest(state.settings)}
            kept = state.to_checkpoint()
        else:
            kept = _resumed_checkpoint(found, given or {}, processes.world, decay_now)
            _require_same_heldout(kept)
        require_texts(TrainingSettings.from_json(kept.record["settings"]))  # fail before training, not an hour later
        if replaces is not None:
            RUN_FOLDER.remove(replaces)  # after all checks
        if kept is not found:
            checkpoint.write(kept, folder / CHECKPOINTS)  # record the new settings before training starts
    state = TrainingState.from_checkpoint(processes.share(kept), processes.device)
    return PretrainRun(folder, state, processes, faults=faults)


def branch(run: Path, given: dict[str, Any], *, decay_now: float | None = None) -> TrainingState:
    """State of the last checkpoint of another run, to continue in a new folder; that run is left unchanged."""
    found, _ = checkpoint.latest(run / CHECKPOINTS, TrainingState.check)
    if found is None:
        raise InputError(f"{run}: expected the folder of a run with checkpoints, found none; check --branch")
    world = found.record["notes"].get("processes", 1)
    state = TrainingState.from_checkpoint(_resumed_checkpoint(found, given, world, decay_now))
    state.best = None  # the best checkpoint is in the other folder
    state.notes["branch"] = {"run": run.name, "step": state.step}
    return state


def _resumed_checkpoint(
    kept: Checkpoint, given: dict[str, Any], world: int, decay_now: float | None = None
) -> Checkpoint:
    """Checkpoint with the settings given on resumption; the same object if nothing changes.

    Completed batches are converted to the new batch size. Changes are recorded for the model card.
    """
    old = TrainingSettings.from_json(kept.record["settings"])
    new = old.resumed(**given)
    step = kept.record["step"]
    is_ending = new.hold > 0 and new.steps is not None and step >= new.hold * new.steps
    if decay_now is not None and not is_ending:  # otherwise the same command resumes a decay that it started
        new = new.ended(step, decay_now)
    notes = kept.record["notes"]
    changes = [
        f"{flag(name)} {value}" for name, value in asdict(new).items() if value not in (getattr(old, name), None)
    ]
    if world != notes.get("processes", world):
        changes.append(f"{world} process{'es' * (world > 1)}")
    if not changes:
        return kept
    history = [*notes.get("changes", ()), f"from step {kept.record['step']:,}: {', '.join(changes)}"]
    position = dict(kept.record["position"])
    position["batch"] = position["batch"] * old.batch_tokens // new.batch_tokens
    return replace(
        kept,
        record={
            **kept.record, "settings": asdict(new), "position": position,
            "notes": {**notes, "processes": world, "changes": history},
        },
    )  # fmt: skip


def _digest(settings: TrainingSettings) -> str | None:
    return None if settings.heldout is None else file_sha256(Path(settings.heldout))


def _require_same_heldout(kept: Checkpoint) -> None:
    """Raise an InputError if the held-out text has changed: perplexities would not be comparable."""
    settings = TrainingSettings.from_json(kept.record["settings"])
    if kept.record["notes"].get("heldout") not in (
        None,
        _digest(settings),
    ):  # None: from a version that did not record it
        raise InputError(
            f"{settings.heldout}: expected the held-out text that the run began with, found another; restore it, or "
            "start again with --overwrite"
        )


def new_state(config: ModelConfig, settings: TrainingSettings, progress: Callable[[float], None]) -> TrainingState:
    """Initial state with random weights and a vocabulary from a file or from the text."""
    if config.char_cnn is None or config.char_cnn.alphabet != "bytes" or config.n_words:
        raise ConfigError("--options: expected a model that reads UTF-8 bytes, found another")
    notes = {"overlap": heldout_overlap(settings)}  # before counting words, which takes longer
    # training starts every sentence from a zero state, so inference does too
    state = TrainingState.begin(replace(config, state="reset"), settings, load_or_build_vocabulary(settings, progress))
    state.notes |= notes
    return state


def grown_state(name: str, config: ModelConfig, settings: TrainingSettings) -> TrainingState:
    """Initial state of a wider network with the weights, the words and the perplexity of a trained model."""
    old = weights.load(name)
    if not old.has_softmax or old.vocabulary is None:
        raise ConfigError(f"--grow: expected a model with its softmax and vocabulary, found {name} without")
    config = replace(config, state="reset", tokenizer=old.config.tokenizer)
    vocabulary = vocabulary_of(old.config, old.vocabulary)
    check_vocabulary(vocabulary)
    state = TrainingState.begin(config, settings, vocabulary)
    grow_bilm_(state.bilm, old.bilm)
    grow_head_(state.head, old.softmax())
    state.notes |= {"overlap": heldout_overlap(settings), "parent": f"{name}, made wider"}
    return state


def load_or_build_vocabulary(settings: TrainingSettings, progress: Callable[[float], None]) -> Vocabulary:
    """Output vocabulary from a file, or the most frequent words of the text, which is then read once."""
    if settings.vocabulary is None:
        return build_vocabulary(corpus_of(settings), settings.vocabulary_size, progress=progress)
    vocabulary = Vocabulary.from_file(settings.vocabulary)
    check_vocabulary(vocabulary)
    return vocabulary


def corpus_of(settings: TrainingSettings) -> Corpus:
    """Training corpus of the settings."""
    if not settings.train:
        raise ConfigError("--train: expected files of text, found none")
    return Corpus(
        settings.train, tokenizer=settings.tokenizer, encoding_errors=settings.encoding_errors,
        max_sentence=settings.max_sentence,
    )  # fmt: skip


def heldout_overlap(settings: TrainingSettings) -> int:
    """Number of held-out sentences in the training text. Reads all text, so a run stores the result."""
    return 0 if settings.heldout is None else count_overlap(corpus_of(settings), settings.heldout)


def heldout_perplexity(state: TrainingState, settings: TrainingSettings) -> Perplexity:
    """Perplexity of the held-out text of the settings."""
    assert settings.heldout is not None
    lines = read_lines(settings.heldout, encoding_errors=settings.encoding_errors)
    return perplexity(state.model(), lines, tokenizer=settings.tokenizer)


def run_to_replace(folder: Path, *, resume: bool, overwrite: bool) -> Path | None:
    """Return the folder if it holds a run to overwrite, None if it is free; raise an OutputError otherwise.

    With `resume` an existing run is not an error.
    """
    if RUN_FOLDER.is_empty(folder):
        return None
    if not RUN_FOLDER.is_marked(folder):
        raise OutputError(
            f"{folder}: expected an empty folder or none, found other files ({', '.join(RUN_FOLDER.names(folder))}); "
            "choose another name"
        )
    if resume:
        return None
    if not overwrite:
        raise OutputError(
            f"{folder}: already contains a run; continue it with --resume, or replace it with --overwrite"
        )
    RUN_FOLDER.require(folder)
    return folder


def require_texts(settings: TrainingSettings) -> None:
    """Raise an InputError or ConfigError if the training text, or a given held-out text, has no sentences."""
    corpus = corpus_of(settings)
    if next(iter(corpus.read()), None) is None:
        raise InputError(f"{corpus}: expected sentences to train on, found none")
    heldout = settings.heldout
    if heldout is not None and not any(line.strip() for line in read_lines(heldout, encoding_errors="replace")):
        raise InputError(f"{heldout}: expected held-out sentences, found none; check --heldout")


def perplexity_values(perplexity: Perplexity) -> dict[str, float]:
    """Values recorded in metrics, checkpoints and model cards."""
    names = ("forward", "backward", "mean", "geometric_mean", "out_of_vocabulary")
    return {name: getattr(perplexity, name) for name in names}
