"""A training run in a folder: checkpoints, metrics, held-out perplexity, and the model that it is for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.pretrain.corpus import Corpus, overlap
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.export import export
from elmokit.pretrain.loop import Step, train
from elmokit.pretrain.perplexity import Perplexity, perplexity
from elmokit.pretrain.predictions import sample
from elmokit.pretrain.settings import TrainingSettings, flag
from elmokit.pretrain.state import TrainingState
from elmokit.pretrain.vocabulary import build_vocabulary, check_vocabulary
from elmokit.text.lines import read_lines
from elmokit.text.vocabulary import Vocabulary
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.digest import file_sha256
from elmokit.training.metrics import Metrics
from elmokit.weights.lock import LOCK

CHECKPOINTS = "checkpoints"
SOFTMAX = "softmax"  # in the folder of a fine-tuning, that of the run which fits a softmax first


@dataclass(frozen=True)
class Look:
    """A look at the held-out text."""

    step: int
    perplexity: Perplexity
    is_best: bool  # the lowest so far
    sample: str  # how a held-out sentence would go on


class Run:
    """A run that `open_run` has begun or taken up; `go` makes its steps."""

    def __init__(self, folder: Path, state: TrainingState, processes: Processes, *, faults: list[str]) -> None:
        self.folder, self.state, self.processes = folder, state, processes
        self.faults = faults  # of checkpoints that were passed over
        self.lost: str | None = None  # in the end, what was wrong with the checkpoint of the best weights
        self.corpus = corpus_of(state.settings)

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Step | Look]:
        """Train to the end, or until asked to stop; everything worth keeping is kept on the way."""
        if not self.processes.is_first:
            yield from train(self.state, self.corpus, processes=self.processes, stop=stop)
            return
        settings = self.state.settings
        with Metrics(self.folder, self.state.step) as metrics:
            for step in train(self.state, self.corpus, processes=self.processes, stop=stop):
                if step.step % settings.log_every == 0 or step.is_last:
                    values = asdict(step)
                    metrics.write("step", values.pop("step"), {k: v for k, v in values.items() if k != "stopped"})
                yield step
                look = None
                if settings.heldout and (step.step % settings.heldout_every == 0 or step.is_last):
                    look = self._look()
                    metrics.write("heldout", look.step, figures_of(look.perplexity))
                is_due = step.step % settings.checkpoint_every == 0 or step.is_last or step.stopped
                if is_due or (look and look.is_best):
                    self._save()
                if look:
                    yield look
        if self.state.done >= 1:
            self._export_best()

    def _look(self) -> Look:
        state, settings = self.state, self.state.settings
        assert settings.heldout is not None
        figures = heldout_perplexity(state, settings)
        value = figures.geometric_mean
        is_best = state.best is None or value < state.best["geometric_mean"]
        if is_best:
            state.best = {"step": state.step, **figures_of(figures)}
        return Look(state.step, figures, is_best, sample(state, Path(settings.heldout), state.step))

    def _save(self) -> None:
        folder, best = self.folder / CHECKPOINTS, self.state.best
        checkpoint.write(self.state.to_checkpoint(), folder)
        checkpoint.prune(folder, int(best["step"]) if best else None)
        if best is None or best["step"] == self.state.step:
            export(self.state, self.folder)

    def _export_best(self) -> None:
        """At the end: the best weights, even if the process that should have exported them was killed."""
        state, best = self.state, self.state.best
        if best is not None and best["step"] != state.step:
            try:
                kept = checkpoint.read(checkpoint.path_of(self.folder / CHECKPOINTS, int(best["step"])))
            except FormatError as error:  # lost, or damaged since; its weights were exported when they were made
                self.lost = str(error)
                return
            state = TrainingState.from_checkpoint(kept)
        export(state, self.folder)


def open_run(
    folder: Path,
    processes: Processes,
    begin: Callable[[], TrainingState],
    *,
    resume: bool = False,
    overwrite: bool = False,
    given: dict[str, Any] | None = None,
    old: Sequence[Path] = (),
) -> Run:
    """Begin a run in a folder, or take it up.

    begin: makes the state of a new run; only the first process calls it. With `resume` it is called only where there is
        no run yet, so that one command both begins and goes on. given: settings that the user asked for, to compare.
        old: files of another run, which are deleted as soon as the new one can begin.
    """
    kept: Checkpoint | None = None
    faults: list[str] = []
    if processes.is_first:
        old = old or in_the_way(folder, resume=resume, overwrite=overwrite)
        found, faults = (None, []) if old else checkpoint.latest(folder / CHECKPOINTS)
        if found is None:
            state = begin()
            state.notes |= {"processes": processes.world, "heldout": _digest(state.settings)}
            kept = state.to_checkpoint()
        else:
            kept = _going_on(found, given or {}, processes.world)
            _require_same_heldout(kept)
        require_texts(TrainingSettings.from_json(kept.record["settings"]))  # now, and not when an hour is over
        delete(old)  # now that nothing is missing for the new run
        if kept is not found:
            checkpoint.write(kept, folder / CHECKPOINTS)  # whatever happens next, what was asked for is remembered
    state = TrainingState.from_checkpoint(processes.share(kept), processes.device)
    return Run(folder, state, processes, faults=faults)


def _going_on(kept: Checkpoint, given: dict[str, Any], world: int) -> Checkpoint:
    """A checkpoint that goes on with settings which the user asked for, or the same one where nothing is new.

    Batches done are counted in the new size. What changed is noted, for the card.
    """
    old = TrainingSettings.from_json(kept.record["settings"])
    new = old.resumed(**given)
    notes = kept.record["notes"]
    changes = [
        f"{flag(name)} {value}" for name, value in asdict(new).items() if value not in (getattr(old, name), None)
    ]
    if world != notes.get("processes", world):
        changes.append(f"{world} process{'es' * (world > 1)}")
    if not changes:
        return kept
    on_the_way = [*notes.get("changes", ()), f"from step {kept.record['step']:,}: {', '.join(changes)}"]
    position = dict(kept.record["position"])
    position["batch"] = position["batch"] * old.batch_tokens // new.batch_tokens
    return replace(
        kept,
        record={
            **kept.record, "settings": asdict(new), "position": position,
            "notes": {**notes, "processes": world, "changes": on_the_way},
        },
    )  # fmt: skip


def _digest(settings: TrainingSettings) -> str | None:
    return None if settings.heldout is None else file_sha256(Path(settings.heldout))


def _require_same_heldout(kept: Checkpoint) -> None:
    """Which weights are the best is told by comparing perplexities, which must be of one text."""
    settings = TrainingSettings.from_json(kept.record["settings"])
    if kept.record["notes"].get("heldout") not in (None, _digest(settings)):  # None: begun before this was kept
        raise InputError(
            f"{settings.heldout}: expected the held-out text that the run began with, found another; bring it back, or "
            "begin again with --overwrite"
        )


def new_state(config: ModelConfig, settings: TrainingSettings, progress: Callable[[float], None]) -> TrainingState:
    """Random weights, and the vocabulary: read, or made of the words of the text."""
    if config.char_cnn is None or config.char_cnn.alphabet != "bytes" or config.n_words:
        raise ConfigError("--options: expected a model that reads the bytes of words, found another")
    notes = {"overlap": overlapping(settings)}  # before the words are counted, which takes longer
    # every sentence is trained from state zero, and so it should be read
    state = TrainingState.begin(replace(config, state="reset"), settings, words_to_predict(settings, progress))
    state.notes |= notes
    return state


def words_to_predict(settings: TrainingSettings, progress: Callable[[float], None]) -> Vocabulary:
    """The words to predict: those of a file, or the most frequent of the text, which is then read for it."""
    if settings.vocabulary is None:
        return build_vocabulary(corpus_of(settings), settings.vocabulary_size, progress=progress)
    vocabulary = Vocabulary.from_file(settings.vocabulary)
    check_vocabulary(vocabulary)
    return vocabulary


def corpus_of(settings: TrainingSettings) -> Corpus:
    """The text that the settings name."""
    if not settings.train:
        raise ConfigError("--train: expected files of text, found none")
    return Corpus(
        settings.train, tokenizer=settings.tokenizer, encoding_errors=settings.encoding_errors,
        max_sentence=settings.max_sentence,
    )  # fmt: skip


def overlapping(settings: TrainingSettings) -> int:
    """How many held-out sentences are also trained on; all text is read for it, so a run keeps the number."""
    return 0 if settings.heldout is None else overlap(corpus_of(settings), settings.heldout)


def heldout_perplexity(state: TrainingState, settings: TrainingSettings) -> Perplexity:
    """The perplexity of the held-out text that the settings name."""
    assert settings.heldout is not None
    lines = read_lines(settings.heldout, encoding_errors=settings.encoding_errors)
    return perplexity(state.model(), lines, tokenizer=settings.tokenizer)


def in_the_way(folder: Path, *, resume: bool, overwrite: bool) -> list[Path]:
    """The files of an old run that a new one is to `overwrite`; an error where there is anything else.

    With `resume` a run may be there, and is not in the way.
    """
    found = [path for path in folder.iterdir() if path.name != LOCK] if folder.exists() else []
    if not found:
        return []
    if not any((folder / part / CHECKPOINTS).is_dir() for part in ("", SOFTMAX)):
        raise OutputError(f"{folder}: expected an empty folder or none, found other files; choose another name")
    if resume:
        return []
    if not overwrite:
        raise OutputError(f"{folder}: has a run already; go on with --resume, or replace it with --overwrite")
    return found


def delete(paths: Sequence[Path]) -> None:
    """Remove files and folders."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def require_texts(settings: TrainingSettings) -> None:
    """Raise an InputError or ConfigError unless there are sentences to train on, and held out if a file is."""
    corpus = corpus_of(settings)
    if next(iter(corpus.read()), None) is None:
        raise InputError(f"{corpus}: expected sentences to train on, found none")
    heldout = settings.heldout
    if heldout is not None and not any(line.strip() for line in read_lines(heldout, encoding_errors="replace")):
        raise InputError(f"{heldout}: expected held-out sentences, found none; check --heldout")


def figures_of(perplexity: Perplexity) -> dict[str, float]:
    """What metrics, checkpoints and cards keep of a perplexity."""
    names = ("forward", "backward", "mean", "geometric_mean", "out_of_vocabulary")
    return {name: getattr(perplexity, name) for name in names}
