"""The published format, against a twin that computes straight from the file's arrays."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
from full_disk import file_size_limit

from elmokit import weights
from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.weights import bilm_hdf5

SENTENCE = ["Ein", "naïve", "test", "of", "<UNK>", "日本", "x" * 70]

VARIANTS = {
    "published": {},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "no LSTM projection": {"dim": 6, "projection_dim": 6},
    "no token projection": {"projection_dim": 12, "dim": 20},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "tight clips": {"cell_clip": 0.2, "proj_clip": 0.1},
    "no skips": {"skip": False},
    "no highway": {"n_highway": 0},
    "two highways, tanh": {"n_highway": 2, "activation": "tanh"},
    "short words": {"max_characters": 10},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shape_computes_what_the_file_says(variant, tmp_path, run, write_hdf5):
    options, arrays = oracle.random_model(np.random.default_rng(1), **VARIANTS[variant])
    model = weights.load(write_hdf5(tmp_path / "m", options, arrays))
    assert model.format == "bilm hdf5" and model.config.state == "warm"
    np.testing.assert_allclose(run(model), oracle.embed(SENTENCE, options, arrays), atol=2e-5)
    assert model.parameter_count == sum(array.size for array in arrays.values())


@pytest.mark.parametrize("n_characters", [261, 262])
def test_n_characters_is_only_a_flag(n_characters, tmp_path, run, write_hdf5, published):
    options, arrays = published
    options["char_cnn"]["n_characters"] = n_characters
    model = weights.load(write_hdf5(tmp_path / "m", options, arrays))
    np.testing.assert_allclose(run(model), oracle.embed(SENTENCE, options, arrays), atol=2e-5)


def test_unknown_options_are_kept_and_ignored(tmp_path, write_hdf5, published):
    options, arrays = published
    options |= {"reverse": True, "n_epochs": 10}
    assert weights.load(write_hdf5(tmp_path / "m", options, arrays)).config.extra == {"reverse": True, "n_epochs": 10}


def single_layer(name):
    return name.replace("MultiRNNCell/Cell0/", "")


def raw(name):
    for published, tensorflow in (
        ("/RNN/", "/rnn/"),
        ("/MultiRNNCell/", "/multi_rnn_cell/"),
        ("/Cell", "/cell_"),
        ("/LSTMCell/", "/lstm_cell/"),
        ("W_P_0", "projection/kernel"),
        ("/W_0", "/kernel"),
        ("/B", "/bias"),
    ):
        name = name.replace(published, tensorflow) if name.startswith("RNN_") else name
    return name


@pytest.mark.parametrize(
    ("rename", "layers"),
    [
        (single_layer, 1), (raw, 1), (raw, 2), (lambda name: "lm/" + raw(name), 2),
        (lambda name: raw(name).replace("multi_rnn_cell/cell_0/", ""), 1),
    ],
)  # fmt: skip
def test_other_names_of_the_same_datasets(rename, layers, tmp_path, run, write_hdf5):
    options, arrays = oracle.random_model(np.random.default_rng(2), n_layers=layers)
    model = weights.load(write_hdf5(tmp_path / "m", options, {rename(name): a for name, a in arrays.items()}))
    np.testing.assert_allclose(run(model), oracle.embed(SENTENCE, options, arrays), atol=2e-5)


VOCABULARY = ["<S>", "</S>", "<UNK>", "test", "of", "naïve"]


def test_word_input_model(tmp_path, run, write_hdf5):
    options, arrays = oracle.random_model(np.random.default_rng(3), n_words=len(VOCABULARY))
    folder = write_hdf5(tmp_path / "m", options, arrays)
    (folder / "vocab.txt").write_text("\n".join(["!!!MAXTERMID", *VOCABULARY]) + "\n", encoding="utf-8")
    model = weights.load(folder)
    assert model.vocabulary == tuple(VOCABULARY) and model.config.char_cnn is None
    expected = oracle.embed(SENTENCE, options, arrays, vocabulary=VOCABULARY)
    np.testing.assert_allclose(run(model, vocabulary=VOCABULARY), expected, atol=2e-5)
    bilm_hdf5.save(model, tmp_path / "again")
    again = weights.load(tmp_path / "again")
    assert again.fingerprint == model.fingerprint and again.vocabulary == model.vocabulary


def test_token_embeddings_replace_the_characters(tmp_path, run, write_hdf5, published):
    options, arrays = published
    folder = write_hdf5(tmp_path / "m", options, arrays)
    cache = np.stack([oracle.token_vector(word, options, arrays) for word in VOCABULARY]).astype(np.float32)
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "w") as file:
        file["embedding"] = cache
    with gzip.open(folder / "vocab.txt.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f" {word} \n" for word in VOCABULARY))
    model = weights.load((folder / "options.json", folder / "weights.hdf5", folder / "elmo_token_embeddings.hdf5"))
    known = ["test", "of", "naïve", "<UNK>"]
    assert model.config.char_cnn is None and model.vocabulary == tuple(VOCABULARY)
    np.testing.assert_allclose(run(model, known, VOCABULARY), oracle.embed(known, options, arrays), atol=2e-5)
    assert weights.load(folder).config.char_cnn is not None  # never unless asked for


def test_vocabulary_of_another_length(tmp_path, write_hdf5):
    options, arrays = oracle.random_model(np.random.default_rng(3), n_words=6)
    folder = write_hdf5(tmp_path / "m", options, arrays)
    (folder / "vocab.txt").write_text("<S>\n</S>\n")
    with pytest.raises(FormatError, match=r"vocab.txt: expected 6 words, one for each row, found 2"):
        weights.load(folder)


def write_softmax(path, n_words, dim):
    rng = np.random.default_rng(4)
    with h5py.File(path, "w") as file:
        file["softmax/W"] = rng.standard_normal((n_words, dim)).astype(np.float32)
        file["softmax/b"] = rng.standard_normal(n_words).astype(np.float32)
        return file["softmax/W"][...], file["softmax/b"][...]


def test_softmax_is_read_when_asked_for(tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published, prefix="elmo_")
    assert not weights.load(folder).has_softmax
    expected = write_softmax(folder / "elmo_softmax_weights.hdf5", 7, 6)
    model = weights.load(folder)
    for found, array in zip(model.softmax().parameters(), expected, strict=True):
        np.testing.assert_array_equal(found, array)
    bilm_hdf5.save(model, tmp_path / "again")
    for found, array in zip(weights.load(tmp_path / "again").softmax().parameters(), expected, strict=True):
        np.testing.assert_array_equal(found, array)
    (folder / "elmo_softmax_weights.hdf5").write_bytes(b"not needed until now")
    model = weights.load(folder)
    with pytest.raises(FormatError, match="expected an HDF5 file, found text"):
        model.softmax()


def test_softmax_of_another_model(tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    write_softmax(folder / "softmax_weights.hdf5", 7, 5)
    with pytest.raises(FormatError, match=r"expected softmax/W of shape \(7, 6\), found \(7, 5\)"):
        weights.load(folder).softmax()
    write_softmax(folder / "softmax_weights.hdf5", 7, 6)
    (folder / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(FormatError, match="expected 2 rows"):
        weights.load(folder).softmax()


def read_all(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, thing: found.update({name: thing[...]} if isinstance(thing, h5py.Dataset) else {}))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_round_trip_is_exact(variant, tmp_path, write_hdf5):
    options, arrays = oracle.random_model(np.random.default_rng(5), **VARIANTS[variant])
    for name in arrays:
        if name.endswith("/B"):  # steps of 2^-16: adding 1 rounds nothing
            arrays[name] = np.round(arrays[name] * 2**16) / np.float32(2**16)
    bilm_hdf5.save(weights.load(write_hdf5(tmp_path / "m", options, arrays)), tmp_path / "again")
    written = read_all(tmp_path / "again" / "weights.hdf5")
    assert written.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(written[name].view(np.uint32), array.view(np.uint32), err_msg=name)
    again = json.loads((tmp_path / "again" / "options.json").read_text())
    assert again.pop("elmokit") == {"state": "warm", "alphabet": "bytes"}
    assert again == options


def test_any_bias_is_stable_after_one_trip(tmp_path, write_hdf5, published):
    options, arrays = published
    bilm_hdf5.save(weights.load(write_hdf5(tmp_path / "m", options, arrays)), tmp_path / "a")
    model = weights.load(tmp_path / "a")
    assert model.fingerprint == weights.load(tmp_path / "m").fingerprint  # ours are the same to the bit
    written = read_all(tmp_path / "a" / "weights.hdf5")
    for name, array in arrays.items():
        np.testing.assert_allclose(written[name], array, atol=2e-7 if name.endswith("/B") else 0)


def test_fixture(shared_data, run):
    folder = shared_data / "elmo" / "bilm-tf-fixture"
    model = weights.load(folder)  # the weights among the HDF5 files are recognized by what they hold
    assert model.parameter_count == 105_120
    options = json.loads((folder / "options.json").read_text())
    arrays = read_all(folder / "lm_weights.hdf5")
    tokens = json.loads((folder / "lm_embeddings_sentences.json").read_text())[0][0].split()
    mine = run(model, tokens)
    np.testing.assert_allclose(mine, oracle.embed(tokens, options, arrays), atol=1e-5)
    with h5py.File(folder / "lm_embeddings_0.hdf5") as file:  # top layer, forward and backward apart; first batch
        reference = np.concatenate(file["0"][...], axis=-1)
    np.testing.assert_allclose(mine[-1], reference, atol=2e-6)


# What can be wrong with the files


def edited(folder: Path, change) -> Path:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        change(file)
    return folder


def put(name, array):
    """Add or replace a dataset; None removes it."""

    def change(file):
        if name in file:
            del file[name]
        if array is not None:
            file[name] = array

    return change


CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
SUM_OVERFLOWS = np.full(6, 3e38, "f4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(f"{CELL}/W_0", np.zeros((12, 44), "f4")), rf"{CELL}/W_0 of shape \(12, 48\), found \(12, 44\)"),
        (put("char_embed", np.zeros((262, 4), "f4")), r"char_embed of shape \(261, 4\), found \(262, 4\)"),
        (put(f"{CELL}/B", None), rf"expected dataset {CELL}/B of shape \(48,\), found none"),
        (put("CNN/b_cnn_0", np.array([1, 2, 3])), "floating-point numbers in CNN/b_cnn_0, found int64"),
        (put("CNN_proj/b_proj", np.full(6, np.nan, "f4")), "finite numbers in CNN_proj/b_proj, found nan"),
        (put("CNN_proj/b_proj", np.array([0, 1, 2, np.inf, -np.inf, 3])), "in CNN_proj/b_proj, found inf"),
        (put("CNN_proj/b_proj", np.array([0, 1, 2, 1e300, 4, 3])), "in CNN_proj/b_proj, found inf"),
        (put(f"{CELL}/W_0".replace("Cell1", "Cell2"), np.zeros(48, "f4")), "expected no RNN_1/.*Cell2"),
        (put("CNN_high_1/b_carry", np.zeros(12, "f4")), "expected no CNN_high_1/b_carry"),
    ],
)
def test_weights_that_do_not_fit(change, message, tmp_path, write_hdf5, published):
    folder = edited(write_hdf5(tmp_path / "m", *published), change)
    with pytest.raises(FormatError, match=message) as error:
        weights.load(folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def test_an_infinite_sum_of_finite_numbers_is_fine(tmp_path, write_hdf5, published):
    weights.load(edited(write_hdf5(tmp_path / "m", *published), put("CNN_proj/b_proj", SUM_OVERFLOWS)))


def test_other_precisions_become_float32(tmp_path, run, write_hdf5, published):
    options, arrays = published
    folder = write_hdf5(tmp_path / "m", options, {name: array.astype(">f8") for name, array in arrays.items()})
    np.testing.assert_allclose(run(weights.load(folder)), oracle.embed(SENTENCE, options, arrays), atol=2e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"lstm": {"dim": 12, "projection_dim": 20, "n_layers": 2}},
            "lstm.projection_dim: expected at most lstm.dim = 12",
        ),
        ({"lstm": {"dim": 12, "projection_dim": 6, "n_layers": 10**9}}, "Cell2/LSTMCell/W_0 of shape .* found none"),
        ({"lstm": None}, "expected an object under 'lstm'"),
    ],
)
def test_options_that_cannot_be(change, message, tmp_path, write_hdf5, published):
    options, arrays = published
    with pytest.raises((FormatError, ConfigError), match=message) as error:
        weights.load(write_hdf5(tmp_path / "m", options | change, arrays))
    assert str(error.value).startswith(str(tmp_path / "m"))


def test_options_without_characters_need_a_word_table(tmp_path, write_hdf5, published):
    options, arrays = published
    del options["char_cnn"]
    with pytest.raises(FormatError, match=r"expected a dataset embedding \(V, D\)"):
        weights.load(write_hdf5(tmp_path / "m", options, arrays))


def test_a_failed_save_leaves_nothing(tmp_path, write_hdf5, published):
    folder = write_hdf5(tmp_path / "m", *published)
    write_softmax(folder / "softmax_weights.hdf5", 7, 5)
    with pytest.raises(FormatError):
        bilm_hdf5.save(weights.load(folder), tmp_path / "new")
    with pytest.raises(OutputError, match="exists already"):
        bilm_hdf5.save(weights.load(folder), folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


@pytest.mark.parametrize("limit", [600, 9000, 24000])
def test_a_full_disk_is_one_line(limit, tmp_path, write_hdf5, published):
    """The HDF5 library, left to itself, would lose data, write tracebacks, or crash at the end of the process."""
    model = weights.load(write_hdf5(tmp_path / "m", *published))
    with file_size_limit(limit), pytest.raises(OutputError, match=r"new: cannot be written: File too large$"):
        bilm_hdf5.save(model, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_datasets_of_air_are_refused(tmp_path, write_hdf5, published):
    options, arrays = published
    del options["char_cnn"]
    folder = write_hdf5(tmp_path / "m", options, arrays)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file.create_dataset("embedding", (10**9, 6), "f4", chunks=(1024, 6))  # 24 GB of nothing
    with pytest.raises(FormatError, match="embedding refused, as 0 bytes claim to unpack to 24000000000"):
        weights.load(folder)


def test_numbers_of_another_file_are_refused(tmp_path, write_hdf5, published):
    """An HDF5 file may point at any file of the machine."""
    folder = write_hdf5(tmp_path / "m", *published)
    (tmp_path / "secret").write_bytes(bytes(24))
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["CNN_proj/b_proj"]
        file.create_dataset("CNN_proj/b_proj", (6,), "f4", external=[(str(tmp_path / "secret"), 0, 24)])
    with pytest.raises(FormatError, match="numbers of CNN_proj/b_proj in this file, found them in another; refused"):
        weights.load(folder)
