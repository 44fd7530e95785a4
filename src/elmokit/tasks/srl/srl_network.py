"""Semantic role labeling network of He et al. 2017, and a small predicate identifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.nn.packing import Packing
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextBatch, TextInputs
from elmokit.tasks.shared.tags import Span, decode, encode
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork
from elmokit.tasks.srl.highway_lstm import AlternatingLstm
from elmokit.tasks.srl.proposition import LabeledPredicate, Roles, SrlSentence
from elmokit.tasks.srl.viterbi import bio_viterbi


@dataclass(frozen=True)
class _Arranged:
    """The P propositions of a batch, packed by descending sentence length."""

    packing: Packing  # N = tokens of all propositions
    order: list[int]  # position k of the packing holds the requested proposition order[k]
    x: Tensor  # (U + P, D) distinct inputs: every token of the batch, then every predicate
    index: Tensor  # (N,) which of them each row reads
    token: Tensor  # (N,) which of the U tokens each row is


class SrlNetwork(TaskNetwork):
    """Deep alternating LSTM over [token; predicate indicator], a softmax over BIO tags per token, and Viterbi decoding.

    A sentence is encoded once per predicate. Predicates are identified by a separate small biLSTM over the same
    inputs, trained jointly with the tagger; its gradient is not propagated into the inputs.
    """

    def __init__(
        self,
        *,
        inputs: TextInputs,
        roles: Sequence[str],
        n_hidden: int,
        n_layers: int,
        indicator_dim: int,
        finder_hidden: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = ["O", *(f"{prefix}-{role}" for role in roles for prefix in "BI")]
        self._ids = {tag: k for k, tag in enumerate(self.tags)}
        self.indicator = nn.Parameter(torch.randn(2, indicator_dim))
        self.lstm = AlternatingLstm(
            n_in=inputs.input_dim + indicator_dim, n_hidden=n_hidden, n_layers=n_layers, dropout=dropout
        )
        self.tagger = nn.Linear(n_hidden + inputs.elmo_output_dim, len(self.tags))
        nn.init.orthogonal_(self.tagger.weight)
        nn.init.zeros_(self.tagger.bias)
        self.finder = BiLstm(n_in=inputs.input_dim, n_hidden=finder_hidden)
        self.finder_dropout = nn.Dropout(dropout)
        self.is_predicate = nn.Linear(2 * finder_hidden, 1)

    def loss(self, batch: TaskBatch[SrlSentence]) -> Tensor:
        """Mean tag loss over the tokens of all propositions plus the mean predicate loss over tokens, ()."""
        text = batch.texts[0]
        gold = [sentence.known() for sentence in batch.examples]
        x = self.inputs(text)
        is_predicate = torch.zeros_like(text.mask, dtype=x.dtype)  # (B, T)
        places = [(b, p.predicate) for b, propositions in enumerate(gold) for p in propositions]
        spans = [p.spans for propositions in gold for p in propositions]
        for b, t in places:
            is_predicate[b, t] = 1
        finder = functional.binary_cross_entropy_with_logits(self._find(text, x)[text.mask], is_predicate[text.mask])
        if not places:
            return finder
        arranged = self._arrange(text, x, places)
        lengths = arranged.packing.lengths
        tags = [self._tags(spans[p], n) for p, n in zip(arranged.order, lengths, strict=True)]
        padded = torch.tensor([[*row, *[0] * (lengths[0] - len(row))] for row in tags], device=x.device)
        return finder + functional.cross_entropy(self._scores(text, x, arranged), arranged.packing.pack(padded))

    def predict(self, batch: TaskBatch[SrlSentence]) -> list[Roles]:
        """Roles of the given or identified predicates, with their scores."""
        text = batch.texts[0]
        x = self.inputs(text)
        found = self._found(text, x)
        places = [
            (b, t)
            for b, sentence in enumerate(batch.examples)
            for t in (found[b] if sentence.propositions is None else (p.predicate for p in sentence.propositions))
        ]
        labeled: list[list[LabeledPredicate]] = [[] for _ in batch.examples]
        for (b, _), proposition in zip(places, self._label(text, x, places), strict=True):
            labeled[b].append(proposition)
        return [Roles(tuple(of_one), probabilities) for of_one, probabilities in zip(labeled, found, strict=True)]

    def _find(self, text: TextBatch, x: Tensor) -> Tensor:
        """Log-odds that each token is a predicate, (B, T)."""
        h = self.finder(self.finder_dropout(x.detach()), text.mask)
        odds: Tensor = self.is_predicate(self.finder_dropout(h)).squeeze(-1)
        return odds

    def _found(self, text: TextBatch, x: Tensor) -> list[dict[int, float]]:
        """Identified predicates of every sentence, with their probabilities."""
        probabilities = torch.sigmoid(self._find(text, x)).tolist()
        return [
            {t: p for t, p in enumerate(row[:n]) if p > 0.5}
            for row, n in zip(probabilities, text.lengths.tolist(), strict=True)
        ]

    def _label(self, text: TextBatch, x: Tensor, places: list[tuple[int, int]]) -> list[LabeledPredicate]:
        """Role spans of the predicates at these (sentence, token) positions."""
        if not places:
            return []
        arranged = self._arrange(text, x, places)
        packing = arranged.packing
        scores = torch.log_softmax(self._scores(text, x, arranged), dim=1)  # (N, K)
        best = bio_viterbi(scores, packing)  # (N,)
        logs = scores.gather(1, best.unsqueeze(1)).squeeze(1)  # (N,)
        rows = zip(arranged.order, packing.lengths, packing.pad(best).tolist(), packing.pad(logs), strict=True)
        labeled = {}
        for p, n, tags, log in rows:
            spans = tuple(decode([self.tags[tag] for tag in tags[:n]]))
            sure = tuple(float(log[span.start : span.end].mean().exp()) for span in spans)
            labeled[p] = LabeledPredicate(places[p][1], spans, sure)
        return [labeled[p] for p in range(len(places))]

    def _arrange(self, text: TextBatch, x: Tensor, places: list[tuple[int, int]]) -> _Arranged:
        """Pack the LSTM input, so that products shared by the propositions of a sentence are computed once."""
        lengths = text.lengths.tolist()
        order = sorted(range(len(places)), key=lambda p: -lengths[places[p][0]])
        packing = Packing.from_lengths([lengths[places[p][0]] for p in order], device=x.device)
        tokens = x[text.mask]  # (U, D): sentence after sentence
        first = text.lengths.cumsum(0) - text.lengths  # (B,) the row of every sentence's first token
        sentence, position = torch.tensor([places[p] for p in order], device=x.device).unbind(1)  # (P,)
        token = first[sentence][packing.sentence] + packing.time  # (N,)
        is_predicate = packing.time == position[packing.sentence]
        index = torch.where(is_predicate, len(tokens) + packing.sentence, token)
        no, yes = self.indicator.unbind(0)
        distinct = torch.cat(
            (
                torch.cat((tokens, no.expand(len(tokens), -1)), dim=1),
                torch.cat((tokens[first[sentence] + position], yes.expand(len(order), -1)), dim=1),
            )
        )  # (U + P, D + I)
        return _Arranged(packing, order, distinct, index, token)

    def _scores(self, text: TextBatch, x: Tensor, arranged: _Arranged) -> Tensor:
        """Tag scores, (N, K)."""
        h = self.lstm(arranged.x, arranged.index, arranged.packing)  # (N, H)
        if self.inputs.elmo_output_dim:
            elmo = self.inputs.output(text, x[..., :0])[text.mask]  # (U, 2D)
            h = torch.cat((h, elmo[arranged.token]), dim=1)
        scores: Tensor = self.tagger(h)
        return scores

    def _tags(self, spans: Sequence[Span], n: int) -> list[int]:
        try:
            return [self._ids[tag] for tag in encode(spans, n, "IOB2")]
        except KeyError as error:
            role = str(error).strip("'")[2:]
            raise InputError(f"role {role}: expected a role of the training data, found a new one") from None
