"""AllenNLP state dicts, written here from published arrays as AllenNLP's own loader fills its modules."""

from __future__ import annotations

import json
import zipfile
from collections import OrderedDict

import numpy as np
import oracle
import pytest
import torch
from full_disk import file_size_limit

from elmokit import weights
from elmokit.errors import FormatError, OutputError
from elmokit.weights import MixWeights, allennlp

SENTENCE = ["Ein", "naïve", "test", "of", "<UNK>", "日本", "x" * 70]


def swap(blocks: np.ndarray) -> np.ndarray:
    """TensorFlow's i, j, f, o along the first axis to torch's i, f, g, o."""
    i, j, f, o = np.split(blocks, 4)
    return np.concatenate([i, f, j, o])


def state_dict(options, arrays, root=""):
    """What `Elmo(options, weights, 2).state_dict()` holds."""
    found = {}
    embedder, lstm = root + "_elmo_lstm._token_embedder.", root + "_elmo_lstm._elmo_lstm."
    e = options["char_cnn"]["embedding"]["dim"]
    found[embedder + "_char_embedding_weights"] = np.concatenate([np.zeros((1, e), "f4"), arrays["char_embed"]])
    for i in range(len(options["char_cnn"]["filters"])):
        found[f"{embedder}char_conv_{i}.weight"] = arrays[f"CNN/W_cnn_{i}"].squeeze(0).transpose(2, 1, 0)
        found[f"{embedder}char_conv_{i}.bias"] = arrays[f"CNN/b_cnn_{i}"]
    for k in range(options["char_cnn"]["n_highway"]):
        transform, carry = arrays[f"CNN_high_{k}/W_transform"].T, -arrays[f"CNN_high_{k}/W_carry"].T
        found[f"{embedder}_highways._layers.{k}.weight"] = np.concatenate([transform, carry])
        transform, carry = arrays[f"CNN_high_{k}/b_transform"], -arrays[f"CNN_high_{k}/b_carry"]
        found[f"{embedder}_highways._layers.{k}.bias"] = np.concatenate([transform, carry])
    found[embedder + "_projection.weight"] = arrays["CNN_proj/W_proj"].T
    found[embedder + "_projection.bias"] = arrays["CNN_proj/b_proj"]
    d, c = options["lstm"]["projection_dim"], options["lstm"]["dim"]
    for direction, side in enumerate(("forward", "backward")):
        for layer in range(options["lstm"]["n_layers"]):
            theirs, name = f"{lstm}{side}_layer_{layer}.", oracle.lstm_name(direction, layer)
            kernel, bias = arrays[f"{name}/W_0"].T, arrays[f"{name}/B"].copy()
            bias[2 * c : 3 * c] += 1
            found[theirs + "input_linearity.weight"] = swap(kernel[:, :d])
            found[theirs + "state_linearity.weight"] = swap(kernel[:, d:])
            found[theirs + "state_linearity.bias"] = swap(bias)
            found[theirs + "state_projection.weight"] = arrays[f"{name}/W_P_0"].T
    return OrderedDict((name, torch.tensor(np.ascontiguousarray(array))) for name, array in found.items())


def with_mixes(found, root=""):
    for n in range(2):
        found[f"{root}scalar_mix_{n}.gamma"] = torch.tensor([1.5 + n])
        for k in range(3):
            found[f"{root}scalar_mix_{n}.scalar_parameters.{k}"] = torch.tensor([0.25 * k - n])
    return found


MIXES = (MixWeights((0.0, 0.25, 0.5), 1.5), MixWeights((-1.0, -0.75, -0.5), 2.5))


@pytest.mark.parametrize("root", ["", "text_field_embedder.token_embedder_elmo._elmo."])
@pytest.mark.parametrize("legacy", [False, True])
def test_state_dict_without_options(root, legacy, tmp_path, run, published):
    options, arrays = published
    found = with_mixes(state_dict(options, arrays, root), root)
    found["encoder.weight"] = torch.ones(3, 3)  # of the task
    torch.save(found, tmp_path / "best.th", _use_new_zipfile_serialization=not legacy)
    model = weights.load(tmp_path / "best.th")
    assert model.format == "AllenNLP state dict" and model.mixes == MIXES and model.config.state == "warm"
    np.testing.assert_allclose(run(model), oracle.embed(SENTENCE, options, arrays), atol=2e-5)


def test_options_beside_tell_what_tensors_cannot(tmp_path, run):
    options, arrays = oracle.random_model(
        np.random.default_rng(1), activation="tanh", cell_clip=0.3, proj_clip=None, n_highway=2, n_layers=3
    )
    torch.save(state_dict(options, arrays), tmp_path / "elmo.pt")
    (tmp_path / "elmo_options.json").write_text(json.dumps(options))
    np.testing.assert_allclose(run(weights.load(tmp_path)), oracle.embed(SENTENCE, options, arrays), atol=2e-5)
    options["lstm"]["dim"] = 16
    (tmp_path / "elmo_options.json").write_text(json.dumps(options))
    with pytest.raises(FormatError, match=r"input_linearity.weight of shape \(64, 6\), found \(48, 6\)"):
        weights.load(tmp_path)


def test_the_inner_bilm_alone(tmp_path, run, published):
    options, arrays = published
    found = {name.removeprefix("_elmo_lstm."): tensor for name, tensor in state_dict(options, arrays).items()}
    torch.save(found, tmp_path / "bilm.bin")
    np.testing.assert_allclose(run(weights.load(tmp_path)), oracle.embed(SENTENCE, options, arrays), atol=2e-5)


