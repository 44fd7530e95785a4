"""Ray on a local cluster: the rows of one process, whatever is killed. Its pure parts: tests/embed/test_shards.py."""

from __future__ import annotations

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
from elmokit.embed.embed_files import embed_files

ROOT = Path(__file__).parents[2]
SENTENCES = [f"Sentence {n} is about the bank of the river , number {n * n} ." for n in range(1200)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-actors", "2"], "--num-actors: expected --ray"),
        (["--ray", "local", "--overwrite"], "--overwrite: not available with --ray"),
        (["--ray", "local", "--format", "npz"], "--format: not available with --ray"),
        (["--ray", "local", "--pool", "mean", "--rows", "tokens"], "--rows: expected sentences"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "a.txt").write_text("A present .\n")
    result = CliRunner().invoke(app, ["embed", str(tmp_path / "a.txt"), "-o", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_faults_before_a_cluster_starts(tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason="needs elmokit[ray]")
    for text, options, message in [
        ("missing.txt", [], "missing.txt"),
        ("*.gz", [], "expected files that match, found none"),
        ("a.txt", ["--state", "carry"], "state: expected reset or warm on Ray, found carry"),
        ("a.txt", ["--layers", "7"], "this model has 0 to 2"),
        ("a.txt", ["--ray", "nonsense"], "--ray: expected local, auto or an address"),
        ("a.txt", ["--ray", "127.0.0.1:1"], "--ray: expected a cluster at 127.0.0.1:1"),
    ]:
        (tmp_path / "a.txt").write_text("A present .\n")
        command = [
            "embed",
            str(tmp_path / text),
            "-o",
            str(tmp_path / "out"),
            "--ray",
            "local",
            *options,
        ]  # the last --ray counts
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
    pytest.importorskip("ray.data", reason="needs elmokit[ray]")
    (tmp_path / "bad.txt").write_bytes(b"A present .\nbad \xff byte\n")
    run = [sys.executable, "-m", "elmokit", "embed", "bad.txt", "-o", "out", "--ray", "local", "--num-actors", "1"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "line 2, byte 5 is not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(540)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find an actor")
def test_a_killed_actor_and_a_resumed_run_lose_and_repeat_no_row(corpus: Path, expected: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason="needs elmokit[ray]")
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
    pytest.importorskip("ray.data", reason="needs elmokit[ray]")
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
    pytest.importorskip("ray.data", reason="needs elmokit[ray]")
    page = (ROOT / "docs" / "integrations" / "scale.md").read_text(encoding="utf-8")
    block = page.partition("<!-- tested: ray -->\n```python\n")[2].partition("```")[0]
    assert "embed_dataset" in block
    check = (
        "\nimport numpy as np, elmokit"
        "\nrows = vectors.take_all()"
        "\nassert [row['id'] for row in rows] == list(range(1000))"
        "\nexpected = elmokit.load().encode([row['text'] for row in rows])"
        "\nprint(np.abs(np.array([row['vector'] for row in rows]) - expected).max())"
    )
    (tmp_path / "example.py").write_text(block + check)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) < 1e-5
