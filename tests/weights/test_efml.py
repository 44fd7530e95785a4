"""ELMoForManyLangs folders, against a twin that computes as the original modules do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from many_langs import CHARACTERS, SENTENCE, WORDS, D, W, architecture, character_row, embed, random_tensors, write

from elmokit import Elmo, weights
from elmokit.errors import FormatError, OutputError
from elmokit.nn.packing import Packing
from elmokit.weights import bilm_hdf5, efml


def run(model, tokens, length):
    marked = ["<bos>", *tokens, "<eos>"]
    characters = torch.tensor([character_row(token, length) for token in marked])
    words = torch.tensor([model.vocabulary.index(t) if t in model.vocabulary else 0 for t in marked])
    with torch.no_grad():
        vectors = model.bilm.token_encoder(characters, words)
        output = model.bilm(vectors, torch.arange(len(marked)), Packing.from_lengths([len(marked)]))
    return output.layers()[:, 1:-1].numpy()


@pytest.mark.parametrize(
    ("config_path", "place"),
    [
        ("cnn.json", "cnn.json"), ("configs/cnn.json", "configs/cnn.json"),
        ("/users/someone/configs/cnn.json", "cnn.json"), ("../../configs/cnn.json", "cnn.json"),
        ("C:\\models\\cnn.json", "cnn.json"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("legacy", [True, False])
def test_computes_what_the_original_does(config_path, place, legacy, tmp_path):
    embedder, encoder = random_tensors()
    folder = write(tmp_path / "de", embedder, encoder, config_path, [(place, architecture())], legacy)
    model = weights.load(folder)
    assert model.format == "ELMoForManyLangs" and model.config.state == "warm"
    assert model.vocabulary == tuple(WORDS)
    assert model.alphabet == {character: i for i, character in enumerate(CHARACTERS)}
    expected = embed(SENTENCE, embedder, encoder, 9, np.tanh, 0.5, 0.4)
    np.testing.assert_allclose(run(model, SENTENCE, 9), expected, atol=2e-5)


def test_dead_config_path_means_the_default_architecture(tmp_path):
    embedder, encoder = random_tensors()
    model = weights.load(write(tmp_path / "de", embedder, encoder, "/dead/cnn_50_100_512_4096_sample.json"))
    expected = embed(SENTENCE, embedder, encoder, 50, lambda x: np.maximum(x, 0), 3, 3)
    np.testing.assert_allclose(run(model, SENTENCE, 50), expected, atol=2e-5)


def test_without_a_word_table(tmp_path):
    model = weights.load(write(tmp_path / "de", *random_tensors(word_dim=0)))
    assert model.vocabulary is None and model.config.n_words == 0


def test_without_characters(tmp_path):
    embedder, encoder = random_tensors()
    embedder["projection.weight"][:, W:] = 0  # characters have no effect ...
    expected = embed(SENTENCE, embedder, encoder, 9, np.tanh, 0.5, 0.4)
    words = {"word_emb_layer.embedding.weight": embedder["word_emb_layer.embedding.weight"]}
    words |= {"projection.weight": embedder["projection.weight"][:, :W], "projection.bias": embedder["projection.bias"]}
    folder = write(
        tmp_path / "de", words, encoder, files=[("cnn.json", architecture(char_dim=0))]
    )  # ... or are not there
    (folder / "char.dic").unlink()
    (found,) = Elmo.from_pretrained(folder, state="reset").embed([SENTENCE])
    np.testing.assert_allclose(found.layers, expected, atol=2e-5)
    model = weights.load(folder)
    assert model.vocabulary[:4] == ("<UNK>", "<S>", "</S>", "<pad>") and model.config.word_dim == D
    with pytest.raises(OutputError, match="alphabet"):
        efml.save(model, tmp_path / "again")
    del words["projection.bias"]
    with pytest.raises(FormatError, match="its projection"):
        weights.load(write(tmp_path / "bad", words, encoder, files=[("cnn.json", architecture(char_dim=0))]))


def test_round_trip_is_exact(tmp_path):
    embedder, encoder = random_tensors()
    model = weights.load(write(tmp_path / "a", embedder, encoder, files=[("cnn.json", architecture())]))
    efml.save(model, tmp_path / "b")
    for name, expected in (("encoder.pkl", encoder), ("token_embedder.pkl", embedder)):
        found = torch.load(tmp_path / "b" / name, weights_only=True)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key].view(torch.int32), expected[key].view(torch.int32)) for key in expected)
    again = weights.load(tmp_path / "b")
    assert (again.config, again.vocabulary, again.alphabet) == (model.config, model.vocabulary, model.alphabet)
    weights.save(model, tmp_path / "c")
    native = weights.load(tmp_path / "c")
    assert (native.config, native.vocabulary, native.alphabet) == (model.config, model.vocabulary, model.alphabet)
    assert native.fingerprint == model.fingerprint
    with pytest.raises(OutputError, match="no HDF5 form"):
        bilm_hdf5.save(model, tmp_path / "d")


def test_lone_ids_are_the_wide_space_and_gaps_are_no_words(tmp_path):
    folder = write(tmp_path / "de", *random_tensors())
    lines = [f"{word}\t{i}" for i, word in enumerate(WORDS[:4])] + ["\u3000\t4", " \t5", "\t6"]
    (folder / "word.dic").write_text("\n".join(lines), encoding="utf-8")
    assert weights.load(folder).vocabulary == (*WORDS[:4], "", "", "\u3000")


@pytest.mark.parametrize(
    ("part", "name", "message"),
    [("encoder", "lstm", "encoder of kind 'elmo'"), ("token_embedder", "lstm", "token_embedder of kind 'cnn'")],
)
def test_other_kinds_are_refused(part, name, message, tmp_path):
    settings = architecture()
    settings[part]["name"] = name
    with pytest.raises(FormatError, match=f"expected a {message} .*, found 'lstm'"):
        weights.load(write(tmp_path / "de", *random_tensors(), files=[("cnn.json", settings)]))


def test_an_lstm_embedder_is_refused_by_its_tensors(tmp_path):
    embedder, encoder = random_tensors()
    embedder["char_lstm.weight_ih_l0"] = torch.zeros(4, 4)
    with pytest.raises(FormatError, match="expected a token embedder of kind 'cnn', found one of kind 'lstm'"):
        weights.load(write(tmp_path / "de", embedder, encoder))


def test_a_square_projection_is_refused(tmp_path):
    embedder, encoder = random_tensors()
    encoder = {name: tensor for name, tensor in encoder.items() if "state_projection" not in name}
    for name in ("forward_layer_0", "forward_layer_1", "backward_layer_0", "backward_layer_1"):
        encoder[f"{name}.state_projection.weight"] = torch.zeros(D, D)
        for part in ("input_linearity.weight", "state_linearity.weight", "state_linearity.bias"):
            encoder[f"{name}.{part}"] = encoder[f"{name}.{part}"][: 4 * D].clone()
    with pytest.raises(FormatError, match=r"expected no forward_layer_0.state_projection.weight"):
        weights.load(write(tmp_path / "de", embedder, encoder))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("char.dic", "a\t0\n", "found no <bos>"),
        ("char.dic", None, "expected char.dic beside it"),
        ("word.dic", None, "expected word.dic beside it"),
        ("word.dic", "das\t7\n", r"word.dic, line 1: expected an item, a tab, an id below 7"),
        ("word.dic", "das\t1\nHaus\n", "line 2"),
        ("word.dic", "a\tb\t1\n", "line 1"),
        ("word.dic", "das\t-1\n", "line 1"),
        ("word.dic", f"das\t{'1' * 5000}\n", "line 1"),
        (
            "config.json", '{"encoder": {"name": "elmo"}, "token_embedder": {"name": "cnn", '
            '"max_characters_per_token": 1e999}}', "expected JSON, found the number 1e999",
        ),
        ("config.json", None, "expected config.json"),
        ("config.json", "[]", "expected a JSON object"),
        ("config.json", "{", "expected JSON"),
    ],
)  # fmt: skip
def test_damaged_folders(name, content, message, tmp_path):
    folder = write(tmp_path / "de", *random_tensors())
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(FormatError, match=message):
        weights.load(folder)


def test_bytes_that_are_no_utf8(tmp_path):
    folder = write(tmp_path / "de", *random_tensors())
    (folder / "word.dic").write_bytes(b"a\t0\n\xff\t1\n")
    with pytest.raises(FormatError, match="expected UTF-8, found byte 0xff in line 2"):
        weights.load(folder)


def test_embedding_through_the_engine(tmp_path):
    """Ids, word look-up, marks and network together: what a user gets."""
    embedder, encoder = random_tensors()
    write(tmp_path / "m", embedder, encoder, files=[("cnn.json", architecture())])
    elmo = Elmo.from_pretrained(tmp_path / "m", state="reset")
    sentences = [SENTENCE, ["unbekannt", "<bos>", "dasdasdasdas"]]
    for sentence in elmo.embed(sentences):
        tokens = [token[:7] for token in sentence.tokens]  # a word is cut before it is looked up
        expected = embed(tokens, embedder, encoder, 9, np.tanh, 0.5, 0.4)
        np.testing.assert_allclose(sentence.layers, expected, atol=1e-5)
    elmo.save_pretrained(tmp_path / "native")
    again = Elmo.from_pretrained(tmp_path / "native", state="reset")
    for ours, theirs in zip(again.embed(sentences), elmo.embed(sentences), strict=True):
        np.testing.assert_allclose(ours.layers, theirs.layers, atol=1e-6)
