"""Ray on a local cluster: the rows of one process, whatever is killed. Its pure parts: tests/embed/test_shards.py."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shown_commands import check
from typer.testing import CliRunner

from elmokit import Elmo
from elmokit.cli import app
from elmokit.embed.embed_files import Progress, embed_files
from elmokit.embed.shards import Embedding
from elmokit.errors import ConfigError, InputError
from elmokit.integrations.ray import add_vectors, embed_dataset

ROOT = Path(__file__).parents[2]
RAY = "needs elmokit[ray]: make ray"
SENTENCES = [f"Sentence {n} is about the bank of the river , number {n * n} ." for n in range(1200)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-actors", "2"], "--num-actors: expected --ray"),
        (["--ray", "local", "--overwrite"], "--overwrite: not available with --ray"),
        (["--ray", "local", "--format", "npz"], "--format: not available with --ray"),
        (["--ray", "local", "--pool", "mean", "--rows", "tokens"], "--rows: expected sentences"),
        (["--ray", "local", "auto"], "--ray: expected one address, found local and auto"),
        (["--ray", "--ray-address", "nonsense", "--overwrite"], "--overwrite: not available with --ray"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "a.txt").write_text("A present .\n")
    result = CliRunner().invoke(app, ["embed", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "inputs", "address"),
    [
        (["a.txt", "-o", "out", "--ray"], ["a.txt"], "auto"),
        (["--ray", "a.txt", "b.txt", "-o", "out"], ["a.txt", "b.txt"], "auto"),
        (["a.txt", "--ray", "--num-actors", "2", "-o", "out"], ["a.txt"], "auto"),
        (["a.txt", "-o", "out", "--ray", "local"], ["a.txt"], "local"),
        (["--ray", "auto", "a.txt", "-o", "out"], ["a.txt"], "auto"),
        (["a.txt", "--ray", "10.0.0.1:6379", "-o", "out"], ["a.txt"], "10.0.0.1:6379"),
        (["a.txt", "--ray", "[::1]:6379", "-o", "out"], ["a.txt"], "[::1]:6379"),
        (["a.txt", "--ray", "ray://head:10001", "-o", "out"], ["a.txt"], "ray://head:10001"),
        (["a.txt", "--ray", "--ray-address", "head:1", "-o", "out"], ["a.txt"], "head:1"),
        (["local", "--ray-address", "auto", "-o", "out"], ["local"], "auto"),  # here `local` is a file
        (["./local", "--ray", "-o", "out"], ["./local"], "auto"),
    ],
)
def test_the_address_is_optional(
    words: list[str], inputs: list[str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def embed_files_on_ray(inputs: list[str], *_: Any, address: str, **__: Any) -> Progress:
        asked.append((inputs, address))
        return Progress()

    monkeypatch.setattr("elmokit.integrations.ray.embed_files_on_ray", embed_files_on_ray)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["embed", *words])
    assert (result.exit_code, asked) == (0, [(inputs, address)]), result.output


def test_an_ambiguous_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["embed", "--ray", "local", "-o", "out"])
    assert result.exit_code == 2 and "INPUT: expected text files, found only the address local" in result.stderr
    (tmp_path / "local").write_text("A present .\n")
    result = CliRunner().invoke(app, ["embed", "--ray", "local", "a.txt", "-o", "out"])
    assert result.exit_code == 2 and "write ./local for the file, or --ray-address ADDRESS" in result.stderr


def test_faults_before_a_cluster_starts(tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason=RAY)
    for text, options, message in [
        ("missing.txt", [], "missing.txt"),
        ("*.gz", [], "expected files that match, found none"),
        ("a.txt", ["--state", "carry"], "state: expected reset or warm on Ray, found carry"),
        ("a.txt", ["--layers", "7"], "this model has 0 to 2"),
        ("a.txt", ["--ray-address", "nonsense"], "--ray: expected local, auto or an address"),
        ("a.txt", ["nonsense"], "nonsense"),
        ("a.txt", ["127.0.0.1:1"], "--ray: expected a cluster at 127.0.0.1:1"),
    ]:
        (tmp_path / "a.txt").write_text("A present .\n")
        command = ["embed", str(tmp_path / text), "-o", str(tmp_path / "out"), *options, "--ray"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for k in range(3):
        lines = SENTENCES[k * 400 : (k + 1) * 400]
        (folder / f"{k}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def expected(corpus: Path, tmp_path: Path) -> Any:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs elmokit[parquet]")
    embed_files(Elmo.from_pretrained(), sorted(corpus.iterdir()), tmp_path / "one.parquet", layers="top")
    return parquet.read_table(tmp_path / "one.parquet")


def command(corpus: Path, target: Path, address: str = "local") -> list[str]:
    options = ["--layers", "top", "--ray", address, "--num-actors", "2", "--chunk-characters", "2000"]
    return [sys.executable, "-m", "elmokit", "embed", str(corpus / "*.txt"), "-o", str(target), *options]


def require_same_rows(target: Path, expected: Any) -> None:
    """Every row once and in order: all columns are equal, vectors to 1e-5."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(target)
    assert found.drop_columns(["vector"]).equals(expected.drop_columns(["vector"]))
    a, b = (np.stack(table["vector"].to_numpy()) for table in (found, expected))
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert (target / "_manifest.json").is_file() and not list(target.glob(".*"))


