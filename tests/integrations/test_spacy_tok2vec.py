"""The architecture `elmokit.Tok2Vec.v1` in trained spaCy pipelines."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import write_variant

pytest.importorskip("spacy", reason="needs the extra spacy")
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from elmokit import Elmo
from elmokit.errors import ConfigError, FormatError
from elmokit.integrations.spacy.tok2vec import FrozenElmo, SentenceCache, build_tok2vec

NAMES, PLACES = ["Ada", "Bob", "Eve", "Tom", "Mary", "John"], ["London", "Paris", "Rome", "Berlin", "Madrid", "Oslo"]


def sentences(names: list[str], places: list[str]) -> list[tuple[list[str], int, int]]:
    """Tokens, and the places of a person and a location in them."""
    return [
        found
        for name in names
        for place in places
        for found in (
            ([name, "went", "to", place, "yesterday", "."], 0, 3),
            (["In", place, ",", name, "met", "a", "friend", "."], 3, 1),
        )
    ]


def document(vocab: Any, tokens: list[str], person: int, location: int) -> Doc:
    doc = Doc(vocab, words=tokens)
    doc.ents = sorted(
        [Span(doc, person, person + 1, "PERSON"), Span(doc, location, location + 1, "GPE")], key=lambda span: span.start
    )
    return doc


def config(tmp_path: Path, steps: int, model: str = "null") -> Path:
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    for split, names, places in (("train", NAMES[:4], PLACES[:4]), ("dev", NAMES[4:], PLACES[4:])):
        docs = [document(nlp.vocab, *found) for found in sentences(names, places)]
        DocBin(docs=docs).to_disk(tmp_path / f"{split}.spacy")
    text = nlp.config.to_str()
    before, _, rest = text.partition("[components.ner.model.tok2vec]\n")
    _, _, after = rest.partition("\n\n")
    tok2vec = f'@architectures = "elmokit.Tok2Vec.v1"\nwidth = 32\ndepth = 1\nembed_size = 200\nmodel = {model}'
    text = f"{before}[components.ner.model.tok2vec]\n{tok2vec}\n\n{after}"
    for name, value in (("max_steps", steps), ("eval_frequency", steps), ("max_epochs", 0), ("patience", 0)):
        text = "\n".join(f"{name} = {value}" if line.startswith(f"{name} =") else line for line in text.splitlines())
    for split in ("train", "dev"):
        text = text.replace(f"\n{split} = null", f'\n{split} = "{(tmp_path / split).as_posix()}.spacy"')
    path = tmp_path / "config.cfg"
    path.write_text(text)
    return path


def layer_of(nlp: Any) -> Any:
    return next(node for node in nlp.get_pipe("ner").model.walk() if node.name == "elmo")


def test_spacy_train_from_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(config(tmp_path, steps=30), tmp_path / "run")
    nlp = spacy.load(tmp_path / "run" / "model-last")
    examples = [
        Example(Doc(nlp.vocab, words=found[0]), document(nlp.vocab, *found))
        for found in sentences(NAMES[4:], PLACES[4:])
    ]
    assert nlp.evaluate(examples)["ents_f"] > 0.8  # names and places that the training text does not have
    assert layer_of(nlp).attrs["fingerprint"] == Elmo.from_pretrained().model.fingerprint


def trained(model: str | None, **settings: Any) -> Any:
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": "elmokit.Tok2Vec.v1", "width": 16, "depth": 1, "embed_size": 50, "model": model}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": {**tok2vec, **settings}}})
    words = ["In", "Oslo", ",", "Ada", "met", "Bob", "."]
    gold = Doc(nlp.vocab, words=words, tags=["a", "b", "c", "b", "d", "b", "c"])
    examples = [Example(Doc(nlp.vocab, words=words), gold)] * 4
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    return nlp


def frozen(nlp: Any) -> FrozenElmo:
    found: FrozenElmo = next(node for node in nlp.get_pipe("tagger").model.walk() if node.name == "elmo")._func.__self__
    return found


def test_training_sentences_are_embedded_once() -> None:
    nlp = trained(None)
    cache = frozen(nlp).cache
    misses, held = cache.misses, cache.bytes
    assert held == 7 * 3 * Elmo.from_pretrained().config.vector_dim * 4 and cache.hits > 0
    list(nlp.pipe(["Another text .", "In Oslo , Ada met Bob ."]))
    assert cache.bytes == held and cache.misses > misses  # prediction fills no cache
    without = frozen(trained(None, cache_mb=0)).cache
    assert without.bytes == 0 and without.misses > misses


def test_saved_pipelines_predict_the_same_and_know_their_model(tmp_path: Path) -> None:
    folder = write_variant(tmp_path / "model", "usual", seed=1)[0]
    nlp = trained(str(folder))
    doc = nlp("In Oslo , Ada met Bob .")
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    scores = [found.get_pipe("tagger").model.predict([doc])[0] for found in (nlp, again)]
    np.testing.assert_allclose(*scores, atol=1e-6)
    write_variant(folder, "usual", seed=2)
    with pytest.raises(FormatError, match="expected the ELMo model that the pipeline was trained with"):
        spacy.load(tmp_path / "saved")(doc.text)


def test_features_are_those_of_embed_and_have_no_gradient() -> None:
    model = build_tok2vec(width=16, depth=1, embed_size=50)
    doc = spacy.blank("en")("Ada  met Bob.")
    layer = next(node for node in model.walk() if node.name == "elmo")
    (rows,), backprop = layer([doc], is_train=True)
    (sentence,) = Elmo.from_pretrained().embed([["Ada", "met", "Bob", "."]])
    np.testing.assert_allclose(rows[[0, 2, 3, 4]], np.concatenate(sentence.layers, axis=1), atol=1e-5)
    assert not rows[1].any() and backprop([rows]) == []
    assert model.initialize([doc]).predict([doc])[0].shape == (5, 16)


def test_empty_docs() -> None:
    nlp = trained(None)
    tags = [[token.tag_ for token in doc] for doc in nlp.pipe(["", "In Oslo", "", " "])]
    assert tags[0] == tags[2] == [] and len(tags[1]) == 2 and nlp("").text == ""


def test_the_layer_pickles_without_its_cache() -> None:
    layer = frozen(trained(None))
    again = pickle.loads(pickle.dumps(layer))
    assert len(pickle.dumps(layer)) < 500 and again.cache.bytes == 0


def test_the_cache_stops_at_its_limit() -> None:
    cache = SentenceCache(limit=100)
    found = {(word,): np.full((1, 10), k, np.float32) for k, word in enumerate("abc")}  # 40 bytes each
    for keep in (False, True, True):
        rows = cache.get_all([*found, ("a",)], lambda new: [found[key] for key in new], keep=keep)
        assert [row[0, 0] for row in rows] == [0, 1, 2, 0]
    assert (cache.bytes, cache.misses, cache.hits) == (80, 3 + 3 + 1, 1 + 1 + 3)
    with pytest.raises(ConfigError, match="cache_mb"):
        build_tok2vec(cache_mb=-1)
