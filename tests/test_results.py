"""Figures on the pages are those of docs/results, whose files say how they were made."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from run_folders import write_run

from elmokit.analysis.report.report_inputs import gather
from elmokit.analysis.shared.results import Results, read_results, write_results

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "recipes"))  # where tables.py finds result_tables.py
tables = load(ROOT / "recipes" / "tables.py")
keep_results = load(ROOT / "recipes" / "keep_results.py")
task_table = load(ROOT / "recipes" / "task_table.py")


def test_every_marked_figure_is_that_of_its_results() -> None:
    pages = list(tables.pages())
    assert ROOT / "README.md" in pages and len(pages) > 10
    wrong = []
    for page in pages:
        _, changes = tables.rewritten(page.read_text(encoding="utf-8"), ROOT / "docs" / "results")
        wrong += [f"{page.relative_to(ROOT)}: {change}" for change in changes]
    assert not wrong, "make tables\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_committed_results_say_how_they_were_made(path: Path) -> None:
    results = read_results(path)
    assert results.command and results.versions and results.machine
    assert all(re.fullmatch("[0-9a-f]{64}", facts.sha256) for facts in results.data)
    assert path.stat().st_size < 200_000
    absolute = re.findall(r"(?:^|[\s\"'=])(/(?:\w[\w.-]*/)+\w*)", path.read_text(encoding="utf-8"))
    assert not absolute, "paths of a machine: run the command from the folder of the data"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with one results file."""
    numbers = {"encoders": {"base": {"pos": {"clean": 93.049}}}, "runs": [1, 22], "table": ["| a |", "|---|"]}
    write_results(tmp_path / "quality.json", Results("quality", "python x.py", None, (), numbers, seeds=(13,)))
    return tmp_path


def test_figures_and_tables_are_rewritten(results: Path) -> None:
    page = (
        "POS <!-- result: quality.json encoders/base/pos/clean:.1f -->92.0<!-- /result -->% in "
        "<!-- result: quality.json runs/1 -->22<!-- /result --> runs\n"
        "<!-- table: quality.json -->\nold\n<!-- /table -->\n"
    )
    text, changes = tables.rewritten(page, results)
    assert "-->93.0<!-- /result -->% in" in text and "-->\n\n| a |\n|---|\n\n<!--" in text
    assert len(changes) == 2 and "the page has '92.0', the results have '93.0'" in changes[0]
    assert tables.rewritten(text, results) == (text, [])


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("<!-- result: other.json a -->1<!-- /result -->", "other.json: expected results"),
        ("<!-- result: quality.json encoders/large:.1f -->1<!-- /result -->", "found no 'large'"),
        ("<!-- result: quality.json encoders:.1f -->1<!-- /result -->", "expected a number at encoders"),
        ("<!-- result: quality.json runs/0 -->1", "in pairs"),
        ("<!-- table: quality.json -->\n", "in pairs"),
    ],
)
def test_wrong_marks_are_errors(results: Path, mark: str, reason: str) -> None:
    with pytest.raises(tables.MarkError, match=reason):
        tables.rewritten(mark, results)


def test_tables_of_probes_and_word_senses_are_made_from_their_scores(results: Path) -> None:
    for column, control in (("xpos", {"layer 0": 7.0}), ("3", None)):
        facts = {"column": column, "accuracy": {"layer 0": 90.126}, "control": control, "majority": 80.0}
        write_results(results / f"probe-{column}.json", Results("probe", "elmo probe", None, (), facts))
    scores = {system: {"dev": {"ALL": {"f1": f1}}} for system, f1 in (("first sense", 50.0), ("layer 0", 60.0))}
    write_results(results / "wsd.json", Results("wsd", "elmo wsd", None, (), {"scores": scores}))
    page = "<!-- table: probe-xpos.json probe-3.json -->\n<!-- /table -->\n<!-- table: wsd.json -->\n<!-- /table -->\n"
    text, _ = tables.rewritten(page, results)
    assert "| % of tokens | EWT, PTB tags | random weights | CoNLL-2000, chunks |" in text
    assert "| most frequent tag of the word | 80.00 |  | 80.00 |" in text
    assert "| layer 0 | 90.13 | 7.00 | 90.13 |" in text
    assert "| first sense | 50.0 |" in text and "| layer 0 | **60.0** |" in text
    with pytest.raises(tables.MarkError, match="found wsd"):
        tables.rewritten("<!-- table: wsd.json probe-xpos.json -->\n<!-- /table -->", results)


