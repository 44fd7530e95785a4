"""`elmo embed` from the outside: what users type, what they get, and what they are told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import compressed
import h5py
import numpy as np
import oracle
import pyarrow.parquet as pq
import pytest
from full_disk import file_size_limit
from typer.testing import CliRunner, Result

import elmokit
from elmokit.cli import app
from elmokit.embed.elmo import Elmo

LINES = ["The cat sat .", "", "Über 東京 !", "The cat sat .", "a b c d e f g h", "( yes )", "so it ends"]
TOKENS = sum(len(line.split()) for line in LINES)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(elmokit.__file__).parents[1].resolve())}  # of other processes
SMALL = ["--chunk-characters", "20"]  # a few lines each


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, np.ndarray]]:
    """A small model in the published layout: its folder, options and weights."""
    folder = tmp_path_factory.mktemp("model")
    options, weights = oracle.random_model(np.random.default_rng(3))
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in weights.items():
            file[name] = array
    return folder, options, weights


@pytest.fixture
def model(published: tuple[Path, Any, Any]) -> str:
    return str(published[0])


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


def elmo(*arguments: str, input: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=input)


def embed(model: str, *arguments: str, input: str | bytes | None = None) -> Result:
    result = elmo("embed", "--model", model, "--state", "reset", *arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def fails(model: str, *arguments: str, input: str | bytes | None = None) -> str:
    """The one line that a command leaves on standard error when it cannot do its work."""
    result = elmo("embed", "--model", model, *arguments, input=input)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("elmo: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def arrays(path: str | Path) -> list[np.ndarray]:
    with h5py.File(path) as file:
        return [file[str(k)][()] for k in range(len(set(file) - {"sentence_to_index"}))]


def start(model: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "elmokit", "embed", "--model", model, "--state", "reset", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def wait_for_chunks(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    """Until so many chunks are there, or the process has ended."""
    while process.poll() is None and len(list(folder.glob("*.chunk"))) < count:
        time.sleep(0.002)


# ---- what comes out


def test_hdf5_is_the_oracles(published: tuple[Path, Any, Any]) -> None:
    folder, options, weights = published
    result = embed(str(folder), "in.txt", "-o", "out.h5", *SMALL)
    assert result.stderr.startswith(f"out.h5: {len(LINES)} sentences, {TOKENS} tokens in ")
    for line, array in zip(LINES, arrays("out.h5"), strict=True):
        assert array.dtype == np.float32
        assert array.shape == (3, len(line.split()), 12)
        if line:
            np.testing.assert_allclose(array, oracle.embed(line.split(), options, weights), atol=1e-5)
    with h5py.File("out.h5") as file:
        assert json.loads(file["sentence_to_index"][0])["The cat sat ."] == "3"


def test_carried_state_passes_through_chunks(published: tuple[Path, Any, Any]) -> None:
    folder, options, weights = published
    lines = [line for line in LINES if line]
    Path("lines.txt").write_text("\n".join(lines), "utf-8")
    result = elmo("embed", "lines.txt", "-o", "out.h5", "--model", str(folder), "--state", "carry", *SMALL)
    assert result.exit_code == 0, result.output
    state = oracle.OracleState()
    for line, array in zip(lines, arrays("out.h5"), strict=True):
        np.testing.assert_allclose(array, oracle.embed(line.split(), options, weights, state), atol=1e-5)


def test_carried_batches_do_not_end_with_chunks(model: str) -> None:
    carry = ["--state", "carry", "--batch-size", "3"]
    result = elmo("embed", "in.txt", "-o", "out.h5", "--model", model, *carry, *SMALL)
    assert result.exit_code == 0, result.output
    whole = Elmo.from_pretrained(model, state="carry").embed(LINES, tokenizer="spaces", batch_size=3)
    for sentence, array in zip(whole, arrays("out.h5"), strict=True):
        np.testing.assert_array_equal(array, sentence.layers)


def test_layers(model: str) -> None:
    embed(model, "in.txt", "-o", "all.h5")
    every = arrays("all.h5")
    for arguments, combine in (
        (["--layers", "top"], lambda layers: layers[2]),
        (["--layers", "0"], lambda layers: layers[0]),
        (["--layers", "1"], lambda layers: layers[1]),
        (["--layers", "average"], lambda layers: layers.mean(axis=0)),
        (["--mix", "0.5,0,-2"], lambda layers: 0.5 * layers[0] - 2 * layers[2]),
    ):
        embed(model, "in.txt", "-o", "one.h5", "--overwrite", *arguments)
        for layers, array in zip(every, arrays("one.h5"), strict=True):
            assert array.ndim == 2
            np.testing.assert_allclose(array, combine(layers), atol=1e-6)


def test_pool(model: str) -> None:
    embed(model, "in.txt", "-o", "all.h5", "--layers", "top")
    embed(model, "in.txt", "-o", "mean.h5", "--layers", "top", "--pool", "mean")
    embed(model, "in.txt", "-o", "words.h5", "--layers", "top", "--pool", "max", "--no-punctuation")
    embed(model, "in.txt", "-o", "rows.parquet", "--layers", "top", "--pool", "mean")
    tokens, means, words = arrays("all.h5"), arrays("mean.h5"), arrays("words.h5")
    assert {array.shape for array in means} == {(12,)}
    assert not means[1].any()  # a blank line
    np.testing.assert_allclose(means[0], tokens[0].mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(words[5], tokens[5][1])  # of "( yes )" one word counts
    np.testing.assert_array_equal(np.array(pq.read_table("rows.parquet")["vector"].to_pylist(), np.float32), means)


def test_parquet_and_npz_hold_the_same(model: str) -> None:
    embed(model, "in.txt", "-o", "a.h5")
    embed(model, "in.txt", "-o", "a.npz")
    embed(model, "in.txt", "-o", "a.parquet")
    embed(model, "in.txt", "-o", "sentences.bin", "--format", "parquet", "--rows", "sentences", "--layers", "2")
    expected = arrays("a.h5")
    with np.load("a.npz", allow_pickle=False) as file:
        assert len(file.files) == 2 * len(LINES)
        assert [json.loads(file[f"{k}.json"])["tokens"] for k in range(len(LINES))] == [line.split() for line in LINES]
        for k, array in enumerate(expected):
            np.testing.assert_array_equal(file[str(k)], array)
    table = pq.read_table("a.parquet")
    assert table["token"].to_pylist() == " ".join(LINES).split()
    np.testing.assert_array_equal(
        np.array(table["layer_2"].to_pylist(), np.float32), np.concatenate([array[2] for array in expected])
    )
    table = pq.read_table("sentences.bin")
    assert table["text"].to_pylist() == LINES
    assert [len(vectors) for vectors in table["vector"].to_pylist()] == [len(line.split()) for line in LINES]


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_dtypes(model: str, dtype: str) -> None:
    embed(model, "in.txt", "-o", "a.h5")
    embed(model, "in.txt", "-o", "b.h5", "--dtype", dtype)
    for exact, array in zip(arrays("a.h5"), arrays("b.h5"), strict=True):
        assert array.dtype == ("float16" if dtype == "float16" else "float32")
        np.testing.assert_allclose(array, exact, atol=2e-3 if dtype == "float16" else 0.2)


def test_compressed_inputs_and_standard_input_are_one_text(model: str, text: Path) -> None:
    content = text.read_bytes()
    names = [str(compressed.write(Path(f"a{suffix}"), content.decode())) for suffix in compressed.SUFFIXES]
    embed(model, "in.txt", "-o", "one.h5")
    embed(model, "in.txt", names[0], "-", *names[1:], "-o", "many.h5", input=content)
    one, many = arrays("one.h5"), arrays("many.h5")
    assert len(many) == 6 * len(one)
    for k, array in enumerate(many):
        np.testing.assert_allclose(array, one[k % len(one)], atol=1e-6)


def test_raw_text(model: str) -> None:
    Path("raw.txt").write_text("Don't panic. It's\u00a0fine.\n\nReally.\n", "utf-8")
    embed(model, "raw.txt", "-o", "a.parquet", "--split-sentences", "--layers", "top")
    table = pq.read_table("a.parquet")
    assert table["token"].to_pylist() == ["Do", "n't", "panic", ".", "It", "'s", "fine", ".", "Really", "."]
    assert table["sentence"].to_pylist() == [0] * 4 + [1] * 4 + [2] * 2
    assert table["start"].to_pylist()[:4] == [0, 2, 6, 11]
    embed(model, "raw.txt", "-o", "b.parquet", "--tokenizer", "words", "--layers", "top", "--rows", "sentences")
    assert len(pq.read_table("b.parquet")) == 3


def test_raw_text_gets_the_tokenizer_of_the_model_and_tokenized_text_none(model: str) -> None:
    def tokens(content: str, *options: str) -> list[str]:
        Path("some.txt").write_text(content, "utf-8")
        embed(model, "some.txt", "-o", "a.parquet", "--layers", "top", "--overwrite", *options)
        found: list[str] = pq.read_table("a.parquet")["token"].to_pylist()
        return found

    raw = '"I can\'t," he said. (Really?)\n'
    assert tokens(raw) == ['"', "I", "ca", "n't", ",", '"', "he", "said", ".", "(", "Really", "?", ")"]
    assert tokens(raw, "--tokenizer", "spaces") == raw.split()
    already = "He can not have said cannot or a/b , Mr. X , in the U.S. .\n"
    assert tokens(already) == already.split()
    assert tokens(already, "--tokenizer", "words") != already.split()


def test_the_tokenizer_that_a_model_names_is_used(model: str, tmp_path: Path) -> None:
    named = tmp_path / "han"
    shutil.copytree(model, named)
    options = json.loads((named / "options.json").read_text())
    options.setdefault("elmokit", {})["tokenizer"] = "han"
    (named / "options.json").write_text(json.dumps(options))
    Path("zh.txt").write_text("我喜欢吃苹果\n我 爱 你\n", "utf-8")
    assert "warning" not in embed(str(named), "zh.txt", "-o", "a.parquet", "--layers", "top").stderr
    assert pq.read_table("a.parquet")["token"].to_pylist() == list("我喜欢吃苹果我爱你")


def test_attached_punctuation_is_warned_of(model: str) -> None:
    Path("raw.txt").write_text("One, two, three. Four!\n")
    result = embed(model, "raw.txt", "-o", "a.h5", "--tokenizer", "spaces", "--quiet")
    assert result.stderr.startswith("elmo: warning: 100% of the tokens have punctuation attached, such as 'One,'")
    assert embed(model, "raw.txt", "-o", "b.h5", "--quiet").stderr == ""
    Path("zh.txt").write_text("我喜欢吃苹果\n", "utf-8")
    assert "han (Chinese)" in embed(model, "zh.txt", "-o", "c.h5").stderr


def test_lines_of_split_sentences_and_pooled_texts(model: str) -> None:
    Path("raw.txt").write_text("One. Two.\n\nThree.\n")
    embed(model, "raw.txt", "-o", "a.h5", "--split-sentences")
    with h5py.File("a.h5") as file:
        assert [json.loads(file[str(k)].attrs["line"]) for k in range(3)] == [1, 1, 3]
        assert json.loads(file["2"].attrs["tokens"]) == ["Three", "."]
    embed(model, "raw.txt", "-o", "a.npz", "--split-sentences", "--pool", "mean")
    with np.load("a.npz") as file:
        assert file["vectors"].shape[0] == 3 and json.loads(file["texts.json"]) == ["One.", "Two.", "Three."]


def test_resuming_a_complete_file_says_so(model: str) -> None:
    embed(model, "in.txt", "-o", "a.h5")
    before = Path("a.h5").read_bytes()
    result = embed(model, "in.txt", "-o", "a.h5", "--resume")
    assert result.stderr == "a.h5: is complete, nothing to resume; use --overwrite to create it again\n"
    assert Path("a.h5").read_bytes() == before and not Path("a.h5.part").exists()


def test_an_empty_input_gives_an_empty_file_and_a_warning(model: str) -> None:
    Path("empty.txt").touch()
    for name in ("a.h5", "a.npz", "a.parquet"):
        result = embed(model, "empty.txt", "-o", name)
        assert result.stderr == f"elmo: warning: the input is empty, and so is {name}\n"
    assert arrays("a.h5") == []
    assert np.load("a.npz").files == []
    assert len(pq.read_table("a.parquet")) == 0


def test_sentences_as_keys(model: str, text: Path) -> None:
    text.write_text("a b .\n c / d\nc\n", "utf-8")
    embed(model, "in.txt", "-o", "numbers.h5")
    embed(model, "in.txt", "-o", "out.h5", "--use-sentence-keys", *SMALL)
    with h5py.File("out.h5") as found, h5py.File("numbers.h5") as numbers:
        assert sorted(found) == ["a b .", "c", "c "]  # a slash makes a group, as in the old command
        for key, number in (("a b .", "0"), ("c / d", "1"), ("c", "2")):
            np.testing.assert_array_equal(found[key], numbers[number])
    assert "HDF5 file to write, found npz" in fails(model, "in.txt", "-o", "out.npz", "--use-sentence-keys")
    for lines, place in (
        ("a\nb\n a\n", 3),
        ("a\n\n", 2),
        ("a/b\na\n", 2),
        ("a\na/b\n", 2),
        ("a/b\na//b\n", 2),
        (".\n", 1),
    ):
        for name, input in (("in.txt", None), ("-", lines)):
            text.write_text(lines, "utf-8")
            told = fails(model, name, "-o", "again.h5", "--use-sentence-keys", "--overwrite", input=input)
            assert f"line {place}: " in told and "leave out --use-sentence-keys" in told
    assert not Path("again.h5").exists()


def test_blank_lines_are_refused_on_demand(model: str) -> None:
    told = fails(model, "in.txt", "-o", "out.h5", "--blank-lines", "error")
    assert "line 2: expected words, found a blank line" in told
    assert not Path("out.h5").exists() and not Path("out.h5.part").exists()  # found before anything is computed
    embed(model, "in.txt", "-o", "out.h5", "--blank-lines", "keep")
    assert arrays("out.h5")[1].shape == (3, 0, 12)


def test_forgotten_sentences_and_silence(model: str) -> None:
    result = embed(model, "in.txt", "-o", "a.h5", "--forget-sentences", "--quiet")
    assert result.output == ""
    with h5py.File("a.h5") as file:
        assert "sentence_to_index" not in file


# ---- what users are told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt", "-o", "a.h5"], "missing.txt: expected a readable text file (No such file or directory)"),
        (["in.txt", "missing.txt", "-o", "a.h5"], "missing.txt: expected"),
        (["in.txt", "-o", "a.h5", "--layers", "best"], "--layers: expected all, top, average or the number"),
        (["in.txt", "-o", "a.h5", "--layers", "3"], "this model has 0 to 2, found 3"),
        (["in.txt", "-o", "a.h5", "--mix", "1,2"], "expected 3 weights, one per layer, found 2"),
        (["in.txt", "-o", "a.h5", "--mix", "1,x,2"], "--mix: expected numbers such as 0.2,0.3,0.5, found '1,x,2'"),
        (["in.txt", "-o", "a.txt"], "a.txt: expected a name that ends in .h5, .hdf5, .parquet, .npz; or use --format"),
        (["in.txt", "-o", "no/a.h5"], "create it"),
        (["in.txt", "-o", "a.h5", "--tokenizer", "letters"], "expected words, han, spaces, spacy:"),
        (["in.txt", "-o", "a.parquet", "--pool", "max", "--rows", "tokens"], "--rows: expected sentences"),
        (["in.txt", "-o", "a.h5", "--device", "abacus"], "device: expected"),
        (
            ["in.txt", "-o", "a.h5", "--layers", "top", "--mix", "1,2,3"],
            "--mix: cannot be combined with --layers; leave one out",
        ),
        (["in.txt", "-o", "a.npz", "--rows", "tokens"], "--rows: expected a Parquet file to write, found npz"),
        (["in.txt", "-o", "a.parquet", "--forget-sentences"], "--forget-sentences: expected an HDF5 or npz file"),
        (["in.txt", "-o", "a.h5", "--no-punctuation"], "--no-punctuation: expected --pool, found none"),
        (["in.txt", "-o", "in.txt", "--format", "npz", "--overwrite"], "in.txt: is also an input file"),
    ],
)
def test_faults_are_one_line(model: str, arguments: list[str], message: str) -> None:
    assert message in fails(model, *arguments)
    assert sorted(os.listdir()) == ["in.txt"]


def test_a_missing_model_is_one_line() -> None:
    assert "nowhere" in fails("nowhere", "in.txt", "-o", "a.h5")


def test_usage_errors(model: str) -> None:
    assert elmo("embed", "in.txt").exit_code == 2  # no -o
    assert elmo("embed", "in.txt", "-o", "a.h5", "--state", "odd").exit_code == 2
    assert elmo("embed", "in.txt", "-o", "a.h5", "--batch-size", "0").exit_code == 2
    assert elmo("embed", "in.txt", "-o", "a.h5", "--threads", "99999999999999").exit_code == 2


def test_a_full_memory_is_one_line(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("elmokit.embed.embed_files.embed_files", fail)
    assert "out of memory; try" in fails(model, "in.txt", "-o", "a.h5")


def test_bytes_that_are_no_utf8(model: str) -> None:
    Path("bad.txt").write_bytes(b"fine\nca\xff t\n")
    assert "bad.txt: line 2, byte 3 is not UTF-8" in fails(model, "bad.txt", "-o", "a.parquet")
    embed(model, "bad.txt", "-o", "a.parquet", "--encoding-errors", "replace")
    assert pq.read_table("a.parquet")["token"].to_pylist() == ["fine", "ca\ufffd", "t"]
    embed(model, "bad.txt", "-o", "a.parquet", "--encoding-errors", "ignore", "--overwrite")
    assert pq.read_table("a.parquet")["token"].to_pylist() == ["fine", "ca", "t"]


def test_an_existing_output_needs_overwrite(model: str) -> None:
    embed(model, "in.txt", "-o", "a.h5")
    before = Path("a.h5").read_bytes()
    assert "a.h5: exists already; use --overwrite" in fails(model, "in.txt", "-o", "a.h5", "--layers", "top")
    assert Path("a.h5").read_bytes() == before
    embed(model, "in.txt", "-o", "a.h5", "--layers", "top", "--overwrite")
    assert arrays("a.h5")[0].ndim == 2


def test_a_second_process_is_told(model: str) -> None:
    fcntl = pytest.importorskip("fcntl", reason="needs a POSIX system")
    Path("a.h5.part").mkdir()
    with open("a.h5.part/lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "a.h5: another process is writing it" in fails(model, "in.txt", "-o", "a.h5", "--resume")
    embed(model, "in.txt", "-o", "a.h5", "--resume")  # the lock went with its process; there was nothing to resume


@pytest.mark.parametrize("limit", [600, 3000])
def test_a_full_disk_is_one_line_and_loses_nothing(model: str, limit: int) -> None:
    """600 bytes: a chunk does not fit; 3000: chunks do, the output does not."""
    embed(model, "in.txt", "-o", "whole.h5", *SMALL)
    Path("a.h5").write_bytes(b"old")
    arguments = ["in.txt", "-o", "a.h5", "--state", "reset", "--overwrite", *SMALL]
    with file_size_limit(limit):
        assert "File too large; finished work is kept in" in fails(model, *arguments)
    assert Path("a.h5").read_bytes() == b"old"
    embed(model, *arguments, "--resume")
    assert Path("a.h5").read_bytes() == Path("whole.h5").read_bytes()
    assert not Path("a.h5.part").exists()


def test_resume_with_other_flags_names_them(model: str) -> None:
    Path("bad.txt").write_bytes(b"a good line of text\nanother line of text\n\xff\n")
    arguments = ["bad.txt", "-o", "a.npz", "--state", "reset", *SMALL]
    assert "line 3" in fails(model, *arguments)
    assert "use --resume, or --overwrite" in fails(model, *arguments)
    message = fails(model, *arguments, "--resume", "--layers", "top", "--tokenizer", "words")
    assert "the unfinished run had --layers all (now top), --tokenizer automatic (words) (now words)" in message
    # what was read stays as it was, so this may change
    result = embed(model, *arguments, "--resume", "--encoding-errors", "replace")
    assert "3 sentences (2 resumed)" in result.stderr


# ---- signals


def test_killed_and_resumed_gives_the_same_bytes(model: str) -> None:
    Path("big.txt").write_text("".join(f"line {k} of {'so ' * (k % 7)}many\n" for k in range(500)))
    arguments = ["big.txt", "-o", "a.h5", "--chunk-characters", "200"]
    embed(model, "big.txt", "-o", "whole.h5", "--chunk-characters", "200")
    for count in (3, 15):
        process = start(model, *arguments, "--resume")
        wait_for_chunks(process, Path("a.h5.part"), count)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not Path("a.h5").exists()
    result = embed(model, *arguments, "--resume")
    assert "resumed" in result.stderr
    assert Path("a.h5").read_bytes() == Path("whole.h5").read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_says_how_to_go_on(model: str, number: int, code: int) -> None:
    Path("big.txt").write_text("a b c\n" * 5000)
    process = start(model, "big.txt", "-o", "a.h5", "--chunk-characters", "60")
    wait_for_chunks(process, Path("a.h5.part"), 2)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert errors == "elmo: stopped; run the same command with --resume to continue\n"
    assert Path("a.h5.part").is_dir()


# ---- help


def test_help_is_quick_and_names_every_option() -> None:
    code = (
        "import sys; from elmokit.__main__ import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "except SystemExit: print(sorted({name.split('.')[0] for name in sys.modules}"
        " & {'torch', 'numpy', 'h5py', 'pyarrow', 'rich', 'spacy', 'nltk'}))"
    )
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
    assert output.splitlines()[-1] == "[]"
    assert all(name in output for name in ("embed", "convert", "info"))
    text = elmo("embed", "--help").output
    for option in (
        "-o",
        "--output",
        "--model",
        "--state",
        "--batch-size",
        "--tokenizer",
        "--layers",
        "--format",
        "--dtype",
        "--resume",
        "--overwrite",
        "--mix",
        "--pool",
        "--no-punctuation",
        "--rows",
        "--encoding-errors",
        "--threads",
        "--device",
        "--batch-tokens",
        "--split-sentences",
        "--forget-sentences",
        "--quiet",
    ):
        assert option in text
    assert "elmo embed sentences.txt -o vectors.h5" in text


def test_version() -> None:
    assert elmo("--version").output.startswith("elmo 0.")
