"""The fit loop: a generator that makes a step whenever it is asked for one, with a look at the dev score each epoch."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.errors import ElmoError, FormatError
from elmokit.tasks.settings import FitSettings
from elmokit.tasks.task import TaskBatch, TaskNetwork
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.seeds import seeded

POOL = 64  # batches whose examples are put into order by length; the pools themselves are shuffled anew every epoch


@dataclass(frozen=True)
class Step:
    """One update of the weights."""

    step: int  # its number, from 1
    epoch: float  # passes over the training data so far, as 1.25
    loss: float
    gradient_norm: float  # before it was clipped
    learning_rate: float


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data, and what it was worth."""

    epoch: int  # its number, from 1
    step: int  # updates so far
    loss: float  # mean over its steps
    scores: Mapping[str, float]  # of the dev data
    is_best: bool
    learning_rate: float
    seconds: float  # of fitting so far, over all resumptions


class FitState:
    """A network in training, with all that the next step depends on."""

    def __init__(self, network: TaskNetwork, settings: FitSettings) -> None:
        self.network, self.settings = network, settings
        self.optimiser = _new_optimiser(network, settings)
        self.step = 0  # updates made
        self.epoch = 0  # epochs completed
        self.position = 0  # batches of the present epoch that are done
        self.loss_sum = 0.0  # of these
        self.scale = 1.0  # of the learning rate, which falls when the score stands still
        self.since_best = 0  # epochs
        self.since_decay = 0  # epochs without a better score since the learning rate last fell
        self.best: dict[str, Any] | None = None  # {"epoch", "seconds", "scores"}
        self.best_weights: dict[str, Tensor] = {}
        self.seconds = 0.0

    @property
    def is_done(self) -> bool:
        """Whether no epoch is left, or the score has stood still for too long."""
        return self.epoch >= self.settings.epochs or self.since_best >= self.settings.patience

    def to_checkpoint(self) -> Checkpoint:
        """What it takes to go on. Random numbers need no state: those of a step follow from the seed and the step."""
        names = {id(p): name for name, p in self.network.named_parameters()}
        tensors = {f"now.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        for parameter, kept in self.optimiser.state.items():
            tensors |= {f"optimiser.{key}.{names[id(parameter)]}": value for key, value in kept.items()}
        return Checkpoint({name: getattr(self, name) for name in _COUNTS}, tensors)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to where a checkpoint was made."""
        parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "optimiser": {}}
        for name, tensor in checkpoint.tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        try:
            self.network.load_state_dict(parts["now"])
            for name in _COUNTS:
                setattr(self, name, checkpoint.record[name])
        except (RuntimeError, KeyError) as error:
            raise FormatError(f"checkpoint: expected that of this network, found another ({error})") from None
        self.best_weights = parts["best"]
        kept: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in parts["optimiser"].items():
            key, _, parameter = name.partition(".")
            kept[parameter][key] = tensor
        names = {id(p): name for name, p in self.network.named_parameters()}
        order = [names[id(p)] for group in self.optimiser.param_groups for p in group["params"]]
        state = {number: kept[name] for number, name in enumerate(order) if name in kept}
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})  # to where the parameters are


_COUNTS = (
    "step", "epoch", "position", "loss_sum", "scale", "since_best", "since_decay", "best", "seconds",
)  # fmt: skip


def fit(
    state: FitState,
    *,
    sizes: Sequence[int],
    batch_of: Callable[[Sequence[int]], TaskBatch[Any]],
    evaluate: Callable[[], Mapping[str, float]],
    metric: str,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step | Epoch]:
    """Train until the epochs or the patience are over, or `stop` says so; then the network has its best weights.

    sizes: of all training examples; batch_of: makes a batch of those with these numbers; evaluate: the dev scores, of
    which `metric` decides. All that a step does follows from the state and the data: a run that goes on from a
    checkpoint makes the same steps as one that was never interrupted, bit for bit on the same machine.
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
            _require_health(state, float(loss.detach()), norm)
            rate = _set_rate(state, len(batches) * settings.epochs)
            state.optimiser.step()
            state.optimiser.zero_grad(set_to_none=True)
            state.step, state.position = state.step + 1, state.position + 1
            state.loss_sum += float(loss.detach())
            state.seconds = before + time.monotonic() - started
            yield Step(state.step, state.epoch + state.position / len(batches), float(loss.detach()), norm, rate)
        scores = dict(evaluate())
        state.seconds = before + time.monotonic() - started
        state.epoch += 1
        is_best = _judge(state, scores, metric)
        mean = state.loss_sum / len(batches)
        state.position, state.loss_sum = 0, 0.0
        yield Epoch(state.epoch, state.step, mean, scores, is_best, rate_of(state), state.seconds)
    if state.best_weights:
        network.load_state_dict(state.best_weights)


def batches_of(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch, as numbers of examples: like lengths together, in an order that differs every time."""
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
    """The learning rate that the last step had, of all but the biLM."""
    return float(state.optimiser.param_groups[0]["lr"])


def _judge(state: FitState, scores: Mapping[str, float], metric: str) -> bool:
    """Keep the weights if they are the best so far; else count, and let the learning rate fall when it is time."""
    settings = state.settings
    if state.best is None or scores[metric] > state.best["scores"][metric]:
        state.best = {"epoch": state.epoch, "seconds": state.seconds, "scores": dict(scores)}
        state.best_weights = {name: tensor.detach().clone() for name, tensor in state.network.state_dict().items()}
        state.since_best = state.since_decay = 0
        return True
    state.since_best += 1
    state.since_decay += 1
    if settings.decay == "plateau" and state.since_decay >= settings.decay_patience:
        state.scale *= settings.decay_factor
        state.since_decay = 0
    return False


def _set_rate(state: FitState, n_steps: int) -> float:
    """Give every group of parameters the rate of the next step; n_steps: of the whole run, if it is not cut short."""
    rising = min(1.0, (state.step + 1) / (state.settings.warm_up + 1))
    falling = 1 - state.step / n_steps if state.settings.decay == "linear" else state.scale
    for group in state.optimiser.param_groups:
        group["lr"] = group["highest"] * rising * falling
    return rate_of(state)


def _new_optimiser(network: TaskNetwork, settings: FitSettings) -> torch.optim.Optimizer:
    bilm = set() if network.inputs.bilm is None else set(network.inputs.bilm.parameters())
    trained = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p not in bilm], "highest": settings.learning_rate},
        {"params": [p for p in trained if p in bilm], "highest": settings.bilm_learning_rate},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimiser == "adadelta":
        return torch.optim.Adadelta(groups, rho=0.95, eps=1e-6)
    return torch.optim.Adam(groups, fused=True)


def _require_health(state: FitState, loss: float, norm: float) -> None:
    """Stop before an update with what is no number; the weights are still those of the last step."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise ElmoError(
            f"step {state.step + 1}: expected a finite loss and gradient, found {loss} and {norm}; the last checkpoint "
            "is kept; begin again with a lower --learning-rate or --clip"
        )
