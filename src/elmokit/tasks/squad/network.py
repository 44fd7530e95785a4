"""BiDAF with self-attention: which tokens of the passage answer the question."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.tasks.dropout import VariationalDropout
from elmokit.tasks.encoder import BiLstm
from elmokit.tasks.inputs import TextInputs
from elmokit.tasks.squad.attention import BiAttention, SelfAttention, best_spans
from elmokit.tasks.squad.example import Question, Span
from elmokit.tasks.task import TaskBatch, TaskNetwork


@dataclass(frozen=True)
class Answer:
    """What the network answers."""

    text: str
    span: Span  # its first and last token
    start: int  # its place in the passage, in characters
    end: int
    score: float  # probability of this start times that of this end, 0 to 1


class BiDaf(TaskNetwork):
    """Bi-directional attention flow with residual self-attention (Clark & Gardner 2018, for one paragraph).

    h, q = biLSTM(passage), biLSTM(question), the same one;  g = relu(W [h; c; h * c; q_c * c]) with bi-attention;
    m = g + relu(V [s; c; s * c]) with s = biLSTM(g) and self-attention;
    start = w . biLSTM(m),  end = v . biLSTM([m; biLSTM(m)]).
    The published model has GRUs; on a CPU LSTMs are faster. ELMo at the output joins h and q, which attention compares.
    """

    def __init__(self, *, inputs: TextInputs, n_hidden: int, dropout: float, max_answer: int) -> None:
        """n_hidden: cells of every LSTM in each direction, H; max_answer: tokens of the longest answer."""
        super().__init__()
        self.inputs = inputs
        width = 2 * n_hidden
        context = width + inputs.elmo_output_dim  # W
        self.max_answer = max_answer
        self.dropout = VariationalDropout(dropout)
        self.encoder = BiLstm(n_in=inputs.input_dim, n_hidden=n_hidden)
        self.bi_attention = BiAttention(n_in=context)
        self.merge = nn.Linear(4 * context, width)
        self.self_encoder = BiLstm(n_in=width, n_hidden=n_hidden)
        self.self_attention = SelfAttention(n_in=width)
        self.self_merge = nn.Linear(3 * width, width)
        self.start_encoder = BiLstm(n_in=width, n_hidden=n_hidden)
        self.end_encoder = BiLstm(n_in=2 * width, n_hidden=n_hidden)
        self.start = nn.Linear(width, 1, bias=False)  # a softmax over the tokens would not see one
        self.end = nn.Linear(width, 1, bias=False)

    def forward(self, batch: TaskBatch[Question]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of where the answer starts and where it ends, both (B, P), -inf at padding."""
        passage, question = batch.texts
        mask = passage.mask  # (B, P)
        # the same numbers are dropped in both: what attention compares stays comparable
        x = self.dropout.together(*map(self.inputs, batch.texts))
        read = [self.encoder(of_one, text.mask) for of_one, text in zip(x, batch.texts, strict=True)]
        h, q = self.dropout.together(*map(self.inputs.output, batch.texts, read))  # (B, P, W), (B, Q, W)
        g = F.relu(self.merge(self.bi_attention(h, mask, q, question.mask)))  # (B, P, 2H)
        s = self.dropout(self.self_encoder(self.dropout(g), mask))
        m = self.dropout(g + F.relu(self.self_merge(self.self_attention(s, mask))))
        started = self.start_encoder(m, mask)
        ended = self.end_encoder(torch.cat((m, started), dim=2), mask)
        return (
            _log_softmax(self.start(self.dropout(started)), mask),
            _log_softmax(self.end(self.dropout(ended)), mask),
        )

    def loss(self, batch: TaskBatch[Question]) -> Tensor:
        """() mean over the questions of -log p(start) - log p(end)."""
        start, end = self(batch)
        spans = torch.tensor([_target(question) for question in batch.examples], device=start.device)  # (B, 2)
        return F.nll_loss(start, spans[:, 0]) + F.nll_loss(end, spans[:, 1])

    def predict(self, batch: TaskBatch[Question]) -> list[Answer]:
        """The most probable span of every passage."""
        start, end = self(batch)
        first, last, score = best_spans(start, end, self.max_answer)
        found = zip(batch.examples, first.tolist(), last.tolist(), score.exp().tolist(), strict=True)
        return [_answer(question, (i, j), probability) for question, i, j, probability in found]


def _log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """scores: (B, P, 1), mask: (B, P). Returns (B, P), -inf at padding."""
    return torch.log_softmax(scores.squeeze(2).masked_fill(~mask, -torch.inf), dim=1)


def _target(question: Question) -> Span:
    if question.span is None:
        raise InputError(f"question {question.id!r}: expected an answer that stands in its passage, to train on it")
    return question.span


def _answer(question: Question, span: Span, score: float) -> Answer:
    start, end = question.passage.characters_at(span)
    return Answer(question.passage.text[start:end], span, start, end, score)
