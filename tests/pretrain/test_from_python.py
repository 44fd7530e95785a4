"""`elmokit.pretrain`: training as a function."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import elmokit
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.pretrain import pretrain


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"The cat {k % 7} sat on the mat, again.\n" for k in range(60)))
    return path


def test_the_package_is_the_function() -> None:
    package = import_module("elmokit.pretrain")
    assert elmokit.pretrain is package and package.pretrain is pretrain  # type: ignore[comparison-overlap]
    assert callable(package) and signature(package) == signature(pretrain)
    with pytest.raises(TypeError, match="'train' and 'output'"):
        package(preset="tiny")


def test_a_function_from_text_to_a_model(text: Path, tmp_path: Path) -> None:
    events: list[object] = []
    folder = elmokit.pretrain(
        text, tmp_path / "run", heldout=text, preset="tiny", steps=3, batch_tokens=50, tokenizer="words",
        watch=events.append,
    )  # fmt: skip
    assert [type(event).__name__ for event in events] == ["TrainingStep"] * 3 + ["HeldoutEvaluation"]
    elmo = elmokit.load(folder)
    assert elmo.tokenizer == "words" and elmo.config.tokenizer == "words"  # what the text was split by
    with pytest.raises(
        OutputError, match="already contains a run; continue it with resume=True, or replace it with overwrite=True"
    ):
        pretrain(text, tmp_path / "run", preset="tiny", steps=3)
    pretrain(
        text, tmp_path / "run", heldout=text, preset="tiny", steps=4, batch_tokens=50, tokenizer="words", resume=True
    )


def test_errors_name_arguments(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings: expected accumulate, .* found learn_rate"):
        pretrain(text, tmp_path / "run", learn_rate=1)
    with pytest.raises(ConfigError, match=r"^preset: expected"):
        pretrain(text, tmp_path / "run", preset="huge")
    with pytest.raises(ConfigError, match=r"^learning_rate: expected"):
        pretrain(text, tmp_path / "run", preset="tiny", learning_rate=-1.0)
    with pytest.raises(InputError, match=r"absent\.txt"):
        pretrain(tmp_path / "absent.txt", tmp_path / "run", preset="tiny")
