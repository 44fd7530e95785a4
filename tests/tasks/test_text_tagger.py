"""Taggers: packing, loading, tagging raw text, output."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import models
import pytest
import small_taggers
from rich.console import Console

import elmokit
from elmokit import weights
from elmokit.errors import ConfigError, FormatError, InputError, OutputError
from elmokit.tasks.runs.tagger_folder import KINDS, pack_tagger
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.tagged_output import colored, conll
from elmokit.tasks.text_tagger import TextTagger, load_tagger, packaged_taggers

TEXT = "Grace Hopper lives in New  Haven.  Nobody was there!"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of ner, pos and sst, and their taggers under `taggers`."""
    folder = tmp_path_factory.mktemp("taggers")
    still = {"encoder_dropout": 0.0, "integrator_dropout": 0.0, "output_dropout": 0.0, "learning_rate": 0.005}
    still |= {"epochs": 20, "patience": 20, "batch_size": 4, "word_dim": 20}
    settings = {"ner": {"layers": 1, "character_filters": 4, "epochs": 20, "patience": 20}, "pos": {}, "sst": still}
    for name, some in settings.items():
        pack_tagger(small_taggers.train(folder, name, **some), folder / "taggers" / name, about="Made-up data.")
    return folder


def load(home: Path, name: str) -> TextTagger:
    return load_tagger(home / "taggers" / name, model=str(home / "bilm"), device="cpu")


def test_entities_of_raw_text_keep_their_offsets(home: Path) -> None:
    [result, empty, again] = load(home, "ner").tag([TEXT, " ", ["Euler", "!"]])
    assert result["tokens"][4:7] == ["New", "Haven", "."] and result["sentences"] == [[0, 7], [7, 11]]
    found = [(entity["text"], entity["label"], entity["start"], entity["end"]) for entity in result["entities"]]
    assert found == [("Grace Hopper", "PER", 0, 2), ("New  Haven", "LOC", 4, 6)]
    for entity in result["entities"]:
        assert TEXT[slice(*entity["offsets"])] == entity["text"] and 0 < entity["score"] <= 1
    assert all(plain in TEXT[a:b] for plain, (a, b) in zip(result["tokens"], result["offsets"], strict=True))
    assert result["tags"][:7] == ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O"]
    assert empty == {"text": " ", "tokens": [], "offsets": [], "sentences": [], "tags": [], "entities": []}
    assert "text" not in again and "offsets" not in again["entities"][0] and again["entities"][0]["text"] == "Euler"
    json.dumps(result)


def test_a_tagger_gives_what_its_run_gives(home: Path) -> None:
    run = TaskModel.from_pretrained(home / "ner", device="cpu")
    packed = TaskModel.from_pretrained(home / "taggers" / "ner", model=str(home / "bilm"), device="cpu")
    assert packed.evaluate(home / "ner-test.txt") == run.evaluate(home / "ner-test.txt")
    assert run.evaluate(home / "ner-test.txt")["f1"] > 90


def test_parts_of_speech_and_sentiment(home: Path) -> None:
    tagger = load(home, "pos")
    [result] = tagger.tag(["She likes gold."])
    assert tagger.kind == "pos" and tagger.labels == [".", "NN", "PRP", "VBZ"]
    assert result["tags"] == ["PRP", "VBZ", "NN", "."] and all(0.25 <= score <= 1 for score in result["scores"])
    good, bad, nothing = load(home, "sst").tag(["She is good", "He is bad", ""])
    assert good["sentiment"] == "very positive" and bad["sentiment"] == "very negative"
    assert sum(good["probabilities"].values()) == pytest.approx(1, abs=1e-3)
    assert nothing["sentiment"] is None and nothing["tokens"] == []


def test_long_streams_come_in_order_whatever_the_windows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = load(home, "pos")
    texts = ["She sees chess. He moves gold.", "", "It likes time."] * 3
    whole = tagger.tag(texts)
    monkeypatch.setattr("elmokit.tasks.text_tagger.WINDOW_TOKENS", 5)
    parts = list(tagger.stream(iter(texts)))
    assert [(one["text"], one["tags"]) for one in parts] == [(one["text"], one["tags"]) for one in whole]


def test_tokens_between_spaces(home: Path) -> None:
    [result] = load(home, "pos").tag(["He said it . She sees"], tokenizer="spaces")
    assert result["tokens"] == ["He", "said", "it", ".", "She", "sees"] and result["sentences"] == [[0, 6]]
    with pytest.raises(InputError, match="tokenizer: expected words, han, spaces"):
        load(home, "pos").tag(["a"], tokenizer="letters")


def test_the_tokenizer_is_that_of_the_model(home: Path) -> None:
    tagger = load(home, "pos")
    assert tagger.tokenizer == "words" and tagger.model.bilm is not None
    loaded = tagger.model.bilm.model
    loaded.config = dataclasses.replace(loaded.config, tokenizer="han")
    assert tagger.tag(["我喜欢"])[0]["tokens"] == ["我", "喜", "欢"]
    assert tagger.tag(["我喜欢"], tokenizer="words")[0]["tokens"] == ["我喜欢"]


