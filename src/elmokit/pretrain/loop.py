"""Training loop: a generator that yields after every optimizer step."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmokit.errors import ConfigError, ElmoError
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.operators import has_bfloat16
from elmokit.nn.softmax import Head, SoftmaxHead
from elmokit.pretrain.corpus import Corpus, Share
from elmokit.pretrain.distributed import Processes, without_sync
from elmokit.pretrain.loss import bilm_loss
from elmokit.pretrain.prefetch import prefetch
from elmokit.pretrain.training_batch import TrainingBatch, make_batch
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.noise import misspell_some
from elmokit.training.seeds import seed_of, seeded

WINDOW, RECENT = 50, 0.1  # the running mean of the loss covers this many steps, or this share of all steps, if fewer
STEPS_TO_JUDGE = 50  # earlier, the running mean covers too few steps to detect divergence
DIVERGED = 2.0  # nats above the lowest running loss: a sevenfold perplexity

_DROPOUT, _SAMPLE, _NOISE = 1, 2, 3  # stream numbers of the random generators


@dataclass(frozen=True)
class TrainingStep:
    """Metrics of one optimizer step."""

    step: int  # step number, from 1
    epoch: float  # completed epochs, e.g. 1.25
    done: float  # completed fraction of the run
    loss: float  # nats per prediction, mean of both directions
    perplexity: float  # exp of the running mean of the loss; too low with a sampled softmax
    tokens: int  # tokens read so far
    tokens_per_second: float  # since the loop started, excluding time spent by the caller between steps
    learning_rate: float
    gradient_norm: float  # before clipping
    stopped: bool = False  # whether a process received a stop request: no step follows

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
) -> Iterator[TrainingStep]:
    """Train until the run is complete or `stop` returns True in any process; every step updates `state`.

    A step is determined by the state and the text: a run resumed from a checkpoint makes the same steps as one that
    was never interrupted, bit for bit on the same machine.
    """
    processes = processes or Processes()
    settings = state.settings
    n_samples = settings.n_samples if settings.loss == "sampled" else None
    module = _loss_module(state, processes)
    parameters = [p for p in module.parameters() if p.requires_grad]
    before, started, busy, read = state.seconds, time.monotonic(), 0.0, 0
    state.bilm.train()
    groups = prefetch(_groups(state, corpus, processes))
    stopped = 0.0  # number of processes with a stop request
    while state.done < 1 and not stopped:
        began = time.monotonic()
        group = next(groups)
        n_tokens = sum(share.n_tokens for share, _ in group)
        forward = backward = 0.0
        for number, (share, batch) in enumerate(group):
            with without_sync(module) if number < len(group) - 1 else nullcontext():
                key = settings.seed, state.step, number
                with seeded(processes.device, *key, _DROPOUT, processes.rank), _autocast(settings, processes.device):
                    # all processes draw the same negatives, so that together they compute one global batch
                    generator = torch.Generator().manual_seed(seed_of(*key, _SAMPLE))
                    losses: Tensor = module(batch, n_samples, generator)
                if not share.sentences:
                    losses = losses * 0  # this process has no sentences in this batch
                # DDP averages gradients over processes; rescale to the mean over tokens of the global batch
                scale = settings.loss_scale * processes.world / (2 * n_tokens)
                torch.autograd.backward(losses.sum() * scale)
            forward, backward = forward + losses[0].item(), backward + losses[1].item()
        seconds = before + time.monotonic() - started if processes.is_first else 0.0
        forward, backward, stopped, state.seconds = processes.total(forward, backward, float(stop()), seconds)
        loss = (forward + backward) / (2 * n_tokens)
        norm = clip_gradients(parameters, settings.clip)
        _check_finite(state, loss, norm)
        rate = settings.learning_rate_at(state.step, state.done)
        _update(state.optimizer, rate)
        last = group[-1][0]
        state.step, state.tokens = state.step + 1, state.tokens + n_tokens
        state.position, state.epochs = last.position, last.progress
        _check_divergence(state, loss)
        busy, read = busy + time.monotonic() - began, read + n_tokens
        yield TrainingStep(
            step=state.step,
            epoch=state.epochs,
            done=min(1.0, state.done),
            loss=loss,
            perplexity=_exp(state.smoothed or loss),
            tokens=state.tokens,
            tokens_per_second=read / busy,
            learning_rate=rate,
            gradient_norm=norm,
            stopped=stopped > 0,
        )


class _BatchLoss(nn.Module):
    """Summed loss of each direction, (2,), as one module that DistributedDataParallel can wrap."""

    def __init__(self, bilm: BiLM, head: Head) -> None:
        super().__init__()
        self.bilm, self.head = bilm, head

    def forward(self, batch: TrainingBatch, n_samples: int | None, generator: torch.Generator) -> Tensor:
        loss = bilm_loss(self.bilm, self.head, batch, n_samples=n_samples, generator=generator)
        return torch.stack((loss.forward, loss.backward))


def _loss_module(state: TrainingState, processes: Processes) -> nn.Module:
    settings, n_words = state.settings, len(state.vocabulary)
    if settings.loss == "sampled" and settings.n_samples >= n_words:
        raise ConfigError(
            f"--n-samples: expected fewer than the {n_words:,} words of the vocabulary, found {settings.n_samples:,}; "
            "with so few words use --loss full"
        )
    if isinstance(state.head, SoftmaxHead) and processes.world > 1:
        state.head.sparse = False  # not all backends can all-reduce sparse gradients
    return processes.wrap(_BatchLoss(state.bilm, state.head))


def _groups(state: TrainingState, corpus: Corpus, processes: Processes) -> Iterator[list[tuple[Share, TrainingBatch]]]:
    """Batches of each update (gradient accumulation). A short group at the end of an epoch has full weight."""
    settings = state.settings
    characters = state.characters
    if settings.noise and characters is None:
        raise ConfigError("--noise: expected a model that reads characters, found one that reads whole words")
    group: list[tuple[Share, TrainingBatch]] = []
    for share in corpus.batches(
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        start=state.position,
        rank=processes.rank,
        world=processes.world,
    ):
        batch = make_batch(
            share.sentences or [[]], state.vocabulary, characters, processes.device, misspell=_noise_of(settings, share)
        )
        group.append((share, batch))
        if len(group) == settings.accumulate or share.position.epoch > share.epoch:
            yield group
            group = []


def _noise_of(settings: TrainingSettings, share: Share) -> Callable[[Sequence[str]], Sequence[str]] | None:
    """Noise function of one batch, seeded by `seed` and the position in the text; None without noise."""
    if not settings.noise:
        return None
    place = share.position
    rng = random.Random(seed_of(settings.seed, place.epoch, place.shard, place.line, place.batch, _NOISE))
    return lambda tokens: misspell_some(tokens, settings.noise, rng)


def _update(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for options in optimizer.param_groups:
        options["lr"] = rate
    unchecked = torch.sparse.check_sparse_tensor_invariants(enable=False)  # type: ignore[no-untyped-call]
    with unchecked:  # the default of torch, set explicitly to avoid its warning
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float) -> float:
    """Clip the total gradient norm, sparse gradients included; returns the norm before clipping."""
    gradients: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # sum the gradients of rows that were used more than once
            gradients.append(parameter.grad._values())  # type: ignore[no-untyped-call]
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    norm = float(nn.utils.get_total_norm(gradients))
    if norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


def _check_finite(state: TrainingState, loss: float, norm: float) -> None:
    """Stop before an update with NaN or infinity; the weights are still those of the last step."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise ElmoError(
            f"step {state.step + 1}: expected a finite loss and gradient, found {loss} and {norm}; the last checkpoint "
            "is kept; start again with a lower --learning-rate, a longer --warm-up or a lower --clip"
        )


