"""The flair adapter: vectors, and a CRF tagger that is trained, saved and loaded.

flair needs transformers 4, and the other integrations 5, so `.[test,flair]` cannot be installed: `make flair` runs the
tests in an environment of its own.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import write_variant

from elmokit import Elmo

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # flair and its dependencies warn a lot

TEXTS = [
    ("Ada went to London .", ["PER", "O", "O", "LOC", "O"]),
    ("In Paris , Bob met a friend .", ["O", "LOC", "O", "PER", "O", "O", "O", "O"]),
    ("Eve likes Rome .", ["PER", "O", "LOC", "O"]),
    ("Tom lives in Berlin .", ["PER", "O", "O", "LOC", "O"]),
]


@pytest.fixture(scope="module")
def flair() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("flair", reason="needs elmokit[flair] in an environment of its own: make flair")


@pytest.mark.parametrize("layers", ["all", "average", 0])
def test_vectors_are_those_of_embed(flair: Any, layers: Any) -> None:
    from flair.data import Sentence

    from elmokit.integrations.flair import ElmoTokenEmbeddings

    embeddings = ElmoTokenEmbeddings(layers=layers)
    sentences = [Sentence(text.split()) for text, _ in TEXTS]
    embeddings.embed(sentences)
    stream = Elmo.from_pretrained().embed([text.split() for text, _ in TEXTS], layers=layers)
    for sentence, expected in zip(sentences, stream, strict=True):
        found = np.stack([token.embedding.cpu().numpy() for token in sentence])
        np.testing.assert_allclose(found, np.concatenate(list(expected.layers), axis=1), atol=1e-5)
        assert found.shape[1] == embeddings.embedding_length
    assert embeddings.static_embeddings and not list(embeddings.parameters())


def corpus() -> Any:
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset

    sentences = []
    for text, tags in TEXTS * 3:
        sentence = Sentence(text.split())
        for k, tag in enumerate(tags):
            if tag != "O":
                sentence[k : k + 1].add_label("ner", tag)
        sentences.append(sentence)
    return Corpus(
        train=FlairDatapointDataset(sentences),
        dev=FlairDatapointDataset(sentences[:4]),
        test=FlairDatapointDataset(sentences[:4]),
    )


def test_a_tagger_trains_saves_and_loads(flair: Any, tmp_path: Path) -> None:
    from flair.data import Sentence
    from flair.models import SequenceTagger
    from flair.trainers import ModelTrainer

    from elmokit.errors import FormatError
    from elmokit.integrations.flair import ElmoTokenEmbeddings

    flair.set_seed(1)
    folder = tmp_path / "model"
    Elmo.from_pretrained().save_pretrained(folder)
    data = corpus()
    tagger = SequenceTagger(
        hidden_size=32,
        embeddings=ElmoTokenEmbeddings(str(folder)),
        tag_dictionary=data.make_label_dictionary("ner", add_unk=False),
        tag_type="ner",
        use_crf=True,
    )
    ModelTrainer(tagger, data).train(tmp_path / "run", max_epochs=15, mini_batch_size=4, learning_rate=0.3)

    def entities(model: Any) -> list[tuple[str, str]]:
        sentence = Sentence(["Mary", "went", "to", "Madrid", "."])
        model.predict(sentence)
        return [(span.text, span.tag) for span in sentence.get_spans("ner")]

    assert entities(tagger) == [("Mary", "PER"), ("Madrid", "LOC")]
    saved = tmp_path / "run" / "final-model.pt"
    loaded = SequenceTagger.load(saved)
    assert entities(loaded) == entities(tagger)
    assert saved.stat().st_size < 8 * 2**20  # the weights of the tagger, not those of ELMo
    write_variant(folder, "usual")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(FormatError, match="expected the model that the tagger was trained with"):
        SequenceTagger.load(saved)