@pytest.mark.parametrize("texts", ["a text", [3], [["a", None]]])
def test_texts_of_the_wrong_type(home: Path, texts: object) -> None:
    with pytest.raises(InputError, match="texts"):
        load(home, "pos").tag(texts)  # type: ignore[arg-type]


def test_another_bilm_is_refused_in_one_line(home: Path, tmp_path: Path) -> None:
    models.write_variant(tmp_path / "other", "usual", seed=1)
    with pytest.raises(FormatError, match=r"other: expected the biLM that the tagger .*ner was made with .*found ano"):
        load_tagger(home / "taggers" / "ner", model=str(tmp_path / "other"))
    with pytest.raises(FormatError, match="the packaged model: expected the biLM that the tagger"):
        load_tagger(home / "taggers" / "ner")


def test_the_folder_is_small_and_says_where_it_is_from(home: Path) -> None:
    folder = home / "taggers" / "ner"
    half = (folder / "weights.safetensors").stat().st_size
    assert half < 0.7 * (home / "ner" / "weights.safetensors").stat().st_size
    record = json.loads((folder / "settings.json").read_text())
    assert record["model"]["fingerprint"] == weights.load(str(home / "bilm")).fingerprint
    assert record["data"]["test"]["path"] == "ner-test.txt" and len(record["data"]["test"]["sha256"]) == 64
    card = (folder / "README.md").read_text()
    assert "Made-up data." in card and record["model"]["fingerprint"] in card and "elmo tag --as ner" in card
    for path in folder.glob("*.[jm]*"):
        assert str(home) not in path.read_text(), path


def test_packing_needs_a_complete_run_of_a_tagger(home: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="exists already"):
        pack_tagger(home / "pos", home / "taggers" / "pos")
    pack_tagger(home / "pos", home / "taggers" / "pos", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"found also notes\.txt"):
        pack_tagger(home / "pos", tmp_path / "mine", overwrite=True)
    record = json.loads((home / "pos" / "settings.json").read_text())
    tuned = {"model": {**record["model"], "trained": True}}
    for changed, reason in (({"task": "snli"}, "found one of snli"), (tuned, "frozen")):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "settings.json").write_text(json.dumps(record | changed))
        with pytest.raises(ConfigError, match=reason):
            pack_tagger(tmp_path / "run", tmp_path / "out")
    (tmp_path / "run" / "settings.json").write_text(json.dumps(record))
    with pytest.raises(FormatError, match="the run is not complete"):
        pack_tagger(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_taggers() -> None:
    with pytest.raises(ConfigError, match="tagger: expected ner, pos, upos, sentiment, or the folder"):
        elmokit.load_tagger("parser")


@pytest.mark.parametrize("name", KINDS)
def test_packaged_taggers_fit_the_packaged_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)  # a folder of data with this name is no tagger
    tagger = elmokit.load_tagger(name, device="cpu")  # refuses another biLM
    assert tagger.kind == name
    folder = packaged_taggers()[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 5_000_000
    [result] = tagger.tag(["Angela Merkel met Barack Obama in Berlin ."])
    if name == "ner":
        found = [(entity["text"], entity["label"]) for entity in result["entities"]]
        assert found == [("Angela Merkel", "PER"), ("Barack Obama", "PER"), ("Berlin", "LOC")]
        [misspelled] = tagger.tag(["angela merkle met barak obama in berln ."])
        assert [entity["label"] for entity in misspelled["entities"]] == ["PER", "PER", "LOC"]


def test_colors_and_columns(home: Path) -> None:
    [result] = load(home, "ner").tag([TEXT])
    text = colored("ner", result)
    assert text.plain == "Grace Hopper PER lives in New  Haven LOC.  Nobody was there!"
    console = Console(force_terminal=True, color_system="standard", width=100)
    with console.capture() as shown:
        console.print(text)
    assert "\x1b[1;32mGrace Hopper" in shown.get()
    columns = conll("ner", result)
    assert columns.startswith("Grace\tB-PER\nHopper\tI-PER\nlives\tO\n")
    assert columns.endswith(".\tO\n\nNobody\tO\nwas\tO\nthere\tO\n!\tO\n\n")
    [result] = load(home, "pos").tag([["She", "sees"]])
    assert colored("pos", result).plain == "She/PRP sees/VBZ"
    [result] = load(home, "sst").tag(["She is good"])
    assert colored("sentiment", result).plain.startswith("very positive ")
    with pytest.raises(ConfigError, match="sentiment"):
        conll("sentiment", result)


def test_a_dot_of_two_tokens_is_shown_once(home: Path) -> None:
    [result] = load(home, "pos").tag(["It likes the U.S."])
    assert result["tokens"][-2:] == ["U.S.", "."]
    plain = colored("pos", result).plain
    assert plain.count("U.S.") == 1 and len(plain.split("/")) == 6
