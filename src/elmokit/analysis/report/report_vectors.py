"""Vector sections of the report: Tables 4 to 6, perplexity, and two senses of a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from elmokit.analysis.report import paper
from elmokit.analysis.report.page import Block, Bold, PageImage, Section, Table, Text
from elmokit.analysis.report.report_inputs import NOT_MEASURED, Inputs, Part
from elmokit.analysis.senses.word_map import draw_map
from elmokit.analysis.shared.plots import heat_map, picture


def table_4(inputs: Inputs) -> Part:
    """Table 4: nearest neighbors of a word in context."""
    static = ", ".join(paper.TABLE_4_STATIC)
    blocks: list[Block] = [f"The paper: {paper.TABLE_4} GloVe's nearest words to play: {static}."]
    measured = False
    for one in inputs.of("neighbors"):
        with one.reading() as results:
            facts = results.numbers
            measured = measured or facts["word"].lower() == paper.TABLE_4_WORD
            corpus = facts["corpus"]
            where = f"{corpus['tokens']:,} tokens, where {facts['word']} occurs {corpus['occurrences']:,} times"
            query = _marked(facts["sentence"], facts["position"])
            blocks.append(("Ours: nearest to ", *query, f" among {where}:"))
            neighbors = facts["neighbors"] if "neighbors" in facts else facts["neighbours"]  # until version 0.3
            lines = [
                (view if not k else "", f"{near['similarity']:.3f}", _marked(near["sentence"], near["position"]))
                for view, nearest in neighbors.items()
                for k, near in enumerate(nearest)
            ]
            if facts.get("static"):
                words = ", ".join(near["word"] for near in facts["static"])
                lines.append(("static vectors", "", (f"in any sentence: {words}",)))
            blocks += [Table(("", "cosine", "occurrence"), tuple(lines), prose=True), one.source()]
    return _part(f"Table 4: neighbors of {paper.TABLE_4_WORD}", blocks, measured)


def table_5(inputs: Inputs) -> Part:
    """Word senses."""
    blocks: list[Block] = []
    found = inputs.of("wsd")
    for one in found:
        with one.reading() as results:
            facts = results.numbers
            main = facts["main"]
            ours = {system: f"{sets[main]['ALL']['f1']:.1f}" for system, sets in facts["scores"].items()}
            blocks += [
                _beside(paper.TABLE_5, ours, f"ours, F1 on {main}"),
                f"Sense vectors from {facts['training_instances']:,} instances; {facts['backed_off']:,} of "
                f"{facts['instances']:,} instances have a lemma unseen in training, and get WordNet's first sense. "
                "The paper: SemCor 3.0, and the unified evaluation sets except semeval2007, which elmokit calls test.",
                one.source(),
            ]
    if not found:
        blocks.append(_beside(paper.TABLE_5, {}, "ours, F1"))
    return _part("Table 5: word senses, F1", blocks, bool(found))


def table_6(inputs: Inputs) -> Part:
    """Table 6: tag accuracy of linear probes."""
    blocks: list[Block] = []
    found = inputs.of("probe")
    for one in found:
        with one.reading() as results:
            facts = results.numbers
            ours = {"most frequent tag of the word": f"{facts['majority']:.1f}"}
            ours |= {view: f"{value:.1f}" for view, value in facts["accuracy"].items()}
            ours |= {f"{view}, random weights": f"{value:.1f}" for view, value in (facts["control"] or {}).items()}
            blocks += [
                _beside(paper.TABLE_6, ours, f"ours, column {facts['column']}"),
                f"Trained on {facts['training_tokens']:,} tokens with {facts['n_tags']} tags, tested on "
                f"{facts['test_tokens']:,}. The paper: PTB tags of the Wall Street Journal.",
                one.source(),
            ]
    if not found:
        blocks.append(_beside(paper.TABLE_6, {}, "ours"))
    return _part("Table 6: tag accuracy in %", blocks, bool(found))


def perplexity(inputs: Inputs) -> Part:
    """Perplexity of the language model."""
    lines: list[tuple[Text, ...]] = [
        ("the paper, 1 Billion Word Benchmark", "", "", f"{paper.PERPLEXITY:.1f}", "", "793,471")
    ]
    found = inputs.of("perplexity")
    for one in found:
        with one.reading() as results:
            facts = results.numbers
            name = ", ".join(Path(file.path).name for file in results.data) or "standard input"
            figures = tuple(f"{facts[side]:.1f}" for side in ("forward", "backward", "mean"))
            lines.append((name, *figures, f"{facts['out_of_vocabulary']:.1%}", f"{facts['vocabulary']:,}"))
    if not found:
        lines.append(("ours", "", "", NOT_MEASURED, "", ""))
    blocks: list[Block] = [
        Table(("text", "forward", "backward", "mean", "unknown words", "vocabulary"), tuple(lines)),
        "Perplexities of different texts and vocabularies cannot be compared: with a smaller vocabulary, more words "
        "are predicted as the unknown word.",
        *(one.source() for one in found),
    ]
    return _part("The language model: perplexity", blocks, bool(found))


def finetuning(inputs: Inputs) -> list[Part]:
    """Perplexity on the text of each task, before and after fine-tuning on it (benchmarks/finetuning.py)."""
    parts = []
    columns = ("", "paper: before", "after", "ours: before", "after", "training sentences", "unknown words")
    for one in inputs.of("finetuning"):
        with one.reading() as results:
            ours = results.numbers["tasks"]
            lines = []
            for task in (*paper.TABLE_1, *(name for name in ours if name not in paper.TABLE_1)):
                if facts := ours.get(task):
                    figures = (f"{facts['before']:.1f}", f"{facts['after']:.1f}")
                    counts = (f"{facts['training_sentences']:,}", f"{facts['out_of_vocabulary']:.1%}")
                else:
                    figures, counts = (NOT_MEASURED, ""), ("", "")
                name = paper.TABLE_1[task].name if task in paper.TABLE_1 else task
                lines.append((name, *paper.FINETUNING.get(task, ("", "")), *figures, *counts))
        says = (
            "Perplexity on the dev text of each task, before and after one epoch on its training text, without labels. "
            "The vocabularies of the two models differ, so compare the drops, not the values."
        )
        section = Section("Fine-tuning on the text of a task", (says, Table(columns, tuple(lines)), one.source()))
        parts.append(Part(section))
    return parts


def maps(inputs: Inputs) -> list[Part]:
    """The occurrences of words on a plane."""
    parts = []
    for one in inputs.of("map"):
        with one.reading() as results:
            facts = results.numbers
            n, same = len(facts["occurrences"]), facts["same_sense"]
            says = f"The occurrences of {facts['word']} in {n} sentences, {facts['view']}, projected to a plane by PCA."
            if same is not None:
                says += (
                    f" {same} of {n} have the sense of the occurrence that is nearest to them in all dimensions; by "
                    f"chance it would be {facts['by_chance']:.0f}."
                )
            image = PageImage(f"map-{facts['word']}", picture(draw_map(facts), ".svg"), says)
            section = Section(f"The senses of {facts['word']}", (says, image, one.source()))
            parts.append(Part(section))
    return parts


def beyond(inputs: Inputs) -> list[Part]:
    """Beyond the paper: two senses of a word."""
    blocks: list[Block] = []
    for one in inputs.of("polysemy"):
        with one.reading() as results:
            facts = results.numbers
            n = len(facts["triples"])
            blocks += [
                f"Of {n} triples of sentences, two with one sense of a word and one with another, those in which the "
                "two of one sense are nearest to each other. Chance level is one third.",
                Table(
                    ("", f"right of {n} by cosine", "by Euclidean distance"),
                    tuple((v, str(right), str(facts["right_by_distance"][v])) for v, right in facts["right"].items()),
                ),
                one.source(),
            ]
    for k, one in enumerate(inputs.of("compare"), start=1):
        with one.reading() as results:
            facts = results.numbers
            sentences = [facts[side]["sentence"] for side in ("first", "second")]
            at = [facts[side]["position"] for side in ("first", "second")]
            similarity = tuple((view, f"{value:.2f}") for view, value in facts["similarity"].items())
            view = list(facts["pairs"])[-1]
            figure = heat_map(
                np.array(facts["pairs"][view]),
                sentences[0],
                sentences[1],
                title=f"{view}: cosine of every pair",
                value_name="cosine",
                marked=(at[0], at[1]),
            )
            says = f"cosine of every word of: {' '.join(sentences[0])}; with every word of: {' '.join(sentences[1])}"
            blocks += [
                (*_marked(sentences[0], at[0]), "; ", *_marked(sentences[1], at[1])),
                Table(("", "cosine"), similarity),
                PageImage(f"compare-{k}", picture(figure, ".svg"), says),
                one.source(),
            ]
    return [Part(Section("Beyond the paper: senses in two sentences", tuple(blocks)))] if blocks else []


def _beside(theirs: Mapping[str, float], ours: Mapping[str, str], heading: str) -> Table:
    """Rows of both, the paper's first; rows with the same layer name are merged."""
    own = {name: f"{value:.1f}" for name, value in theirs.items()}
    missing = {name: NOT_MEASURED for name in theirs if name == "first sense" or name.startswith("layer ")}
    rows = [(name, own.get(name, ""), ours.get(name, missing.get(name, ""))) for name in (*own, *ours) if name]
    return Table(("", "paper", heading), tuple(dict.fromkeys(rows)))


def _marked(tokens: Sequence[str], position: int) -> tuple[str, ...]:
    return (
        "".join(f"{token} " for token in tokens[:position]),
        Bold(tokens[position]),
        "".join(f" {token}" for token in tokens[position + 1 :]),
    )


def _part(title: str, blocks: Sequence[Block], measured: bool) -> Part:
    return Part(Section(title, tuple(blocks)), () if measured else (title,))
