"""Our own folder: exact, half, atomic."""

from __future__ import annotations

import json
import os

import numpy as np
import oracle
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmokit import weights
from elmokit.disk import whole
from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.softmax import AdaptiveHead, assemble_head
from elmokit.weights import MixWeights, native


@pytest.fixture
def model(tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "source", *published)
    model = weights.load(folder)
    model.vocabulary = ("<S>", "</S>", "<UNK>", " ", "\u2028", "日本", "")
    model.card = "---\nlanguage: en\nlicense: cc-by-4.0\n---\n# A model\n"
    model.mixes = (MixWeights((0.1, 0.2, 0.3), 1.25),)
    model.read_softmax = lambda: assemble_head({"weight": torch.arange(42.0).reshape(7, 6), "bias": torch.ones(7)})
    return model


def same(a, b):
    """Whether two modules are of one kind, with the same numbers."""
    a_, b_ = a.state_dict(), b.state_dict()
    return type(a) is type(b) and a_.keys() == b_.keys() and all(torch.equal(a_[name], b_[name]) for name in a_)


def test_round_trip_is_exact(tmp_path, model):
    weights.save(model, tmp_path / "m")
    again = weights.load(tmp_path / "m")
    assert again.format == "native" and again.license == "cc-by-4.0"
    for name in ("config", "vocabulary", "alphabet", "card", "mixes", "fingerprint", "parameter_count"):
        assert getattr(again, name) == getattr(model, name), name
    for name, tensor in model.bilm.state_dict().items():
        assert torch.equal(again.bilm.state_dict()[name], tensor), name
    assert same(again.softmax(), model.softmax())
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "README.md",
        "options.json",
        "softmax.safetensors",
        "vocabulary.txt",
        "weights.safetensors",
    ]
    assert {path.name for path in again.files} == {path.name for path in (tmp_path / "m").iterdir()}


@pytest.mark.parametrize("cutoffs", [None, (2,), (1, 4)])
def test_a_softmax_in_tiers(cutoffs, tmp_path, model):
    torch.manual_seed(0)
    head = AdaptiveHead(n_words=7, dim=6, cutoffs=cutoffs)
    model.read_softmax = lambda: head
    weights.save(model, tmp_path / "m")
    again = weights.load(tmp_path / "m").softmax()
    assert same(again, head) and again.tiers.cutoffs == head.tiers.cutoffs
    x = torch.randn(3, 6)
    assert torch.equal(again.log_probabilities(x), head.log_probabilities(x))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "found none"),
        ({"weight": torch.ones(7, 6)}, r"found weight \(7, 6\)"),
        ({"weight": torch.ones(7, 6), "bias": torch.ones(6)}, r"weight \(7, 6\), bias \(6,\)|bias .*, weight"),
        ({"weight": torch.ones(7), "bias": torch.ones(7)}, "expected weight"),
        ({"weight": torch.ones(7, 5), "bias": torch.ones(7)}, "expected a softmax of dimension 6, .* found 5"),
        ({"weight": torch.ones(6, 6), "bias": torch.ones(6)}, "expected 7 rows, one per word .*, found 6"),
        ({"tiers.head.weight": torch.ones(3, 6), "tiers.head.bias": torch.ones(3)}, "or tiers, found"),
        ({"tiers.head.weight": torch.ones(3, 6), "tiers.tail.0.1.weight": torch.ones(5, 3)}, "or tiers, found"),
        (
            {
                "tiers.head.weight": torch.ones(3, 6), "tiers.head.bias": torch.ones(3),
                "tiers.tail.0.0.weight": torch.ones(2, 6), "tiers.tail.0.1.weight": torch.ones(5, 2),
            },
            "or tiers, found",
        ),
    ],
)  # fmt: skip
def test_a_softmax_that_does_not_fit(tensors, message, tmp_path, model):
    weights.save(model, tmp_path / "m")
    save_file(tensors, tmp_path / "m" / "softmax.safetensors")
    with pytest.raises(FormatError, match=message) as error:
        weights.load(tmp_path / "m").softmax()
    assert "\n" not in str(error.value)


