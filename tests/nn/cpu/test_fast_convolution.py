"""FastConvolution against Convolution and against a slow twin, with gradients."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.nn.convolution import Convolution
from elmokit.nn.cpu.fast_convolution import FastConvolution


def random_convolution(width: int, count: int, seed: int) -> FastConvolution:
    convolution = FastConvolution(width=width, channels=3, count=count).double()
    for k, parameter in enumerate(convolution.parameters()):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(2 * seed + k))
    return convolution


def slow_twin(convolution: FastConvolution, embedding: Tensor, ids: Tensor) -> Tensor:
    """(n, positions) to (n, count), number by number; of equal answers the first has the gradient."""
    places = convolution.weight.view(convolution.width, embedding.shape[1], -1)
    words = []
    for word in ids.tolist():
        answers = []
        for p in range(len(word) - convolution.width + 1):
            parts = [embedding[word[p + k]] @ places[k] for k in range(convolution.width)]
            answers.append(torch.stack(parts).sum(0))
        best = []
        for f in range(places.shape[-1]):
            values = [float(answer[f].detach()) for answer in answers]
            best.append(answers[values.index(max(values))][f])
        words.append(torch.stack(best) + convolution.bias)
    return torch.stack(words)


@given(st.integers(1, 4), st.integers(0, 4), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**20))
@settings(deadline=None)
def test_all_ways_are_as_the_slow_twin(width: int, more: int, n: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    convolution = random_convolution(width, count, seed)
    embedding = torch.randn(5, 3, dtype=torch.double, generator=generator, requires_grad=True)
    ids = torch.randint(0, 5, (n, width + more), generator=generator)  # few characters: some windows come twice
    weights = torch.randn(n, count, dtype=torch.double, generator=generator)

    def with_gradients(answer: Tensor) -> list[Tensor]:
        return [answer, *torch.autograd.grad((answer * weights).sum(), (embedding, *convolution.parameters()))]

    expected = with_gradients(slow_twin(convolution, embedding, ids))
    by_table = with_gradients(convolution.look_up(ids.split(2), convolution.table(embedding)))
    by_windows = with_gradients(convolution.windows(torch.nn.functional.embedding(ids, embedding).split(2)))
    plain = with_gradients(Convolution.forward(convolution, torch.nn.functional.embedding(ids, embedding)))
    for found in (by_table, by_windows, plain):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)
    with torch.no_grad():
        by_table = [convolution.look_up(ids.split(2), convolution.table(embedding))]
        by_windows = [convolution.windows(torch.nn.functional.embedding(ids, embedding).split(2))]
    for (found,) in (by_table, by_windows):
        torch.testing.assert_close(found, expected[0], atol=1e-10, rtol=1e-10)
