"""Linear probes on frozen vectors: one per layer, trained together on the same batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmokit.analysis.shared.layers import Meter, Moments, View, token_blocks
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError

_READ = 4096  # tokens per block outside of training

Places = NDArray[np.int64]


@dataclass(frozen=True)
class ProbeSettings:
    """Training settings of a probe: Adam on the cross-entropy, with a learning rate that decays to zero."""

    epochs: int = 10
    batch_size: int = 256  # tokens
    learning_rate: float = 0.005
    seed: int = 1  # of the token order; the weights are initialized to zero

    def __post_init__(self) -> None:
        for name, flag in (("epochs", "--epochs"), ("batch_size", "--batch-size")):
            if getattr(self, name) < 1:
                raise ConfigError(f"{flag}: expected a positive integer, found {getattr(self, name)}")
        if not 0 < self.learning_rate < 1:
            raise ConfigError(f"--learning-rate: expected a number between 0 and 1, found {self.learning_rate}")


class ProbeVectors:
    """All layers of all tokens of a text, (N, L + 1, 2D) in float16, memory-mapped in a temporary file."""

    def __init__(self, elmo: Elmo, sentences: Sequence[Sequence[str]], meter: Meter) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.count = 0
        try:
            for block in token_blocks(elmo, sentences, meter):
                self._file.write(np.ascontiguousarray(block.transpose(1, 0, 2), dtype=np.float16).data)
                self.count += block.shape[1]
            self._file.flush()
            shape = (self.count, elmo.config.n_vectors, elmo.config.vector_dim)
            self._array: NDArray[np.float16] = np.memmap(self._file, np.float16, "r", shape=shape)
        except BaseException:
            self._file.close()
            raise

    def of(self, tokens: Places | slice, views: Sequence[View]) -> Tensor:
        """Vectors (V, n, 2D) of the given tokens."""
        layers = self._array[tokens].astype(np.float32).transpose(1, 0, 2)  # (L + 1, n, 2D)
        return torch.from_numpy(np.stack([view.of(layers) for view in views]))

    def blocks(self, views: Sequence[View]) -> Iterator[Tensor]:
        """Yield the vectors (V, n, 2D) of all tokens in order, a few thousand at a time."""
        for start in range(0, self.count, _READ):
            yield self.of(slice(start, start + _READ), views)

    def close(self) -> None:
        """Delete the temporary file."""
        del self._array
        self._file.close()

    def __enter__(self) -> ProbeVectors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Probes(nn.Module):
    """Linear classifier per view, softmax(W_v z + b_v), with z standardized per dimension.

    Standardization makes layers of different scales train equally well, and keeps the classifier linear.
    """

    def __init__(self, *, mean: Tensor, deviation: Tensor, n_tags: int) -> None:
        """mean, deviation: (V, 1, 2D), over the training text."""
        super().__init__()
        n_views, _, dim = mean.shape
        self.register_buffer("mean", mean)
        self.register_buffer("scale", 1 / deviation)
        self.weight = nn.Parameter(torch.zeros(n_views, dim, n_tags))
        self.bias = nn.Parameter(torch.zeros(n_views, 1, n_tags))

    mean: Tensor
    scale: Tensor

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: (V, n, 2D). Returns (V, n, C) logits."""
        return torch.baddbmm(self.bias, (vectors - self.mean) * self.scale, self.weight)


def fit_probes(
    vectors: ProbeVectors, tags: Places, n_tags: int, views: Sequence[View], settings: ProbeSettings
) -> Probes:
    """Train one classifier per view; tags: (N,) of the tokens.

    Adam is elementwise, so training all views together is identical to training each alone.
    """
    moments = Moments()
    for block in vectors.blocks(views):
        moments.add(block.numpy())
    mean, deviation = (torch.from_numpy(x).float().unsqueeze(1) for x in (moments.mean, moments.deviation))
    probes = Probes(mean=mean, deviation=deviation, n_tags=n_tags)
    optimizer = torch.optim.Adam(probes.parameters(), lr=settings.learning_rate)
    n_steps = settings.epochs * -(-vectors.count // settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / n_steps)
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.epochs):
        order = rng.permutation(vectors.count)
        for start in range(0, vectors.count, settings.batch_size):
            chosen = np.sort(order[start : start + settings.batch_size])  # sorted by position in the file
            logits = probes(vectors.of(chosen, views))  # (V, n, C)
            gold = torch.from_numpy(tags[chosen]).expand(len(views), -1)  # (V, n)
            loss = functional.cross_entropy(logits.flatten(0, 1), gold.flatten(), reduction="sum") / len(chosen)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return probes


@torch.inference_mode()
def predict_tags(probes: Probes, vectors: ProbeVectors, views: Sequence[View]) -> Places:
    """Predicted tag of every token for every view, (V, N)."""
    predictions: Places = torch.cat([probes(block).argmax(dim=2) for block in vectors.blocks(views)], dim=1).numpy()
    return predictions
