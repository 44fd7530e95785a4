"""`elmo export web`, and the files of the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import models
import pytest
from shown_commands import check

from elmokit import weights
from elmokit.embed.engine import WARM_UP
from elmokit.errors import FormatError, OutputError
from elmokit.serve.figures import FIGURES, figures
from elmokit.serve.pages import PAGE, export_web, language
from elmokit.text.tokenizer import words

DOCS = Path(__file__).parents[2] / "docs"
REPORT = DOCS / "report.md"


def elmo(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "elmokit", *map(str, arguments)], capture_output=True, text=True)


def test_the_command_writes_a_folder_once(tmp_path: Path) -> None:
    target = tmp_path / "site"
    result = elmo("export", "web", target)
    assert result.returncode == 0 and "python -m http.server" in result.stdout, result.stderr
    assert {"index.html", "app.js", "worker.js", "style.css", "model"} <= {path.name for path in target.iterdir()}
    assert 'content="browser"' in (target / "index.html").read_text()
    manifest = json.loads((target / "model" / "manifest.json").read_text())
    assert manifest["name"] == "base" and manifest["language"] == "en" and manifest["parameters"] > 1e6
    for name, size in manifest["files"].items():
        assert (target / "model" / name).stat().st_size == size
    again = elmo("export", "web", target)
    assert again.returncode == 2 and "exists already" in again.stderr and again.stderr.count("\n") == 1


def test_bad_targets_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    targets = {tmp_path / "file": "exists already", tmp_path / "file" / "site": "is not a folder"}
    if Path("/proc/self").exists():
        targets[Path("/proc/site")] = "cannot be written"
    for target, words_ in targets.items():
        result = elmo("export", "web", target)
        assert result.returncode == 2 and words_ in result.stderr and result.stderr.count("\n") == 1, result.stderr
    result = elmo("export", "web", tmp_path / "site", "--model", tmp_path / "nowhere")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and not (tmp_path / "site").exists()


def test_other_formats_are_converted(tmp_path: Path) -> None:
    source, _, _ = models.write_variant(tmp_path / "mine", "usual")
    export_web(weights.load(source), tmp_path / "site")
    assert weights.load(tmp_path / "site" / "model").fingerprint == weights.load(source).fingerprint
    with pytest.raises(OutputError, match="exists already"):
        export_web(weights.load(source), tmp_path / "site")


def test_language_of_a_card() -> None:
    assert language("---\nlicense: mit\nlanguage: ko\n---\n# x") == "ko"
    assert language("# no front matter") is None and language(None) is None


def test_no_inline_code_and_no_other_hosts() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*src=)", html)
    for path in PAGE.rglob("*"):
        if path.suffix in (".js", ".html", ".css"):
            found = re.findall(r"https?://[\w.]+", path.read_text(encoding="utf-8"))
            assert set(found) <= {"http://www.w3.org"}, path


def test_warm_up_is_the_one_of_the_engine() -> None:
    script = (PAGE / "elmo" / "elmo.js").read_text(encoding="utf-8")
    assert tuple(re.findall(r'^  "(.*)",$', script, re.MULTILINE)[: len(WARM_UP)]) == WARM_UP


def test_the_sentences_of_the_map() -> None:
    lines = (PAGE / "data" / "occurrences.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len({text for _, _, text in rows}) == len(rows)
    for word, _, text in rows:
        assert [token.text for token in words(text)].count(word) == 1, text
    senses = Counter((word, sense) for word, sense, _ in rows)
    assert {"play", "present", "bank"} < {word for word, _ in senses} and len({word for word, _ in senses}) >= 8
    assert min(senses.values()) >= 15 and all(sum(w == word for w, _ in senses) >= 2 for word, _ in senses)


def test_figures_are_those_of_the_report() -> None:
    expected = figures(REPORT.read_text(encoding="utf-8"))
    assert json.loads(FIGURES.read_text(encoding="utf-8")) == expected, "run: make figures"
    assert [task["task"] for task in expected["tasks"]] == ["SQuAD", "SNLI", "SRL", "Coref", "NER", "SST-5"]
    assert expected["tasks"][1]["paper"]["elmo"] == [88.7, 0.17] and expected["tasks"][4]["ours"]["elmo"][0] > 50
    assert len(expected["studies"]) == 2 and expected["scores"] and expected["perplexity"]
    assert all("column" not in scores["measured"] for scores in expected["scores"])
    tags = {scores["measured"] for scores in expected["scores"]}
    assert {"universal tags, UD English EWT", "Penn Treebank tags, UD English EWT"} < tags


def test_layer_weights_and_neighbors_of_the_report() -> None:
    expected = figures(REPORT.read_text(encoding="utf-8"))
    for one in expected["layer_weights"]:
        assert one["place"] in ("input", "output") and abs(sum(one["weights"]) - 1) < 0.02
    assert {"ner", "srl"} < {one["task"] for one in expected["layer_weights"]}
    assert len(expected["neighbors"]) >= 2
    for one in expected["neighbors"]:
        assert re.search(r"\[\w+\]", one["sentence"]) and len(one["static"]) >= 3
        for found in one["layers"].values():
            assert len(found) >= 3 and all("[" in near["occurrence"] and near["cosine"] <= 1 for near in found)


def test_unknown_tags_are_named_by_column_and_data() -> None:
    report = (
        "## Table 1: six tasks\n\n| | m | a | b | c | d | e | f | g |\n| --- | --- |\n\n## Table 6: tags\n\n"
        "| | paper | ours, column 4 |\n| --- | ---: | ---: |\n| layer 1 | 97.3 | 90 |\n\n```\n"
        "elmo probe --train DATA/pos/mine/train.txt --column 4\n# read train.txt\n```\n"
    )
    assert figures(report)["scores"][0]["measured"] == "tags of column 4, mine"


def test_the_curve_over_less_data_is_read() -> None:
    columns = ("part", "examples", "dev", "test", "best epoch", "dev", "test", "best epoch", "gain", "as good after")
    report = (
        "## Table 1: six tasks\n\n| | m | a | b | c | d | e | f | g |\n| --- | --- |\n\n"
        "## Figure 1: less training data\n\n![SST-5: accuracy](<report-figure-1-1.svg>)\n\n"
        f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
        "| 3% | 2,563 | 31.52 | 33.48 ± 0.50 | 12 | 30.34 | 31.95 | 7 | -1.54 | never |\n"
    )
    [curve] = figures(report)["less_data"]
    assert curve["title"] == "SST-5: accuracy"
    assert curve["rows"] == [{"part": "3%", "examples": 2563, "baseline": [33.48, 0.5], "elmo": [31.95, None]}]


def test_another_file_is_no_report() -> None:
    with pytest.raises(FormatError, match="elmo report"):
        figures("# Something else\n")


def test_the_page_of_documentation() -> None:
    page = (DOCS / "explorer.md").read_text(encoding="utf-8")
    assert check(page) >= 2
    for image in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (DOCS / image).stat().st_size < 200_000
