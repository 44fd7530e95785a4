"""WordNet's files, from wherever they come, give the senses in their order."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from sense_files import BANK_MONEY, BANK_RIVER, HOT_SPICY, HOT_WARM, write_wordnet

from elmokit.analysis.senses import wordnet as module
from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.errors import InputError

LICENSE = "  1 This is a small WordNet of our own.  \n"


def write_database(folder: Path) -> Path:
    """index.* and data.* with: a noun in two synsets, an adjective with a satellite, a mark and a capital letter."""
    folder.mkdir()
    # synset: name, lexicographer file, type, words with hexadecimal ids, name of the head
    synsets: dict[str, list[tuple[str, str, str, str, str | None]]] = {
        "noun": [("river", "17", "n", "bank 1", None), ("money", "14", "n", "depository 0 Bank 0 bank a", None)],
        "verb": [("go", "38", "v", "run 0", None)],
        "adj": [
            ("warm", "00", "a", "hot 1", None),
            ("tasty", "00", "a", "Tasty 0", None),
            ("spicy", "00", "s", "spicy(p) 2 hot 0", "tasty"),
        ],
        "adv": [("well", "02", "r", "well 0", None)],
    }
    order = {
        "noun": [("bank", "river money"), ("depository", "money")],
        "verb": [("run", "go")],
        "adj": [("hot", "warm spicy"), ("spicy", "spicy"), ("tasty", "tasty")],
        "adv": [("well", "well")],
    }
    for part, lines in synsets.items():
        places: dict[str, int] = {}
        text = LICENSE
        for name, file, kind, words, head in lines:
            places[name] = len(text)
            count = len(words.split()) // 2
            pointers = f"001 & {places[head]:08d} a 0000" if head else "000"
            text += f"{len(text):08d} {file} {kind} {count:02x} {words} {pointers} | a gloss; with & and %  \n"
        (folder / f"data.{part}").write_text(text)
        index = LICENSE
        for lemma, names in order[part]:
            numbers = [f"{places[name]:08d}" for name in names.split()]
            index += f"{lemma} {part[0]} {len(numbers)} 1 @ {len(numbers)} 0 {' '.join(numbers)}  \n"
        (folder / f"index.{part}").write_text(index)
    return folder


def test_the_sense_index(tmp_path: Path) -> None:
    wordnet = read_wordnet(write_wordnet(tmp_path))
    assert wordnet.senses["bank", "NOUN"] == [BANK_RIVER, BANK_MONEY]  # by number, not as they stand in the file
    assert wordnet.senses["hot", "ADJ"] == [HOT_WARM, HOT_SPICY]
    assert wordnet.first("hot", "ADJ") == HOT_WARM
    assert wordnet.first("hot", "NOUN") is None
    assert wordnet.files == (tmp_path / "index.sense",)


def test_keys_are_made_from_the_database(tmp_path: Path) -> None:
    wordnet = read_wordnet(write_database(tmp_path / "wn"))
    assert wordnet.senses == {
        ("bank", "NOUN"): ["bank%1:17:01::", "bank%1:14:00::"],
        ("depository", "NOUN"): ["depository%1:14:00::"],
        ("run", "VERB"): ["run%2:38:00::"],
        ("hot", "ADJ"): ["hot%3:00:01::", "hot%5:00:00:tasty:00"],
        ("spicy", "ADJ"): ["spicy%5:00:02:tasty:00"],
        ("tasty", "ADJ"): ["tasty%3:00:00::"],
        ("well", "ADV"): ["well%4:02:00::"],
    }
    assert len(wordnet.files) == 8


def test_hexadecimal_ids(tmp_path: Path) -> None:
    folder = write_database(tmp_path / "wn")
    data = (folder / "data.noun").read_text()
    (folder / "data.noun").write_text(data.replace("bank 1", "bank f"))
    assert read_wordnet(folder).first("bank", "NOUN") == "bank%1:17:15::"


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
@pytest.mark.parametrize("write", [write_wordnet, write_database])
def test_archives_and_folders_around(tmp_path: Path, suffix: str, write: object) -> None:
    expected = read_wordnet(write(tmp_path / "dict"))  # type: ignore[operator]
    assert read_wordnet(tmp_path).senses == expected.senses  # the folder with `dict` in it
    (tmp_path / "archive").mkdir()
    path = tmp_path / "archive" / f"wordnet.{suffix}"
    with tarfile.open(path, f"w:{suffix[4:]}") as archive:  # type: ignore[call-overload]
        archive.add(tmp_path / "dict", "WordNet-3.0/dict")
    for place in (path, path.parent):
        found = read_wordnet(place)
        assert found.senses == expected.senses
        assert found.files == (path,)


def test_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEBIAN", tmp_path / "wordnet")
    with pytest.raises(InputError, match=r"found nothing there; name .* by wordnet, or install .*wordnet-base"):
        read_wordnet()
    write_wordnet(tmp_path / "wordnet")
    assert read_wordnet().first("bank", "NOUN") == BANK_RIVER


@pytest.mark.parametrize(
    "content", ["", "bank%1:17:01:: 1 x 0\n", "bank\n", "bank%9:17:01:: 1 1 0\n", "%PDF-1.4 a b c\n"]
)
def test_damaged_sense_index(tmp_path: Path, content: str) -> None:
    (tmp_path / "index.sense").write_text(content)
    with pytest.raises(InputError, match=r"index\.sense are damaged, or not WordNet files"):
        read_wordnet(tmp_path)


def test_damaged_database(tmp_path: Path) -> None:
    folder = write_database(tmp_path / "wn")
    data = (folder / "data.adj").read_text()
    (folder / "data.adj").write_text(data[3:])  # all places are off
    with pytest.raises(InputError, match="are damaged"):
        read_wordnet(folder)
    (folder / "data.adj").unlink()
    with pytest.raises(InputError, match=r"expected index\.sense, or all of index\.noun"):
        read_wordnet(folder)


@pytest.mark.parametrize("content", [b"", b"no tar", b"\xfd7zXZ\x00 cut off"])
def test_damaged_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "wn.tar.xz").write_bytes(content)
    with pytest.raises(InputError, match="expected a folder or a complete tar file"):
        read_wordnet(tmp_path / "wn.tar.xz")


@pytest.mark.slow
def test_both_ways_agree_on_the_real_one(shared_data: Path, tmp_path: Path) -> None:
    archive = shared_data / "wsd" / "wordnet-3.0" / "wordnet-3.0-dict.tar.xz"
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (tmp_path / "dict" / "index.sense").unlink()
    assert read_wordnet(tmp_path).senses == read_wordnet(archive).senses
