"""BiDAF with self-attention for extractive question answering."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.tasks.shared.dropout import VariationalDropout
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork
from elmokit.tasks.squad.attention import BiAttention, SelfAttention, best_answer_spans
from elmokit.tasks.squad.question import AnswerSpan, Question


@dataclass(frozen=True)
class SquadAnswer:
    """A predicted answer span."""

    text: str
    span: AnswerSpan  # first and last token
    start: int  # character offsets in the passage
    end: int
    score: float  # probability of the start times probability of the end


class BiDaf(TaskNetwork):
    """Bi-directional attention flow with residual self-attention (Clark & Gardner 2018, for one paragraph).

    h, q = biLSTM(passage), biLSTM(question), shared weights;  g = relu(W [h; c; h * c; q_c * c]) with bi-attention;
    m = g + relu(V [s; c; s * c]) with s = biLSTM(g) and self-attention;
    start = w . biLSTM(m),  end = v . biLSTM([m; biLSTM(m)]).
    The published model has GRUs; on a CPU LSTMs are faster. ELMo at the output is concatenated to h and q, before the
    attention.
    """

    def __init__(self, *, inputs: TextInputs, n_hidden: int, dropout: float, max_answer: int) -> None:
        """n_hidden: units H of every LSTM per direction; max_answer: maximum answer length in tokens."""
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
        self.start = nn.Linear(width, 1, bias=False)  # the softmax over tokens is invariant to a bias
        self.end = nn.Linear(width, 1, bias=False)

    def forward(self, batch: TaskBatch[Question]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the answer's start and end, both (B, P), -inf at padding."""
        passage, question = batch.texts
        mask = passage.mask  # (B, P)
        # the same mask for both, so that the vectors which attention compares stay comparable
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
        """Mean of -log p(start) - log p(end) over the questions, ()."""
        start, end = self(batch)
        spans = torch.tensor([_target(question) for question in batch.examples], device=start.device)  # (B, 2)
        return F.nll_loss(start, spans[:, 0]) + F.nll_loss(end, spans[:, 1])

    def predict(self, batch: TaskBatch[Question]) -> list[SquadAnswer]:
        """The most probable span of every passage."""
        start, end = self(batch)
        first, last, score = best_answer_spans(start, end, self.max_answer)
        found = zip(batch.examples, first.tolist(), last.tolist(), score.exp().tolist(), strict=True)
        return [_answer(question, (i, j), probability) for question, i, j, probability in found]


def _log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Masked log-softmax; scores: (B, P, 1), mask: (B, P). Returns (B, P), -inf at padding."""
    return torch.log_softmax(scores.squeeze(2).masked_fill(~mask, -torch.inf), dim=1)


def _target(question: Question) -> AnswerSpan:
    if question.span is None:
        raise InputError(f"question {question.id!r}: expected an answer that occurs in its passage, to train on it")
    return question.span


def _answer(question: Question, span: AnswerSpan, score: float) -> SquadAnswer:
    start, end = question.passage.characters_at(span)
    return SquadAnswer(question.passage.text[start:end], span, start, end, score)
