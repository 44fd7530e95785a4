"""Report with every table and figure of the paper, next to our results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from elmokit.analysis.report import paper
from elmokit.analysis.report import report_tasks as tasks
from elmokit.analysis.report import report_vectors as vectors
from elmokit.analysis.report.card_blocks import card_blocks
from elmokit.analysis.report.page import (
    Block,
    Page,
    Points,
    Section,
    Table,
    picture_file,
    to_html,
    to_markdown,
)
from elmokit.analysis.report.report_inputs import Inputs
from elmokit.analysis.report.report_quality import quality
from elmokit.analysis.report.summary import summary
from elmokit.disk.outputs import check_output
from elmokit.disk.whole import new_file
from elmokit.errors import ConfigError
from elmokit.nn.state_policy import POLICIES
from elmokit.weights.model import Model

TITLE = "ELMo: our results and the paper's"


def make_page(inputs: Inputs, model: Model | None) -> Page:
    """Build the report. model: the model of the results, if available; its size and model card are then included."""
    parts = [
        *vectors.maps(inputs),
        *quality(inputs),
        tasks.table_1(inputs),
        *tasks.tables_2_and_3(inputs),
        vectors.table_4(inputs),
        vectors.table_5(inputs),
        vectors.table_6(inputs),
        tasks.figure_1(inputs),
        tasks.figure_2(inputs),
        vectors.perplexity(inputs),
        *vectors.finetuning(inputs),
        *vectors.beyond(inputs),
    ]
    missing = tuple(gap for part in parts for gap in part.missing)
    about = (
        f"The paper is {paper.PAPER}. Its results come first, ours beside or below them, and then, folded, the command "
        "that produced ours."
    )
    sections = [summary(inputs, model), *(part.section for part in parts), _models(inputs, model)]
    closing: list[Block] = [about]
    if missing:
        closing += ["Not measured:", Points(missing)]
    sections.append(Section("About this report", tuple(closing)))
    return Page(TITLE, tuple(sections))


def _models(inputs: Inputs, model: Model | None) -> Section:
    """Our models next to the paper's."""
    models = [facts for facts, _ in inputs.models().values()]
    blocks: list[Block] = []
    if model is not None and any(facts.fingerprint == model.fingerprint for facts in models):
        lstm, chars = model.config.lstm, model.config.char_cnn
        shape = f"{lstm.n_layers} layers per direction, {lstm.dim} cells, {lstm.projection_dim}-d projections"
        if chars is not None:
            shape += f"; {chars.n_filters} character filters, {chars.n_highway} highway{'s' * (chars.n_highway != 1)}"
        ours = {
            "parameters": f"{model.parameter_count / 1e6:.1f} million",
            "shape": shape,
            "dimension per layer": str(model.config.vector_dim),
            "training text": "see the model card" if model.card else "not recorded",
            "state": POLICIES[model.config.state].description,
        }
        rows = tuple((name, theirs, ours[name]) for name, theirs in paper.MODEL.items())
        blocks.append(Table(("", "paper", "ours"), rows, prose=True))
        if model.card:
            blocks += ["Model card of our model:", *card_blocks(model.card)]
    else:
        rows = tuple((name, theirs, "") for name, theirs in paper.MODEL.items())
        blocks.append(Table(("", "paper", "ours"), rows, prose=True))
        blocks.append("Size and training text of our model were not available when this page was generated.")
    blocks.append(Points(tuple(f"{facts.name}, fingerprint {facts.fingerprint}" for facts in models)))
    return Section("The models", tuple(blocks if models else ["No model was used."]))


def check_page(path: Path, *, overwrite: bool = False) -> Path:
    """Check the output paths: the page and its Markdown must not exist unless `overwrite` is set."""
    if path.suffix != ".html":
        raise ConfigError(f"{path}: expected a name that ends in .html; Markdown is written beside it")
    for target in (path, path.with_suffix(".md")):
        check_output(target, overwrite=overwrite)
    return path


def write_page(page: Page, path: Path, *, overwrite: bool = False) -> Sequence[Path]:
    """Write the page as HTML and Markdown, and its figures, each atomically. Returns the paths written."""
    check_page(path, overwrite=overwrite)
    content = {path.with_name(picture_file(path.stem, one)): one.svg for one in page.pictures}
    content[path.with_suffix(".md")] = to_markdown(page, path.stem).encode()
    content[path] = to_html(page).encode()
    for target in content:
        check_output(target, overwrite=overwrite)  # render figures, too, before the first file is written
    for target, what in content.items():
        with new_file(target, replace=overwrite) as fresh:
            fresh.write_bytes(what)
    return list(content)