def test_round_trip_is_exact(tmp_path, published):
    expected = with_mixes(state_dict(*published))
    torch.save(expected, tmp_path / "a.th")
    model = weights.load(tmp_path / "a.th")
    allennlp.save(model, tmp_path / "b")
    again = torch.load(tmp_path / "b" / "elmo.th", weights_only=True)
    assert again.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(again[name].view(torch.int32), tensor.view(torch.int32)), name
    weights.save(model, tmp_path / "native")
    assert weights.load(tmp_path / "native").mixes == MIXES


def test_same_network_as_the_published_file(tmp_path, write_hdf5, published):
    torch.save(state_dict(*published), tmp_path / "a.th")
    folder = write_hdf5(tmp_path / "hdf5", *published)
    assert weights.load(tmp_path / "a.th").fingerprint == weights.load(folder).fingerprint


def test_a_trained_padding_row_is_dropped(tmp_path, published):
    found = state_dict(*published)
    found["_elmo_lstm._token_embedder._char_embedding_weights"][0] = 3.0
    torch.save(found, tmp_path / "a.th")
    assert not weights.load(tmp_path / "a.th").bilm.token_encoder.char_embedding[0].any()


def test_models_that_allennlp_has_not(tmp_path, write_hdf5):
    folder = write_hdf5(tmp_path / "m", *oracle.random_model(np.random.default_rng(0), skip=False))
    with pytest.raises(OutputError, match="skip connections"):
        allennlp.state_dict(weights.load(folder))


LAYER = "_elmo_lstm._elmo_lstm.forward_layer_1."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({LAYER + "state_linearity.bias": None}, "expected tensor .*forward_layer_1.state_linearity.bias of shape"),
        ({LAYER + "state_linearity.bias": torch.full((48,), torch.nan)}, "finite numbers in .*bias, found nan"),
        ({LAYER + "input_linearity.weight": torch.zeros(48, 5)}, r"of shape \(48, 6\), found \(48, 5\)"),
        ({LAYER + "input_linearity.weight": torch.zeros(1, 1).expand(10**6, 10**6)}, "sparse or expanded"),
        ({LAYER.replace("1", "3") + "state_linearity.bias": torch.zeros(48)}, "expected no .*forward_layer_3"),
        ({"b._elmo_lstm._token_embedder._char_embedding_weights": torch.zeros(262, 4)}, "found 2 of them"),
        ({"_elmo_lstm._token_embedder._char_embedding_weights": torch.zeros(261, 4)}, r"\(262, 4\), found \(261, 4\)"),
        ({"_elmo_lstm._token_embedder.char_conv_0.weight": torch.zeros(3, 4)}, "char_conv_0.weight with 3 dimensions"),
        ({"scalar_mix_0.gamma": torch.ones(1)}, "3 scalar_parameters"),
    ],
)
def test_tensors_that_do_not_fit(change, message, tmp_path, published):
    found = state_dict(*published) | change
    torch.save({name: tensor for name, tensor in found.items() if tensor is not None}, tmp_path / "a.th")
    with pytest.raises(FormatError, match=message) as error:
        weights.load(tmp_path / "a.th")
    assert "\n" not in str(error.value)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_pickle_is_refused_and_not_run(legacy, tmp_path):
    content = {"_elmo_lstm._token_embedder._char_embedding_weights": Malicious(str(tmp_path / "owned"))}
    torch.save(content, tmp_path / "a.th", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(FormatError, match="a pickle of tensors and nothing else; it was refused") as error:
        weights.load(tmp_path / "a.th")
    assert "\n" not in str(error.value) and not (tmp_path / "owned").exists()


@pytest.mark.parametrize("content", [{}, {"a": 1}, [torch.ones(1)], {"encoder.weight": torch.ones(2)}])
def test_pickles_of_something_else(content, tmp_path):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(FormatError, match="expected"):
        weights.load(tmp_path / "a.pt")


@pytest.mark.parametrize("legacy", [False, True])
def test_truncated(legacy, tmp_path, published):
    torch.save(state_dict(*published), tmp_path / "a.th", _use_new_zipfile_serialization=not legacy)
    content = (tmp_path / "a.th").read_bytes()
    for size in (2, 100, len(content) // 2, len(content) - 10):
        (tmp_path / "a.th").write_bytes(content[:size])
        with pytest.raises(FormatError) as error:
            weights.load(tmp_path / "a.th")
        assert "\n" not in str(error.value)


def test_a_compressed_state_dict_is_refused_before_it_unfolds(tmp_path, published):
    """torch.load would unpack it: a thousandfold, if it is a bomb."""
    torch.save(state_dict(*published), tmp_path / "a.th")
    with zipfile.ZipFile(tmp_path / "a.th") as plain, zipfile.ZipFile(tmp_path / "b.th", "w") as packed:
        for info in plain.infolist():
            packed.writestr(info.filename, plain.read(info), zipfile.ZIP_DEFLATED)
    assert torch.load(tmp_path / "b.th", weights_only=True).keys() == state_dict(*published).keys()
    with pytest.raises(FormatError, match=r"as torch.save writes it, found a compressed one"):
        weights.load(tmp_path / "b.th")


@pytest.mark.parametrize("limit", [500, 9000])
def test_a_full_disk_is_one_line(limit, tmp_path, write_hdf5, published):
    model = weights.load(write_hdf5(tmp_path / "m", *published))
    with file_size_limit(limit), pytest.raises(OutputError, match=r"elmo.th: cannot be written; is the disk") as error:
        allennlp.save(model, tmp_path / "new")
    assert "\n" not in str(error.value) and [path.name for path in tmp_path.iterdir()] == ["m"]