def test_weights_can_be_trained_without_touching_the_file(tmp_path, model):
    weights.save(model, tmp_path / "m")
    loaded = weights.load(tmp_path / "m")
    with torch.no_grad():
        for parameter in loaded.bilm.parameters():
            assert parameter.requires_grad
            parameter.add_(1)
    assert weights.load(tmp_path / "m").fingerprint == model.fingerprint


def test_a_packed_network_saves_the_same(tmp_path, model):
    fingerprint = model.fingerprint
    packed = weights.load(tmp_path / "source")
    optimize_(packed.bilm, "float32")
    assert packed.fingerprint == fingerprint and packed.parameter_count == model.parameter_count
    weights.save(packed, tmp_path / "m")
    assert weights.load(tmp_path / "m").fingerprint == fingerprint


def test_fingerprint_sees_weights_shape_and_words(tmp_path, write_hdf5):
    seen = set()
    for change in ({}, {"cell_clip": 2}, {"skip": False}, {"activation": "tanh"}, {"scale": 0.6}):
        options, arrays = oracle.random_model(np.random.default_rng(0), **change)
        seen.add(weights.load(write_hdf5(tmp_path / str(len(seen)), options, arrays)).fingerprint)
    options, arrays = oracle.random_model(np.random.default_rng(0), n_words=2)
    for words in ("a\nb\n", "b\na\n"):
        folder = write_hdf5(tmp_path / words[0], options, arrays)
        (folder / "vocab.txt").write_text(words)
        seen.add(weights.load(folder).fingerprint)
    assert len(seen) == 7


def test_half_precision(tmp_path, model):
    weights.save(model, tmp_path / "full")
    weights.save(model, tmp_path / "half", half=True)
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("half", "full")]
    assert sizes[0] < 0.6 * sizes[1]
    loaded = weights.load(tmp_path / "half").bilm.state_dict()
    for name, tensor in model.bilm.state_dict().items():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], tensor, rtol=1e-3, atol=1e-4)


def test_half_precision_that_overflows(tmp_path, model):
    with torch.no_grad():
        model.bilm.token_encoder.projection_bias[0] = 70_000
    with pytest.raises(OutputError, match="projection_bias has numbers too large for half precision"):
        weights.save(model, tmp_path / "m", half=True)
    assert not (tmp_path / "m").exists()


def test_state_policy_is_the_models_own(tmp_path, model):
    weights.save(model, tmp_path / "m")
    options = json.loads((tmp_path / "m" / "options.json").read_text())
    assert options["elmokit"]["state"] == "warm"
    options["elmokit"]["state"] = "reset"
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    assert weights.load(tmp_path / "m").config.state == "reset"
    options["elmokit"]["state"] = "none"
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    with pytest.raises(ConfigError, match=r"elmokit\.state"):
        weights.load(tmp_path / "m")


def test_license_without_a_card(tmp_path, model):
    model.card, model.license = None, "mit"
    weights.save(model, tmp_path / "m")
    assert weights.load(tmp_path / "m").license == "mit"


def test_an_existing_folder_stays(tmp_path, model):
    weights.save(model, tmp_path / "m")
    with pytest.raises(OutputError, match="exists already"):
        weights.save(model, tmp_path / "m")
    model.card = "other"
    weights.save(model, tmp_path / "m", overwrite=True)
    assert weights.load(tmp_path / "m").card == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "source"]


def test_only_models_are_overwritten(tmp_path, model):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="expected a model folder to overwrite"):
        weights.save(model, tmp_path / "home", overwrite=True)
    (tmp_path / "file").write_text("a file")
    with pytest.raises(OutputError, match="expected a model folder to overwrite"):
        weights.save(model, tmp_path / "file", overwrite=True)
    weights.save(model, tmp_path / "run")
    (tmp_path / "run" / "checkpoints").mkdir()
    with pytest.raises(OutputError, match="found also checkpoints; nothing was removed"):
        weights.save(model, tmp_path / "run", overwrite=True)
    assert (tmp_path / "home" / "thesis.tex").exists() and (tmp_path / "file").read_text() == "a file"
    assert (tmp_path / "run" / "checkpoints").exists()