def _check_divergence(state: TrainingState, loss: float) -> None:
    """Update the running mean of the loss; stop if it has risen too far above its minimum."""
    # the loss falls fast at first: a mean over all steps would be far above the present loss
    weight = 1 - 1 / max(1.0, min(WINDOW, RECENT * state.step))
    state.smoothed = loss if state.smoothed is None else weight * state.smoothed + (1 - weight) * loss
    state.lowest = state.smoothed if state.lowest is None else min(state.lowest, state.smoothed)
    if state.step >= STEPS_TO_JUDGE and state.smoothed > state.lowest + DIVERGED:
        raise ElmoError(
            f"step {state.step}: expected a falling loss, found {state.smoothed:.2f} after {state.lowest:.2f}: the run "
            "has diverged; the last checkpoints are kept; start again with a lower --learning-rate or --clip"
        )


def _exp(x: float) -> float:
    """exp(x), infinite on overflow, where `math.exp` raises an error."""
    return torch.tensor(x, dtype=torch.double).exp().item()


def _autocast(settings: TrainingSettings, device: torch.device) -> torch.autocast:
    """Autocast to bfloat16 if requested, or by default on GPUs that support it; never on a CPU that would be slower."""
    wanted = settings.precision == "bfloat16" or (
        settings.precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    wanted = wanted and (device.type != "cpu" or has_bfloat16())
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)
