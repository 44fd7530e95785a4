"""The fit loop on a network of a few numbers: resumption bit for bit, early stopping, schedules, and faults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from elmokit.errors import ConfigError, ElmoError, FormatError
from elmokit.tasks.runs.fit import POOL, Epoch, FitState, FitStep, batches_of, fit
from elmokit.tasks.shared.inputs import ElmoSource, TextBatch, TextInputs, WordTable
from elmokit.tasks.shared.task_base import TaskBatch, TaskNetwork, predict_batch
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint
from elmokit.training.settings_fields import settings_from_json

N = 23  # examples: rows of words, with a target each
DATA = torch.randint(2, 9, (N, 3), generator=torch.Generator().manual_seed(0))
LAYERS = torch.randn(3, N, 3, 4, generator=torch.Generator().manual_seed(1))
SIZES = [k % 5 for k in range(N)]


class Toy(TaskNetwork):
    """Learns whether the words of an example have an even sum."""

    def __init__(self, inputs: TextInputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.dropout = nn.Dropout(0.3)
        self.linear = nn.Linear(inputs.input_dim * 3, 1)

    def logits(self, batch: TaskBatch[int]) -> Tensor:
        logits: Tensor = self.linear(self.dropout(self.inputs(batch.texts[0]).flatten(1)))[:, 0]
        return logits

    def loss(self, batch: TaskBatch[int]) -> Tensor:
        targets = (DATA[batch.examples].sum(dim=1) % 2).float()
        return nn.functional.binary_cross_entropy_with_logits(self.logits(batch), targets)

    def predict(self, batch: TaskBatch[int]) -> list[bool]:
        return [logit > 0 for logit in self.logits(batch).tolist()]


def batch_of(chosen: Sequence[int]) -> TaskBatch[int]:
    rows = list(chosen)
    return TaskBatch(rows, [TextBatch(torch.ones(len(rows), 3, dtype=torch.bool), DATA[rows], layers=LAYERS[:, rows])])


def toy(**changes: Any) -> FitState:
    config = FitSettings(
        **{"epochs": 4, "batch_size": 5, "learning_rate": 0.05, "mix_l2": 0.1, "patience": 9, **changes}
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        inputs = TextInputs(settings=config, words=WordTable(learned=torch.randn(9, 4)), elmo=ElmoSource(3, 4))
        return FitState(Toy(inputs), config)


def accuracy(state: FitState) -> Callable[[], dict[str, float]]:
    def evaluate() -> dict[str, float]:
        found = predict_batch(state.network, batch_of(range(N)))
        right = sum(p == bool(row.sum() % 2) for p, row in zip(found, DATA, strict=True))
        return {"accuracy": 100 * right / N}

    return evaluate


def go(state: FitState, **options: Any) -> Iterator[FitStep | Epoch]:
    defaults = {"evaluate": accuracy(state), "metric": "accuracy"}
    return fit(state, sizes=SIZES, batch_of=batch_of, **{**defaults, **options})


def scripted(scores: list[float]) -> Callable[[], dict[str, float]]:
    left = iter(scores)
    return lambda: {"score": next(left)}


def same(a: Checkpoint, b: Checkpoint) -> bool:
    tensors = a.tensors.keys() == b.tensors.keys() and all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)
    records = [{**c.record, "seconds": 0, "best": {**(c.record["best"] or {}), "seconds": 0}} for c in (a, b)]
    return tensors and records[0] == records[1]


# ---- resumption


@dataclass
class Whole:
    changes: dict[str, Any]
    end: Checkpoint
    weights: dict[str, Tensor]


@pytest.fixture(
    scope="module",
    params=[{}, {"optimizer": "adadelta", "learning_rate": 1.0}, {"decay": "linear", "warm_up": 3, "clip": 0.1}],
    ids=["adam", "adadelta", "linear"],
)
def whole(request: pytest.FixtureRequest) -> Whole:
    state = toy(**request.param)
    list(go(state))
    return Whole(request.param, state.to_checkpoint(), state.network.state_dict())


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(breaks=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(tmp_path: Path, whole: Whole, breaks: list[int]) -> None:
    state = toy(**whole.changes)
    for n in breaks:
        list(islice(go(state), n))
        kept = checkpoint.read(checkpoint.write(state.to_checkpoint(), tmp_path))
        torch.manual_seed(len(breaks))  # another process has other random numbers
        state = toy(**{**whole.changes, "seed": 0})
        state.restore(kept)
    list(go(state))
    assert same(state.to_checkpoint(), whole.end)
    assert all(torch.equal(tensor, whole.weights[name]) for name, tensor in state.network.state_dict().items())


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    ends = []
    for seed in (0, 0, 1):
        state = toy(seed=seed)
        list(go(state))
        ends.append(state.to_checkpoint())
    assert same(ends[0], ends[1]) and not same(ends[0], ends[2])


def test_asked_to_stop_it_stops_after_the_step() -> None:
    state = toy()
    list(go(state, stop=lambda: state.step == 7))
    assert state.step == 7 and not state.is_done
    assert (state.epoch, state.position) == (1, 2)  # five batches an epoch


def test_a_checkpoint_of_another_network_is_refused() -> None:
    state = toy()
    other = Checkpoint(state.to_checkpoint().record, {"now.linear.weight": torch.zeros(1)})
    with pytest.raises(FormatError, match=r"expected tensor inputs\.words\.learned of shape"):
        state.restore(other)


def test_a_checkpoint_of_an_older_version_goes_on() -> None:
    """Its word vectors have their former name, in the weights and in the state of the optimizer."""
    state = toy()
    list(islice(go(state), 3))
    kept = state.to_checkpoint()
    old = {re.sub(r"\.learned$", ".learnt", name): tensor for name, tensor in kept.tensors.items()}
    assert old.keys() != kept.tensors.keys()
    again = toy()
    again.restore(Checkpoint(kept.record, old))
    assert same(again.to_checkpoint(), kept)


# ---- when it ends, and what it keeps


def test_it_learns() -> None:
    state = toy(epochs=60, patience=60, decay="none")
    epochs = [event for event in go(state) if isinstance(event, Epoch)]
    assert epochs[-1].loss < 0.6 * epochs[0].loss
    assert accuracy(state)()["accuracy"] == max(epoch.scores["accuracy"] for epoch in epochs) > 90


def test_the_best_weights_are_kept_and_patience_ends_it() -> None:
    state = toy(epochs=50, patience=3, decay="none")
    weights, epochs = [], []
    for event in go(state, evaluate=scripted([10, 30, 20, 30, 29, 99]), metric="score"):
        if isinstance(event, Epoch):
            epochs.append(event)
            weights.append({name: tensor.clone() for name, tensor in state.network.state_dict().items()})
    assert [epoch.is_best for epoch in epochs] == [True, True, False, False, False]
    assert state.best is not None and state.best["epoch"] == 2 and state.best["scores"] == {"score": 30}
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in state.network.state_dict().items())
    assert [epoch.step for epoch in epochs] == [5, 10, 15, 20, 25]
    assert list(go(state)) == []  # it is over


def test_patience_starts_with_the_first_score_above_zero() -> None:
    state = toy(epochs=50, patience=2, decay="plateau", decay_patience=1)
    events = list(go(state, evaluate=scripted([0, 0, 0, 0, 7, 6, 6, 99]), metric="score"))
    assert [event.is_best for event in events if isinstance(event, Epoch)] == [True, *[False] * 3, True, False, False]
    rates = [event.learning_rate for event in events if isinstance(event, FitStep)][::5]
    assert rates[:6] == [rates[0]] * 6 and rates[6] < rates[0]  # nor does the rate fall before


def test_the_learning_rate_falls_when_the_score_stands_still() -> None:
    state = toy(epochs=7, learning_rate=0.8, decay_patience=2, decay_factor=0.25)
    events = list(go(state, evaluate=scripted([5, 4, 3, 2, 6, 5, 5]), metric="score"))
    rates = [event.learning_rate for event in events if isinstance(event, FitStep)][::5]
    assert rates == pytest.approx([0.8, 0.8, 0.8, 0.2, 0.2, 0.2, 0.2])


def test_warm_up_and_linear_decay() -> None:
    state = toy(epochs=2, learning_rate=1.0, warm_up=4, decay="linear")
    rates = [event.learning_rate for event in go(state) if isinstance(event, FitStep)]
    assert rates == pytest.approx([min(1, (k + 1) / 5) * (1 - k / 10) for k in range(10)])


def test_the_mixes_are_held_back_by_their_l2_term() -> None:
    sizes = []
    for strength in (0.0, 10.0):
        state = toy(mix_l2=strength, epochs=8)
        list(go(state))
        sizes.append(state.network.inputs.l2().item())
    assert sizes[1] < sizes[0] / 4


def test_the_gradient_is_clipped() -> None:
    state = toy(optimizer="adadelta", clip=1e-9, learning_rate=1.0)
    before = state.network.linear.weight.clone()  # type: ignore[union-attr, operator]
    step = next(event for event in go(state) if isinstance(event, FitStep))
    assert step.gradient_norm > 1e-3
    assert torch.allclose(before, state.network.linear.weight, atol=1e-4)  # type: ignore[union-attr, arg-type]


def test_what_is_no_number_stops_it_before_the_update() -> None:
    state = toy()
    list(islice(go(state), 3))
    before = {name: tensor.clone() for name, tensor in state.network.state_dict().items()}

    def broken(chosen: Sequence[int]) -> TaskBatch[int]:
        good = batch_of(chosen).texts[0]
        return TaskBatch(list(chosen), [TextBatch(good.mask, good.words, layers=good.layers * math.nan)])  # type: ignore[operator]

    with pytest.raises(ElmoError, match=r"step 4: expected a finite loss and gradient, found nan .*learning_rate"):
        list(fit(state, sizes=SIZES, batch_of=broken, evaluate=accuracy(state), metric="accuracy"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.network.state_dict().items())


# ---- batches


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=300), batch_size=st.integers(1, 7), epoch=st.integers(0, 3)
)
def test_batches_hold_every_example_once(sizes: list[int], batch_size: int, epoch: int) -> None:
    batches = batches_of(sizes, batch_size, 0, epoch)
    assert sorted(k for batch in batches for k in batch) == list(range(len(sizes)))
    assert max(map(len, batches)) <= batch_size
    assert batches == batches_of(sizes, batch_size, 0, epoch)


def test_like_lengths_share_a_batch_in_an_order_that_changes() -> None:
    sizes = [k % 40 for k in range(10 * POOL)]
    one, two = (batches_of(sizes, 10, 0, epoch) for epoch in (0, 1))
    assert one != two and one != batches_of(sizes, 10, 1, 0)
    assert max(max(sizes[k] for k in batch) - min(sizes[k] for k in batch) for batch in one) <= 2
    lengths = [sizes[batch[0]] for batch in one]
    assert lengths != sorted(lengths)


# ---- settings


def test_settings_come_back_from_json() -> None:
    config = FitSettings(seed=3, elmo_at="both")
    assert settings_from_json(FitSettings, asdict(config), "here") == config
    with pytest.raises(FormatError, match=r"here: expected settings of this version of elmokit, found odd"):
        settings_from_json(FitSettings, {**asdict(config), "odd": 1}, "here")


def test_settings_of_an_older_version_come_back() -> None:
    """A field that was added later has its default; one that was renamed is read under its old name."""
    old = asdict(FitSettings(seed=3, optimizer="adadelta"))
    old["optimiser"] = old.pop("optimizer")
    del old["train_fraction"]
    assert settings_from_json(FitSettings, old, "here") == FitSettings(seed=3, optimizer="adadelta")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "epochs: expected at least 1, found 0"),
        ("dropout", 1.0, "dropout: expected less than 1, found 1.0"),
        ("optimizer", "sgd", "optimizer: expected adam or adadelta, found 'sgd'"),
        ("seed", 0.5, "seed: expected an integer"),
        ("learning_rate", "fast", "learning_rate: expected a number"),
    ],
)
def test_limits_name_the_flag(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FitSettings(**{name: value})
