"""Examples of the data files that commands read: texts, corpora of tasks, word vectors, results."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import compressed
import entity_files
import numpy as np
import sense_files
from kinds import Kind, digest
from report_numbers import NUMBERS
from run_folders import write_run

from elmokit import Elmo
from elmokit.analysis.report.full_report import make_page, write_page
from elmokit.analysis.report.report_inputs import gather
from elmokit.analysis.search.static_vectors import load_static
from elmokit.analysis.senses.polysemy import load_triples
from elmokit.analysis.senses.sense_corpus import read_corpus
from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.analysis.shared.results import FileFacts, ModelFacts, Results, read_results, write_results
from elmokit.config import ModelConfig
from elmokit.embed.embed_files import embed_files
from elmokit.pretrain.pretrain_run import new_state
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.serve.security import read_key
from elmokit.tasks.shared.task_registry import get_task
from elmokit.text.lines import read_lines
from elmokit.text.tagged_text import read_tagged
from elmokit.text.vocabulary import Vocabulary
from elmokit.text.word_vectors import read_vectors

TEXT = "A sentence of text , with Ünïcode 東京 🐈 .\n\nAnother one (shorter) isn't it ? Yes .\n" * 8
SRL = """\
d 0 0 Birds NNS * - - - S * (ARG0*) -
d 0 1 sing VBP * sing 01 - S * (V*) -
d 0 2 loud RB * - - - S * (ARGM-MNR*) -

"""
COREF = """\
#begin document (doc); part 000
doc\t0\t0\tThe\tDT\t*\t-\t-\t-\tann\t*\t(7
doc\t0\t1\towl\tNN\t*\t-\t-\t-\tann\t*\t7)

doc\t0\t0\tIts\tPRP\t*\t-\t-\t-\tbob\t*\t(3|(7)
doc\t0\t1\thome\tNN\t*\t-\t-\t-\tbob\t*\t3)

