"""Fine-tuning: from models with a softmax and from those without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import oracle
import pytest
import synthetic
import torch

from elmokit import weights
from elmokit.embed.predict import predict_next
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, OutputError
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.finetune import finetune
from elmokit.pretrain.perplexity import perplexity
from elmokit.pretrain.pretrain_run import CHECKPOINTS, SOFTMAX, PretrainRun, open_run
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.training import checkpoint


@pytest.fixture
def domain(tmp_path: Path) -> dict[str, Any]:
    """Text where all is otherwise: cats grow and oaks run."""
    for name, seed, n in (("domain.txt", 2, 150), ("domain-dev.txt", 3, 20)):
        path = synthetic.write(tmp_path / name, n, seed)
        swapped = path.read_text().replace("runs", "?").replace("grows", "runs").replace("?", "grows")
        path.write_text(swapped)
    return {
        "train": (str(tmp_path / "domain.txt"),),
        "heldout": str(tmp_path / "domain-dev.txt"),
        "batch_tokens": 100,
        "steps": 20,
        "heldout_every": 10,
        "checkpoint_every": 10,
        "log_every": 5,
        "warm_up": 2,
        "learning_rate": 0.02,
    }


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A model that was trained a little."""
    text = synthetic.write(tmp_path / "train.txt", 150)
    list(open_run(tmp_path / "parent", Processes(), lambda: synthetic.state(text, steps=40)).go())
    return tmp_path / "parent"


def complete(name: Path, folder: Path, given: dict[str, Any], **options: Any) -> tuple[list[PretrainRun], list[str]]:
    said: list[str] = []
    runs = []
    for run in finetune(str(name), folder, Processes(), given=given, say=said.append, **options):
        for _ in run.go():
            pass
        runs.append(run)
    return runs, said


def test_a_model_with_a_softmax_goes_on_with_it(tmp_path: Path, parent: Path, domain: dict[str, Any]) -> None:
    [run], said = complete(parent, tmp_path / "out", domain)
    dev = Path(domain["heldout"])
    before, after = (perplexity(weights.load(folder), read_lines(dev)).mean for folder in (parent, tmp_path / "out"))
    assert said == [f"held-out perplexity before: {before:,.2f}"]
    assert after < before - 1
    tuned = weights.load(tmp_path / "out")
    assert tuned.vocabulary == weights.load(parent).vocabulary
    assert tuned.card is not None and f"| {before:.2f} |" in tuned.card and str(parent) in tuned.card
    assert run.state.best is not None and run.state.best["mean"] == pytest.approx(after, rel=1e-5)


def test_a_model_that_gets_worse_stays_as_it_was(tmp_path: Path, parent: Path, domain: dict[str, Any]) -> None:
    complete(parent, tmp_path / "out", {**domain, "learning_rate": 5.0, "clip": 1e6, "steps": 1})
    old, new = (weights.load(folder).bilm.state_dict() for folder in (parent, tmp_path / "out"))
    assert all(torch.equal(old[name], new[name]) for name in old)


def test_published_weights_get_a_softmax_first(tmp_path: Path, domain: dict[str, Any]) -> None:
    options, arrays = oracle.random_model(np.random.default_rng(0))
    published = models.write(tmp_path / "published", options, arrays)
    (fit, run), said = complete(published, tmp_path / "out", domain)
    assert "has no softmax over these words; fitting one first, with all other weights frozen" in said[0]
    assert said[1].startswith("held-out perplexity before: ")
    old, fitted = (weights.load(folder).bilm.state_dict() for folder in (published, tmp_path / "out" / SOFTMAX))
    assert all(torch.equal(old[name], fitted[name]) for name in old)
    assert fit.state.best is not None and run.state.best is not None
    assert run.state.notes["before"] == pytest.approx(fit.state.best["mean"], rel=1e-5)
    assert run.state.best["mean"] < fit.state.best["mean"]
    tuned = weights.load(tmp_path / "out")
    assert tuned.config.state == "reset" and weights.load(published).config.state == "warm"
    assert tuned.vocabulary is not None and "cat" in tuned.vocabulary
    assert not torch.equal(tuned.bilm.state_dict()["forward_layers.0.bias"], old["forward_layers.0.bias"])


def test_other_words_need_another_softmax(tmp_path: Path, parent: Path, domain: dict[str, Any]) -> None:
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\ncat\nruns\n")
    runs, _ = complete(parent, tmp_path / "out", {**domain, "vocabulary": str(tmp_path / "words.txt"), "steps": 4})
    assert len(runs) == 2
    assert weights.load(tmp_path / "out").vocabulary == ("<S>", "</S>", "<UNK>", "the", "cat", "runs")