def test_behind_a_link_the_folder_is_replaced(tmp_path, model):
    weights.save(model, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    model.card = "other"
    weights.save(model, tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink() and weights.load(tmp_path / "real").card == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real", "source"]


@pytest.mark.parametrize("where", ["write", "swap"])
def test_nothing_is_lost_when_saving_fails(where, tmp_path, model, monkeypatch):
    weights.save(model, tmp_path / "m")
    before = model.fingerprint

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if where == "write":
        monkeypatch.setattr(native, "write_side_files", fail)
    else:
        monkeypatch.setattr(whole, "exchange", lambda new, old: False)  # as where the system cannot
        monkeypatch.setattr(whole, "rename_new", fail)
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        weights.save(model, tmp_path / "m", overwrite=True)
    monkeypatch.undo()
    assert weights.load(tmp_path / "m").fingerprint == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "source"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path, model):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="cannot be written: Permission denied"):
        weights.save(model, tmp_path / "locked" / "m")


def edit(folder, change):
    tensors = load_file(folder / "weights.safetensors")
    change(tensors)
    save_file(tensors, folder / "weights.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.pop("forward_layers.1.bias"),
            r"expected tensor forward_layers.1.bias of shape \(48,\), found none",
        ),
        (lambda t: t.update({"forward_layers.1.bias": torch.zeros(4)}), r"of shape \(48,\), found \(4,\)"),
        (
            lambda t: t.update({"forward_layers.1.bias": torch.full((48,), torch.inf)}),
            "finite numbers in forward_layers.1",
        ),
        (lambda t: t.update({"forward_layers.1.bias": torch.zeros(48, dtype=torch.int8)}), "floating-point numbers in"),
        (lambda t: t.update({"unknown": torch.tensor(torch.nan)}), "finite numbers in unknown, found nan"),
        (
            lambda t: t.update({"backward_layers.2.bias": torch.zeros(48)}),
            r"expected no backward_layers.2.bias with these options, found \(48,\); do they belong together",
        ),
        (lambda t: t.clear(), "expected weights of 2 layers, found 0 tensors"),
    ],
)
def test_tensors_that_do_not_fit(change, message, tmp_path, model):
    weights.save(model, tmp_path / "m")
    edit(tmp_path / "m", change)
    with pytest.raises(FormatError, match=message):
        weights.load(tmp_path / "m")


def test_unknown_tensors_are_ignored(tmp_path, model):
    weights.save(model, tmp_path / "m")
    edit(tmp_path / "m", lambda t: t.update({"note": torch.zeros(3)}))
    assert weights.load(tmp_path / "m").fingerprint == model.fingerprint


@pytest.mark.parametrize("name", ["options.json", "weights.safetensors", "softmax.safetensors"])
@pytest.mark.parametrize("keep", [0, 5, 0.5])
def test_truncated_files(name, keep, tmp_path, model):
    weights.save(model, tmp_path / "m")
    content = (tmp_path / "m" / name).read_bytes()
    (tmp_path / "m" / name).write_bytes(content[: int(keep * len(content)) if keep < 1 else keep])
    with pytest.raises(FormatError) as error:
        weights.load(tmp_path / "m").softmax()
    assert "\n" not in str(error.value) and name in str(error.value)


@pytest.mark.parametrize(
    ("lstm", "message"), [({"n_layers": 10**12}, "1000000000000 layers"), ({"dim": 10**15}, "expected")]
)
def test_absurd_options(lstm, message, tmp_path, model):
    weights.save(model, tmp_path / "m")
    options = json.loads((tmp_path / "m" / "options.json").read_text())
    options["lstm"] |= lstm
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    with pytest.raises(FormatError, match=message):
        weights.load(tmp_path / "m")


def test_options_that_cannot_be_name_their_file(tmp_path, model):
    weights.save(model, tmp_path / "m")
    (tmp_path / "m" / "options.json").write_text('{"lstm": {"dim": 0}}')
    with pytest.raises(ConfigError, match=r"m/options.json: lstm.dim: expected a positive integer, found 0"):
        weights.load(tmp_path / "m")


def test_missing_options(tmp_path, model):
    weights.save(model, tmp_path / "m")
    (tmp_path / "m" / "options.json").unlink()
    with pytest.raises(FormatError, match=r"expected options.json beside weights.safetensors"):
        weights.load(tmp_path / "m")
