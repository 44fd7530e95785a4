"""Span-ranking coreference network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from elmokit.tasks.coref.antecedents import Antecedents, AntecedentScorer, antecedent_loss
from elmokit.tasks.coref.coref_settings import CorefSettings
from elmokit.tasks.coref.document import NO_SPEAKER, Document, MentionSpan
from elmokit.tasks.coref.spans import SpanScorer, keep_best_spans, mention_loss
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import SentenceIds, TextBatch, TextInputs
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork


@dataclass(frozen=True)
class Mention:
    """A mention in a predicted cluster."""

    span: MentionSpan
    antecedent: MentionSpan | None  # the earlier mention it is linked to; None for the first of a cluster
    score: float | None  # the probability of that link


@dataclass(frozen=True)
class CorefPrediction:
    """Predicted clusters; clusters and their mentions in order of appearance."""

    clusters: list[list[Mention]]

    @property
    def spans(self) -> list[list[MentionSpan]]:
        """The clusters as spans."""
        return [[mention.span for mention in cluster] for cluster in self.clusters]


@dataclass(frozen=True)
class _Ranked:
    """Network output for a document: M spans in text order, and their antecedents."""

    scores: Tensor  # (N, W) mention scores of all candidates
    starts: Tensor  # (M,)
    ends: Tensor  # (M,)
    antecedents: Antecedents


class CorefNetwork(TaskNetwork):
    """End-to-end span-ranking coreference (Lee et al. 2017): biLSTM per sentence, mention scores, antecedent scores.

    Memory is linear in the document length: of N tokens, `span_ratio` N spans are kept, with `max_antecedents`
    antecedents each. A training step uses a random excerpt of `train_tokens` tokens.
    """

    def __init__(self, inputs: TextInputs, settings: CorefSettings, genres: Sequence[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self.settings = settings
        self.genres = {genre: number for number, genre in enumerate(genres, start=1)}
        self.encoder = BiLstm(n_in=inputs.input_dim, n_hidden=settings.lstm_dim)
        self.dropout = nn.Dropout(settings.dropout)
        self.lexical_dropout = nn.Dropout(settings.lexical_dropout)
        self.spans = SpanScorer(
            n_context=2 * settings.lstm_dim + inputs.elmo_output_dim,
            n_words=inputs.input_dim,
            n_hidden=settings.hidden_dim,
            n_feature=settings.feature_dim,
            max_width=settings.max_width,
            dropout=settings.dropout,
        )
        self.antecedents = AntecedentScorer(
            span_dim=self.spans.span_dim,
            n_hidden=settings.hidden_dim,
            n_feature=settings.feature_dim,
            n_genres=len(genres),
            max_antecedents=settings.max_antecedents,
            dropout=settings.dropout,
        )

    def loss(self, batch: TaskBatch[Document]) -> Tensor:
        """Antecedent loss plus `mention_weight` times the mention loss, both per kept span, ()."""
        document, text = _only(batch)
        sentences = _part(text.lengths.tolist(), self.settings.train_tokens) if self.training else slice(None)
        ranked = self._rank(document, _rows(text, sentences), sentences)
        gold = _gold(document, sum(map(len, document.sentences[: sentences.start or 0])), ranked.scores)
        antecedents = antecedent_loss(ranked.antecedents, gold[ranked.starts, ranked.ends - ranked.starts])
        mentions = mention_loss(ranked.scores, gold >= 0) / len(ranked.starts)
        return antecedents + self.settings.mention_weight * mentions

    def predict(self, batch: TaskBatch[Document]) -> list[CorefPrediction]:
        """Predict the clusters of the document."""
        document, text = _only(batch)
        ranked = self._rank(document, text, slice(None))
        spans = list(zip(ranked.starts.tolist(), ranked.ends.tolist(), strict=True))
        best = ranked.antecedents.scores.softmax(dim=1).max(dim=1)
        chosen = [
            None if column == 0 else int(ranked.antecedents.index[span, column - 1])
            for span, column in enumerate(best.indices.tolist())
        ]
        return [CorefPrediction(link(spans, chosen, best.values.tolist()))]

    def _rank(self, document: Document, text: TextBatch, sentences: slice) -> _Ranked:
        """Rank the spans of some sentences of a document, whose tokens are in `text`."""
        padded = self.lexical_dropout(self.inputs(text))  # (S, T, E)
        encoded = self.encoder(padded, text.mask)
        context = self.dropout(self.inputs.output(text, encoded)[text.mask])  # (N, C)
        words = padded[text.mask]  # (N, E)
        sentence = torch.repeat_interleave(text.lengths)  # (N,)
        scores = self.spans(context, words, sentence)  # (N, W)
        starts, ends = keep_best_spans(scores, max(1, int(self.settings.span_ratio * len(context))))
        vectors = self.spans.represent(context, words, starts, ends)
        speakers = torch.tensor(_numbers(document.speakers[sentences], len(text.mask)), device=starts.device)
        genre = torch.tensor(self.genres.get(document.genre, 0), device=starts.device)
        antecedents = self.antecedents(vectors, scores[starts, ends - starts], speakers[sentence[starts]], genre)
        return _Ranked(scores, starts, ends, antecedents)


def link(
    spans: Sequence[MentionSpan], antecedents: Sequence[int | None], scores: Sequence[float]
) -> list[list[Mention]]:
    """Clusters of two or more mentions, from the index of the antecedent of each span."""
    clusters: list[list[Mention]] = []
    cluster_of: dict[int, list[Mention]] = {}
    for number, antecedent in enumerate(antecedents):
        if antecedent is None:
            continue
        if antecedent not in cluster_of:
            cluster_of[antecedent] = [Mention(spans[antecedent], None, None)]
            clusters.append(cluster_of[antecedent])
        cluster_of[number] = cluster_of[antecedent]
        cluster_of[number].append(Mention(spans[number], spans[antecedent], scores[number]))
    return sorted(clusters, key=lambda cluster: cluster[0].span)


def _only(batch: TaskBatch[Document]) -> tuple[Document, TextBatch]:
    """The only document of a batch, and its sentences."""
    (document,), (text,) = batch.examples, batch.texts
    return document, text


def _gold(document: Document, before: int, scores: Tensor) -> Tensor:
    """Gold cluster index (N, W) of every candidate, -1 for those in none.

    before: tokens of the document before the first candidate; scores: (N, W) of the candidates.
    """
    gold = torch.full_like(scores, -1, dtype=torch.long)
    n_tokens, max_width = scores.shape
    for number, cluster in enumerate(document.clusters):
        for start, end in cluster:
            if 0 <= start - before < n_tokens and end - start < max_width:
                gold[start - before, end - start] = number
    return gold


def _part(lengths: Sequence[int], max_tokens: int) -> slice:
    """A random range of consecutive sentences that fits; the first one is taken however long it is."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    n_starts = 1 + int(
        (ends[-1] - ends[:-1] > max_tokens).sum()
    )  # from the last possible start, all remaining sentences fit
    start = int(torch.randint(n_starts, ()))
    stop = int(torch.searchsorted(ends, ends[start] + max_tokens, right=True)) - 1
    return slice(start, max(stop, start + 1))


def _rows(text: TextBatch, rows: slice) -> TextBatch:
    """Select sentences of a batch, and trim the padding."""
    if rows == slice(None):
        return text
    n_tokens = int(text.lengths[rows].max())
    part = (rows, slice(n_tokens))
    ids = text.sentences  # the same as the texts
    return replace(
        text,
        mask=text.mask[part],
        words=text.words[part],
        character_rows=None if text.character_rows is None else text.character_rows[part],
        layers=None if text.layers is None else text.layers[:, rows, :n_tokens],
        sentences=None if ids is None else SentenceIds(ids.ids.map(lambda x: x[part]), ids.mask[part]),
    )


def _numbers(speakers: Sequence[str], n_sentences: int) -> list[int]:
    """Speaker indices, starting at 1; 0 for unknown speakers."""
    known = sorted({*speakers} - {NO_SPEAKER})
    numbers = dict(zip(known, range(1, len(known) + 1), strict=True))
    return [numbers.get(speaker, 0) for speaker in speakers] or [0] * n_sentences
