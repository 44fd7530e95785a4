"""`elmo tag` and `elmo task pack` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import small_taggers
from typer.testing import CliRunner, Result

from elmokit.cli import app
from elmokit.tasks import text_tagger


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tag")
    small_taggers.train(folder, "pos")
    return folder


def elmo(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def tag(home: Path, *arguments: object, stdin: str | None = None) -> Result:
    return elmo("tag", "--tagger", home / "pos", "--model", home / "bilm", *arguments, stdin=stdin)


def test_text_files_and_standard_input(home: Path, tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("She sees gold.\n\nHe likes time.\n")
    wanted = [["PRP", "VBZ", "NN", "."]] * 2
    for arguments, stdin in (
        (["She sees gold.", "He likes time."], None),
        ([tmp_path / "some.txt"], None),
        ([], "She sees gold.\nHe likes time.\n"),
        (["She sees gold.", "-"], "He likes time.\n"),
    ):
        result = tag(home, *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["tags"] for line in result.stdout.splitlines()] == wanted


def test_formats(home: Path) -> None:
    assert tag(home, "--format", "conll", "She sees gold.").stdout == "She\tPRP\nsees\tVBZ\ngold\tNN\n.\t.\n\n"
    assert tag(home, "--format", "text", "She sees gold.").stdout == "She/PRP sees/VBZ gold/NN./.\n"
    assert json.loads(tag(home, "--format", "json", "It").stdout)["tokens"] == ["It"]
    read = tag(home, "--tokenizer", "spaces", "--format", "conll", "It's time")
    assert read.stdout.splitlines()[0].startswith("It's\t")


def test_a_run_is_packed(home: Path, tmp_path: Path) -> None:
    about = tmp_path / "about.md"
    about.write_text("Some words on the data.\n")
    result = elmo("task", "pack", home / "pos", "-o", tmp_path / "pos", "--about", about)
    assert result.exit_code == 0 and "MB" in result.stdout
    assert "Some words on the data." in (tmp_path / "pos" / "README.md").read_text()
    again = elmo("task", "pack", home / "pos", "-o", tmp_path / "pos")
    assert again.exit_code == 2 and "exists already" in again.stderr
    shown = elmo("tag", "--tagger", tmp_path / "pos", "--model", home / "bilm", "--as", "pos", "It likes music.")
    assert json.loads(shown.stdout)["tags"] == ["PRP", "VBZ", "NN", "."]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--as", "ner", "a"], "--as: expected pos, as the tagger"),
        (["--as", "sentiment", "--format", "conll", "a"], "--format conll applies to"),
        (["--tokenizer", "letters", "a"], "tokenizer: expected words"),
        (["--tagger", "nowhere", "a"], "tagger: expected ner, pos, upos, sentiment, or the folder"),
        (["--model", "nowhere", "a"], "nowhere: expected a model file or folder"),
    ],
)
def test_one_clear_line(home: Path, arguments: list[str], reason: str) -> None:
    result = tag(home, *arguments)
    assert result.exit_code == 2 and reason in result.stderr and result.stderr.count("\n") == 1
    assert not result.stdout


def test_a_tagger_that_is_not_there_names_the_way_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tagger, "packaged_taggers", dict)
    result = elmo("tag", "Angela Merkel met Barack Obama in Berlin .")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "train one with `elmo task ner train`" in result.stderr and "--tagger" in result.stderr
