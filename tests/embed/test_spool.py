"""Crash safety: whatever is cut off, damaged or changed, the output is right or not there."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fake_elmo import FakeElmo
from models import write_variant

from elmokit.embed.elmo import Elmo
from elmokit.embed.embed_files import Progress, embed_files
from elmokit.embed.spool import Spool
from elmokit.errors import InputError, OutputError

# the child does nothing but file work, so that threads of other libraries in this process do not matter
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

LINES = ["The cat sat .", "", "on the mat", "The cat sat .", "Über 東京 !", "a b c d e f", "", "the end ."]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), "utf-8")
    return path


def run(text: Path, target: Path, elmo: FakeElmo | None = None, **options: Any) -> Progress:
    """Small chunks: about two lines each."""
    return embed_files(elmo or FakeElmo(), [text], target, **{"chunk_characters": 20, **options})  # type: ignore[arg-type]


def cut_off(text: Path, target: Path, after: int, elmo: FakeElmo | None = None, **options: Any) -> None:
    """A run that fails after so many sentences."""

    def stop(done: Progress) -> None:
        if done.sentences == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(text, target, elmo, progress=stop, **options)


# ---- the folder


def test_a_run_leaves_the_output_and_nothing_else(tmp_path: Path, text: Path) -> None:
    done = run(text, tmp_path / "out.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npz"]
    assert (done.sentences, done.tokens) == (8, sum(len(line.split()) for line in LINES))
    assert done.bytes_read == done.bytes_total == text.stat().st_size


def test_resume_computes_only_what_is_missing(tmp_path: Path, text: Path) -> None:
    run(text, tmp_path / "whole.npz")
    cut_off(text, tmp_path / "out.npz", after=5)
    assert not (tmp_path / "out.npz").exists()
    elmo = FakeElmo()
    done = run(text, tmp_path / "out.npz", elmo, resume=True)
    assert elmo.calls[0][0] == LINES[3]  # the chunk that was cut off began with line 4
    assert done.resumed_sentences == 3
    assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not (tmp_path / "out.npz.part").exists()


@pytest.mark.parametrize("batch_size", [None, 2, 3])
def test_resume_takes_the_carried_state_along(tmp_path: Path, text: Path, batch_size: int | None) -> None:
    run(text, tmp_path / "whole.npz", FakeElmo(state="carry"), batch_size=batch_size, chunk_characters=10**6)
    for after in range(1, 9):
        cut_off(text, tmp_path / "out.npz", after, FakeElmo(state="carry"), batch_size=batch_size)
        run(text, tmp_path / "out.npz", FakeElmo(state="carry"), batch_size=batch_size, resume=True)
        assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
        (tmp_path / "out.npz").unlink()


@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_a_bad_chunk_is_computed_again(tmp_path: Path, text: Path, damage: str) -> None:
    run(text, tmp_path / "whole.npz", FakeElmo(state="carry"))
    cut_off(text, tmp_path / "out.npz", 7, FakeElmo(state="carry"))
    chunk = tmp_path / "out.npz.part" / "00000001.chunk"
    content = chunk.read_bytes()
    if damage == "cut":
        chunk.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        chunk.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    else:
        chunk.unlink()
    elmo = FakeElmo(state="carry")
    done = run(text, tmp_path / "out.npz", elmo, resume=True)
    assert elmo.calls[0][0] == LINES[3]
    assert done.resumed_sentences > 0
    assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_a_bad_chunk_of_a_real_model_is_computed_again(tmp_path: Path) -> None:
    """Words of skipped chunks are encoded in inference mode, too: both write into the table of the word cache.

    Every chunk is damaged once, as one of them makes the table grow, and those after it use its room.
    """
    model = write_variant(tmp_path / "model", "usual")[0]
    text, part = tmp_path / "words.txt", tmp_path / "out.npz.part"
    text.write_text("".join(f"word{k} other{k}\n" for k in range(10)))

    def embed(target: Path, **options: Any) -> Progress:
        elmo = Elmo.from_pretrained(model, state="reset")
        return embed_files(elmo, [text], target, chunk_characters=10, **options)

    def stop(done: Progress) -> None:
        if done.sentences == 9:
            raise KeyboardInterrupt

    embed(tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        embed(tmp_path / "out.npz", progress=stop)
    shutil.copytree(part, tmp_path / "copy")
    for number in range(8):
        chunk = part / f"{number:08}.chunk"
        content = chunk.read_bytes()
        chunk.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        done = embed(tmp_path / "out.npz", resume=True)
        assert done.resumed_sentences == 7
        assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
        (tmp_path / "out.npz").unlink()
        shutil.copytree(tmp_path / "copy", part)


def test_a_changed_input_is_named_by_its_line(tmp_path: Path, text: Path) -> None:
    cut_off(text, tmp_path / "out.npz", after=7)
    before = text.read_text("utf-8")
    changes = {
        "line 3: differs": before.replace("on the mat", "on a mat"),
        "line 5: differs": before.replace("Über", "Uber"),
        "line 2: differs": before.replace("\n\n", "\n", 1),
        "line 1: the input ends here": "The cat sat .\n",  # inside a chunk
        "line 3: the input ends here": "The cat sat .\n\non the mat\n",  # where a chunk ended
    }
    for message, content in changes.items():
        text.write_text(content, "utf-8")
        with pytest.raises(InputError, match=f"in.txt: {message}"):
            run(text, tmp_path / "out.npz", resume=True)
    text.write_text(before, "utf-8")
    run(text, tmp_path / "out.npz", resume=True)  # all that was done is still there


def test_other_settings_are_named(tmp_path: Path, text: Path) -> None:
    cut_off(text, tmp_path / "out.npz", after=7)
    for options, message in (
        ({"layers": "top"}, "layers all .now top."),
        ({"pool": "mean"}, "pool None .now mean."),
        ({"elmo": FakeElmo(state="warm")}, "state reset .now warm."),
        ({"elmo": FakeElmo(fingerprint="0" * 64)}, "model f+ .now 0+."),
        ({"layers": [0.5, 0.25, 0.25]}, "layers all .now mix 0.5,0.25,0.25."),
    ):
        with pytest.raises(OutputError, match=f"unfinished run had {message}; use the same, or overwrite=True"):
            run(text, tmp_path / "out.npz", resume=True, **options)
    run(text, tmp_path / "out.npz", resume=True, batch_size=7)  # changes nothing but the speed


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_settings_that_were_damaged(tmp_path: Path, text: Path, content: bytes) -> None:
    cut_off(text, tmp_path / "out.npz", after=7)
    (tmp_path / "out.npz.part" / "run.json").write_bytes(content)
    with pytest.raises(OutputError, match=r"run\.json: expected the settings .* damaged file; use overwrite=True"):
        run(text, tmp_path / "out.npz", resume=True)
    run(text, tmp_path / "out.npz", overwrite=True)


def test_an_unfinished_run_asks_what_to_do(tmp_path: Path, text: Path) -> None:
    cut_off(text, tmp_path / "out.npz", after=7)
    with pytest.raises(OutputError, match=r"unfinished run left .*out\.npz\.part; use resume=True, or overwrite=True"):
        run(text, tmp_path / "out.npz")
    elmo = FakeElmo()
    run(text, tmp_path / "out.npz", elmo, overwrite=True)
    assert elmo.calls[0][0] == LINES[0]


def test_a_run_that_fails_before_its_first_chunk_leaves_nothing(tmp_path: Path, text: Path) -> None:
    text.write_bytes(b"fine\n\xff\n")
    with pytest.raises(InputError, match="line 2, byte 1 is not UTF-8"):
        run(text, tmp_path / "out.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_an_existing_output_stays_until_the_new_one_is_complete(tmp_path: Path, text: Path) -> None:
    target = tmp_path / "out.npz"
    target.write_bytes(b"old")
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        run(text, target)
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):  # it is no npz file
        run(text, target, resume=True)
    cut_off(text, target, after=7, overwrite=True)
    assert target.read_bytes() == b"old"
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        run(text, target, resume=True)
    run(text, target, resume=True, overwrite=True)
    assert "0" in np.load(target).files
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npz"]


def test_a_link_stays_a_link(tmp_path: Path, text: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "out.npz").symlink_to(tmp_path / "folder" / "real.npz")
    run(text, tmp_path / "out.npz")
    assert (tmp_path / "out.npz").is_symlink()
    assert "0" in np.load(tmp_path / "folder" / "real.npz").files


def test_one_process_at_a_time(tmp_path: Path, text: Path) -> None:
    with Spool(tmp_path / "out.npz", {}, resume=False, overwrite=False):
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(OutputError, match=r"out\.npz: another process is writing it"):
                run(text, tmp_path / "out.npz", **options)
    run(text, tmp_path / "out.npz")


def test_files_of_others_survive(tmp_path: Path, text: Path) -> None:
    (tmp_path / "out.npz.part").mkdir()
    (tmp_path / "out.npz.part" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"expected unfinished work of elmo embed, found mine\.txt; move it away"):
        run(text, tmp_path / "out.npz")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "run.json").write_text("{}")
    (tmp_path / "other.npz.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match=r"expected no file or link of this name"):
        run(text, tmp_path / "other.npz", overwrite=True)
    (tmp_path / "third.npz.part").mkdir()
    (tmp_path / "third.npz.part" / "result").write_text("not of elmokit")
    with pytest.raises(OutputError, match=r"found no run\.json or done"):
        run(text, tmp_path / "third.npz", overwrite=True)
    for name, content in (
        ("run.json", "precious"), ("run.json", '{"lr": 1}'), ("done", "precious"), ("a.tmp", ""), ("a.chunk", ""),
    ):  # fmt: skip
        folder = tmp_path / "fourth.npz.part"
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        (folder / "result").write_text("precious")
        (folder / name).write_text(content)
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(OutputError, match="expected unfinished work of elmo embed, found"):
                run(text, tmp_path / "fourth.npz", **options)
        assert (folder / name).read_text() == content and (folder / "result").read_text() == "precious"
        shutil.rmtree(folder)
    assert [path.name for path in (tmp_path / "out.npz.part").iterdir()] == ["mine.txt"]
    assert (tmp_path / "elsewhere" / "run.json").read_text() == "{}"


def test_names_that_cannot_be_written(tmp_path: Path, text: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(OutputError, match=r"folder\.npz: expected the name of a file, found a folder"):
        run(text, tmp_path / "folder.npz")
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(OutputError, match=r"pipe\.npz: expected the name of a file, found a device, pipe or socket"):
        run(text, tmp_path / "pipe.npz", overwrite=True)
    assert (tmp_path / "pipe.npz").is_fifo()
    with pytest.raises(OutputError, match=r"expected a file in a folder that exists, found no .*nowhere"):
        run(text, tmp_path / "nowhere" / "out.npz")


@pytest.mark.parametrize("failing", range(12))
def test_a_full_disk_loses_nothing(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """fsync number `failing` finds the disk full; the last one comes after the new file has its name."""
    target = tmp_path / "out.npz"
    run(text, tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    target.write_bytes(b"old")
    count = 0

    def full(number: int) -> None:
        nonlocal count
        count += 1
        if count == failing + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left on device; finished work is kept in .*\.part: make room"):
        run(text, target, overwrite=True)
    assert target.read_bytes() == (b"old" if failing < 11 else whole)
    run(text, target, overwrite=True, resume=True)
    assert target.read_bytes() == whole


# ---- kill -9


def child(work: Callable[[], object], kill_at: int) -> int:
    """Run in a process that is killed before its call number `kill_at` that changes a folder; the exit status."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        calls = iter(range(kill_at))

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                if next(calls, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **options)

            return call

        for name in ("replace", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        for name in ("unlink", "rmdir", "touch", "mkdir"):
            setattr(Path, name, counted(getattr(Path, name)))
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@pytest.fixture
def whole(tmp_path: Path, text: Path) -> Iterator[bytes]:
    run(text, tmp_path / "whole.npz", FakeElmo(state="carry"))
    yield (tmp_path / "whole.npz").read_bytes()


@pytest.mark.parametrize("old", [None, b"old"])
def test_killed_at_any_step_and_resumed(tmp_path: Path, text: Path, whole: bytes, old: bytes | None) -> None:
    target = tmp_path / "out.npz"
    options = {"overwrite": True} if old else {}
    for kill_at in range(200):
        if old:
            target.write_bytes(old)
        status = child(lambda: run(text, target, FakeElmo(state="carry"), **options), kill_at)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        assert not target.exists() or target.read_bytes() in (old, whole)  # never half of it
        complete = target.exists() and target.read_bytes() == whole
        done = run(text, target, FakeElmo(state="carry"), resume=True, **options)
        assert done.was_complete or not complete or old
        assert target.read_bytes() == whole
        assert not (tmp_path / "out.npz.part").exists()
        target.unlink()
    assert kill_at > 20
    assert target.read_bytes() == whole


def test_killed_again_and_again(tmp_path: Path, text: Path, whole: bytes) -> None:
    target = tmp_path / "out.npz"
    for _ in range(50):
        status = child(lambda: run(text, target, FakeElmo(state="carry"), resume=True), 7)
        if status == 0:
            break
        assert not target.exists() or target.read_bytes() == whole
        if target.exists() and not (tmp_path / "out.npz.part" / "done").exists():
            break
    assert target.read_bytes() == whole


def test_hdf5_content_after_a_kill(tmp_path: Path, text: Path) -> None:
    run(text, tmp_path / "whole.h5")
    assert child(lambda: run(text, tmp_path / "out.h5"), 9) == -signal.SIGKILL
    run(text, tmp_path / "out.h5", resume=True)
    with h5py.File(tmp_path / "whole.h5") as one, h5py.File(tmp_path / "out.h5") as other:
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name][()], other[name][()])
