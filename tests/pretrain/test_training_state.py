"""Training state: saved, restored and continued bit for bit."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import synthetic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.errors import FormatError
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import train
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
from elmokit.training import checkpoint
from elmokit.training.checkpoint import Checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")

N_STEPS = 10


KINDS = {
    "adam, full, dropout": {"dropout": 0.3},
    "adagrad, sampled": {"optimizer": "adagrad", "loss": "sampled", "learning_rate": 0.2, "loss_scale": 20.0},
    "adam, adaptive, accumulated": {"loss": "adaptive", "accumulate": 2},
    "epochs, cosine": {"steps": None, "epochs": 0.6, "decay": "cosine"},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("text") / "train.txt", 120)


@pytest.fixture(scope="module", params=KINDS)
def uninterrupted(request: pytest.FixtureRequest, text: Path) -> tuple[dict[str, object], Checkpoint]:
    """Changes of the settings, and what a run with them ends with."""
    changes: dict[str, object] = {"steps": N_STEPS} | KINDS[request.param]
    state = synthetic.state(text, **changes)
    for _ in train(state, Corpus(str(text))):
        pass
    return changes, state.to_checkpoint()


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(breaks=st.lists(st.integers(1, N_STEPS), min_size=1, max_size=3))
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(
    tmp_path: Path, text: Path, uninterrupted: tuple[dict[str, object], Checkpoint], breaks: list[int]
) -> None:
    changes, expected = uninterrupted
    state = synthetic.state(text, **changes)
    for n in breaks:
        for _ in islice(train(state, Corpus(str(text))), n):
            pass
        path = checkpoint.write(state.to_checkpoint(), tmp_path)
        state = TrainingState.from_checkpoint(checkpoint.read(path))
    for _ in train(state, Corpus(str(text))):
        pass
    assert synthetic.same(state.to_checkpoint(), expected)


def test_a_checkpoint_of_an_older_version_goes_on(text: Path) -> None:
    """Its settings have a former name and lack a field; its tensors are under `optimiser.`, as they still are."""
    state = synthetic.state(text)
    next(iter(train(state, Corpus(str(text)))))
    kept = state.to_checkpoint()
    assert any(name.startswith("optimiser.") for name in kept.tensors)
    old = json.loads(json.dumps(kept.record["settings"]))
    old["optimiser"] = old.pop("optimizer")
    del old["accumulate"]
    again = TrainingState.from_checkpoint(Checkpoint({**kept.record, "settings": old}, kept.tensors))
    assert again.settings == state.settings
    assert len(again.optimizer.state) == len(state.optimizer.state) > 0
    with pytest.raises(FormatError, match="expected settings of this version of elmokit, found odd"):
        TrainingSettings.from_json({**old, "odd": 1})
