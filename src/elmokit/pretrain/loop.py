"""The training loop: a generator that makes a step whenever it is asked for one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError, ElmoError
from elmokit.nn.bilm import BiLM
from elmokit.nn.softmax import Head, SoftmaxHead
from elmokit.pretrain.ahead import ahead
from elmokit.pretrain.batch import TrainingBatch, make_batch
from elmokit.pretrain.corpus import Corpus, Share
from elmokit.pretrain.distributed import Processes, on_its_own
from elmokit.pretrain.loss import bilm_loss
from elmokit.pretrain.settings import TrainingSettings
from elmokit.pretrain.state import TrainingState
from elmokit.training.seeds import seed_of, seeded

SMOOTHING = 0.98  # of the running mean of the loss: some 50 steps
DIVERGED = 2.0  # nats above its lowest value: the perplexity is seven times what it was

_DROPOUT, _SAMPLE = 1, 2  # what random numbers are for


@dataclass(frozen=True)
class Step:
    """What one update of the weights was like."""

    step: int  # its number, from 1
    epoch: float  # passes over the text so far, as 1.25
    done: float  # the fraction of the run that is over
    loss: float  # nats a prediction, mean of both directions
    perplexity: float  # exp of the running mean of the loss; of a sampled softmax it is too low
    tokens: int  # read so far
    tokens_per_second: float  # since the loop began, without what its caller did between the steps
    learning_rate: float
    gradient_norm: float  # before it was clipped
    stopped: bool = False  # whether a process was asked to stop: no step follows

    @property
    def is_last(self) -> bool:
        """Whether the run is complete."""
        return self.done >= 1


def train(
    state: TrainingState,
    corpus: Corpus,
    *,
    processes: Processes | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """Train on until the run is complete, or any process is asked to `stop`; `state` changes with every step.

    All that a step does follows from the state and the text: a run that goes on from a checkpoint makes the same steps
    as one that was never interrupted, bit for bit on the same machine.
    """
    processes = processes or Processes()
    settings = state.settings
    n_samples = settings.n_samples if settings.loss == "sampled" else None
    module = _join(state, processes)
    parameters = [p for p in module.parameters() if p.requires_grad]
    before, started, busy, read = state.seconds, time.monotonic(), 0.0, 0
    state.bilm.train()
    groups = ahead(_groups(state, corpus, processes))
    asked = 0.0
    while state.done < 1 and not asked:
        began = time.monotonic()
        group = next(groups)
        n_tokens = sum(share.n_tokens for share, _ in group)
        forward = backward = 0.0
        for number, (share, batch) in enumerate(group):
            with on_its_own(module) if number < len(group) - 1 else nullcontext():
                key = settings.seed, state.step, number
                with seeded(processes.device, *key, _DROPOUT, processes.rank), _autocast(settings, processes.device):
                    # all processes draw the same sample: together they make the step of one
                    generator = torch.Generator().manual_seed(seed_of(*key, _SAMPLE))
                    losses: Tensor = module(batch, n_samples, generator)
                if not share.sentences:
                    losses = losses * 0  # a stand-in, for want of sentences
                # gradients are averaged over the processes, but a mean over tokens is wanted
                scale = settings.loss_scale * processes.world / (2 * n_tokens)
                torch.autograd.backward(losses.sum() * scale)
            forward, backward = forward + losses[0].item(), backward + losses[1].item()
        seconds = before + time.monotonic() - started if processes.is_first else 0.0
        forward, backward, asked, state.seconds = processes.total(forward, backward, float(stop()), seconds)
        loss = (forward + backward) / (2 * n_tokens)
        norm = clip_gradients(parameters, settings.clip)
        _require_health(state, loss, norm)
        rate = settings.learning_rate_at(state.step, state.done)
        _update(state.optimiser, rate)
        last = group[-1][0]
        state.step, state.tokens = state.step + 1, state.tokens + n_tokens
        state.position, state.epochs = last.position, last.progress
        _watch(state, loss)
        busy, read = busy + time.monotonic() - began, read + n_tokens
        yield Step(
            step=state.step, epoch=state.epochs, done=min(1.0, state.done), loss=loss,
            perplexity=_exp(state.smoothed or loss), tokens=state.tokens, tokens_per_second=read / busy,
            learning_rate=rate, gradient_norm=norm, stopped=asked > 0,
        )  # fmt: skip


class _BatchLoss(nn.Module):
    """Both directions' summed losses of a batch, (2,), as one module: what DistributedDataParallel can wrap."""

    def __init__(self, bilm: BiLM, head: Head) -> None:
        super().__init__()
        self.bilm, self.head = bilm, head

    def forward(self, batch: TrainingBatch, n_samples: int | None, generator: torch.Generator) -> Tensor:
        loss = bilm_loss(self.bilm, self.head, batch, n_samples=n_samples, generator=generator)
        return torch.stack((loss.forward, loss.backward))


