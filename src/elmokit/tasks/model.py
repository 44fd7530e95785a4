"""A task's network with all that it needs to read text: what training makes, and what a user takes home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.nn.device import find_device
from elmokit.tasks import folder as files
from elmokit.tasks.bilm import TaskBilm, load_bilm
from elmokit.tasks.inputs import TextInputs, WordTable
from elmokit.tasks.layer_cache import LayerCache, LayerSource, LiveLayers, Progress
from elmokit.tasks.reader import BatchReader
from elmokit.tasks.settings import FitSettings, from_json
from elmokit.tasks.table import get_task
from elmokit.tasks.task import Task, TaskNetwork, log, predict_batch
from elmokit.tasks.words import Words, new_words

_BILM_WEIGHTS = "inputs.bilm."  # kept in a folder of their own


class TaskModel:
    """A task with a network for it.

    >>> model = TaskModel.from_pretrained("runs/ner")
    >>> model.predict(["Angela Merkel met Barack Obama in Berlin ."])
    """

    def __init__(
        self, task: Task[Any, Any], settings: FitSettings, labels: dict[str, list[str]], words: Words,
        table: WordTable | None, bilm: TaskBilm | None, device: torch.device,
    ) -> None:  # fmt: skip
        """A new network; its first weights come from torch's generator of the CPU, whatever the device."""
        self.task, self.settings, self.labels, self.words, self.bilm = task, settings, labels, words, bilm
        self.device = device
        inputs = TextInputs(settings=settings, words=table, elmo=bilm.source() if bilm else None)
        if not inputs.input_dim:
            raise ConfigError("--no-elmo: expected word vectors, characters or ELMo as input, found none of them")
        self.network: TaskNetwork = task.network(inputs, settings, labels).to(device).eval()

    @classmethod
    def begin(
        cls, task: Task[Any, Any], settings: FitSettings, train: Sequence[Any], others: Sequence[Any], *,
        device: str | None = None,
    ) -> TaskModel:  # fmt: skip
        """A model to be trained: labels from the training data, words from there and from other data."""
        place = find_device(device)
        bilm = load_bilm(settings, settings.model, device=place)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(settings.seed)
            words, table = new_words(settings, sentences_of(task, train), sentences_of(task, others))
            return cls(task, settings, task.labels(train), words, table, bilm, place)

    @classmethod
    def from_pretrained(
        cls, folder: str | PathLike[str], *, model: str | None = None, task: str | None = None, complete: bool = True,
        device: str | None = None,
    ) -> TaskModel:  # fmt: skip
        """Load a run.

        model: where its biLM is now, if it was moved. task: what the run must be of. complete: whether the trained
        weights are wanted, or, of a run that is not complete, the same network with random ones. device: "cpu", "cuda",
        "cuda:1", ...; by default a GPU where there is one.
        """
        place = find_device(device)
        folder = Path(folder).expanduser()
        record = files.read_record(folder, task)
        the_task = get_task(record["task"])
        settings = from_json(the_task.settings, record["settings"], str(folder / files.SETTINGS))
        trained = complete and settings.finetune_bilm
        known = record["model"] or {}
        path = str(folder / files.BILM) if trained else model or known.get("path")
        bilm = load_bilm(settings, path, fingerprint=None if trained else known.get("fingerprint"), device=place)
        kept = files.read_json(folder / files.WORDS)
        words = Words(kept["words"], kept["n_learnt"])
        tensors = files.read_tensors(folder / files.WEIGHTS) if complete else {}
        table = None
        if kept["dim"]:
            fixed = files.read_tensors(folder / files.VECTORS)["fixed"] if len(words.rows) > words.n_learnt else None
            table = WordTable(learnt=torch.zeros(words.n_learnt, kept["dim"]), fixed=fixed)
        with torch.random.fork_rng(devices=()):
            found = cls(the_task, settings, files.read_json(folder / files.LABELS), words, table, bilm, place)
        if complete:
            found._load(tensors, folder / files.WEIGHTS)
        return found

    def save_words(self, folder: Path) -> None:
        """Write what does not change in training: labels, words and their fixed vectors."""
        table = self.network.inputs.words
        kept = {"n_learnt": self.words.n_learnt, "dim": table.dim if table else 0, "words": list(self.words.rows)}
        files.write_json(folder / files.LABELS, self.labels)
        files.write_json(folder / files.WORDS, kept)
        if table is not None and len(table.fixed):
            files.write_tensors(folder / files.VECTORS, {"fixed": table.fixed})

    def save_weights(self, folder: Path) -> None:
        """Write the weights; of a frozen biLM nothing, of one that was trained a model of its own."""
        state = self.network.state_dict()
        if self.bilm is not None and self.bilm.reader is not None:
            self.bilm.save(folder / files.BILM)
        files.write_tensors(
            folder / files.WEIGHTS, {name: t for name, t in state.items() if not name.startswith(_BILM_WEIGHTS)}
        )

    def predict(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """What the network says of raw text, or of examples of the task: one dictionary an example.

        Raw text is what the task's `predict` command takes as a line; a line may hold several examples, or none.
        """
        if isinstance(inputs, str):
            raise InputError("predict expects a list of texts, found one string: use [text]")
        examples = self.examples(inputs)
        found = self.predictions(examples, self.live_layers())
        return [self.task.to_json(*pair) for pair in zip(examples, found, strict=True)]

    def evaluate(
        self, path: str | PathLike[str], *, cache: LayerCache | None = None,
        progress: Progress = lambda done, total: None,
    ) -> dict[str, float]:  # fmt: skip
        """The scores on a file of labelled examples, in percent."""
        examples = self.task.read(Path(path))
        if not examples:
            raise InputError(f"{path}: expected examples of the task {self.task.name}, found none")
        warn_of_labels(self.task, self.labels, examples, str(path))
        layers = self.cached_layers(cache or LayerCache(), examples, progress)
        return self.task.score(examples, self.predictions(examples, layers))

    def examples(self, inputs: Iterable[Any]) -> list[Any]:
        """Examples as they are; raw text as the task reads it."""
        return [e for item in inputs for e in (self.task.parse(item) if isinstance(item, str) else [item])]

    def predictions(
        self, examples: Sequence[Any], layers: LayerSource | None, *, each: Callable[[int], None] = lambda n: None
    ) -> list[Any]:
        """One prediction an example, in their order; `each` is called with the number of examples done."""
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
        """What makes batches for the network."""
        return BatchReader(
            self.task, self.settings, self.words, layers=layers, bilm=self.bilm.reader if self.bilm else None,
            device=self.device,
        )  # fmt: skip

    def cached_layers(
        self, cache: LayerCache, examples: Sequence[Any], progress: Progress = lambda done, total: None
    ) -> LayerSource | None:
        """The layers of these examples, if the network needs those of a frozen biLM."""
        if self.bilm is None or self.bilm.frozen is None:
            return None
        return cache.layers(self.bilm.frozen, sentences_of(self.task, examples), progress=progress)

    def live_layers(self) -> LayerSource | None:
        """The same without a cache: for text that will not come again."""
        return LiveLayers(self.bilm.frozen) if self.bilm is not None and self.bilm.frozen is not None else None

    def _load(self, tensors: dict[str, torch.Tensor], path: Path) -> None:
        try:
            result = self.network.load_state_dict(tensors, strict=False)
        except RuntimeError as error:
            raise FormatError(f"{path}: expected the weights of this network, found others ({error})") from None
        missing = [name for name in result.missing_keys if not name.startswith(_BILM_WEIGHTS)]
        if missing or result.unexpected_keys:
            names = ", ".join((*missing, *result.unexpected_keys)[:3])
            raise FormatError(f"{path}: expected the weights of this network, found a difference in {names}")


def sentences_of(task: Task[Any, Any], examples: Iterable[Any]) -> list[Sequence[str]]:
    """All that the biLM reads of some examples."""
    return [sentence for example in examples for text in task.sentences(example) for sentence in text]


def warn_of_labels(task: Task[Any, Any], known: dict[str, list[str]], examples: Sequence[Any], where: str) -> None:
    """Say which labels of some data were never seen in training: the network cannot know of them."""
    for kind, labels in task.labels(examples).items():
        if new := sorted(set(labels) - set(known.get(kind, ()))):
            shown = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
            log.warning(
                "%s: %s never seen in training: %s; unknown to the network, scored all the same", where, kind, shown
            )