def test_results_of_benchmarks_have_the_header(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['benchmarks/some.py', '--data', '/a/b/data', '-k', '3']\n"
        "from pathlib import Path\nimport results\n"
        "results.write('some', {'x': 1.5}, files=[Path(sys.argv[0]).parent / 'results.py'], seeds=[1, 2],\n"
        f"    table='| a |\\n|---|\\n', output=Path({str(tmp_path / 'some.json')!r}))\n"
        f"assert results.earlier('some', Path({str(tmp_path / 'some.json')!r}))['x'] == 1.5\n"
    )
    environment = {"PYTHONPATH": f"{ROOT / 'benchmarks'}:{Path(sys.modules['elmokit'].__file__ or '').parents[1]}"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=environment, capture_output=True)
    found = json.loads((tmp_path / "some.json").read_text())
    assert found["command"] == "python benchmarks/some.py --data data -k 3"
    assert found["numbers"] == {"x": 1.5, "table": ["| a |", "|---|"]} and found["seeds"] == [1, 2]
    assert found["data"][0]["path"] == "results.py" and len(found["data"][0]["sha256"]) == 64
    assert {"python", "torch", "numpy"} <= found["versions"].keys() and "thread(s)" in found["machine"]
    assert read_results(tmp_path / "some.json").kind == "some"


def test_what_is_kept_is_enough_for_the_report(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (0, 1):
        write_run(results / f"runs/ner-baseline-{seed}", test=40.0 + seed, seed=seed)
        write_run(results / f"runs/ner-elmo-{seed}", test=50.0, seed=seed, weights=[0.2, 0.5, 0.3], curve=[40.0, 50.0])
    write_run(results / "runs/ablate-ner/none-0")  # of a study that is not complete: no run of Table 1
    kept = keep(monkeypatch, results / "kept", results / "quality.json", results / "runs")
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert len(files) == 9 and not any('"/' in path.read_text() for path in files)
    before, after = (gather([folder]).tasks["ner"] for folder in (results / "runs", kept / "runs"))
    assert [group.test for group in before.groups] == [group.test for group in after.groups]
    assert json.loads((kept / "runs/ner-elmo-0/settings.json").read_text())["data"]["train"][0]["path"] == "train.txt"


def test_the_table_of_tasks_has_the_best_of_each_side_on_dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, output = tmp_path / "runs", tmp_path / "tasks.json"
    for seed in (0, 1):
        write_run(runs / f"ner-a-weak-{seed}", dev=40, test=48.0, seed=seed, dropout=0.1)
        write_run(runs / f"ner-baseline-{seed}", dev=45, test=40.0 + 2 * seed, seed=seed)
        write_run(runs / f"ner-elmo-{seed}", dev=60, test=50.0, seed=seed, weights=[0.2, 0.8])
        write_run(runs / f"ner-d-norm-{seed}", dev=55, test=70.0, seed=seed, weights=[0.2, 0.8], layer_norm=True)
    write_run(runs / "sst-baseline-0", task="sst", metric="accuracy")  # not measured with ELMo
    monkeypatch.setattr(sys, "argv", ["task_table.py", str(runs), "-o", str(output)])
    task_table.main()
    results = read_results(output)
    assert results.numbers["tasks"].keys() == {"ner"} and results.seeds == (0, 1)
    facts = results.numbers["tasks"]["ner"]
    assert facts["elmo"]["runs"] == ["ner-elmo-0", "ner-elmo-1"]
    assert facts["baseline"]["runs"] == ["ner-baseline-0", "ner-baseline-1"] and facts["gain"] == 9
    assert results.numbers["table"][2] == (
        "| NER, span F1 | 41.00 ± 1.41 | 50.00 ± 0.00 | +9.00 | 15.3% | 2.06 / 21% | 2, 2 |"
    )


def test_two_runs_of_one_name_are_not_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("one", "two"):
        write_run(tmp_path / folder / "ner-0")
    for paths, reason in ((["one", "two"], "expected one source for runs/ner-0"), (["three"], "found nothing there")):
        with pytest.raises(SystemExit, match="2"):
            keep(monkeypatch, tmp_path / "kept", *(tmp_path / name for name in paths))
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def keep(monkeypatch: pytest.MonkeyPatch, output: Path, *paths: Path) -> Path:
    monkeypatch.setattr(sys, "argv", ["keep_results.py", *map(str, paths), "-o", str(output)])
    keep_results.main()
    return output


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (
            "command",
            "elmo task ner train -o /a/b.c/runs/ --train=/d/e/x.gz",
            "elmo task ner train -o runs --train=x.gz",
        ),
        ("command", "elmo predict 'either /or/ this' '/a b/c.txt'", "elmo predict 'either /or/ this' c.txt"),
        ("sentence", "/kæt/ is how cat is spoken", "/kæt/ is how cat is spoken"),
        ("path", "/a b/c+d/x.txt", "x.txt"),
        ("model", "base", "base"),
    ],
)
def test_absolute_paths_become_names(key: str, text: str, expected: str) -> None:
    assert keep_results.names_only({key: text, "n": [3]}) == {key: expected, "n": [3]}


def test_names_of_the_data_are_kept_below_its_folder() -> None:
    record = {"command": "elmo wsd --train=/a/data/wsd/x.xml -o /b/out.json", "path": "/a/data/wsd/x.xml"}
    found = keep_results.names_only(record, Path("/a/data"))
    assert found == {"command": "elmo wsd --train=wsd/x.xml -o out.json", "path": "wsd/x.xml"}
