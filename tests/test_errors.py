"""Messages name arguments in Python and flags on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import models
import pytest
from typer.testing import CliRunner

import elmokit
from elmokit.analysis.shared.layers import views
from elmokit.cli import app
from elmokit.errors import ConfigError, ElmoError, name_arguments, naming_flags
from elmokit.tasks import text_tagger
from elmokit.tasks.shared.task_registry import get_task


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("--batch-tokens: expected 1, found 0", "batch_tokens: expected 1, found 0"),
        (
            "a.h5: exists already; use --overwrite to replace it",
            "a.h5: exists already; use overwrite=True to replace it",
        ),
        ("--resume: expected the settings of the run", "resume: expected the settings of the run"),
        ("--no-punctuation: expected --pool, found none", "punctuation: expected pool, found none"),
        ("start again with another -o", "start again with another output"),
        ("a run of `elmo task ner train --finetune-bilm`", "a run of `elmo task ner train --finetune-bilm`"),
        ("column: found '--column'", "column: found '--column'"),
        ("/tmp/my--dir/--odd: expected text -- found none", "/tmp/my--dir/--odd: expected text -- found none"),
        ("raise the limits: elmo --limits 10 ...", "raise the limits: elmokit.disk.limits.raise_limits(10)"),
    ],
)
def test_flags_become_arguments(message: str, expected: str) -> None:
    assert name_arguments(message) == name_arguments(expected) == expected
    assert str(ConfigError(message)) == expected
    with naming_flags():
        assert str(ConfigError(message)) == message
    assert str(ConfigError(message)) == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat\non the mat\n", encoding="utf-8")
    return path


Call = Callable[[Path, Path], object]  # of the model folder and the text

MISTAKES: dict[str, tuple[Call, list[str], str]] = {
    "load, device": (
        lambda model, text: elmokit.load(model, device="gpu"),
        ["embed", "TEXT", "-o", "OUT.h5", "--model", "MODEL", "--device", "gpu"],
        "--device",
    ),
    "Elmo.embed, layers": (
        lambda model, text: list(elmokit.load(model).embed(["a"], layers=9)),
        ["embed", "TEXT", "-o", "OUT.h5", "--model", "MODEL", "--layers", "9"],
        "--layers",
    ),
    "Elmo.predict_next, top": (
        lambda model, text: elmokit.load().predict_next("the", top=0),
        ["predict", "the", "--top", "0"],
        "--top",
    ),
    "ElmoEmbedding, device of its model": (
        lambda model, text: elmokit.ElmoEmbedding.from_pretrained(elmokit.load(model, device="gpu")),  # type: ignore[arg-type]
        ["embed", "TEXT", "-o", "OUT.h5", "--model", "MODEL", "--device", "gpu"],
        "--device",
    ),
    "settings of a task, dropout": (
        lambda model, text: get_task("ner").settings(dropout=1.0),
        ["task", "ner", "train", "--train", "TEXT", "-o", "RUN", "--model", "MODEL", "--dropout", "1"],
        "--dropout",
    ),
    "load_tagger, missing tagger": (
        lambda model, text: elmokit.load_tagger("ner"),
        ["tag", "TEXT", "--as", "ner"],
        "--tagger",
    ),
    "pretrain, learning_rate": (
        lambda model, text: elmokit.pretrain(text, text.parent / "run", learning_rate=-1.0),
        ["pretrain", "--train", "TEXT", "-o", "RUN", "--learning-rate", "-1"],
        "--learning-rate",
    ),
    "pretrain, vocabulary_size": (
        lambda model, text: elmokit.pretrain(text, text.parent / "run", vocabulary_size=1),
        ["pretrain", "--train", "TEXT", "-o", "RUN", "--vocabulary-size", "1"],
        "--vocabulary-size",
    ),
    "views of an analysis, layers": (
        lambda model, text: views("9", elmokit.load(model).config.n_vectors),
        ["compare", "a b", "a c", "--word", "a", "--model", "MODEL", "--layers", "9"],
        "--layers",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_python_names_the_argument_and_the_command_the_flag(
    name: str, folder: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tagger, "packaged_taggers", dict)
    call, command, flag = MISTAKES[name]
    with pytest.raises(ElmoError) as raised:
        call(folder, text)
    assert "--" not in str(raised.value)
    assert flag.strip("-").replace("-", "_") in str(raised.value)
    names = {"MODEL": str(folder), "TEXT": str(text), "OUT.h5": str(tmp_path / "out.h5"), "RUN": str(tmp_path / "run")}
    result = CliRunner().invoke(app, [names.get(part, part) for part in command])
    assert result.exit_code == 2 and flag in result.stderr, result.stderr


@pytest.mark.parametrize("folder_name", ["missing", "model"])
def test_a_folder_that_is_no_run(folder: Path, folder_name: str) -> None:
    with pytest.raises(ElmoError) as raised:
        elmokit.TaskModel.from_pretrained(folder if folder_name == "model" else folder / "missing")
    assert "--" not in str(raised.value)
