"""Run folders: evaluation, export, interruption and resumption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import synthetic
from full_disk import file_size_limit

from elmokit import weights
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.loop import TrainingStep
from elmokit.pretrain.perplexity import perplexity
from elmokit.pretrain.pretrain_run import CHECKPOINTS, HeldoutEvaluation, PretrainRun, open_run
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.training import checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("text") / "train.txt", 120)


@pytest.fixture(scope="module")
def heldout(text: Path) -> Path:
    return synthetic.write(text.with_name("dev.txt"), 20, seed=1)


def start(folder: Path, text: Path, heldout: Path | None = None, **changes: object) -> PretrainRun:
    return open_run(
        folder,
        Processes(),
        lambda: synthetic.state(text, heldout=heldout and str(heldout), **changes),
    )


def resume(folder: Path, **given: object) -> PretrainRun:
    def begin() -> TrainingState:
        raise AssertionError("there is a run already")

    return open_run(folder, Processes(), begin, resume=True, given=given)


def test_the_folder_of_a_run_is_a_model_with_the_best_weights(tmp_path: Path, text: Path, heldout: Path) -> None:
    run = start(tmp_path / "run", text, heldout)
    events = list(run.go())
    looks = [event for event in events if isinstance(event, HeldoutEvaluation)]
    assert [look.step for look in looks] == [4, 8, 12]
    best = min(looks, key=lambda look: look.perplexity.geometric_mean)
    model = weights.load(tmp_path / "run")
    found = perplexity(model, read_lines(heldout))
    assert found.geometric_mean == pytest.approx(best.perplexity.geometric_mean, rel=1e-5)
    assert model.config.state == "reset"
    assert model.card is not None
    for fact in ("train.txt", "dev.txt", f"{run.state.tokens:,}", f"{best.perplexity.mean:.2f} their mean"):
        assert fact in model.card
    assert str(tmp_path) not in model.card
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert kinds.count("step") == 12 and kinds.count("heldout") == 3
    assert all(look.sample.count(",") >= 4 for look in looks)


def test_weights_that_got_worse_are_not_exported(tmp_path: Path, text: Path, heldout: Path) -> None:
    run = start(tmp_path / "run", text, heldout, steps=12)
    for event in run.go():
        if isinstance(event, HeldoutEvaluation) and event.step == 8:
            for parameter in run.state.head.parameters():
                parameter.data.mul_(-5)  # from now on it is bad
    assert run.state.best is not None and run.state.best["step"] == 8
    found = perplexity(weights.load(tmp_path / "run"), read_lines(heldout))
    assert found.geometric_mean == pytest.approx(run.state.best["geometric_mean"], rel=1e-5)
    assert checkpoint.path_of(tmp_path / "run" / CHECKPOINTS, int(run.state.best["step"])).exists()


def test_the_best_weights_stay_when_their_checkpoint_is_damaged(tmp_path: Path, text: Path, heldout: Path) -> None:
    run = start(tmp_path / "run", text, heldout, steps=12)
    for event in run.go():
        if isinstance(event, HeldoutEvaluation) and event.step == 8:
            for parameter in run.state.head.parameters():
                parameter.data.mul_(-5)
        if isinstance(event, HeldoutEvaluation) and event.step == 12:
            checkpoint.path_of(tmp_path / "run" / CHECKPOINTS, 8).write_bytes(b"cut short")
    assert run.state.best is not None and run.state.best["step"] == 8
    assert run.lost is not None and "step-000000008" in run.lost
    found = perplexity(weights.load(tmp_path / "run"), read_lines(heldout))
    assert found.geometric_mean == pytest.approx(run.state.best["geometric_mean"], rel=1e-5)


def test_a_killed_run_goes_on_and_its_metrics_do_not_repeat(tmp_path: Path, text: Path, heldout: Path) -> None:
    whole = start(tmp_path / "whole", text, heldout)
    list(whole.go())
    run = start(tmp_path / "run", text, heldout)
    for event in run.go():
        if isinstance(event, TrainingStep) and event.step == 10:
            break  # as if killed: the last checkpoint is that of step 8
    del run
    again = resume(tmp_path / "run")
    assert again.state.step == 8
    list(again.go())
    assert synthetic.same(again.state.to_checkpoint(), whole.state.to_checkpoint())
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == list(range(1, 13))
    for name in ("weights.safetensors", "softmax.safetensors", "vocabulary.txt", "options.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    finished = resume(tmp_path / "run")
    assert not list(finished.go())


def test_a_resume_with_other_settings_names_them(tmp_path: Path, text: Path) -> None:
    start(tmp_path, text)
    with pytest.raises(ConfigError, match=r"accumulate 1 in the run, 2 now; dropout 0.1 in the run, 0.2 now"):
        resume(tmp_path, accumulate=2, dropout=0.2, seed=0)
    assert resume(tmp_path, steps=30, heldout_every=5).state.settings.steps == 30
    assert resume(tmp_path, epochs=2.0).state.settings.steps is None


def test_a_resume_wants_the_same_heldout_text(tmp_path: Path, text: Path, heldout: Path) -> None:
    start(tmp_path / "run", text, heldout)
    before = heldout.read_bytes()
    heldout.write_bytes(before + b"one more sentence\n")
    with pytest.raises(InputError, match=r"expected the held-out text that the run began with, found another"):
        resume(tmp_path / "run")
    heldout.write_bytes(before)
    list(resume(tmp_path / "run").go())


def test_what_a_resume_has_changed_is_remembered_at_once(tmp_path: Path, text: Path) -> None:
    """Also by a run that was killed before its next checkpoint."""
    list(start(tmp_path, text, steps=6).go())
    changed = resume(tmp_path, steps=9, batch_tokens=120).state
    again = resume(tmp_path).state
    assert (again.settings, again.position) == (changed.settings, changed.position)
    assert (again.settings.steps, again.settings.batch_tokens, again.position.batch) == (9, 120, 3)


def test_a_longer_run_goes_on_from_a_complete_one(tmp_path: Path, text: Path) -> None:
    list(start(tmp_path, text, steps=3).go())
    longer = resume(tmp_path, steps=5)
    assert [event.step for event in longer.go() if isinstance(event, TrainingStep)] == [4, 5]


def test_a_run_is_not_overwritten_by_accident(tmp_path: Path, text: Path) -> None:
    start(tmp_path / "run", text)
    with pytest.raises(OutputError, match="already contains a run; continue it with resume=True"):
        start(tmp_path / "run", text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="found other files"):
            open_run(tmp_path / "mine", Processes(), lambda: synthetic.state(text), overwrite=overwrite)
    with pytest.raises(OutputError, match="found other files"):
        open_run(tmp_path / "mine", Processes(), lambda: synthetic.state(text), resume=True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_full_disk_ends_a_run_that_can_go_on(tmp_path: Path, text: Path) -> None:
    run = start(tmp_path, text, log_every=100)
    with file_size_limit(20_000), pytest.raises(OutputError, match="cannot be written"):
        list(run.go())
    again = resume(tmp_path)
    assert again.state.step == 0
    list(again.go())


def test_shards_that_disappear(tmp_path: Path, text: Path) -> None:
    shards = [synthetic.write(tmp_path / f"{k}.txt", 30, seed=k) for k in range(3)]
    run = start(tmp_path / "run", tmp_path / "?.txt", steps=100, batch_tokens=30)
    with pytest.raises(InputError, match=r"found none; restore it, then resume"):
        for event in run.go():
            if isinstance(event, TrainingStep) and event.step == 1:
                content = {path: path.read_bytes() for path in shards}
                for path in shards:
                    path.unlink()
    for path in shards[1:]:
        path.write_bytes(content[path])
    kept = resume(tmp_path / "run")
    assert kept.state.step
    with pytest.raises(InputError, match="expected the 3 files"):
        list(kept.go())


def test_an_empty_heldout_text_is_told_at_once(tmp_path: Path, text: Path) -> None:
    (tmp_path / "dev.txt").write_text("\n\n")
    with pytest.raises(InputError, match="expected held-out sentences, found none"):
        start(tmp_path / "run", text, tmp_path / "dev.txt")
    assert not (tmp_path / "run").exists()
