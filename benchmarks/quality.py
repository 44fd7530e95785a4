"""Quality of encoders: word senses, tags and names on clean and misspelled text, sentiment, speed.

    python benchmarks/quality.py base minilm glove --data DATA    writes docs/results/quality.json

Every encoder is frozen, and all get the same data and the same linear classifiers. DATA holds `pos/ud-ewt`,
`ner/conll2003`, `sst`, `wsd` (SemCor, the evaluation sets and WordNet 3.0) and `vectors`. Layers are chosen on the dev
text, never on the test text; the few triples of two senses have no dev part, and the table has the best layer of each
encoder. Misspelled text is the test text with fixed typing errors; classifiers are trained on clean text alone. `base`
is the packaged model; any other name but minilm and glove is the path of a model.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import results as files
import torch

from elmokit.analysis.probe.probe_fit import ProbeSettings, ProbeVectors, fit_probes, predict_tags
from elmokit.analysis.senses.polysemy import judge, load_triples
from elmokit.analysis.senses.sense_corpus import find_corpora, read_corpus
from elmokit.analysis.senses.sense_scores import ALL, DEV, evaluate_senses
from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.analysis.shared.layers import Meter, View
from elmokit.embed.elmo import Elmo
from elmokit.tasks.ner import span_scores
from elmokit.tasks.shared.tags import decode, encode
from elmokit.tasks.sst import Sst
from elmokit.text.tagged_text import TaggedText, read_tagged

SEED = 13
LETTER_EDITS = 0.1  # probability that a letter is swapped, deleted, or gets another one before it
CURVE = (0.02, 0.05, LETTER_EDITS, 0.2)  # probabilities of the curve over the share of misspelled words
SHORTEST = 4  # letters of a word that is misspelled
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Figures = dict[str, Any]


def misspelled(sentences: Sequence[Sequence[str]], edits: float = LETTER_EDITS, seed: int = SEED) -> list[list[str]]:
    """Sentences with typos in a share of the letters of words with four or more letters."""
    rng = random.Random(seed)
    return [[misspell(word, rng, edits) for word in sentence] for sentence in sentences]


def misspell(word: str, rng: random.Random, edits: float = LETTER_EDITS) -> str:
    """Swap a letter with the next one, delete it, or insert another before it, each with a third of `edits`."""
    if sum(character.isalpha() for character in word) < SHORTEST:
        return word
    characters, i = list(word), 0
    while i < len(characters):
        if characters[i].isalpha() and rng.random() < edits:
            edit = rng.randrange(3)
            if edit == 0 and i + 1 < len(characters):
                characters[i], characters[i + 1] = characters[i + 1], characters[i]
                i += 1
            elif edit == 1 and len(characters) > 1:
                del characters[i]
                continue
            else:
                characters.insert(i, rng.choice(LETTERS))
                i += 1
        i += 1
    return "".join(characters)


def views_of(encoder: encoders.Encoder) -> list[View]:
    """All layers as separate views."""
    return [View(f"layer {layer}", layer) for layer in range(encoder.config.n_vectors)]


@dataclass(frozen=True)
class Texts:
    """Tagged text: training, development (to select the layer) and test part."""

    train: TaggedText
    dev: TaggedText
    test: TaggedText


def tag_accuracy(gold: TaggedText, predicted: Sequence[str]) -> float:
    """Tag accuracy in percent."""
    return 100 * float(np.mean(np.array(gold.tags) == np.array(predicted)))


def span_f1(gold: TaggedText, predicted: Sequence[str]) -> float:
    """Span F1 in percent."""
    spans, start = ([], []), 0
    for sentence in gold.sentences:
        end = start + len(sentence)
        for found, tags in zip(spans, (gold.tags, predicted), strict=True):
            found.append(decode(tags[start:end]))
        start = end
    return span_scores(*spans)["f1"]


def probe(encoder: encoders.Encoder, texts: Texts, score: Callable[[TaggedText, Sequence[str]], float]) -> Figures:
    """Scores of linear probes on clean and misspelled test text, with the best layer on the dev text.

    curve: share of misspelled words and score, for every value of CURVE.
    """
    tags = sorted(set(texts.train.tags))
    number = {tag: i for i, tag in enumerate(tags)}
    views, meter = views_of(encoder), Meter(None, 0)
    with ProbeVectors(encoder, texts.train.sentences, meter) as vectors:  # type: ignore[arg-type]
        gold = np.array([number[tag] for tag in texts.train.tags])
        probes = fit_probes(vectors, gold, len(tags), views, ProbeSettings())

    def scores(text: TaggedText, sentences: Sequence[Sequence[str]]) -> list[float]:
        with ProbeVectors(encoder, sentences, meter) as vectors:  # type: ignore[arg-type]
            predicted = predict_tags(probes, vectors, views)
        return [score(text, [tags[i] for i in row]) for row in predicted]

    on_dev = scores(texts.dev, texts.dev.sentences)
    best = int(np.argmax(on_dev))
    clean = scores(texts.test, texts.test.sentences)[best]
    curve = [(0.0, clean)]
    for edits in CURVE:
        noisy = misspelled(texts.test.sentences, edits)
        pairs = [(a, b) for s, t in zip(texts.test.sentences, noisy, strict=True) for a, b in zip(s, t, strict=True)]
        curve.append((float(np.mean([a != b for a, b in pairs])), scores(texts.test, noisy)[best]))
    share, score = curve[1 + CURVE.index(LETTER_EDITS)]
    return {
        "layer": best,
        "dev": on_dev,
        "clean": clean,
        "misspelled": score,
        "share_misspelled": share,
        "curve": curve,
    }


def pos(encoder: encoders.Encoder, data: Path) -> Figures:
    """Penn Treebank tags of English EWT: accuracy."""
    folder = data / "pos/ud-ewt"
    train, dev, test = (
        read_tagged(folder / f"en_ewt-ud-{part}.conllu.xz", "xpos") for part in ("train", "dev", "test")
    )
    return probe(encoder, Texts(train, dev, test), tag_accuracy)


def ner(encoder: encoders.Encoder, data: Path) -> Figures:
    """Named entities of CoNLL-2003: span F1 of independent tags per token, without transition constraints."""
    folder = data / "ner/conll2003"
    texts = [_bioes(read_tagged(folder / name, "4")) for name in ("eng.train.gz", "eng.testa", "eng.testb")]
    return probe(encoder, Texts(*texts), span_f1)


def _bioes(text: TaggedText) -> TaggedText:
    tags: list[str] = []
    for sentence in text.sentences:
        tags += encode(decode(text.tags[len(tags) : len(tags) + len(sentence)]), len(sentence), "BIOES")
    return TaggedText(text.sentences, tags, text.file)


def senses(encoder: encoders.Encoder, data: Path) -> Figures:
    """Packaged polysemy triples: how often the two sentences with the same sense are nearest, by layer."""
    triples = load_triples()
    judged = judge(encoder, triples, views_of(encoder))  # type: ignore[arg-type]
    right = {name: sum(row[name].right for row in judged) for name in judged[0]}
    return {"right": right, "best": max(right.values()), "triples": len(triples)}


def wsd(encoder: encoders.Encoder, data: Path) -> Figures:
    """Word sense disambiguation with SemCor: F1 by layer, on semeval2007 (to choose the layer) and on the test sets."""
    folder = data / "wsd"
    training = read_corpus(folder / "semcor/semcor.data.xml.xz", None)
    sets = [read_corpus(path, None) for path in find_corpora([folder / "eval"])]
    wordnet = read_wordnet(folder / "wordnet-3.0/wordnet-3.0-dict.tar.xz")
    report = evaluate_senses(encoder, training, sets, wordnet, views_of(encoder), None)  # type: ignore[arg-type]
    f1 = {system: {name: parts[ALL].f1 for name, parts in scores.items()} for system, scores in report.scores.items()}
    layers = [system for system in f1 if system.startswith("layer")]
    chosen = max(layers, key=lambda layer: f1[layer][DEV])
    return {
        "dev": {layer: f1[layer][DEV] for layer in layers},
        "test": {system: scores[report.main] for system, scores in f1.items()},
        "layer": chosen,
        "f1": f1[chosen][report.main],
    }


def sst(encoder: encoders.Encoder, data: Path) -> Figures:
    """Binary sentiment of sentences: accuracy of a linear classifier on the mean vector."""
    parts = {}
    for part, name in (("train", "train.txt.gz"), ("dev", "dev.txt"), ("test", "test.txt")):
        sentences = [s for s in Sst().read(data / "sst" / name) if s.label != "2"]
        vectors = np.stack([e.layers.mean(axis=1) for e in encoder.embed([list(s.tokens) for s in sentences])], axis=1)
        labels = np.array([s.label in ("3", "4") for s in sentences])
        parts[part] = torch.from_numpy(vectors).float(), torch.from_numpy(labels).float()  # (L, n, D), (n,)
    best: tuple[float, float, int, float] = (-1.0, 0.0, 0, 0.0)
    for layer in range(encoder.config.n_vectors):
        for penalty in (1e-4, 1e-3, 1e-2):
            dev, test = _logistic({part: (x[layer], y) for part, (x, y) in parts.items()}, penalty)
            best = max(best, (dev, test, layer, penalty), key=lambda found: found[0])  # never by the test score
    return {"accuracy": best[1], "dev": best[0], "layer": best[2], "penalty": best[3]}


def _logistic(parts: dict[str, tuple[torch.Tensor, torch.Tensor]], penalty: float) -> tuple[float, float]:
    """Accuracy on dev and test of a logistic regression with an L2 penalty."""
    x, _ = parts["train"]
    mean, deviation = x.mean(dim=0), x.std(dim=0).clamp_(min=1e-6)
    weight = torch.zeros(x.shape[1] + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=100, line_search_fn="strong_wolfe")
    scaled = {part: ((x - mean) / deviation, y) for part, (x, y) in parts.items()}

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        x, y = scaled["train"]
        logits = x @ weight[:-1] + weight[-1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(logits, y) + penalty * weight[:-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.inference_mode():
        right = [
            float((((x @ weight[:-1] + weight[-1]) > 0) == (y > 0)).float().mean())
            for x, y in (scaled["dev"], scaled["test"])
        ]
    return 100 * right[0], 100 * right[1]


def speed(encoder: encoders.Encoder, data: Path, n_sentences: int = 1_000) -> float:
    """Tokens per CPU second on one thread, on the CoNLL-2003 dev text with a warm word cache."""
    text = read_tagged(data / "ner/conll2003/eng.testa", "4").sentences[:n_sentences]
    for _ in encoder.embed(text[:200]):
        pass
    began = time.process_time()
    n = sum(len(sentence.tokens) for sentence in encoder.embed(text))
    return n / (time.process_time() - began)


MEASURES = {"senses": senses, "pos": pos, "ner": ner, "wsd": wsd, "sst": sst}
DATA = {"senses": (), "pos": ("pos/ud-ewt",), "ner": ("ner/conll2003",), "wsd": ("wsd",), "sst": ("sst",), "speed": ()}


def table(results: dict[str, Figures]) -> str:
    """Results as a Markdown table with one column per encoder."""

    def cell(name: str, show: Callable[[Figures], str]) -> Callable[[Figures], str]:
        return lambda figures: show(figures[name]) if name in figures else ""

    rows: dict[str, Callable[[Figures], str]] = {
        "size, MB": cell("megabytes", lambda x: f"{x:.0f}"),
        "two senses of a word, best layer": cell("senses", lambda x: f"{x['best']} of {x['triples']}"),
        "POS, EWT PTB tags: clean -> misspelled": cell("pos", lambda x: f"{x['clean']:.1f} -> {x['misspelled']:.1f}"),
        "NER, CoNLL-2003 span F1: clean -> misspelled": cell(
            "ner", lambda x: f"{x['clean']:.1f} -> {x['misspelled']:.1f}"
        ),
        "WSD F1 (first sense)": cell("wsd", lambda x: f"{x['f1']:.1f}, {x['layer']} ({x['test']['first sense']:.1f})"),
        "SST-2 accuracy, mean vector": cell("sst", lambda x: f"{x['accuracy']:.1f}"),
        "tokens per CPU second": cell("tokens_per_cpu_second", lambda x: f"{x:,.0f}"),
    }
    lines = ["| | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(show(figures) for figures in results.values()) + " |" for name, show in rows.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the requested measurements; results already in the output file are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoders", nargs="+", metavar="ENCODER", help="base, minilm, glove, or the path of a model")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--glove", type=Path, help="vectors; by default vectors/glove.6B.50d.task.txt.bz2 of the data")
    parser.add_argument("--only", default=",".join([*MEASURES, "speed"]), help="measures, by default %(default)s")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/quality.json")
    parser.add_argument("--markdown", type=Path, help="write the table into this file, too")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results: dict[str, Figures] = files.earlier("quality", arguments.output).get("encoders", {})
    for figures in results.values():
        if "f1" not in figures.get("wsd", {"f1": 0}):
            del figures["wsd"]  # written by an older version, without a layer chosen on semeval2007
    chosen = arguments.only.split(",")
    # the file of 100 dimensions has no vectors of numbers and of the most frequent words
    glove = arguments.glove or arguments.data / "vectors/glove.6B.50d.task.txt.bz2"
    if wrong := [measure for measure in chosen if measure not in DATA]:
        parser.error(f"--only: expected some of {', '.join(DATA)}, found {wrong[0]!r}")
    loaded = {Path(name).name: encoders.load(name, glove) for name in arguments.encoders}
    ours = next((encoder.model for encoder, _ in loaded.values() if isinstance(encoder, Elmo)), None)
    used = [path for measure in chosen for name in DATA[measure] for path in sorted((arguments.data / name).rglob("*"))]
    data = [path for path in used if path.is_file()] + ([glove] if "glove" in loaded else [])

    def write() -> None:
        numbers = {"encoders": results, "letter_edits": LETTER_EDITS}
        files.write(
            "quality", numbers, files=data, model=ours, seeds=[SEED], table=table(results), output=arguments.output
        )

    for name, (encoder, megabytes) in loaded.items():
        fingerprint = encoder.model.fingerprint if isinstance(encoder, Elmo) else None
        if results.get(name, {}).get("fingerprint") != fingerprint:
            results[name] = {}  # those are of other weights; the order of the columns stays
        figures = results.setdefault(name, {})
        figures["megabytes"] = megabytes
        if fingerprint is not None:
            figures["fingerprint"] = fingerprint
        for measure in chosen:
            if measure in MEASURES:
                figures[measure] = MEASURES[measure](encoder, arguments.data)
                print(name, measure, json.dumps(figures[measure]), flush=True)
                write()
    if "speed" in chosen:  # in turns, so that all see the same machine; the best of three counts
        rates: dict[str, list[float]] = {name: [] for name in loaded}
        for _ in range(3):
            for name, (encoder, _) in loaded.items():
                rates[name].append(speed(encoder, arguments.data))
        for name, found in rates.items():
            results[name]["tokens_per_cpu_second"] = max(found)
        write()
    text = table(results)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()
