"""Ready-made taggers: entities, parts of speech and sentiment of raw text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.runs import run_folder as files
from elmokit.tasks.runs.tagger_folder import KINDS, kind_of
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.shared.tags import encode
from elmokit.tasks.sst import NAMES
from elmokit.text.batch import windows
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, split_sentences, tokenize

WINDOW_TOKENS = 8192  # tokens that are tagged at a time


class _Sentence(NamedTuple):
    """One sentence of a text: its tokens and, for raw text, their character offsets in the text."""

    tokens: list[str]
    offsets: list[tuple[int, int]] | None


class TextTagger:
    """A trained tagger with its biLM, applied to raw text or tokens.

    >>> tagger = load_tagger("ner")
    >>> results = tagger.tag(["Angela Merkel met Barack Obama in Berlin ."])
    """

    def __init__(self, model: TaskModel) -> None:
        """model: a trained model of one of the tasks ner, pos, upos and sst."""
        kind = kind_of(model.task.name)
        if kind is None:
            raise ConfigError(f"model: expected one of the task {', '.join(KINDS.values())}, found {model.task.name}")
        self.kind = kind  # "ner", "pos", "upos" or "sentiment"
        self.model = model

    @property
    def tokenizer(self) -> str:
        """Default tokenizer of raw text: that of the biLM."""
        return "words" if self.model.bilm is None else self.model.bilm.model.config.default_tokenizer

    @property
    def labels(self) -> list[str]:
        """Entity types, tags, or sentiments."""
        [labels] = self.model.labels.values()
        return [NAMES[label] for label in labels] if self.kind == "sentiment" else list(labels)

    def tag(self, texts: Iterable[str | Sequence[str]], *, tokenizer: str | None = None) -> list[dict[str, Any]]:
        """Tag texts, each a string or a list of tokens; returns one JSON-ready dictionary per text.

        All kinds: `text` and `offsets` (of raw text), `tokens`. All but sentiment: `sentences` as token ranges.
        ner: `tags` (IOB2) and `entities` with `text`, `label`, `start`, `end` (tokens), `score`, `offsets`.
        pos, upos: `tags` and `scores`. sentiment: `sentiment`, `score` and `probabilities`; a text without words has
        the sentiment None. tokenizer: by default that of the biLM. With "spaces" every text is one sentence that is
        tokenized already; with other tokenizers, raw text is split into sentences first.
        """
        if isinstance(texts, str):
            raise InputError("tag expects a list of texts, found one string: use [text]")
        return list(self.stream(texts, tokenizer=tokenizer))

    def stream(self, texts: Iterable[str | Sequence[str]], *, tokenizer: str | None = None) -> Iterator[dict[str, Any]]:
        """Tag any number of texts in bounded memory; as `tag`, one result at a time, in order."""
        name = tokenizer or self.tokenizer
        split_tokens = get_tokenizer(name)  # checked before the first text is read
        whole = self.kind == "sentiment" or name == "spaces"
        split = ((text, _sentences(text, split_tokens, whole)) for text in texts)
        for window in windows(split, lambda pair: sum(len(s.tokens) for s in pair[1]), WINDOW_TOKENS):
            yield from self._tag(window)

    def _tag(self, texts: Sequence[tuple[str | Sequence[str], list[_Sentence]]]) -> Iterator[dict[str, Any]]:
        task = self.model.task
        examples = [task.from_tokens(sentence.tokens) for _, sentences in texts for sentence in sentences]
        found = iter(self.model.predictions(examples, self.model.live_layers()))
        for text, sentences in texts:
            yield self._result(text, sentences, [next(found) for _ in sentences])

    def _result(self, text: str | Sequence[str], sentences: list[_Sentence], predictions: list[Any]) -> dict[str, Any]:
        """The result of one text, from the predictions for its sentences."""
        tokens = [token for sentence in sentences for token in sentence.tokens]
        result: dict[str, Any] = {"tokens": tokens}
        if isinstance(text, str):
            offsets = [list(pair) for sentence in sentences for pair in sentence.offsets or ()]
            result = {"text": text, "tokens": tokens, "offsets": offsets}
        if self.kind == "sentiment":
            return result | _sentiment(predictions[0] if predictions else None)
        starts = [0]
        for sentence in sentences:
            starts.append(starts[-1] + len(sentence.tokens))
        result["sentences"] = [list(pair) for pair in pairwise(starts)]
        if self.kind == "ner":
            return result | _entities(result, sentences, starts, predictions)
        tagged = [one for prediction in predictions for one in prediction]
        return result | {"tags": [one.tag for one in tagged], "scores": [round(one.score, 4) for one in tagged]}


def _sentences(text: str | Sequence[str], tokenizer: Tokenizer, whole: bool) -> list[_Sentence]:
    """Sentences with at least one token; with `whole`, the text is one sentence."""
    if not isinstance(text, str):
        if not isinstance(text, Sequence) or not all(isinstance(token, str) for token in text):
            raise InputError(f"texts: expected strings or lists of tokens, found {text!r}")
        return [_Sentence(list(text), None)] if text else []
    found = []
    for start, end in [(0, len(text))] if whole else split_sentences(text):
        tokens, offsets = tokenize(text[start:end], tokenizer)
        if tokens:
            found.append(_Sentence(tokens, [(start + a, start + b) for a, b in offsets or ()]))
    return found


def _sentiment(prediction: Any) -> dict[str, Any]:
    if prediction is None:
        return {"sentiment": None, "score": None, "probabilities": {}}
    probabilities = {NAMES[label]: round(value, 4) for label, value in prediction.probabilities.items()}
    return {
        "sentiment": NAMES[prediction.label],
        "score": round(prediction.probability, 4),
        "probabilities": probabilities,
    }


def _entities(
    result: dict[str, Any], sentences: list[_Sentence], starts: list[int], predictions: list[Any]
) -> dict[str, Any]:
    tags: list[str] = []
    entities = []
    for sentence, first, prediction in zip(sentences, starts, predictions, strict=False):
        tags += encode([entity.span for entity in prediction], len(sentence.tokens), "IOB2")
        for (start, end, label), score in ((entity.span, entity.score) for entity in prediction):
            entity = {
                "text": " ".join(sentence.tokens[start:end]),
                "label": label,
                "start": first + start,
                "end": first + end,
                "score": round(score, 4),
            }
            if sentence.offsets is not None:
                a, b = sentence.offsets[start][0], sentence.offsets[end - 1][1]
                entity |= {"text": result["text"][a:b], "offsets": [a, b]}
            entities.append(entity)
    return {"tags": tags, "entities": entities}


def load_tagger(
    tagger: str | os.PathLike[str] = "ner", *, model: str | None = None, device: str | None = None
) -> TextTagger:
    """Load a tagger by name ("ner", "pos", "upos", "sentiment"), or from a folder.

    tagger: the name of a packaged tagger, or the folder of a tagger or of a complete run of ner, pos, upos or sst.
    model: path of the biLM, if it is not the packaged one. A tagger accepts only the biLM that it was trained on.
    device: "cpu", "cuda", ...; by default a GPU if available.
    """
    folder = _folder(tagger)
    record = files.read_record(folder)
    if kind_of(record["task"]) is None:
        raise InputError(f"{folder}: expected a run of {', '.join(KINDS.values())}, found one of {record['task']}")
    owner = f"the tagger {tagger}"
    return TextTagger(TaskModel.from_pretrained(folder, model=model, device=device, owner=owner))


def packaged_taggers() -> dict[str, Path]:
    """Taggers included in the package, by name."""
    root = Path(str(resources.files("elmokit"))) / "models" / "taggers"
    return {name: root / name for name in KINDS if (root / name / files.SETTINGS).is_file()}


def _folder(tagger: str | os.PathLike[str]) -> Path:
    packaged = packaged_taggers()
    if isinstance(tagger, str) and tagger in KINDS and not (Path(tagger) / files.SETTINGS).is_file():
        if tagger not in packaged:
            raise ConfigError(
                f"--tagger: expected {', '.join(packaged) or 'a folder'}, as the package has no tagger {tagger}; train "
                f"one with `elmo task {KINDS[tagger]} train`, and give its folder"
            )
        return packaged[tagger]
    folder = Path(tagger).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"tagger: expected {', '.join(KINDS)}, or the folder of a tagger or a run, found {str(tagger)!r}"
        )
    return folder
