"""Training loop: a generator that yields one event per step, and evaluates on the dev data after each epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.disk.json_file import from_json
from elmokit.disk.tensor_file import TensorSpec, check_tensors
from elmokit.errors import ElmoError, FormatError
from elmokit.tasks.runs.run_folder import current_name
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.optimizer_state import checked_state
from elmokit.training.seeds import seeded

POOL = 64  # batches per pool; examples are sorted by length within a pool, and pools are reshuffled every epoch


@dataclass(frozen=True)
class FitStep:
    """One optimizer step."""

    step: int  # its number, from 1
    epoch: float  # epochs so far, fractional, such as 1.25
    loss: float
    gradient_norm: float  # before clipping
    learning_rate: float


@dataclass(frozen=True)
class Epoch:
    """One epoch and its dev scores."""

    epoch: int  # its number, from 1
    step: int  # steps so far
    loss: float  # mean over its steps
    scores: Mapping[str, float]  # on the dev data
    is_best: bool
    learning_rate: float
    seconds: float  # training time so far, across resumptions


Parts = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class Best:
    """The epoch with the best dev score."""

    epoch: int
    seconds: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Counts:
    """Scalar state in a checkpoint; the fields are described at `FitState`."""

    step: int
    epoch: int
    position: int
    loss_sum: float
    scale: float
    since_best: int
    since_decay: int
    best: Best | None
    seconds: float

    def check(self) -> None:
        """Reject negative counters."""
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in ("best", "loss_sum") and not 0 <= value < math.inf:
                raise FormatError(f"checkpoint: expected {item.name} of 0 or more, found {value}")


class FitState:
    """Training state: everything that the next step depends on."""

    def __init__(self, network: TaskNetwork, settings: FitSettings) -> None:
        self.network, self.settings = network, settings
        self.optimizer = _new_optimizer(network, settings)
        self.step = 0  # steps completed
        self.epoch = 0  # epochs completed
        self.position = 0  # batches completed in the current epoch
        self.loss_sum = 0.0  # of these
        self.scale = 1.0  # multiplier of the learning rate, reduced on a plateau
        self.since_best = 0  # epochs
        self.since_decay = 0  # epochs without a better score since the last reduction
        self.best: dict[str, Any] | None = None  # {"epoch", "seconds", "scores"}
        self.best_weights: dict[str, Tensor] = {}
        self.seconds = 0.0

    @property
    def is_done(self) -> bool:
        """Whether the maximum number of epochs is reached or the patience is exhausted."""
        return self.epoch >= self.settings.epochs or self.since_best >= self.settings.patience

    def to_checkpoint(self) -> Checkpoint:
        """State needed to resume. Random generators need none: each step is seeded from the seed and its number."""
        names = {id(p): name for name, p in self.network.named_parameters()}
        tensors = {f"now.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        for parameter, kept in self.optimizer.state.items():
            tensors |= {f"optimiser.{key}.{names[id(parameter)]}": value for key, value in kept.items()}
        return Checkpoint({item.name: getattr(self, item.name) for item in fields(Counts)}, tensors)

    def check(self, checkpoint: Checkpoint) -> tuple[Counts, Parts, Parts]:
        """Check that a checkpoint fits this network; returns counters, weights ("now", "best"), optimizer tensors."""
        parts: Parts = {"now": {}, "best": {}, "optimiser": {}}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition(".")
            if part not in parts:
                raise FormatError(f"checkpoint: expected tensors of a run, found {name}")
            parts[part][current_name(rest)] = tensor
        specs = {name: TensorSpec.like(tensor) for name, tensor in self.network.state_dict().items()}
        check_tensors(parts["now"], specs, "checkpoint, weights")
        counts = from_json(Counts, checkpoint.record, "checkpoint")
        counts.check()
        if parts["best"] or counts.best is not None:
            check_tensors(parts["best"], specs, "checkpoint, best weights")
        trained = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        kept = checked_state(parts.pop("optimiser"), trained, type(self.optimizer), "checkpoint, optimizer")
        return counts, parts, kept

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint."""
        counts, parts, kept = self.check(checkpoint)
        self.network.load_state_dict(parts["now"])
        for item in fields(counts):
            setattr(self, item.name, getattr(counts, item.name))
        self.best = None if counts.best is None else asdict(counts.best)
        self.best_weights = parts["best"]
        names = {id(p): name for name, p in self.network.named_parameters()}
        order = [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]
        state = {number: kept[name] for number, name in enumerate(order) if name in kept}
        self.optimizer.load_state_dict(
            {**self.optimizer.state_dict(), "state": state}
        )  # to the device of the parameters


