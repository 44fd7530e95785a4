"""BiDAF: attention and span decoding against slow twins, and nothing depends on padding."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from task_batches import MadeUp
from torch import Tensor

from elmokit.errors import InputError
from elmokit.tasks.shared.dropout import VariationalDropout
from elmokit.tasks.squad import Squad, attention
from elmokit.tasks.squad.attention import BiAttention, SelfAttention, Trilinear, best_answer_spans
from elmokit.tasks.squad.question import Passage, Question
from elmokit.tasks.squad.squad_network import BiDaf

WIDTH = 5


def random_parameters(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.7)


def masks(*lengths: int, n_steps: int | None = None) -> Tensor:
    return torch.arange(n_steps or max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def similarity(row: Tensor, weights: Trilinear, h: Tensor, q: Tensor) -> float:
    """w . [h; q; h * q], as it is written."""
    return float(torch.cat((row, weights.column, weights.pair)).detach() @ torch.cat((h, q, h * q)))


def softmax(values: list[float]) -> list[float]:
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def slow_bi_attention(module: BiAttention, h: Tensor, q: Tensor) -> Tensor:
    """One pair (P, W), (Q, W) without padding to (P, 4W)."""
    scores = [[similarity(module.row, module.similarity, a, b) for b in q] for a in h]
    seen = [sum(weight * b for weight, b in zip(softmax(row), q, strict=True)) for row in scores]
    found = sum(weight * a for weight, a in zip(softmax([max(row) for row in scores]), h, strict=True))
    return torch.stack([torch.cat((a, c, a * c, found * c)) for a, c in zip(h, seen, strict=True)])  # type: ignore[arg-type,operator]


def slow_self_attention(module: SelfAttention, h: Tensor) -> Tensor:
    """One passage (P, W) to (P, 3W)."""
    rows = []
    for i, a in enumerate(h):
        others = [b for j, b in enumerate(h) if j != i] or [a]
        any_row = torch.full((WIDTH,), 3.0)  # w_h . h_i is the same for all others
        weights = softmax([similarity(any_row, module.similarity, a, b) for b in others])
        c = sum(weight * b for weight, b in zip(weights, others, strict=True))
        rows.append(torch.cat((a, c, a * c)))  # type: ignore[arg-type,operator]
    return torch.stack(rows)


@pytest.mark.parametrize("seed", range(3))
def test_bi_attention(seed: int) -> None:
    torch.manual_seed(seed)
    module = BiAttention(n_in=WIDTH)
    random_parameters(module)
    p_lengths, q_lengths = (7, 1, 4), (3, 5, 1)
    h, q = torch.randn(3, 7, WIDTH), torch.randn(3, 5, WIDTH)  # padding is not zero: it must not matter
    result = module(h, masks(*p_lengths), q, masks(*q_lengths))
    for k, (n, m) in enumerate(zip(p_lengths, q_lengths, strict=True)):
        torch.testing.assert_close(result[k, :n], slow_bi_attention(module, h[k, :n], q[k, :m]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [1 << 24, 1, 3 * 7 * 2])  # all rows at once, one by one, two by two
def test_self_attention(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "SIMILARITIES_PER_BLOCK", block)
    torch.manual_seed(0)
    module = SelfAttention(n_in=WIDTH)
    random_parameters(module)
    lengths = (7, 1, 2)
    h = torch.randn(3, 7, WIDTH)
    result = module(h, masks(*lengths))
    for k, n in enumerate(lengths):
        torch.testing.assert_close(result[k, :n], slow_self_attention(module, h[k, :n]), rtol=1e-4, atol=1e-5)


def test_attention_has_gradients_without_nan() -> None:
    torch.manual_seed(0)
    h, q = torch.randn(2, 6, WIDTH, requires_grad=True), torch.randn(2, 3, WIDTH, requires_grad=True)
    bi, own = BiAttention(n_in=WIDTH), SelfAttention(n_in=WIDTH)
    p_mask, q_mask = masks(6, 1), masks(3, 1)
    real = p_mask.unsqueeze(2)
    (bi(h, p_mask, q, q_mask) * real).square().sum().backward()
    (own(h, p_mask) * real).square().sum().backward()
    for tensor in (h, q, *bi.parameters(), *own.parameters()):
        assert tensor.grad is not None and tensor.grad.isfinite().all() and tensor.grad.any()
    assert h.grad is not None and not h.grad[1, 1:].any()  # padding
    assert q.grad is not None and not q.grad[1, 1:].any()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 2**31), st.integers(1, 9))
def test_best_spans(n_steps: int, max_tokens: int, seed: int, length: int) -> None:
    length = min(length, n_steps)
    random = torch.Generator().manual_seed(seed)
    # few different values, so that there are ties
    start, end = (torch.randint(0, 4, (2, n_steps), generator=random).float() for _ in range(2))
    mask = masks(length, n_steps)
    first, last, score = best_answer_spans(
        start.masked_fill(~mask, -torch.inf), end.masked_fill(~mask, -torch.inf), max_tokens
    )
    for k, n in enumerate((length, n_steps)):
        spans = [(i, j) for i in range(n) for j in range(i, n) if j - i < max_tokens]
        values = [float(start[k, i] + end[k, j]) for i, j in spans]
        assert score[k] == max(values)
        assert (int(first[k]), int(last[k])) == spans[values.index(max(values))]


def made_up(passage: str, question: str, span: tuple[int, int] | None = (0, 0)) -> Question:
    return Question.from_text(question, Passage.from_text(passage), id="q", span=span)


QUESTIONS = [
    made_up("w1 w2 w3 w4 w5 w6 w7", "w3 w9", (3, 5)),
    made_up("w8", "w9 w1 w2"),
    made_up("w5 w11 w12", "w4", (1, 2)),
]


TASK = Squad()
BOTH = MadeUp.of(TASK, QUESTIONS, elmo_at="both")
PLAIN = MadeUp.of(TASK, QUESTIONS)


def network(made: MadeUp, max_answer: int = 4) -> BiDaf:
    torch.manual_seed(1)
    return BiDaf(inputs=made.inputs, n_hidden=5, dropout=0.3, max_answer=max_answer)


@pytest.mark.parametrize("made", [PLAIN, BOTH])
def test_nothing_depends_on_padding_or_on_the_batch(made: MadeUp) -> None:
    model = network(made).eval()
    start, end = model(made.batch(QUESTIONS, padding=3))
    assert start.shape == end.shape == (3, 10)
    for k, question in enumerate(QUESTIONS):
        n = len(question.passage.tokens)
        for together, alone in zip((start, end), model(made.batch([question])), strict=True):
            torch.testing.assert_close(together[k, :n], alone[0], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(alone[0].exp().sum(), torch.ones(()))
            assert (together[k, n:] == -torch.inf).all()


def test_the_loss_is_that_of_start_and_end() -> None:
    model = network(BOTH).eval()
    start, end = model(BOTH.batch(QUESTIONS))
    expected = -(start[0, 3] + end[0, 5] + start[1, 0] + end[1, 0] + start[2, 1] + end[2, 2]) / 3
    torch.testing.assert_close(model.loss(BOTH.batch(QUESTIONS)), expected)


def test_passage_and_question_lose_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a word would not match itself."""
    passage, question = VariationalDropout(0.3).together(torch.ones(2, 5, 50), torch.ones(2, 3, 50))
    dropped = passage[:, :1] == 0  # (B, 1, n)
    assert 0 < dropped.sum() < 100 and not dropped[0].equal(dropped[1])
    for text in (passage, question):
        assert (text == 0).equal(dropped.expand_as(text))

    together: list[int] = []

    def spy(_: VariationalDropout, *parts: Tensor) -> tuple[Tensor, ...]:
        together.append(len(parts))
        return parts

    monkeypatch.setattr(VariationalDropout, "together", spy)
    network(PLAIN).train().loss(PLAIN.batch(QUESTIONS))
    assert together.count(2) == 2  # the inputs, and what attention compares


def test_every_weight_learns() -> None:
    model = network(BOTH).train()
    model.loss(BOTH.batch(QUESTIONS)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_a_question_without_a_span_cannot_be_trained_on() -> None:
    lost = made_up("w1 w2", "w3", None)
    with pytest.raises(InputError, match="question 'q': expected an answer that occurs in its passage"):
        network(PLAIN).loss(PLAIN.batch([lost]))


@torch.inference_mode()
def test_answers_are_the_best_spans_in_characters() -> None:
    model = network(PLAIN, max_answer=2).eval()
    batch = PLAIN.batch(QUESTIONS, padding=2)
    start, end = model(batch)
    for k, (question, answer) in enumerate(zip(QUESTIONS, model.predict(batch), strict=True)):
        n = len(question.passage.tokens)
        scores = {(i, j): float(start[k, i] + end[k, j]) for i in range(n) for j in range(i, min(n, i + 2))}
        assert answer.span == max(scores, key=scores.__getitem__)
        assert answer.score == pytest.approx(math.exp(scores[answer.span]), rel=1e-5)
        assert answer.text == question.passage.text[answer.start : answer.end]
        assert answer.text.split() == list(question.passage.tokens[answer.span[0] : answer.span[1] + 1])
