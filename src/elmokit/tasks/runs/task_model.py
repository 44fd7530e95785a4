"""Task model: a trained task network with everything needed to process text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.disk.tensor_file import TensorSpec, check_tensors
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, InputError
from elmokit.nn.device import find_device
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.runs.batch_reader import BatchReader
from elmokit.tasks.runs.layer_cache import CountProgress, LayerCache, LayerSource, LiveLayers
from elmokit.tasks.runs.task_bilm import TaskBilm, load_bilm
from elmokit.tasks.runs.word_rows import Words, new_words
from elmokit.tasks.shared.inputs import TextInputs, WordTable
from elmokit.tasks.shared.task_base import Task, TaskNetwork, log, predict_batch
from elmokit.tasks.shared.task_registry import get_task
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training.settings_fields import settings_from_json

_BILM_WEIGHTS = "inputs.bilm."  # saved in a separate folder


class TaskModel:
    """A task and its network, with inputs and labels.

    >>> model = TaskModel.from_pretrained("runs/ner")
    >>> model.predict(["Angela Merkel met Barack Obama in Berlin ."])
    """

    def __init__(
        self,
        task: Task[Any, Any],
        settings: FitSettings,
        labels: dict[str, list[str]],
        words: Words,
        table: WordTable | None,
        bilm: TaskBilm | None,
        device: torch.device,
    ) -> None:
        """Build a new network; initial weights come from torch's CPU generator on every device."""
        self.task, self.settings, self.labels, self.words, self.bilm = task, settings, labels, words, bilm
        self.device = device
        inputs = TextInputs(settings=settings, words=table, elmo=bilm.source() if bilm else None)
        if not inputs.input_dim:
            raise ConfigError("--no-elmo: expected word vectors, characters or ELMo as input, found none of them")
        self.network: TaskNetwork = task.network(inputs, settings, labels).to(device).eval()

    @classmethod
    def begin(
        cls,
        task: Task[Any, Any],
        settings: FitSettings,
        train: Sequence[Any],
        others: Sequence[Any],
        *,
        device: str | None = None,
    ) -> TaskModel:
        """A new model to train: labels from the training data, words from the training and other data."""
        place = find_device(device)
        bilm = load_bilm(settings, settings.model, device=place)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(settings.seed)
            words, table = new_words(settings, sentences_of(task, train), sentences_of(task, others))
            return cls(task, settings, task.labels(train), words, table, bilm, place)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | PathLike[str],
        *,
        model: str | None = None,
        task: str | None = None,
        complete: bool = True,
        device: str | None = None,
        owner: str = "the run",
        bilm: Elmo | None = None,
    ) -> TaskModel:
        """Load a run, or a tagger folder.

        model: path of the biLM, if it was moved. task: the task that the run must have. complete: load the trained
        weights; if False, an incomplete run loads with randomly initialized ones. device: "cpu", "cuda", "cuda:1",
        ...; by default a GPU if available. owner: name of the run in the error for another biLM. bilm: used if it is
        the biLM of the run, so that several runs share one copy.
        """
        place = find_device(device)
        folder = Path(folder).expanduser()
        record = files.read_record(folder, task)
        the_task = get_task(record["task"])
        settings = settings_from_json(the_task.settings, record["settings"], str(folder / files.SETTINGS))
        trained = complete and settings.finetune_bilm
        known = record["model"] or {}
        path = str(folder / files.BILM) if trained else model or known.get("path")
        fingerprint = None if trained else known.get("fingerprint")
        own = load_bilm(settings, path, fingerprint=fingerprint, device=place, owner=owner, loaded=bilm)
        kept = files.read_words(folder)
        words = Words(kept.words, kept.n_learned)
        tensors = files.read_tensors(folder / files.WEIGHTS) if complete else {}
        table = None
        if kept.dim:
            fixed = None
            if n_fixed := len(words.rows) - words.n_learned:
                found_rows = files.read_tensors(folder / files.VECTORS)
                check_tensors(found_rows, {"fixed": TensorSpec((n_fixed, kept.dim))}, str(folder / files.VECTORS))
                fixed = found_rows["fixed"]
            table = WordTable(learned=torch.zeros(words.n_learned, kept.dim), fixed=fixed)
        with torch.random.fork_rng(devices=()):
            found = cls(
                the_task, settings, files.read_labels(folder, the_task.labels([]).keys()), words, table, own, place
            )
        if complete:
            found._load(tensors, folder / files.WEIGHTS)
        return found

    def save_words(self, folder: Path) -> None:
        """Save the parts that training does not change: labels, words and their fixed vectors."""
        table = self.network.inputs.words
        kept = {"n_learned": self.words.n_learned, "dim": table.dim if table else 0, "words": list(self.words.rows)}
        files.write_json(folder / files.LABELS, self.labels)
        files.write_json(folder / files.WORDS, kept)
        if table is not None and len(table.fixed):
            files.write_tensors(folder / files.VECTORS, {"fixed": table.fixed})

    def save_weights(self, folder: Path) -> None:
        """Save the weights, and a fine-tuned biLM as a separate model."""
        state = self.network.state_dict()
        if self.bilm is not None and self.bilm.reader is not None:
            self.bilm.save(folder / files.BILM)
        files.write_tensors(
            folder / files.WEIGHTS, {name: t for name, t in state.items() if not name.startswith(_BILM_WEIGHTS)}
        )

    def __repr__(self) -> str:
        inputs = "no ELMo" if self.bilm is None else "ELMo"
        return f"TaskModel({self.task.name}, {inputs}, {self.device})"

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """Predict for raw text, lists of tokens, or examples of the task; returns one dictionary per example.

        Raw text has the format of an input line of `elmo task predict`; a line may hold several examples, or none.
        """
        if isinstance(inputs, str):
            raise InputError("predict expects a list of texts, found one string: use [text]")
        if not isinstance(inputs, Iterable):
            raise InputError(f"inputs: expected a list of texts or of lists of tokens, found {inputs!r}")
        examples = self.examples(inputs)
        found = self.predictions(examples, self.live_layers())
        return [self.task.to_json(*pair) for pair in zip(examples, found, strict=True)]

    def evaluate(
        self,
        path: str | PathLike[str],
        *,
        cache: LayerCache | None = None,
        progress: CountProgress = lambda done, total: None,
    ) -> dict[str, float]:
        """Scores on a file of labeled examples, in percent."""
        examples = self.task.read(Path(path))
        if not examples:
            raise InputError(f"{path}: expected examples of the task {self.task.name}, found none")
        warn_of_labels(self.task, self.labels, examples, str(path))
        layers = self.cached_layers(cache or LayerCache(), examples, progress)
        return self.task.score(examples, self.predictions(examples, layers))

    def examples(self, inputs: Iterable[Any]) -> list[Any]:
        """Examples as they are; raw text as the task reads it; lists of tokens as one sentence each."""
        found: list[Any] = []
        for item in inputs:
            if isinstance(item, str):
                found += self.task.parse(item)
            elif isinstance(item, (list, tuple)) and not hasattr(item, "_fields"):
                if wrong := [token for token in item if not isinstance(token, str)]:
                    raise InputError(
                        f"inputs: expected texts or lists of tokens, found {str(wrong[0])[:40]!r} among them"
                    )
                found.append(self.task.from_tokens(item))
            elif item is None or isinstance(item, (int, float, bytes, dict)):
                raise InputError(f"inputs: expected texts or lists of tokens, found {str(item)[:40]!r} among them")
            else:
                found.append(item)
        return found

    def predictions(
        self, examples: Sequence[Any], layers: LayerSource | None, *, each: Callable[[int], None] = lambda n: None
    ) -> list[Any]:
        """One prediction per example, in order; `each` is called with the number of examples done."""
        reader = self.reader(layers)
        order = np.argsort([self.task.size(example) for example in examples], kind="stable")
        found: dict[int, Any] = {}
        for start in range(0, len(order), self.settings.batch_size):
            chosen = order[start : start + self.settings.batch_size].tolist()
            batch = reader.batch([examples[k] for k in chosen])
            found |= zip(chosen, predict_batch(self.network, batch), strict=True)
            each(len(found))
        return [found[k] for k in range(len(examples))]

    def reader(self, layers: LayerSource | None) -> BatchReader:
        """Batch builder for the network."""
        return BatchReader(
            self.task,
            self.settings,
            self.words,
            layers=layers,
            bilm=self.bilm.reader if self.bilm else None,
            device=self.device,
        )

    def cached_layers(
        self, cache: LayerCache, examples: Sequence[Any], progress: CountProgress = lambda done, total: None
    ) -> LayerSource | None:
        """Cached layers of these examples, if the network uses a frozen biLM."""
        if self.bilm is None or self.bilm.frozen is None:
            return None
        return cache.layers(self.bilm.frozen, sentences_of(self.task, examples), progress=progress)

    def live_layers(self) -> LayerSource | None:
        """Layers computed without the cache, for text seen only once."""
        return LiveLayers(self.bilm.frozen) if self.bilm is not None and self.bilm.frozen is not None else None

    def _load(self, tensors: dict[str, torch.Tensor], path: Path) -> None:
        state = self.network.state_dict()
        specs = {name: TensorSpec.like(t) for name, t in state.items() if not name.startswith(_BILM_WEIGHTS)}
        check_tensors(tensors, specs, str(path))
        self.network.load_state_dict(tensors, strict=False)


def sentences_of(task: Task[Any, Any], examples: Iterable[Any]) -> list[Sequence[str]]:
    """All sentences of the examples, as the biLM reads them."""
    return [sentence for example in examples for text in task.sentences(example) for sentence in text]


def distinct_sentences(task: Task[Any, Any], examples: Iterable[Any]) -> list[str]:
    """All sentences of the examples as text, each once: a passage belongs to several questions."""
    return list(dict.fromkeys(" ".join(sentence) for sentence in sentences_of(task, examples)))


def warn_of_labels(task: Task[Any, Any], known: dict[str, list[str]], examples: Sequence[Any], where: str) -> None:
    """Warn about labels that do not occur in the training data: the network cannot predict them."""
    for kind, labels in task.labels(examples).items():
        if new := sorted(set(labels) - set(known.get(kind, ()))):
            shown = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
            log.warning(
                "%s: %s never seen in training: %s; the network cannot predict them, but they count in the score",
                where,
                kind,
                shown,
            )
