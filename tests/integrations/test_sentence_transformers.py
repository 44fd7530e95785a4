"""A folder for transformers works in sentence-transformers: encoding, saving, training, cross-encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from elmokit import Elmo

pytest.importorskip("transformers", minversion="5", reason="needs the extra sentence-transformers")
pytest.importorskip("sentence_transformers", minversion="6", reason="needs the extra sentence-transformers")
pytest.importorskip("datasets", reason="needs the extra sentence-transformers")
import transformers
from datasets import Dataset
from sentence_transformers import (
    CrossEncoder,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

from elmokit.integrations.transformers import save_folder

TEXTS = ["I will buy you a present.", "Live in the present", "", "A man is playing a guitar on the stage ."]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("hub") / "base"
    save_folder("base", folder)
    return str(folder)


def test_encode_gives_the_vectors_of_elmokit(base: str, tmp_path: Path) -> None:
    model = SentenceTransformer(base, device="cpu")
    vectors = model.encode(TEXTS, batch_size=2)
    np.testing.assert_allclose(vectors, Elmo.from_pretrained().encode(TEXTS), atol=1e-5, rtol=0)
    assert model.similarity(vectors[:1], vectors[:2]).argmax() == 0

    model.save_pretrained(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_array_equal(again.encode(TEXTS, batch_size=2), vectors)
    np.testing.assert_array_equal(model.encode_query(TEXTS[0]), model.encode(TEXTS[0]))


def test_training_brings_pairs_together(base: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SentenceTransformer(base, device="cpu")
    data = Dataset.from_dict({
        "first": ["A man sleeps .", "A dog runs .", "A man eats .", "Kids play ."],
        "second": ["A man is asleep .", "A dog is running .", "A car drives .", "Rain falls ."],
        "score": [1.0, 1.0, 0.0, 0.0],
    })  # fmt: skip
    args = SentenceTransformerTrainingArguments(
        str(tmp_path / "run"), max_steps=8, per_device_train_batch_size=4, learning_rate=2e-3, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=args, train_dataset=data, loss=CosineSimilarityLoss(model)
    )  # fmt: skip
    trainer.train()
    losses = [step["loss"] for step in trainer.state.log_history if "loss" in step]
    assert losses[-1] < 0.2 * losses[0]
    model.save_pretrained(str(tmp_path / "trained"))
    trained = SentenceTransformer(str(tmp_path / "trained"), device="cpu")
    np.testing.assert_array_equal(trained.encode(TEXTS), model.encode(TEXTS))
    # the fine-tuned network is a model of elmokit again; its mix of layers has been trained, too
    elmo = Elmo.from_pretrained(tmp_path / "trained")
    (mix,) = elmo.model.mixes
    weights = mix.gamma * torch.softmax(torch.tensor(mix.weights), 0)
    np.testing.assert_allclose(elmo.encode(TEXTS, layers=weights.tolist()), model.encode(TEXTS), atol=1e-5, rtol=0)


def test_cross_encoders_read_pairs(base: str) -> None:
    torch.manual_seed(0)
    model = CrossEncoder(base, num_labels=1, device="cpu")
    pairs = [("A man sleeps .", "Nobody is awake ."), ("A man sleeps .", "A dog runs in the park .")]
    scores = model.predict(pairs)
    assert scores.shape == (2,) and scores[0] != scores[1]
    np.testing.assert_allclose(model.predict(pairs[:1]), scores[:1], atol=1e-6)
