"""`elmo perplexity` and `elmo predict` as commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import compressed
import language_model
import pytest
import torch
import typer
from typer.testing import CliRunner

from elmokit import weights
from elmokit.analysis.shared.results import read_results
from elmokit.cli import progress
from elmokit.cli.perplexity import perplexity
from elmokit.cli.predict import predict
from elmokit.embed.predict import predict_next
from elmokit.embed.word_reader import WordReader
from elmokit.errors import ConfigError, InputError, naming_flags
from elmokit.pretrain.perplexity import perplexity as measure

app = typer.Typer()
app.command("perplexity")(perplexity)
app.command("predict")(predict)

LINES = ["the cat sat on the mat .", "the dog", "a cat ."]


def elmo(*arguments: object) -> str:
    """Run a command; errors come through as they are."""
    with naming_flags():  # as the whole command line does
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model.write(tmp_path_factory.mktemp("small")).folder


def test_perplexity(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(LINES[:2]) + "\n")
    compressed.write(tmp_path / "b.txt.gz", f"\n{LINES[2]}\n")
    expected = measure(weights.load(folder), LINES)
    facts = json.loads(elmo("perplexity", folder, tmp_path / "a.txt", tmp_path / "b.txt.gz", "--json"))
    assert facts == {
        "forward": expected.forward,
        "backward": expected.backward,
        "mean": expected.mean,
        "geometric_mean": expected.geometric_mean,
        "tokens": 15,
        "sentences": 3,
        "out_of_vocabulary": 1 / 12,
    }
    files = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    lines = elmo("perplexity", folder, *files, "-o", tmp_path / "results.json").splitlines()
    results = read_results(tmp_path / "results.json")
    assert results.kind == "perplexity" and [file.path for file in results.data] == [str(path) for path in files]
    vocabulary = weights.load(folder).vocabulary
    assert vocabulary and results.numbers == {**facts, "published": False, "vocabulary": len(vocabulary)}
    assert lines[0] == f"forward         {expected.forward:.2f}"
    assert lines[-2:] == ["tokens          15, of which 3 ends of sentences", "unknown         8.33% of the words"]


def test_published_perplexity(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in LINES * 200))
    facts = json.loads(elmo("perplexity", folder, tmp_path / "a.txt", "--json", "--published"))
    assert facts["geometric_mean"] == measure(weights.load(folder), LINES * 200, state="carry").geometric_mean
    assert facts["geometric_mean"] != pytest.approx(measure(weights.load(folder), LINES * 200).geometric_mean, rel=1e-4)


def test_device_and_threads(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(LINES))
    before = torch.get_num_threads()
    try:
        elmo("perplexity", folder, tmp_path / "a.txt", "--threads", 1, "--device", "cpu")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    with pytest.raises(ConfigError, match="device: expected cpu, cuda, cuda:1 or mps, found 'abacus'"):
        elmo("perplexity", folder, tmp_path / "a.txt", "--device", "abacus")


def test_progress_is_a_share_of_the_text(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than is done, though sentences wait for their batch; a speed as soon as it means something."""
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in LINES * 4000))
    lines = elmo("perplexity", folder, tmp_path / "a.txt", "--json").split("{")[0].splitlines()
    pattern = re.compile(r"(\d+)%, ([\d,]+) sentences(, [\d,]+ tokens/s)?(, \d+:\d\d:\d\d left)?")
    found = [match for line in lines if (match := pattern.fullmatch(line))]
    assert len(found) == len(lines) > 5
    for match in found:
        assert int(match[1]) == pytest.approx(int(match[2].replace(",", "")) / 120, abs=2)
    assert found[-1][1] == "100"
    assert "tokens/s" not in elmo("perplexity", folder, tmp_path / "a.txt", "--json", "--quiet")


def test_perplexity_of_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n")
    with pytest.raises(InputError, match="expected at least one sentence"):
        elmo("perplexity", folder, tmp_path / "a.txt")


def test_predict(folder: Path) -> None:
    model = weights.load(folder)
    expected = predict_next(model, WordReader(model), "Let's stick to", top=3)
    assert elmo("predict", "Let's stick to", "--model", folder, "--top", 3).splitlines() == [
        f"{prediction.probability:8.3%}  {prediction.word}" for prediction in expected
    ]


@pytest.mark.parametrize(
    ("options", "text", "direction"),
    [(["--backward"], "on the mat", "backward"), ([], "The ___ sat", "gap"), (["--gap", "?"], "The ? sat", "gap")],
)
def test_predict_as_json(folder: Path, options: list[str], text: str, direction: str) -> None:
    model = weights.load(folder)
    gap = options[1] if len(options) > 1 else "___"
    expected = predict_next(model, WordReader(model), text, direction=direction, gap=gap)  # type: ignore[arg-type]
    assert json.loads(elmo("predict", text, "--model", folder, "--json", *options)) == [
        {"word": prediction.word, "probability": prediction.probability} for prediction in expected
    ]


def test_a_gap_has_no_direction(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--backward: expected a text without ___"):
        elmo("predict", "The ___ sat", "--backward", "--model", folder)
