"""The report: ours beside theirs, nothing invented, nothing mixed up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import models
import pytest
from report_numbers import NUMBERS
from run_folders import write_run
from typer.testing import CliRunner

from elmokit.analysis.shared.results import FileFacts, ModelFacts, Results, write_results
from elmokit.cli import app
from elmokit.weights import load

MODEL = ModelFacts("small", "f" * 64)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(kind: str, *, model: ModelFacts | None = MODEL, **changes: Any) -> str:
    data = (FileFacts(f"/data/{kind}.txt", 1234, "ab" * 32),)
    results = Results(kind, f"elmo {kind} --flag '<i>'", model, data, {**NUMBERS.get(kind, {}), **changes})
    write_results(f"{kind}.json", results, overwrite=True)
    return f"{kind}.json"


def report(*arguments: str) -> tuple[str, str]:
    """The page as Markdown, and as HTML."""
    result = CliRunner().invoke(app, ["report", "--overwrite", *arguments, "-o", "report.html"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-2:] == ["report.md", "report.html"]
    return Path("report.md").read_text(), Path("report.html").read_text()


def fails(*arguments: str, output: str = "report.html") -> str:
    result = CliRunner().invoke(app, ["report", *arguments, "-o", output])
    assert result.exit_code == 2 and result.stderr.startswith("elmo: ") and result.stderr.count("\n") == 1, (
        result.output
    )
    return result.stderr


def section(page: str, title: str) -> str:
    """What stands below a heading of a Markdown page."""
    return page.split(f"\n## {title}")[1].split("\n## ")[0]


def test_neighbors_of_older_results() -> None:
    numbers = {**NUMBERS["neighbors"]}
    numbers["neighbours"] = numbers.pop("neighbors")
    results = Results("neighbors", "elmo neighbors", MODEL, (), numbers)
    write_results("old.json", results)
    assert "| average | 0.875 | a **play** \\| |" in section(report("old.json")[0], "Table 4")


def test_every_kind_is_set_beside_the_paper() -> None:
    page, html = report(*map(write, NUMBERS))
    two, three = section(page, "Table 2"), section(page, "Table 3")
    assert "| SNLI | paper, dev | 88.1 | 89.1 | 89.3 | 89.5 |" in two
    assert "|  | ours, dev | 71.00 ± 1.41 | 72.00 ± 1.41 | 73.00 ± 1.41 | 74.00 ± 1.41 |" in two
    assert "10% of the training data" in two and "55 training examples" in two and "2 seeds" in two
    assert "| SNLI | paper, dev | 88.9 | 89.5 | 88.7 |\n|  | ours, dev | 71.00 ± 1.41" in three
    four = section(page, "Table 4")
    assert "the **play** &lt;b&gt;" in four and "| average | 0.875 | a **play** \\| |" in four and "multiplayer" in four
    assert "in any sentence: games" in four
    five = section(page, "Table 5")
    assert "| first sense | 65.9 | 61.2 |" in five and "| layer 2 | 69.0 | 63.8 |" in five
    assert "| layer 1 | 67.4 | not measured |" in five and "| Raganato et al. 2017 | 69.9 |  |" in five
    six = section(page, "Table 6")
    assert "| layer 1 | 97.3 | 90.3 |" in six and "| layer 2 | 96.8 | not measured |" in six
    assert "| layer 0 |  | 84.4 |" in six and "| layer 0, random weights |  | 70.1 |" in six and "column xpos" in six
    one = section(page, "Figure 1")
    assert "486 epochs" in one and "| 7 (1,234) |" in one and "| never |" in one and "+3.25" in one
    assert "0.11 0.62 0.27" in section(page, "Figure 2")
    assert "| perplexity.txt | 120.5 | 110.2 | 115.4 | 2.5% | 20,000 |" in page and "| 39.7 |" in page
    tuned = section(page, "Fine-tuning on the text of a task")
    assert "| SST-5 | 131.5 | 78.6 | 140.2 | 70.1 | 8,500 | 6.2% |" in tuned
    assert "| NER | 103.2 | 46.3 | not measured |  |" in tuned and "| pos |  |  | 140.2 | 70.1 |" in tuned
    beyond = section(page, "Beyond the paper")
    assert "| average | 2 |" in beyond and "| average | 0.61 |" in beyond and "a **present**; the **present**" in beyond
    for kind in NUMBERS:
        assert f"elmo {kind} --flag '<i>'\n# model small (ffffffffffff)\n# read {kind}.txt: 1,234 bytes" in page
        assert f"elmo {kind} --flag &#x27;&lt;i&gt;&#x27;" in html
    for number in ("71.00 ± 1.41", "88.1", "61.2", "65.9", "90.3", "97.3", "115.4", "39.7"):
        assert f">{number}<" in html
    assert html.count('<img src="data:image/svg+xml;base64,') == 7
    assert sorted(path.name for path in Path().glob("*.svg")) == [
        "report-compare-1.svg",
        "report-figure-1-1.svg",
        "report-figure-2-1.svg",
        "report-map-bank.svg",
        "report-misspelled-ner.svg",
        "report-misspelled-pos.svg",
        "report-sizes.svg",
    ]
    gaps = section(page, "About this report")
    assert "- Table 1: six tasks: SQuAD, SNLI, SRL, Coref, NER, SST-5" in gaps
    assert "- Table 2: which layers: SQuAD, SRL" in gaps and "- Figure 1: less training data: SNLI" in gaps
    assert "Table 5" not in gaps and "Figure 2" not in gaps


def test_what_was_not_given_is_not_measured() -> None:
    page, html = report(write("polysemy"))
    gaps = section(page, "About this report").split("Not measured:")[1].strip().splitlines()
    assert [gap.removeprefix("- ").split(":")[0] for gap in gaps] == [
        "Table 1",
        "Table 2",
        "Table 3",
        "Table 4",
        "Table 5",
        "Table 6",
        "Figure 1",
        "Figure 2",
        "The language model",
    ]
    assert "| SQuAD | F1 | 84.4 | 81.1 | 85.8 | 4.7 / 24.9% | not measured | not measured |  |" in page
    assert "|  | ours | not measured | not measured | not measured |" in section(page, "Table 3")
    assert "| layer 1 | 67.4 | not measured |" in page and "| ours |  |  | not measured |  |  |" in page
    assert "<td>not measured</td>" in html and "Size and training text of our model were not available" in html


def test_runs_of_tasks_fill_table_1_and_figure_2() -> None:
    for seed, (base, more) in enumerate(((80.0, 85.0), (82.0, 89.0))):
        write_run(Path(f"runs/base-{seed}"), task="snli", metric="accuracy", test=base, seed=seed)
        write_run(
            Path(f"runs/plus-{seed}"), task="snli", metric="accuracy", test=more, weights=[0.2, 0.5, 0.3], seed=seed
        )
    write_run(Path("srl"), task="srl", test=None, dev=33.0, weights=[0.1, 0.1, 0.8], train_fraction=0.25)
    write_run(Path("ner"), task="ner", test=44.0)
    page, _ = report("runs", "srl", "ner")
    one = section(page, "Table 1")
    short = section(page, "In short")
    assert page.index("## In short") < page.index("## Table 1") and "not measured" not in short.lower()
    assert "ELMo improves 1 of 1 task, by 6.0 points on average, and most SNLI (+6.0)." in short
    assert "![Gain of ELMo in points: SNLI +6.0 (paper +0.7)](<report-gains.svg>)" in short
    line = "88.0 | 88.7 ± 0.17 | 0.7 / 5.8% | 81.00 ± 1.41 | 87.00 ± 2.83 | +6.00 / 31.6% |"
    assert f"| SNLI | accuracy | 88.6 | {line}" in one
    assert "3.2 / 17.2% | not measured | 33.00 |  |" in one and "2.06 / 21% | 44.00 | not measured |  |" in one
    assert "SNLI: ELMo at input, 2 seeds, 20 training examples of train.txt, tested on 8 of train.txt" in one
    assert "SRL: ELMo at input, one seed, 20 training examples of train.txt (25% of it), no test data" in one
    assert "elmo task ner train\n# base-0, base-1, plus-0, plus-1, srl, ner" in one
    assert "Not measured: SQuAD, Coref, SST-5." in one
    two = section(page, "Figure 2")
    assert "snli input 0.20 0.50 0.30; srl input 0.10 0.10 0.80" in two and "report-figure-2-1.svg" in two


def test_of_two_ways_to_use_elmo_the_dev_data_choose() -> None:
    write_run(Path("base"), dev=60.0, test=50.0)
    write_run(Path("input"), dev=71.0, test=55.0, weights=[0.2, 0.5, 0.3])
    write_run(Path("both"), dev=70.0, test=59.0, weights=[0.2, 0.5, 0.3], elmo_dropout=0.1)
    page, _ = report("base", "both", "input")
    assert "most NER (+5.0)" in section(page, "In short") and "+9.00" in section(page, "Table 1")


def test_a_folder_of_results_and_runs_is_read_and_other_json_skipped() -> None:
    Path("results").mkdir()
    for kind in ("wsd", "probe"):
        Path(write(kind)).rename(f"results/{kind}.json")
    Path("results/threads.json").write_text('{"rows": []}')
    page, _ = report("results")
    assert "| layer 2 | 69.0 | 63.8 |" in page and "| layer 1 | 97.3 | 90.3 |" in page
    write_run(Path("results/ner"), task="ner", test=44.0)
    page, _ = report("results")
    assert "| 44.00 | not measured |  |" in page and "| layer 2 | 69.0 | 63.8 |" in page


def test_commands_and_hashes_are_folded() -> None:
    page, html = report(write("wsd"))
    assert html.count("<details><summary>Command, model and files</summary>") == 1 == html.count("<pre>")
    folded = page.split('<details markdown="1"><summary>Command, model and files</summary>\n\n```\n')[1]
    assert folded.startswith("elmo wsd --flag '<i>'\n") and "\n```\n\n</details>" in folded


def test_a_study_is_given_by_its_folder() -> None:
    Path("study").mkdir()
    Path(write("ablate")).rename("study/results.json")
    write_run(Path("study/baseline-0"), task="snli")
    page, _ = report("study")
    assert (
        "71.00 ± 1.41" in section(page, "Table 2")
        and "| SNLI | accuracy | 88.6 | 88.0 | 88.7 ± 0.17 | 0.7 / 5.8% | not" in page
    )


def test_the_same_results_make_the_same_page_and_replace_it() -> None:
    files = [*map(write, NUMBERS)]
    report(*files)
    first = {path.name: path.read_bytes() for path in Path().glob("report*")}
    report(*files)
    assert {path.name: path.read_bytes() for path in Path().glob("report*")} == first and len(first) == 9
    assert not list(Path().glob(".report*"))


def test_the_model_is_described_where_it_is_at_hand() -> None:
    folder = str(models.write_variant(Path("bilm"), "usual")[0])
    model = load(folder)
    own = ModelFacts("bilm", model.fingerprint)
    page, _ = report(write("polysemy", model=own), "--model", folder)
    about = section(page, "The models")
    assert f"| 93.6 million | {model.parameter_count / 1e6:.1f} million |" in about and model.fingerprint in about
    assert "not recorded" in about and "carried from sentence to sentence" in about
    assert "--model: expected the model of the results, found another" in fails(
        write("wsd"), "--overwrite", "--model", folder
    )
    packaged = load()
    page, _ = report(write("polysemy", model=ModelFacts("base", packaged.fingerprint)))
    assert packaged.card is not None and "license:" not in page
    about = section(page, "The models")
    title = next(line for line in packaged.card.splitlines() if line.startswith("# "))
    assert f"**{title[2:]}**" in about and "\n- **" in about and "```" not in about


def test_results_of_different_models_are_not_mixed_unless_asked() -> None:
    files = [write("wsd"), write("probe", model=ModelFacts("other", "e" * 64)), write("perplexity", model=None)]
    message = fails(*files)
    assert "found small (ffffffffffff) in wsd.json and other (eeeeeeeeeeee) in probe.json" in message
    assert "--mixed" in message and not Path("report.html").exists()
    write_run(Path("run"), weights=[0.5, 0.5], fingerprint="d" * 64)
    assert "small (dddddddddddd) in run" in fails("wsd.json", "run")
    write_run(Path("second"), task="srl", weights=[0.3, 0.7])
    page, _ = report(*files, "run", "second", "--mixed")
    two = section(page, "Figure 2")
    assert two.index("Layers of small (dddddddddddd)") < two.index("Layers of small (ffffffffffff)")
    assert "f" * 64 in page and "e" * 64 in page
    assert "# model other (eeeeeeeeeeee)" in section(page, "Table 6")


def test_what_is_no_result() -> None:
    Path("text.json").write_text("{}")
    assert "text.json: expected a results file of elmokit" in fails("text.json")
    assert "absent: expected a results file or the folder of a run, found nothing there" in fails("absent")
    assert "expected results of ablate, sample-efficiency" in fails(write("static"))
    Path("empty").mkdir()
    assert "empty: expected the folder of a run" in fails("empty")
    for kind in NUMBERS:
        facts = json.loads(Path(write(kind)).read_text())
        facts["numbers"] = {"task": "snli"}
        Path(f"{kind}.json").write_text(json.dumps(facts))
        assert f"{kind}.json: expected the numbers of elmo {kind}, found others" in fails(f"{kind}.json")
    assert not list(Path().glob("report*"))


def test_places_where_no_page_can_be_written() -> None:
    good = write("polysemy")
    assert "expected a name that ends in .html" in fails(good, output="report.pdf")
    assert "folder that exists" in fails(good, output="no/report.html")
    Path("report.md").write_text("my own notes")
    assert "report.md: exists already; use --overwrite to replace it" in fails(good)
    assert Path("report.md").read_text() == "my own notes" and not Path("report.html").exists()
    Path("folder.html").mkdir()
    assert "found a folder" in fails(good, output="folder.html")


def test_a_map_of_a_word() -> None:
    found, html = report(write("map"))
    text = section(found, "The senses of bank")
    assert "The occurrences of bank in 3 sentences, layer 2" in text and "2 of 3 have the sense" in text
    assert "report-map-bank.svg" in text and Path("report-map-bank.svg").exists() and "data:image/svg" in html
    without = section(report(write("map", same_sense=None, by_chance=None))[0], "The senses of bank")
    assert "have the sense of" not in without


def test_quality_beside_other_encoders() -> None:
    text = section(report(write("quality"))[0], "Beside other encoders, on clean and misspelled text")
    assert "base 72.0 to 60.2; minilm 72.0 to 59.2" in text and "to 24% misspelled words" in text
    assert "base: 8,000 tokens per second, F1 60.2, 20 MB; minilm: 4,000 tokens per second, F1 59.2, 40 MB" in text
    assert "| size, MB | 20 | 40 |" in text
    for name in ("misspelled-pos", "misspelled-ner", "sizes"):
        assert Path(f"report-{name}.svg").exists()
    one = {"base": {"megabytes": 20.0, "pos": {"clean": 1.0, "misspelled": 1.0}}}
    alone = section(report(write("quality", encoders=one))[0], "Beside other encoders")
    assert ".svg" not in alone and "| size, MB |" in alone