def descendants(process: int) -> Iterator[tuple[int, str]]:
    """Processes that a process has started, and theirs, with their command lines."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = (int(fields[1]), (folder / "cmdline").read_text())
        except OSError:  # it has ended
            continue
    for number, (_, line) in parents.items():
        above = number
        while above in parents and above != process:
            above = parents[above][0]
        if above == process and number != process:
            yield number, line


@pytest.mark.slow
@pytest.mark.timeout(540)
def test_a_fault_on_a_worker_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason=RAY)
    (tmp_path / "bad.txt").write_bytes(b"A present .\nbad \xff byte\n")
    run = [sys.executable, "-m", "elmokit", "embed", "bad.txt", "-o", "out", "--ray", "local", "--num-actors", "1"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "line 2, byte 5 is not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(540)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find an actor")
def test_a_killed_actor_and_a_resumed_run_lose_and_repeat_no_row(corpus: Path, expected: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason=RAY)
    target = tmp_path / "vectors"
    run = subprocess.Popen(command(corpus, target), stderr=subprocess.PIPE, text=True)

    def wait_for(shards: int) -> None:
        while len(list(target.glob("part-*"))) < shards:
            assert run.poll() is None, run.stderr.read() if run.stderr else ""
            time.sleep(0.05)

    wait_for(1)
    actors = [number for number, line in descendants(run.pid) if "ShardEmbedder" in line]
    assert actors, [line for _, line in descendants(run.pid)]
    os.kill(actors[0], signal.SIGKILL)
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    require_same_rows(target, expected)
    assert "1,200 sentences" in errors

    shards = sorted(target.glob("part-*"))
    assert len(shards) > 20
    kept = shards[0].stat().st_mtime_ns
    (target / "_manifest.json").unlink()  # as if the run had ended before its last shards
    for shard in shards[1::2]:
        shard.unlink()
    resumed = subprocess.run([*command(corpus, target), "--resume"], capture_output=True, text=True, check=True)
    require_same_rows(target, expected)
    assert "resumed" in resumed.stderr and shards[0].stat().st_mtime_ns == kept
    again = subprocess.run([*command(corpus, target), "--resume"], capture_output=True, text=True, check=True)
    assert "is complete" in again.stderr


@pytest.mark.slow
@pytest.mark.timeout(540)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find an actor")
def test_a_killed_node_loses_and_repeats_no_row(corpus: Path, expected: Any, tmp_path: Path) -> None:
    """Two nodes on this machine; the one that does not hold the cluster together is killed with its actor."""
    pytest.importorskip("ray.data", reason=RAY)
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 2, "object_store_memory": 200 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    try:
        node = cluster.add_node(**small)
        raylet = node.all_processes["raylet"][0].process.pid
        target = tmp_path / "vectors"
        run = subprocess.Popen(command(corpus, target, cluster.address), stderr=subprocess.PIPE, text=True)
        while not (
            list(target.glob("part-*")) and any("ShardEmbedder" in line for _, line in descendants(raylet))
        ):  # the node has an actor, and the run has begun to write
            assert run.poll() is None, run.stderr.read() if run.stderr else ""
            time.sleep(0.05)
        written = len(list(target.glob("part-*")))
        cluster.remove_node(node, allow_graceful=False)  # SIGKILL
        _, errors = run.communicate()
        assert run.returncode == 0, errors
        require_same_rows(target, expected)
        assert "1,200 sentences" in errors and written < len(list(target.glob("part-*")))
    finally:
        cluster.shutdown()


TEXTS = ["A present.", None, "The bank of the river."]


@pytest.mark.parametrize("layers", ["all", "average", 1, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("pool", [None, "mean"])
def test_columns_of_a_dataset_are_those_of_embed(layers: Any, pool: Any, tmp_path: Path) -> None:
    """Names, types and vectors as in the Parquet file of one process, rows of sentences."""
    pa = pytest.importorskip("pyarrow", reason="needs elmokit[parquet]")
    parquet = pytest.importorskip("pyarrow.parquet")
    elmo = Elmo.from_pretrained()
    (tmp_path / "a.txt").write_text("".join(f"{text or ''}\n" for text in TEXTS))
    embed_files(
        elmo,
        [tmp_path / "a.txt"],
        tmp_path / "a.parquet",
        layers=layers,
        pool=pool,
        rows="sentences",
        tokenizer="words",
    )
    expected = parquet.read_table(tmp_path / "a.parquet").drop_columns(["sentence", "line", "text"])
    table = pa.table({"id": [1, 2, 3], "text": TEXTS})
    found = add_vectors(elmo, table, "text", Embedding(layers, "words", pool))
    assert found.select(["id", "text"]).equals(table)
    if pool:
        expected = expected.drop_columns(["tokens"])
    assert found.column_names == ["id", "text", *expected.column_names]
    for name in expected.column_names:
        assert found[name].type == expected[name].type, name
        if name != "tokens":
            for a, b in zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True):
                np.testing.assert_allclose(np.array(a), np.array(b), atol=1e-5)
    assert layers != "all" or pool or np.abs(np.subtract(*(found[f"layer_{k}"][0].as_py() for k in (0, 2)))).max() > 0.1


def test_columns_of_an_empty_dataset_and_taken_names() -> None:
    pa = pytest.importorskip("pyarrow", reason="needs elmokit[parquet]")
    elmo = Elmo.from_pretrained(dtype="float16")
    empty = pa.table({"text": pa.array([], pa.string())})
    vector = pa.list_(pa.float16(), elmo.config.vector_dim)
    assert add_vectors(elmo, empty, "text", Embedding("top", pool="max"))["vector"].type == vector
    assert add_vectors(elmo, empty, "text", Embedding("top"))["vector"].type == pa.list_(vector)
    with pytest.raises(InputError, match="column: expected one of text, found 'words'"):
        add_vectors(elmo, empty, "words", Embedding("top"))
    with pytest.raises(InputError, match="expected no column 'text', which is added"):
        add_vectors(elmo, empty, "text", Embedding("top", pool="max"), "text")


def test_a_name_for_the_vectors_of_all_layers() -> None:
    pytest.importorskip("ray.data", reason=RAY)
    with pytest.raises(ConfigError, match="the columns are layer_0, layer_1"):
        embed_dataset(None, layers="all", pool=None, vector_column="elmo")


def test_the_overhead_is_the_median_over_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """benchmarks/ray_overhead.py: ratios are taken within a round; times that say nothing are left out."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("ray_overhead")
    rounds = [
        {"one process": {"total": 10.0, "steady": 5.0}, "ray": {"total": ray, "steady": 5.0 + k}}
        for k, ray in enumerate((11.0, 20.0, 12.0))
    ]
    found = benchmark.summary(rounds, {"all": 1000, "tenth": 100})
    assert found["total"]["overhead percent"] == 20 and found["total"]["overhead range"] == [10, 100]
    assert found["steady"]["overhead percent"] == 20 and found["steady"]["ray"]["words per second"] == 150
    assert "| whole command | 100 | 83 | 20% (10% to 100%) |" in benchmark.table(found)
    rounds[0]["ray"]["steady"] = -1.0
    found = benchmark.summary(rounds, {"all": 1000, "tenth": 100})
    assert list(found) == ["total"] and len(benchmark.table(found).splitlines()) == 3
    assert "steady: the text is too short" in capsys.readouterr().err