def test_it_goes_on_after_a_crash_in_either_run(tmp_path: Path, domain: dict[str, Any]) -> None:
    published = models.write(tmp_path / "published", *oracle.random_model(np.random.default_rng(0)))
    complete(published, tmp_path / "whole", domain)
    given = domain
    for crash_in in (0, 1):
        runs = finetune(str(published), tmp_path / "out", Processes(), given=given, resume=True)
        for number, run in enumerate(runs):
            for event in run.go():
                if number == crash_in and event.step == 15:
                    break
            if number == crash_in:
                break
        given = {}  # all is remembered, also by the run that has not begun yet
    complete(published, tmp_path / "out", {}, resume=True)
    for name in ("weights.safetensors", "softmax.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_in_the_way(tmp_path: Path, parent: Path, domain: dict[str, Any]) -> None:
    """Also one that was interrupted while it fitted a softmax."""
    next(finetune(str(parent), tmp_path / "out", Processes(), given={**domain, "loss": "adaptive"}))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [SOFTMAX]
    with pytest.raises(OutputError, match="already contains a run"):
        complete(parent, tmp_path / "out", domain)
    next(finetune(str(parent), tmp_path / "out", Processes(), given=domain, overwrite=True))
    assert not (tmp_path / "out" / SOFTMAX).exists()


def test_a_model_is_not_replaced_by_its_own_fine_tuning(parent: Path, domain: dict[str, Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in parent.rglob("*")}
    for name, option in ((parent, "overwrite"), (parent / "weights.safetensors", "overwrite"), (parent, "resume")):
        with pytest.raises(ConfigError, match="expected a folder other than that of the model"):
            complete(name, parent, domain, **{option: True})
    assert {path: path.stat().st_mtime_ns for path in parent.rglob("*")} == before


def test_sentences_that_are_also_trained_on_are_counted_once(
    tmp_path: Path, domain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    published = models.write(tmp_path / "published", *oracle.random_model(np.random.default_rng(0)))
    Path(domain["heldout"]).write_text("never seen\n" + Path(domain["train"][0]).read_text().splitlines()[5])
    first, _ = complete(published, tmp_path / "out", {**domain, "steps": 1}, resume=True)
    monkeypatch.setattr("elmokit.pretrain.pretrain_run.count_overlap", None)  # a run that goes on knows it
    again, _ = complete(published, tmp_path / "out", {}, resume=True)
    assert [run.state.notes["overlap"] for run in (*first, *again)] == [1, 1, 1, 1]


# ---- adaptive softmax


@pytest.fixture
def in_tiers(tmp_path: Path) -> Path:
    text = synthetic.write(tmp_path / "train.txt", 150)
    state = synthetic.state(text, steps=40, loss="adaptive", heldout=str(synthetic.write(tmp_path / "dev.txt", 20, 1)))
    list(open_run(tmp_path / "tiers", Processes(), lambda: state).go())
    return tmp_path / "tiers"


def test_a_softmax_in_tiers_is_part_of_the_model(tmp_path: Path, in_tiers: Path) -> None:
    """Weights and tiers are those of the trainer's best step."""
    model = weights.load(in_tiers)
    kept, _ = checkpoint.latest(in_tiers / CHECKPOINTS, lambda found: None)
    assert kept is not None
    best = TrainingState.from_checkpoint(
        checkpoint.read(checkpoint.path_of(in_tiers / CHECKPOINTS, kept.record["best"]["step"]))
    )
    assert isinstance(best.head, AdaptiveHead) and isinstance(model.softmax(), AdaptiveHead)
    lines = (tmp_path / "dev.txt").read_text().splitlines()
    found = perplexity(model, lines)
    assert found == perplexity(best.model(), lines)
    assert found.mean == pytest.approx(kept.record["best"]["mean"], rel=1e-6)
    for direction in ("forward", "backward"):
        words = predict_next(
            model,
            WordReader(model),
            "the red",
            direction=direction,
            top=100,
            exclude=(),  # type: ignore[arg-type]
        )
        assert len(words) == len(model.vocabulary or ())
        assert sum(word.probability for word in words) == pytest.approx(1, abs=1e-5)
    weights.save(model, tmp_path / "half", half=True)
    assert perplexity(weights.load(tmp_path / "half"), lines).mean == pytest.approx(found.mean, rel=1e-2)


def test_tiers_go_on_as_tiers(tmp_path: Path, in_tiers: Path, domain: dict[str, Any]) -> None:
    [run], said = complete(in_tiers, tmp_path / "out", domain)
    assert isinstance(run.state.head, AdaptiveHead) and run.state.settings.loss == "adaptive"
    before, after = (
        perplexity(weights.load(folder), read_lines(domain["heldout"])).mean for folder in (in_tiers, tmp_path / "out")
    )
    assert said == [f"held-out perplexity before: {before:,.2f}"] and after < before - 1


@pytest.mark.parametrize(
    ("loss", "kind"), [("full", SoftmaxHead), ("sampled", SoftmaxHead), ("adaptive", AdaptiveHead)]
)
def test_another_kind_of_softmax_is_fitted_first(
    tmp_path: Path, in_tiers: Path, parent: Path, domain: dict[str, Any], loss: str, kind: type
) -> None:
    other = parent if kind is AdaptiveHead else in_tiers
    given = {**domain, "loss": loss, "n_samples": 10, "steps": 2}
    runs, said = complete(other, tmp_path / "out", given)
    assert len(runs) == 2 and f"has no {loss} softmax over these words; fitting one first" in said[0]
    assert isinstance(weights.load(tmp_path / "out").softmax(), kind)
