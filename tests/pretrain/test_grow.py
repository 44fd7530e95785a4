"""A wider network starts with the output of the trained one, and learns with all of its weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from elmokit.cli import app
from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM
from elmokit.nn.initialize import initialize
from elmokit.nn.softmax import AdaptiveHead, Head, SoftmaxHead
from elmokit.pretrain.grow import grow_bilm_, grow_head_
from elmokit.pretrain.loss import bilm_loss
from elmokit.pretrain.training_batch import make_batch
from elmokit.text.characters import characters_of
from elmokit.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", *(f"w{n}" for n in range(37))]
TEXT = [["w1", "w2", "other"], ["w9"], ["w3", "w1", "w30", "w36"]]


def config(cells: int, dim: int, channels: int, one: int, three: int, layers: int = 2) -> ModelConfig:
    chars = CharCnnConfig(embedding_dim=channels, filters=((1, one), (3, three)), n_highway=1, max_characters=12)
    lstm = LstmConfig(dim=cells, projection_dim=dim, n_layers=layers, cell_clip=0.8, proj_clip=0.7)
    return ModelConfig(lstm=lstm, char_cnn=chars, state="reset")


def network(shape: ModelConfig, adaptive: bool, seed: int) -> tuple[BiLM, Head]:
    torch.manual_seed(seed)
    bilm = BiLM(config=shape)
    initialize(bilm)
    dim = shape.lstm.projection_dim
    head: Head = AdaptiveHead(n_words=len(WORDS), dim=dim, cutoffs=[10, 20]) if adaptive else SoftmaxHead(
        n_words=len(WORDS), dim=dim
    )  # fmt: skip
    for parameter in (*bilm.parameters(), *head.parameters()):
        torch.nn.init.normal_(parameter, std=0.4)
    return bilm.double(), head.double()


def loss(bilm: BiLM, head: Head) -> torch.Tensor:
    batch = make_batch(TEXT, Vocabulary(WORDS), characters_of(bilm.config, None), torch.device("cpu"))
    found = bilm_loss(bilm, head, batch, n_samples=None, generator=torch.Generator())
    return torch.stack((found.forward, found.backward))


more = st.integers(0, 4)


@settings(max_examples=25, deadline=None)
@given(more, more, st.integers(0, 2), more, more, st.booleans())
def test_the_same_losses_at_first(cells: int, dim: int, channels: int, one: int, three: int, adaptive: bool) -> None:
    old = network(config(12, 8, 3, 6, 7), adaptive, 1)
    wide = network(config(12 + cells + dim, 8 + dim, 3 + channels, 6 + one, 7 + three), adaptive, 2)
    grow_bilm_(wide[0], old[0])
    grow_head_(wide[1], old[1])
    assert torch.allclose(loss(*wide), loss(*old), rtol=1e-9)


def test_every_weight_learns_after_two_steps() -> None:
    old, wide = network(config(12, 8, 3, 6, 7), True, 1), network(config(20, 14, 4, 9, 8), True, 2)
    grow_bilm_(wide[0], old[0])
    grow_head_(wide[1], old[1])
    parameters = {**dict(wide[0].named_parameters()), **dict(wide[1].named_parameters())}
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss(*wide).sum().backward()
        optimizer.step()
    for name, parameter in parameters.items():
        if not name.endswith("char_embedding"):  # most bytes do not occur; and relus cut some gradients
            assert ((parameter != before[name]).double().mean() > 0.3).item(), name


@pytest.mark.parametrize("other", [config(12, 7, 3, 6, 7), config(12, 8, 3, 5, 9), config(20, 8, 3, 6, 7, layers=3)])
def test_what_is_not_wider_is_refused(other: ModelConfig) -> None:
    with pytest.raises(ConfigError, match="no wider than the new one"):
        grow_bilm_(BiLM(config=other), network(config(12, 8, 3, 6, 7), True, 1)[0])


def test_another_softmax_is_refused() -> None:
    with pytest.raises(ConfigError, match="full over 40 words, found adaptive over 40 words"):
        grow_head_(network(config(12, 8, 3, 6, 7), False, 1)[1], network(config(12, 8, 3, 6, 7), True, 1)[1])


def works(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_starts_where_the_small_model_ended(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat .\nthe dog sat on the log .\n" * 40, encoding="utf-8")
    tiny = ("pretrain", "--preset", "tiny", "--train", str(text), "--heldout", str(text), "--quiet", "-o")
    works(*tiny, str(tmp_path / "small"), "--steps", "30")
    before = works("perplexity", str(tmp_path / "small"), str(text))
    (tmp_path / "options.json").write_text(
        (tmp_path / "small" / "options.json").read_text().replace('"dim": 64', '"dim": 96')
    )
    grown = (str(tmp_path / "wide"), "--grow", str(tmp_path / "small"), "--options", str(tmp_path / "options.json"))
    works(*tiny, *grown, "--steps", "1", "--learning-rate", "1e-9")
    assert works("perplexity", str(tmp_path / "wide"), str(text)) == before
    assert "made wider" in (tmp_path / "wide" / "README.md").read_text()
    refused = CliRunner().invoke(app, [*tiny, str(tmp_path / "x"), *grown[1:], "--vocabulary", "v.txt"])
    assert refused.exit_code and "neither --branch nor --vocabulary" in refused.output
