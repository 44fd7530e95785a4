"""Outputs that are no place for a file: devices, pipes, folders, links, what exists. One rule for all commands.

Every command is run on a small example with each odd output. It must end with one line and exit code 2, or, where the
output is allowed (a link to a new name), with the file behind the link. What was there before stays as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import entity_files
import language_model
import pytest
import sense_files
import synthetic
import torch
from limits import limited
from report_numbers import NUMBERS
from run_folders import write_run
from text_kinds import CONLLU
from typer.testing import CliRunner, Result

from elmokit import weights
from elmokit.analysis.shared.results import Results, write_results
from elmokit.cli import app

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

Arguments = Callable[[Path], list[str]]
FILES = {  # commands whose output is a file, with its suffix
    "embed": ".npz", "hdf5": ".h5", "parquet": ".parquet", "onnx": ".onnx", "evaluate": ".json",
    "task compare": ".json", "wsd": ".json", "probe": ".json", "neighbors": ".json", "perplexity": ".json",
    "polysemy": ".json", "compare": ".json", "picture": ".png", "report": ".html", "static": ".txt",
    "weights": ".json",
}  # fmt: skip
OFTEN = ("embed", "compare", "pretrain")  # in the ordinary tests
FOLDERS = ("index", "convert", "web", "pretrain", "finetune", "task", "pack", "ablate", "sample-efficiency")
EXTRAS = {"parquet": ("pyarrow",), "onnx": ("onnx", "onnxruntime"), "index": ("faiss",)}  # modules of optional extras


def often(names: Iterable[str]) -> list[Any]:
    """Names of commands, slow but for those in OFTEN."""
    return [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Arguments]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("inputs")
    model = str(folder / "model")
    weights.save(weights.load(language_model.write(folder / "published").folder), model)
    text, train = str(synthetic.write(folder / "text.txt", 30)), str(entity_files.write(folder / "ner.txt", 12))
    tagged, triples = folder / "tagged.conllu", folder / "triples.json"
    tagged.write_text(CONLLU)
    triples.write_text(
        '[{"word": "cat", "sense": "a", "other_sense": "b", "same": ["a cat", "the cat"], "other": "cat on"}]'
    )
    bank = ("bank", "bank", "NOUN", [sense_files.BANK_RIVER])
    senses = str(sense_files.write_corpus(folder, "small", [["the", bank], [bank, "away"]]))
    wordnet = str(sense_files.write_wordnet(folder / "wordnet"))
    write_results(folder / "probe.json", Results("probe", "elmo probe", None, (), NUMBERS["probe"]))
    run = str(write_run(folder / "run", dev=30.0, curve=[10, 30], weights=[0.2, 0.3, 0.5]))
    options = folder / "model" / "options.json"
    fit = ["--train", train, "--dev", train, "--model", model, "--epochs", "1", "-q", "--cache-dir", str(folder / "c")]
    trained = str(folder / "trained")
    result = CliRunner().invoke(app, ["task", "ner", "train", *fit, "-o", trained])
    assert result.exit_code == 0, result.output
    steps = ["--train", text, "--steps", "1", "-q"]
    compared = ["compare", "the cat sat", "a cat", "--word", "cat", "--model", model]
    before: dict[str, list[str]] = {
        "embed": ["embed", text, "--model", model, "-q", "-o"],
        "hdf5": ["embed", text, "--model", model, "-q", "-o"],
        "parquet": ["embed", text, "--model", model, "-q", "-o"],
        "onnx": ["export", "onnx", model],
        "evaluate": ["task", "ner", "evaluate", trained, train, "-q", "--cache-dir", str(folder / "c"), "-o"],
        "task compare": ["task", "compare", run, "-o"],
        "pack": ["task", "pack", trained, "-o"],
        "wsd": ["wsd", "--train", senses, "--eval", senses, "--wordnet", wordnet, "--model", model, "-q", "-o"],
        "probe": ["probe", "--train", str(tagged), "--test", str(tagged), "--column", "upos", "--model", model, "-q",
                  "--epochs", "1", "-o"],
        "neighbors": ["neighbors", "the cat sat", "--word", "cat", "--corpus", text, "--model", model, "-q", "-o"],
        "perplexity": ["perplexity", model, text, "-q", "-o"],
        "polysemy": ["polysemy", "--model", model, "--triples", str(triples), "-o"],
        "compare": [*compared, "-o"],
        "picture": [*compared, "-o"],
        "report": ["report", str(folder / "probe.json"), "-o"],
        "static": ["static", "train", "--corpus", text, "--dim", "4", "--epochs", "1", "-q", "-o"],
        "weights": ["task", "weights", run, "-o"],
        "index": ["index", "build", "--corpus", text, "--model", model, "-q", "-o"],
        "convert": ["convert", model],
        "web": ["export", "web", "--model", model],
        "pretrain": ["pretrain", *steps, "--options", str(options), "-o"],
        "finetune": ["finetune", model, *steps, "-o"],
        "task": ["task", "ner", "train", *fit, "-o"],
        "ablate": ["ablate", "ner", *fit, "-o"],
        "sample-efficiency": ["sample-efficiency", "ner", *fit, "--fractions", "1", "-o"],
    }  # fmt: skip
    return {name: lambda output, given=given: [*given, str(output)] for name, given in before.items()}  # type: ignore[misc]


@pytest.fixture(autouse=True)
def extras(request: pytest.FixtureRequest) -> None:
    """Skip commands whose extra is not installed."""
    for module in EXTRAS.get(request.node.callspec.params["name"], ()):
        pytest.importorskip(module)


def ran(arguments: list[str]) -> tuple[int, str]:
    """Exit code and message of a command, run under the limits on memory and time."""

    def work() -> tuple[int, str]:
        result: Result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stderr

    outcome = limited(work)
    assert outcome.kind == "result", outcome
    code, message = outcome.value
    return code, message


def check_refused(arguments: list[str]) -> str:
    """The command ends with exit code 2 and one line, which is returned."""
    code, message = ran(arguments)
    lines = [line for line in message.splitlines() if "warning" not in line]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("elmo: ") and len(lines[0]) < 700, (code, message)
    return lines[0]


@pytest.mark.parametrize("name", often([*FILES, *FOLDERS]))
def test_devices_pipes_and_folders_that_are_missing(commands: dict[str, Arguments], name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    odd = ["/dev/full", "/dev/null", str(tmp_path / "pipe")]
    if name in FILES:
        suffix = FILES[name]
        (tmp_path / f"folder{suffix}").mkdir()
        for path in list(odd):  # and under a name that has the right suffix
            odd.append(str(tmp_path / f"{Path(path).name}{suffix}"))
            os.symlink(path, odd[-1])
        odd += [str(tmp_path / "missing" / f"out{suffix}"), str(tmp_path / f"folder{suffix}")]
    for output in odd:
        check_refused(commands[name](Path(output)))
    if name in FILES:  # the message shows what was given, wherever the stream leads
        assert "/dev/stdout: expected" in check_refused(commands[name](Path("/dev/stdout")))


@pytest.mark.parametrize("name", often(FILES))
def test_a_file_that_exists_stays_and_a_link_is_followed(
    commands: dict[str, Arguments], name: str, tmp_path: Path
) -> None:
    existing, link = tmp_path / f"existing{FILES[name]}", tmp_path / f"link{FILES[name]}"
    existing.write_text("precious")
    link.symlink_to(existing)
    for output in (existing, link):
        check_refused(commands[name](output))
    assert existing.read_text() == "precious" and link.is_symlink()
    behind, dangling = tmp_path / "other" / f"new{FILES[name]}", tmp_path / f"dangling{FILES[name]}"
    behind.parent.mkdir()
    dangling.symlink_to(behind)
    code, message = ran(commands[name](dangling))
    assert code == 0, message
    assert dangling.is_symlink() and behind.stat().st_size > 0
    code, message = ran([*commands[name](link), "--overwrite"])
    assert code == 0, message
    assert link.is_symlink() and existing.read_bytes() != b"precious"


@pytest.mark.parametrize("name", often(FOLDERS))
def test_a_folder_with_files_of_others_stays(commands: dict[str, Arguments], name: str, tmp_path: Path) -> None:
    existing, link = tmp_path / "existing", tmp_path / "link"
    (existing / "checkpoints").mkdir(parents=True)
    (existing / "thesis.txt").write_text("precious")
    (existing / "checkpoints" / "mine.txt").write_text("precious")
    link.symlink_to(existing)
    more = [["--overwrite"]] if name in ("convert", "pretrain", "finetune", "task", "pack") else []
    for output in (existing, link):
        for flags in ([], *more):
            if name in ("ablate", "sample-efficiency") and not flags:  # many runs may stand beside other files
                continue
            check_refused([*commands[name](output), *flags])
    assert sorted(path.name for path in existing.rglob("*")) == ["checkpoints", "mine.txt", "thesis.txt"]
    file = tmp_path / "file"
    file.write_text("precious")
    check_refused(commands[name](file))
    assert file.read_text() == "precious"