def test_partitions_of_the_page() -> None:
    """The functions for Dask and Spark, called as those call them: partition by partition."""
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    page = (ROOT / "docs" / "integrations" / "scale.md").read_text(encoding="utf-8")
    block = page.partition("<!-- tested: partitions -->\n```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(block, "scale.md", "exec"), names)
    frame = pandas.DataFrame({"id": [1, 2, 3], "text": ["A present.", "", "The bank of the river."]})
    found = pandas.concat(names["embed_partitions"](iter([frame[:1], frame[1:]])))
    assert found["id"].tolist() == [1, 2, 3]
    expected = Elmo.from_pretrained().encode(frame["text"].tolist())
    np.testing.assert_allclose(np.stack(found["vector"]), expected, atol=1e-5)


def test_commands_of_the_pages() -> None:
    for name, count in (("scale.md", 2), ("onnx.md", 1)):
        assert check((ROOT / "docs" / "integrations" / name).read_text(encoding="utf-8")) == count


@pytest.mark.slow
@pytest.mark.timeout(540)
def test_the_page(tmp_path: Path) -> None:
    """The Ray example of docs/integrations/scale.md, and its vectors beside those of one process."""
    pytest.importorskip("ray.data", reason=RAY)
    page = (ROOT / "docs" / "integrations" / "scale.md").read_text(encoding="utf-8")
    block = page.partition("<!-- tested: ray -->\n```python\n")[2].partition("```")[0]
    assert "embed_dataset" in block
    check = (
        "\nimport numpy as np, elmokit"
        "\nrows = vectors.take_all()"
        "\nassert [row['id'] for row in rows] == list(range(1000))"
        "\nexpected = elmokit.load().encode([row['text'] for row in rows])"
        "\nworst = np.abs(np.array([row['vector'] for row in rows]) - expected).max()"
        "\nimport pyarrow.parquet as parquet"
        "\nassert parquet.read_table('vectors').schema.field('vector').type.list_size == expected.shape[1]"
        "\nlayers = embed_dataset(ray.data.from_items(texts[:50]), num_actors=1, pool=None, layers='all').take_all()"
        "\nfor row, sentence in zip(layers, elmokit.load().embed([row['text'] for row in layers]), strict=True):"
        "\n    found = np.array([[list(vector) for vector in row[f'layer_{k}']] for k in range(3)])"
        "\n    worst = max(worst, np.abs(found - sentence.layers).max())"
        "\nprint(worst)"
    )
    (tmp_path / "example.py").write_text(block + check)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1e-5