#end document
"""
CONLLU = "# text = a b\n1\ta\ta\tDET\tDT\t_\t0\troot\t_\t_\n2\tb\tb\tNOUN\tNN\t_\t1\tdep\t_\t_\n\n" * 3


def make_tasks(folder: Path) -> list[Kind]:
    """Training data of the tasks."""
    texts = folder / "tasks"
    texts.mkdir()
    entity_files.write(texts / "ner.txt", 5)
    squad = {"data": [{"title": "t", "paragraphs": [{"context": "A b c d.", "qas": [
        {"id": "1", "question": "What?", "answers": [{"text": "b c", "answer_start": 2}]}]}]}]}  # fmt: skip
    (texts / "squad.json").write_text(json.dumps(squad))
    (texts / "snli.jsonl").write_text(
        '{"gold_label": "neutral", "sentence1": "A man .", "sentence2": "A dog .", '
        '"sentence1_parse": "(ROOT (NP (DT A) (NN man)))", "sentence2_parse": "(ROOT (NP (DT A) (NN dog)))"}\n' * 3
    )
    (texts / "sst.txt").write_text("(3 (2 It) (4 (2 's) (4 good)))\n(1 (2 Not) (1 bad))\n")
    (texts / "srl.conll").write_text(SRL * 2)
    (texts / "coref.conll").write_text(COREF)
    (texts / "pos.conllu").write_text(CONLLU)
    (texts / "pos.txt").write_text("A DT\ncat NN\nsat VBD\n\nBirds NNS\nsing VBP\n" * 2)
    names = {"ner": "ner.txt", "pos": "pos.txt", "upos": "pos.conllu",
             "squad": "squad.json", "snli": "snli.jsonl", "sst": "sst.txt", "srl": "srl.conll",
             "coref": "coref.conll"}  # fmt: skip
    return [
        Kind(f"data of {task}", texts / file, lambda p, task=task: len(get_task(task).read(p)))  # type: ignore[misc]
        for task, file in names.items()
    ]


def make_texts(folder: Path, native: Path) -> list[Kind]:
    """Texts, word vectors and vocabularies."""
    texts = folder / "texts"
    texts.mkdir()
    (texts / "text.txt").write_text(TEXT, encoding="utf-8")
    for suffix in (".gz", ".xz", ".bz2", ".zst"):
        (texts / f"text.txt{suffix}").write_bytes(compressed.compress(TEXT.encode(), suffix))
    (texts / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\na\n")
    (texts / "vectors.txt").write_text("".join(f"word{k} 0.5 -1 {k}\n" for k in range(20)))
    rows = b"".join(b"word%d " % k + np.full(3, k, np.float32).tobytes() + b"\n" for k in range(20))
    (texts / "vectors.bin").write_bytes(b"20 3\n" + rows)
    (texts / "key.txt").write_text("a-secret\n")
    options = next(native.glob("options.json")).read_bytes()
    (texts / "options.json").write_bytes(options)

    def embed(path: Path) -> int:
        elmo = Elmo.from_pretrained(native)
        return embed_files(elmo, [path], path.parent / "o.npz", tokenizer="words", split=True, pool="mean").sentences

    def pretrain(path: Path) -> int:
        config = ModelConfig.from_json(options)
        return len(new_state(config, TrainingSettings(train=(str(path),)), lambda _: None).vocabulary)

    def vectors(path: Path) -> Any:
        return len(read_vectors(path, ["word1"]).words), len(load_static(path).words)

    lines = [Kind(f"text{suffix}", texts / f"text.txt{suffix}", lambda p: list(read_lines(p)))
             for suffix in (".gz", ".xz", ".bz2", ".zst")]  # fmt: skip
    return [
        *lines,
        Kind("text to embed", texts / "text.txt", embed),
        Kind("text to train on", texts / "text.txt", pretrain),
        Kind("vocabulary", texts / "vocabulary.txt", lambda p: Vocabulary.from_file(p).words),
        Kind("word vectors", texts / "vectors.txt", vectors),
        Kind("word vectors, binary", texts / "vectors.bin", vectors),
        Kind("API key", texts / "key.txt", read_key),
        Kind("options", texts / "options.json", lambda p: ModelConfig.from_json(p.read_bytes()).vector_dim),
    ]


def make_analyses(folder: Path) -> list[Kind]:
    """Corpora of the analyses, and their results."""
    senses = folder / "senses"
    senses.mkdir()
    instances = [("bank", "bank", "NOUN", [sense_files.BANK_RIVER]), ("run", "run", "VERB", [sense_files.RUN_MOVE])]
    sense_files.write_corpus(senses, "small", [["the", instances[0]], [instances[1], "away"]])
    sense_files.write_wordnet(folder / "wordnet")
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.add(folder / "wordnet" / "index.sense", "dict/index.sense")
    (folder / "tar").mkdir()
    (folder / "tar" / "wordnet.tar.xz").write_bytes(compressed.compress(file.getvalue(), ".xz"))
    (folder / "tagged.conllu").write_text(CONLLU)
    triple = {"word": "bank", "sense": "a", "other_sense": "b", "same": ["a bank", "the bank"], "other": "bank of c"}
    (folder / "triples.json").write_text(json.dumps([triple, triple]))
    reports = folder / "reports"
    reports.mkdir()
    for kind, numbers in NUMBERS.items():
        facts = (FileFacts(f"/data/{kind}.txt", 1234, "ab" * 32),)
        model = ModelFacts("small", "f" * 64)
        write_results(reports / f"{kind}.json", Results(kind, f"elmo {kind}", model, facts, numbers))
    write_run(reports / "run", dev=30.0, curve=[10, 30], weights=[0.2, 0.3, 0.5])

    def report(path: Path) -> int:
        inputs = gather([*sorted(path.glob("*.json")), path / "run"])
        return len(write_page(make_page(inputs, None), path / "page.html"))

    return [
        Kind("sense corpus", senses, lambda p: len(read_corpus(p / "small.data.xml").instances)),
        Kind("WordNet", folder / "wordnet", lambda p: len(read_wordnet(p).senses)),
        Kind("WordNet, packed", folder / "tar" / "wordnet.tar.xz", lambda p: len(read_wordnet(p).senses)),
        Kind("tagged text", folder / "tagged.conllu", lambda p: len(read_tagged(p, "upos").tags)),
        Kind("triples", folder / "triples.json", lambda p: len(load_triples(p))),
        Kind("results", reports / "probe.json", lambda p: digest(read_results(p))),
        Kind("report", reports, report),
    ]
