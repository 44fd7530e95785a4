"""Model files: their type by content, vocabularies, cards, and which folders may be overwritten."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.disk import limits
from elmokit.disk.limits import Limits
from elmokit.errors import FormatError, OutputError
from elmokit.weights import archive, files
from elmokit.weights.files import Member, folder, new_model_folder, read_card, read_words, single

Published = tuple[dict[str, Any], dict[str, np.ndarray]]


def write(path: Path, content: bytes) -> Member:
    path.write_bytes(content)
    return single(path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89HDF\r\n\x1a\n...", "HDF5"),
        (b"PK\x03\x04...", "a zip"),
        (b"\x80\x02}q\x00.", "a pickle"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a git LFS pointer instead of the file (run `git lfs pull`)"),
        (b'{"a": 1}', "JSON"),
        (b"", "an empty file"),
        ("Grüße an alle, die dies lesen".encode(), "text starting with 'Grüße an alle, die'"),
        (b"\x00\x01", "unknown binary data"),
    ],
)
def test_the_type_of_a_file(content: bytes, kind: str, tmp_path: Path) -> None:
    assert write(tmp_path / "x", content).kind() == kind


def test_names_in_messages(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        file.writestr("inner/options.json", "{}")
    packed = archive.members(tmp_path / "model.zip")["options.json"]
    assert packed.label == f"{tmp_path}/model.zip/options.json" and packed.container == tmp_path / "model.zip"
    plain = write(tmp_path / "options.json", b"{}")
    assert plain.label == str(tmp_path / "options.json") and plain.container == tmp_path
    assert packed.json() == plain.json() == {}


def test_a_folder_has_its_files_but_no_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write(tmp_path / "b", b"")
    write(tmp_path / "a", b"")
    assert list(folder(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "x: expected JSON, found Expecting property name"),
        (b"hello", "x: expected JSON, found Expecting value"),
        (b"PK\x03\x04\xff", "x: expected JSON, found a zip"),
        (b"version https://git-lfs", "x: expected JSON, found a git LFS pointer"),
        (b"", "x: expected JSON, found an empty file"),
    ],
)
def test_what_is_no_json(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        write(tmp_path / "x", content).json()


@pytest.mark.parametrize("packed", [False, True])
def test_words_by_line(packed: bool, tmp_path: Path) -> None:
    content = "\ufeff<S>\n</S>\r\n <UNK> \n!!!MAXTERMID\na\u2028b\n눈".encode()
    member = write(tmp_path / "vocab.txt", gzip.compress(content) if packed else content)
    assert read_words(member) == ("<S>", "</S>", "<UNK>", "a\u2028b", "눈")


def test_words_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match=r"v: expected UTF-8, found byte 0xff in line 2"):
        read_words(write(tmp_path / "v", b"a\n\xff\n"))
    with pytest.raises(FormatError, match=r"v: expected gzip, found a damaged file"):
        read_words(write(tmp_path / "v", gzip.compress(b"a\n" * 100)[:-10]))
    monkeypatch.setattr(limits, "_limits", Limits(words=3, text=100))
    with pytest.raises(FormatError, match=r"v: expected at most 3 words, found 4; .* raise the limits"):
        read_words(write(tmp_path / "v", b"a\n" * 4))
    with pytest.raises(FormatError, match=r"v: expected at most 100 bytes, found more"):
        read_words(write(tmp_path / "v", bytes(101)))
    with pytest.raises(FormatError, match=r"v: expected at most 100 bytes of words, found more"):
        read_words(write(tmp_path / "v", gzip.compress(bytes(101))))


@pytest.mark.parametrize(
    ("card", "license"),
    [
        ("---\nlicense: apache-2.0\n---\n", "apache-2.0"),
        ("---\r\nlicence: 'CC BY'  \r\n---\r\n", "CC BY"),
        ("# Title\nlicense: no front matter\n", None),
        ("---\nlicense:\n---\n", None),
        ("---\ntags: [a]\n---\nlicense: b\n", None),
    ],
)
def test_license_is_in_the_front_matter(card: str, license: str | None, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(card.encode())
    assert read_card(folder(tmp_path)) == (card, license)
    assert read_card({}) == (None, None)


def test_a_card_of_spaces_is_read_in_no_time(tmp_path: Path) -> None:
    card = write(tmp_path / "README.md", b"---\nlicense:" + b" " * 10**6 + b"x\ny: \n---\n")
    assert read_card({"README.md": card})[1] == "x"


@pytest.mark.parametrize(
    ("name", "content", "is_model"),
    [
        ("options.json", None, True),
        ("options.json", {"color": "red"}, False),
        ("config.json", files.MANY_LANGS_CONFIG, True),
        ("config.json", {"model_type": "elmo", "options": None}, True),
        ("config.json", {"model_type": "bert"}, False),
        ("config.json", {"model_type": "elmo"}, False),
        ("notes.txt", {}, False),
    ],
)
def test_only_models_are_overwritten(
    name: str, content: Any, is_model: bool, tmp_path: Path, published: Published
) -> None:
    options, _ = published
    if content is None:
        content = options
    elif content.get("options", 0) is None:
        content = {**content, "options": options}
    target = tmp_path / "model"
    target.mkdir()
    (target / name).write_text(json.dumps(content))
    if is_model:
        with new_model_folder(target, overwrite=True) as fresh:
            (fresh / "options.json").write_text("new")
        assert [path.name for path in target.iterdir()] == ["options.json"]
    else:
        with pytest.raises(OutputError, match="model"), new_model_folder(target, overwrite=True):
            pass
        assert json.loads((target / name).read_text()) == content
