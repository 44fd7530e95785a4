"""Folders of shards: order, numbers, resume and settings, in one process."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit import Elmo
from elmokit.embed.embed_files import embed_files
from elmokit.embed.shards import Embedding, Reading, ShardFolder, expand, read_shards, shard_sizes, write_shard
from elmokit.errors import ConfigError, InputError, OutputError

parquet = pytest.importorskip("pyarrow.parquet", reason="needs elmokit[parquet]")

READING = Reading(characters=40)
LINES = ["I will buy you a present .", "", "Live in the present !", "A bank .", "The river bank , again ."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three files, one of them compressed and one of them empty."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "b.txt").write_text("")
    with lzma.open(folder / "c.txt.xz", "wt") as file:
        file.writelines(f"{line}\n" for line in reversed(LINES))
    return folder


def write_all(files: list[str], target: Path, embedding: Embedding, elmo: Elmo) -> dict[str, list[int]]:
    sizes = {path: shard_sizes(path, READING) for path in files}
    first = 0
    for number, path in enumerate(files):
        for shard in read_shards(number, path, first, READING):
            write_shard(elmo, target, shard, embedding)
        first += sum(sizes[path])
    return sizes


def test_patterns(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(corpus)
    assert expand(["*.txt"]) == [str(corpus / "a.txt"), str(corpus / "b.txt")]
    assert expand(["c.txt.xz", "a.txt"]) == [str(corpus / "c.txt.xz"), str(corpus / "a.txt")]
    with pytest.raises(InputError, match=r"\*.gz: expected files that match, found none"):
        expand(["*.gz"])
    with pytest.raises(InputError, match="found one of them twice"):
        expand(["a.txt", "*.txt"])
    with pytest.raises(InputError, match="standard input"):
        expand(["-"])


@pytest.mark.parametrize("pool", [None, "mean"])
def test_shards_are_the_rows_of_one_file(corpus: Path, tmp_path: Path, pool: Any) -> None:
    elmo = Elmo.from_pretrained()
    files = expand([str(corpus / "*")])
    embedding = Embedding(tokenizer="spaces", pool=pool, rows="sentences" if pool else "tokens")
    (tmp_path / "shards").mkdir()
    sizes = write_all(files, tmp_path / "shards", embedding, elmo)
    assert [len(each) for each in sizes.values()] == [2, 0, 2] and sum(map(sum, sizes.values())) == 10
    embed_files(elmo, files, tmp_path / "one.parquet", tokenizer="spaces", pool=pool)
    found, expected = parquet.read_table(tmp_path / "shards"), parquet.read_table(tmp_path / "one.parquet")
    assert found.schema == expected.schema
    vectors = [name for name in found.column_names if name.startswith(("layer", "vector"))]
    assert vectors and found.drop_columns(vectors).equals(expected.drop_columns(vectors))
    for name in vectors:
        a, b = (np.array(table[name].to_pylist()) for table in (found, expected))
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_resume_and_settings(corpus: Path, tmp_path: Path) -> None:
    elmo, files, target = Elmo.from_pretrained(), expand([str(corpus / "*")]), tmp_path / "shards"
    sizes = {path: shard_sizes(path, READING) for path in files}
    folder = ShardFolder(target, {"--layers": "top"}, sizes, resume=False)
    assert not folder.complete and not folder.done()
    with pytest.raises(OutputError, match="use resume=True"):
        ShardFolder(target, {"--layers": "top"}, sizes, resume=False)
    with pytest.raises(ConfigError, match="layers: expected 'top', as in the unfinished run"):
        ShardFolder(target, {"--layers": "all"}, sizes, resume=True)
    with pytest.raises(InputError, match="found other names or sentences"):
        ShardFolder(target, {"--layers": "top"}, sizes | {files[0]: [4, 2]}, resume=True)
    with pytest.raises(OutputError, match=r"part-00000-000000\.parquet and 3 others"):
        folder.finish()
    write_all(files, target, Embedding(layers="top", tokenizer="spaces"), elmo)
    (target / "part-00009-000000.parquet").write_text("")
    with pytest.raises(OutputError, match="expected no part-00009"):
        folder.finish()
    (target / "part-00009-000000.parquet").unlink()
    folder.finish()
    assert ShardFolder(target, {"--layers": "top"}, sizes, resume=True).complete


def test_two_machines_that_do_not_see_each_others_locks(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS: every lock is granted, so a machine must not remove files by their locks."""
    monkeypatch.setattr("elmokit.disk.scratch.try_lock", lambda descriptor: True)
    elmo, embedding = Elmo.from_pretrained(), Embedding(tokenizer="spaces")
    first, second = read_shards(0, str(corpus / "a.txt"), 0, READING)
    sizes = {"a.txt": [len(first.texts), len(second.texts)]}
    folder = ShardFolder(tmp_path / "shards", {}, sizes, resume=False)
    embed = elmo.embed

    def embed_while_another_writes(*arguments: Any, **options: Any) -> Any:
        stream = embed(*arguments, **options)
        yield next(stream)  # the file of the first shard is open now
        monkeypatch.setattr(elmo, "embed", embed)
        write_shard(elmo, folder.folder, second, embedding)
        yield from stream

    monkeypatch.setattr(elmo, "embed", embed_while_another_writes)
    write_shard(elmo, folder.folder, first, embedding)
    leftover = folder.folder / ".part-00000-000001.parquet.0123abcd"
    leftover.write_text("half a shard of a killed machine")
    assert folder.done() == folder.sizes.keys()
    assert parquet.read_table(folder.folder)["sentence"].to_pylist()[-1] == len(LINES) - 1
    folder.finish()
    assert not leftover.exists() and folder.complete


def test_foreign_folders_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="expected a new folder"):
        ShardFolder(tmp_path, {}, {}, resume=True)
    with pytest.raises(OutputError, match="found a file"):
        ShardFolder(tmp_path / "file", {}, {}, resume=True)