def _join(state: TrainingState, processes: Processes) -> nn.Module:
    settings, n_words = state.settings, len(state.vocabulary)
    if settings.loss == "sampled" and settings.n_samples >= n_words:
        raise ConfigError(
            f"--n-samples: expected fewer than the {n_words:,} words of the vocabulary, found {settings.n_samples:,}; "
            "with so few words use --loss full"
        )
    if isinstance(state.head, SoftmaxHead) and processes.world > 1:
        state.head.sparse = False  # gradients of all rows are what all backends can add up
    return processes.wrap(_BatchLoss(state.bilm, state.head))


def _groups(state: TrainingState, corpus: Corpus, processes: Processes) -> Iterator[list[tuple[Share, TrainingBatch]]]:
    """The batches of each update. One that an epoch's end cuts short weighs as much as any other."""
    settings = state.settings
    characters = state.characters
    group: list[tuple[Share, TrainingBatch]] = []
    for share in corpus.batches(
        batch_tokens=settings.batch_tokens, seed=settings.seed, start=state.position,
        rank=processes.rank, world=processes.world,
    ):  # fmt: skip
        group.append((share, make_batch(share.sentences or [[]], state.vocabulary, characters, processes.device)))
        if len(group) == settings.accumulate or share.position.epoch > share.epoch:
            yield group
            group = []


def _update(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for options in optimiser.param_groups:
        options["lr"] = rate
    unchecked = torch.sparse.check_sparse_tensor_invariants(enable=False)  # type: ignore[no-untyped-call]
    with unchecked:  # torch's own default, of which it warns unless it is said aloud
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float) -> float:
    """Scale all gradients down so that together they are no longer than the limit; returns how long they were."""
    gradients: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # a row that was used twice has one gradient, the sum
            gradients.append(parameter.grad._values())  # type: ignore[no-untyped-call]
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    norm = float(nn.utils.get_total_norm(gradients))
    if norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


def _require_health(state: TrainingState, loss: float, norm: float) -> None:
    """Stop before an update with what is no number; the weights are still those of the last step."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise ElmoError(
            f"step {state.step + 1}: expected a finite loss and gradient, found {loss} and {norm}; the last checkpoint "
            "is kept; begin again with a lower --learning-rate, a longer --warm-up or a lower --clip"
        )


def _watch(state: TrainingState, loss: float) -> None:
    """Keep the running mean of the loss, and stop when it has risen too far."""
    weight = min(SMOOTHING, 1 - 1 / state.step)  # a plain mean at first
    state.smoothed = loss if state.smoothed is None else weight * state.smoothed + (1 - weight) * loss
    state.lowest = state.smoothed if state.lowest is None else min(state.lowest, state.smoothed)
    if state.smoothed > state.lowest + DIVERGED:
        raise ElmoError(
            f"step {state.step}: expected a falling loss, found {state.smoothed:.2f} after {state.lowest:.2f}: the run "
            "has diverged; the last checkpoints are kept; begin again with a lower --learning-rate or --clip"
        )


def _exp(x: float) -> float:
    """Infinite, where Python would rather fail: weights that are new to a text may be as surprised as that."""
    return torch.tensor(x, dtype=torch.double).exp().item()


def _autocast(settings: TrainingSettings, device: torch.device) -> torch.autocast:
    """Matrix products in bfloat16, where asked for or where the device is made for it; CPUs rarely are."""
    wanted = settings.precision == "bfloat16" or (
        settings.precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)
