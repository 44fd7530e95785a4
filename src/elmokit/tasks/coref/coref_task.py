"""The coreference resolution task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from elmokit.errors import InputError
from elmokit.tasks.coref.coref_metric import coref_scores
from elmokit.tasks.coref.coref_network import CorefNetwork, CorefPrediction
from elmokit.tasks.coref.coref_settings import CorefSettings
from elmokit.tasks.coref.document import Document, read_documents
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.task_base import Task
from elmokit.text.tokenizer import words_by_sentence

_COLORS = ("cyan", "magenta", "green", "yellow", "blue", "red")


class Coref(Task[Document, CorefSettings]):
    """Coreference resolution: clusters of mentions, without singletons."""

    name: ClassVar[str] = "coref"
    metric: ClassVar[str] = "average"
    settings: ClassVar[type] = CorefSettings
    n_texts: ClassVar[int | None] = None

    def read(self, path: Path) -> list[Document]:
        """Read documents in CoNLL-2012 columns."""
        return read_documents(path)

    def texts(self, example: Document) -> Sequence[Sequence[str]]:
        """The sentences."""
        return example.sentences

    def labels(self, examples: Sequence[Document]) -> dict[str, list[str]]:
        """Genres, from the document names."""
        return {"genres": sorted({document.genre for document in examples} - {""})}

    def network(self, inputs: TextInputs, settings: CorefSettings, labels: dict[str, list[str]]) -> CorefNetwork:
        """A new span-ranking network."""
        return CorefNetwork(inputs, settings, labels["genres"])

    def score(self, examples: Sequence[Document], predictions: Sequence[CorefPrediction]) -> dict[str, float]:
        """F1 of MUC, B-cubed and CEAF-phi4, and their average."""
        if not any(document.clusters for document in examples):
            raise InputError(f"score: expected coreference in the last column, found none in {len(examples)} documents")
        pairs = zip(examples, predictions, strict=True)
        return coref_scores((document.clusters, prediction.spans) for document, prediction in pairs)

    def parse(self, text: str) -> list[Document]:
        """Parse a line of raw text as one document, split into sentences; a blank line yields nothing."""
        found = words_by_sentence(text)
        sentences = [[token.text for token in sentence] for sentence in found]
        offsets = [(token.start, token.end) for sentence in found for token in sentence]
        return [Document(sentences, text=text, offsets=offsets)] if sentences else []

    def to_json(self, example: Document, prediction: CorefPrediction) -> dict[str, Any]:
        """{"sentences": [[...], ...], "clusters": [[{"text", "start", "end", "antecedent", "score"}, ...], ...]}.

        `start` and `end` are token indices in the document (`end` exclusive); for raw text, "offsets" are character
        offsets in the line. `antecedent` is the index, in the cluster, of the earlier mention that a mention is linked
        to, and `score` the probability of that link; the first mention of a cluster has neither.
        """
        tokens = example.tokens
        clusters = []
        for cluster in prediction.clusters:
            number = {mention.span: k for k, mention in enumerate(cluster)}
            mentions = []
            for mention in cluster:
                start, end = mention.span[0], mention.span[1] + 1
                found: dict[str, Any] = {"text": " ".join(tokens[start:end]), "start": start, "end": end}
                if example.offsets is not None and example.text is not None:
                    first, last = example.offsets[start][0], example.offsets[end - 1][1]
                    found |= {"text": example.text[first:last], "offsets": [first, last]}
                found["antecedent"] = None if mention.antecedent is None else number[mention.antecedent]
                found["score"] = None if mention.score is None else round(mention.score, 4)
                mentions.append(found)
            clusters.append(mentions)
        return {"sentences": example.sentences, "clusters": clusters}

    def show(self, example: Document, prediction: CorefPrediction) -> Text:
        """The text, one sentence per line; brackets around mentions have the color and number of the cluster."""
        opened: dict[int, list[int]] = {}  # clusters by the first token of a mention, widest first
        closed: dict[int, list[int]] = {}  # by the last token, narrowest first
        mentions = sorted((m.span, k) for k, cluster in enumerate(prediction.clusters) for m in cluster)
        for (start, _), k in sorted(mentions, key=lambda item: (item[0][0], -item[0][1])):
            opened.setdefault(start, []).append(k)
        for (_, end), k in sorted(mentions, key=lambda item: (item[0][1], -item[0][0])):
            closed.setdefault(end, []).append(k)
        text = Text()
        inside: list[int] = []  # clusters of the mentions around a token, innermost last
        position = 0
        for line, sentence in enumerate(example.sentences):
            text.append("\n" if line else "")
            for column, token in enumerate(sentence):
                text.append(" " if column else "", _style(inside))
                for k in opened.get(position, []):
                    inside.append(k)
                    text.append("[", _style(inside))
                text.append(token, _style(inside))
                for k in closed.get(position, []):
                    text.append(f"]{k + 1}", _style(inside))
                    inside.remove(k)
                position += 1
        return text


def _style(clusters: Sequence[int]) -> str:
    """Color of the innermost cluster."""
    return f"bold {_COLORS[clusters[-1] % len(_COLORS)]}" if clusters else ""
