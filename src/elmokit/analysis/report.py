"""One page with every table and figure of the paper, ours beside theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elmokit.analysis import paper
from elmokit.analysis import report_tasks as tasks
from elmokit.analysis import report_vectors as vectors
from elmokit.analysis.page import (
    GENERATOR,
    Block,
    Listing,
    Page,
    Points,
    Section,
    Table,
    picture_file,
    to_html,
    to_markdown,
)
from elmokit.analysis.report_inputs import Inputs
from elmokit.errors import ConfigError, OutputError
from elmokit.weights.model import Model
from elmokit.weights.whole_file import whole_file

_STATES = {
    "reset": "zero at the begin of every sentence", "warm": "one fixed state at the begin of every sentence",
    "carry": "carried from sentence to sentence",
}  # fmt: skip
TITLE = "ELMo: our figures beside the paper's"


def make_page(inputs: Inputs, model: Model | None) -> Page:
    """The report. model: what the results are of, if it is at hand: its size and card are then told."""
    parts = [
        tasks.table_1(inputs),
        *tasks.tables_2_and_3(inputs),
        vectors.table_4(inputs),
        vectors.table_5(inputs),
        vectors.table_6(inputs),
        tasks.figure_1(inputs),
        tasks.figure_2(inputs),
        vectors.perplexity(inputs),
        *vectors.beyond(inputs),
    ]
    missing = tuple(gap for part in parts for gap in part.missing)
    about: list[Block] = [
        f"The paper is {paper.PAPER}. Its figures come first, ours beside or below them, and then the command that "
        "made ours. Figures of different models, texts and data say which way things go, not which program is better.",
    ]
    if missing:
        about += ["Not measured:", Points(missing)]
    sections = [Section("What this is", tuple(about)), _models(inputs, model), *(part.section for part in parts)]
    return Page(TITLE, tuple(sections))


def _models(inputs: Inputs, model: Model | None) -> Section:
    """The models that took part, beside the paper's."""
    models = [facts for facts, _ in inputs.models().values()]
    blocks: list[Block] = []
    if model is not None and any(facts.fingerprint == model.fingerprint for facts in models):
        lstm, chars = model.config.lstm, model.config.char_cnn
        shape = f"{lstm.n_layers} layers each way, {lstm.dim} cells, {lstm.projection_dim}-d projections"
        if chars is not None:
            shape += f"; {chars.n_filters} character filters, {chars.n_highway} highway{'s' * (chars.n_highway != 1)}"
        ours = {
            "parameters": f"{model.parameter_count / 1e6:.1f} million", "shape": shape,
            "vector of a token": str(model.config.vector_dim),
            "training text": "see the card" if model.card else "its files do not say",
            "state": _STATES[model.config.state],
        }  # fmt: skip
        rows = tuple((name, theirs, ours[name]) for name, theirs in paper.MODEL.items())
        blocks.append(Table(("", "paper", "ours"), rows, prose=True))
        if model.card:
            blocks += ["The card of our model:", Listing(_without_front_matter(model.card))]
    else:
        rows = tuple((name, theirs, "") for name, theirs in paper.MODEL.items())
        blocks.append(Table(("", "paper", "ours"), rows, prose=True))
        blocks.append("Size and training text of our model were not at hand when this page was made.")
    blocks.append(Points(tuple(f"{facts.name}, fingerprint {facts.fingerprint}" for facts in models)))
    return Section("The models", tuple(blocks if models else ["No model took part."]))


def _without_front_matter(card: str) -> str:
    lines = card.strip().splitlines()
    if lines[:1] == ["---"] and "---" in lines[1:]:
        lines = lines[lines.index("---", 1) + 1 :]
    return "\n".join(lines).strip()


def check_page(path: Path) -> Path:
    """The page to write, if that can be done: new, or an older report, as the Markdown beside it."""
    if path.suffix != ".html":
        raise ConfigError(f"{path}: expected a name that ends in .html; Markdown is written beside it")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: expected a file in a folder that exists, found no {path.parent}")
    for target in (path, path.with_suffix(".md")):
        if target.is_dir():
            raise OutputError(f"{target}: expected a file to write, found a folder")
        if target.exists() and GENERATOR.encode() not in target.read_bytes()[:1000]:
            raise OutputError(f"{target}: expected an older report, found something else; it is not replaced")
    return path


def write_page(page: Page, path: Path) -> Sequence[Path]:
    """Write the page as HTML, as Markdown, and its pictures; each file all at once. Returns what was written."""
    check_page(path)
    content = {path.with_name(picture_file(path.stem, one)): one.svg for one in page.pictures}
    content[path.with_suffix(".md")] = to_markdown(page, path.stem).encode()
    content[path] = to_html(page).encode()
    for target, what in content.items():
        with whole_file(target) as fresh:
            fresh.write_bytes(what)
    return list(content)
