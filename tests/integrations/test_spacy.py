"""The spaCy component `elmo` in spaCy pipelines: vectors, hooks, batches, processes, files and bytes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import write_variant

pytest.importorskip("spacy", reason="needs the extra spacy")
import spacy
from spacy.tokens import Doc

from elmokit import Elmo
from elmokit.errors import ConfigError, FormatError
from elmokit.integrations.spacy import ElmoPipe, set_hooks

RIVER, MONEY = "She sat on the bank of the river.", "He works at a bank in London."
INSTALLED = any(point.name == "elmo" for point in entry_points(group="spacy_factories"))


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained()


def pipeline(*before: str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("elmo", config=config)
    return nlp


def vectors(elmo: Elmo, tokens: list[str], **options: Any) -> np.ndarray:
    (sentence,) = elmo.embed([tokens], **options)
    return sentence.vectors


@pytest.mark.skipif(not INSTALLED, reason="elmokit is not installed with its entry points: pip install -e .")
def test_the_factory_needs_no_import(elmo: Elmo) -> None:
    code = "import spacy; nlp = spacy.blank('en'); nlp.add_pipe('elmo'); print(nlp('A test').tensor.shape)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"(2, {elmo.config.vector_dim})"


@pytest.mark.parametrize("layers", ["average", "top", 0, [0.2, 0.5, 0.3]])
def test_vectors_are_those_of_embed(elmo: Elmo, layers: Any) -> None:
    doc = pipeline(layers=layers)(RIVER)
    np.testing.assert_allclose(doc.tensor, vectors(elmo, [t.text for t in doc], layers=layers), atol=1e-5)
    np.testing.assert_array_equal(doc[4].vector, doc.tensor[4])


def test_all_layers_side_by_side(elmo: Elmo) -> None:
    doc = pipeline(layers="all")(RIVER)
    (sentence,) = elmo.embed([[token.text for token in doc]])
    np.testing.assert_allclose(doc.tensor, np.concatenate(sentence.layers, axis=1), atol=1e-5)


def test_sentence_by_sentence(elmo: Elmo) -> None:
    doc = pipeline("sentencizer")(f"{RIVER} {MONEY}")
    assert len(list(doc.sents)) == 2
    for sentence in doc.sents:
        expected = vectors(elmo, [token.text for token in sentence])
        np.testing.assert_allclose(doc.tensor[sentence.start : sentence.end], expected, atol=1e-5)
    whole = pipeline()(f"{RIVER} {MONEY}")
    np.testing.assert_allclose(whole.tensor, vectors(elmo, [token.text for token in whole]), atol=1e-5)


def test_white_space_has_zero_rows_and_is_not_read(elmo: Elmo) -> None:
    nlp = pipeline("sentencizer")
    doc = nlp("  A  test\n\nof   space.  ")
    spaces = [token.is_space for token in doc]
    words = [token.text for token in doc if not token.is_space]
    assert sum(spaces) >= 4
    assert not doc.tensor[spaces].any() and not doc[0].has_vector
    np.testing.assert_allclose(doc.tensor[[not space for space in spaces]], vectors(elmo, words), atol=1e-5)
    np.testing.assert_allclose(doc.vector, vectors(elmo, words).mean(axis=0), atol=1e-5)
    dim = elmo.config.vector_dim
    assert nlp("").tensor.shape == (0, dim) and nlp(" \n").tensor.any() == np.False_
    assert nlp(" \n").vector.shape == (dim,) and not nlp(" \n").has_vector and nlp("").similarity(doc) == 0.0


def test_similarity_of_doc_span_and_token() -> None:
    nlp = pipeline()
    river, money = nlp(RIVER), nlp(MONEY)
    bank, other = river[4], money[4]
    assert bank.text == other.text == "bank"

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert bank.similarity(other) == pytest.approx(cosine(river.tensor[4], money.tensor[4]), abs=1e-5)
    assert bank.similarity(other) < 0.95
    span = river[3:5]
    np.testing.assert_allclose(span.vector, river.tensor[3:5].mean(axis=0), atol=1e-6)
    assert span.similarity(money) == pytest.approx(cosine(span.vector, money.vector), abs=1e-5)
    assert river.similarity(money[4]) == pytest.approx(cosine(river.tensor.mean(axis=0), money.tensor[4]), abs=1e-5)
    assert river.similarity(river) == pytest.approx(1, abs=1e-5)
    for found in (river, span, bank):
        assert found.has_vector and found.vector_norm == pytest.approx(np.linalg.norm(found.vector), rel=1e-5)


def test_hooks_can_be_left_out() -> None:
    doc = pipeline(hooks=False)(RIVER)
    assert not doc.user_hooks and not doc.user_token_hooks and doc.tensor.any()


def test_pipe_gives_the_same_in_batches() -> None:
    nlp = pipeline("sentencizer")
    texts = [f"{RIVER} {MONEY}", "", MONEY, "  ", RIVER] * 4
    for text, doc in zip(texts, nlp.pipe(texts, batch_size=3), strict=True):
        assert doc.text == text
        np.testing.assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*W109")  # that hooks are lost, which is documented
def test_two_processes() -> None:
    nlp = pipeline()
    expected = nlp(RIVER).tensor  # computed with several threads, before the workers are forked
    docs = list(nlp.pipe([RIVER] * 4, n_process=2, batch_size=2))
    for doc in docs:
        np.testing.assert_allclose(doc.tensor, expected, atol=1e-5)
    assert set_hooks(docs[0])[4].similarity(docs[1][4]) == pytest.approx(1, abs=1e-5)


def test_errors_go_to_the_handler_of_the_pipeline() -> None:
    nlp = pipeline(model="nowhere")
    with pytest.raises(ValueError, match="nowhere"):
        nlp(RIVER)
    seen = []
    nlp.set_error_handler(lambda name, component, docs, error: seen.append((name, len(docs))))
    assert list(nlp.pipe([RIVER, MONEY])) == [] and seen == [("elmo", 2)]


@pytest.mark.parametrize("config", [{"layers": 9}, {"state": "carry"}, {"dtype": "float8"}])
def test_wrong_settings_are_named(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(config))):
        pipeline(**config)(RIVER)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ConfigError, match=r"found layer$"):
        ElmoPipe(spacy.blank("en").vocab, layer=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_variant(tmp_path / "source", "usual", seed=1)[0]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_saved_with_weights(tmp_path: Path, folder: Path, dtype: str) -> None:
    nlp = pipeline(model=str(folder), dtype=dtype)
    expected = nlp(RIVER).tensor
    nlp.to_disk(tmp_path / "saved")
    folder.rename(tmp_path / "gone")
    again = spacy.load(tmp_path / "saved")
    np.testing.assert_allclose(again(RIVER).tensor, expected, atol=1e-5)
    again.to_disk(tmp_path / "saved")  # onto itself
    np.testing.assert_allclose(spacy.load(tmp_path / "saved")(RIVER).tensor, expected, atol=1e-5)


def test_saved_with_a_path(tmp_path: Path, folder: Path) -> None:
    nlp = pipeline(model=str(folder), include_weights=False)
    expected = nlp(RIVER).tensor
    nlp.to_disk(tmp_path / "saved")
    assert not list((tmp_path / "saved").rglob("*.safetensors"))
    settings = tmp_path / "saved" / "elmo" / "settings.json"
    right = settings.read_text()
    settings.write_text("[]")
    with pytest.raises(FormatError, match=r"settings.json: expected fingerprint and weights"):
        spacy.load(tmp_path / "saved")
    settings.write_text(right)
    np.testing.assert_allclose(spacy.load(tmp_path / "saved")(RIVER).tensor, expected, atol=1e-5)
    pipeline().to_disk(tmp_path / "saved")  # weights of another model, which are ignored after the next line
    nlp.to_disk(tmp_path / "saved")
    np.testing.assert_allclose(spacy.load(tmp_path / "saved")(RIVER).tensor, expected, atol=1e-5)
    write_variant(folder, "usual", seed=2)
    with pytest.raises(FormatError, match="expected the model that the pipeline was saved with"):
        spacy.load(tmp_path / "saved")(RIVER)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_bytes(tmp_path: Path, folder: Path, dtype: str) -> None:
    nlp = pipeline(model=str(folder), dtype=dtype)
    expected, data = nlp(RIVER).tensor, nlp.to_bytes()
    folder.rename(tmp_path / "gone")
    again = pipeline(model=str(folder), dtype=dtype).from_bytes(data)
    np.testing.assert_allclose(again(RIVER).tensor, expected, atol=1e-5)
    np.testing.assert_allclose(pipeline(dtype=dtype).from_bytes(again.to_bytes())(RIVER).tensor, expected, atol=1e-5)


def test_bytes_with_paths_outside_are_rejected() -> None:
    import srsly

    for name in ("../settings.json", "/settings.json", "a/b/c"):
        with pytest.raises(FormatError, match="expected files of a model folder"):
            ElmoPipe(spacy.blank("en").vocab).from_bytes(srsly.msgpack_dumps({name: b"{}"}))


def test_pickles_of_components_and_docs_are_small() -> None:
    nlp = pipeline()
    doc = nlp(RIVER)
    component = nlp.get_pipe("elmo")
    data = pickle.dumps(component)
    assert len(data) < len(pickle.dumps(component.vocab)) + 2000
    copied = Doc(nlp.vocab, words=[token.text for token in doc])
    np.testing.assert_allclose(pickle.loads(data)(copied).tensor, doc.tensor, atol=1e-5)
    again = pickle.loads(pickle.dumps(doc))
    assert again[4].similarity(doc[4]) == pytest.approx(1, abs=1e-5)