def fit(
    state: FitState,
    *,
    sizes: Sequence[int],
    batch_of: Callable[[Sequence[int]], TaskBatch[Any]],
    evaluate: Callable[[], Mapping[str, float]],
    metric: str,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[FitStep | Epoch]:
    """Train until the maximum number of epochs, early stopping or `stop`; then load the best weights.

    sizes: lengths of all training examples; batch_of: builds a batch from example indices; evaluate: returns the dev
    scores, of which `metric` selects the best epoch. A step depends on the state and the data only: a run resumed from
    a checkpoint makes the same steps as an uninterrupted one, bit for bit on the same machine.
    """
    settings, network = state.settings, state.network
    parameters = [p for p in network.parameters() if p.requires_grad]
    device = parameters[0].device
    before, started = state.seconds, time.monotonic()
    network.train()
    while not state.is_done:
        batches = batches_of(sizes, settings.batch_size, settings.seed, state.epoch)
        for chosen in batches[state.position :]:
            if stop():
                return
            with seeded(device, settings.seed, state.step):
                loss = network.loss(batch_of(chosen)) + settings.mix_l2 * network.inputs.l2()
                torch.autograd.backward(loss)
            norm = float(nn.utils.clip_grad_norm_(parameters, settings.clip))
            _check_finite(state, float(loss.detach()), norm)
            rate = _set_rate(state, len(batches) * settings.epochs)
            state.optimizer.step()
            state.optimizer.zero_grad(set_to_none=True)
            state.step, state.position = state.step + 1, state.position + 1
            state.loss_sum += float(loss.detach())
            state.seconds = before + time.monotonic() - started
            yield FitStep(state.step, state.epoch + state.position / len(batches), float(loss.detach()), norm, rate)
        scores = dict(evaluate())
        state.seconds = before + time.monotonic() - started
        state.epoch += 1
        is_best = _update_best(state, scores, metric)
        mean = state.loss_sum / len(batches)
        state.position, state.loss_sum = 0, 0.0
        yield Epoch(state.epoch, state.step, mean, scores, is_best, rate_of(state), state.seconds)
    if state.best_weights:
        network.load_state_dict(state.best_weights)


def batches_of(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of an epoch as example indices: similar lengths together, reshuffled every epoch."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(sizes))
    lengths = np.asarray(sizes)[order]
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * batch_size):
        pool = slice(start, start + POOL * batch_size)
        ordered = order[pool][np.argsort(lengths[pool], kind="stable")].tolist()
        batches += [ordered[first : first + batch_size] for first in range(0, len(ordered), batch_size)]
    return [batches[k] for k in random.permutation(len(batches))]


def rate_of(state: FitState) -> float:
    """Learning rate of the last step, of all parameters but the biLM's."""
    return float(state.optimizer.param_groups[0]["lr"])


def _update_best(state: FitState, scores: Mapping[str, float], metric: str) -> bool:
    """Keep the weights if they are the best so far; otherwise count the epoch and reduce the rate on a plateau.

    Epochs before the first score above 0 are not counted.
    """
    settings = state.settings
    if state.best is None or scores[metric] > state.best["scores"][metric]:
        state.best = {"epoch": state.epoch, "seconds": state.seconds, "scores": dict(scores)}
        state.best_weights = {name: tensor.detach().clone() for name, tensor in state.network.state_dict().items()}
        state.since_best = state.since_decay = 0
        return True
    if not state.best["scores"][metric]:
        return False  # nothing learned yet: a tagger trained on few sentences has F1 0 for the first epochs
    state.since_best += 1
    state.since_decay += 1
    if settings.decay == "plateau" and state.since_decay >= settings.decay_patience:
        state.scale *= settings.decay_factor
        state.since_decay = 0
    return False


def _set_rate(state: FitState, n_steps: int) -> float:
    """Set the learning rate of every parameter group; n_steps: of the whole run without early stopping."""
    rising = min(1.0, (state.step + 1) / (state.settings.warm_up + 1))
    falling = 1 - state.step / n_steps if state.settings.decay == "linear" else state.scale
    for group in state.optimizer.param_groups:
        group["lr"] = group["highest"] * rising * falling
    return rate_of(state)


def _new_optimizer(network: TaskNetwork, settings: FitSettings) -> torch.optim.Optimizer:
    bilm = set() if network.inputs.bilm is None else set(network.inputs.bilm.parameters())
    trained = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p not in bilm], "highest": settings.learning_rate},
        {"params": [p for p in trained if p in bilm], "highest": settings.bilm_learning_rate},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, rho=0.95, eps=1e-6)
    return torch.optim.Adam(groups, fused=True)


def _check_finite(state: FitState, loss: float, norm: float) -> None:
    """Raise before an update with a NaN or infinite loss or gradient; the weights are those of the last step."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise ElmoError(
            f"step {state.step + 1}: expected a finite loss and gradient, found {loss} and {norm}; the last checkpoint "
            "is kept; start again with a lower --learning-rate or --clip"
        )
