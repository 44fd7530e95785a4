"""Perplexity of a model and of a modified Kneser-Ney 5-gram: same training text, test text and vocabulary.

    python benchmarks/kneser_ney.py --train 'lm/train-*.txt.xz' --test lm/heldout-test.txt.xz [--model run/]

The 5-gram is KenLM's (Heafield et al. 2013), unpruned. Its programs are built here from the source distribution of the
Python package kenlm, which takes cmake, a C++ compiler and boost (on Debian: apt-get install cmake g++ zlib1g-dev
libboost-thread-dev libboost-program-options-dev libboost-system-dev libboost-test-dev). Source, programs, vocabulary
and the 5-gram stay in --folder, and what is there already is not made again.

The words are those of --vocabulary or of --model, else the 50,000 most frequent ones of the training text; all others
are one unknown word. Both sides predict every word and the end (backward: the begin) of every sentence.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import results as files

from elmokit import weights
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.output_vocabulary import build_vocabulary, check_vocabulary
from elmokit.pretrain.perplexity import perplexity
from elmokit.text.vocabulary import PUBLISHED_MARKS, Vocabulary

KENLM = "kenlm==0.3.0"
N_WORDS = 50_000


def build_programs(folder: Path) -> Path:
    """The folder of lmplz, build_binary and query."""
    programs = folder / "build" / "bin"
    if not (programs / "query").exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "kenlm", KENLM]
        subprocess.run([*pip, "-d", str(folder)], check=True)
        with tarfile.open(next(folder.glob("kenlm-*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        source = next(path for path in folder.glob("kenlm-*") if path.is_dir())
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w"]
        subprocess.run(["cmake", "-S", str(source), "-B", str(folder / "build"), *options], **quiet)
        targets = ["lmplz", "build_binary", "query"]
        subprocess.run(["cmake", "--build", str(folder / "build"), "--target", *targets], **quiet)
    return programs


def write_ids(sentences: Iterable[list[str]], vocabulary: Vocabulary, file: IO[bytes]) -> None:
    """Sentences as word indices: KenLM reserves words such as <s>, which a text might contain."""
    for sentence in sentences:
        file.write(" ".join(map(str, vocabulary.ids(sentence).tolist())).encode() + b"\n")


def train(corpus: Corpus, vocabulary: Vocabulary, programs: Path, folder: Path, *, memory: str, tokenizer: str) -> Path:
    """Train the 5-gram; returns its file."""
    key = repr((vocabulary.words, [path.name for path in corpus.files], corpus.sizes, tokenizer))
    binary = folder / f"5-gram-{hashlib.sha256(key.encode()).hexdigest()[:12]}.binary"
    if binary.exists():
        return binary
    arpa, beside = binary.with_suffix(".arpa"), binary.with_suffix(".new")
    command = [programs / "lmplz", "-o", "5", "-S", memory, "-T", folder / "sort", "--arpa", arpa]
    with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE) as lmplz:
        assert lmplz.stdin is not None
        write_ids(corpus.read(), vocabulary, lmplz.stdin)
        lmplz.stdin.close()
    if lmplz.returncode:
        sys.exit(f"lmplz ended with code {lmplz.returncode}")
    subprocess.run([str(part) for part in (programs / "build_binary", "trie", arpa, beside)], check=True)
    beside.replace(binary)
    arpa.unlink()
    return binary


def query(binary: Path, sentences: Iterable[list[str]], vocabulary: Vocabulary, programs: Path) -> tuple[float, int]:
    """Perplexity and number of predictions."""
    with tempfile.TemporaryFile() as file:
        write_ids(sentences, vocabulary, file)
        file.seek(0)
        command = [str(programs / "query"), "-v", "summary", str(binary)]
        output = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True).stdout
    found = {name: float(value) for name, value in re.findall(r"^(.+):\s*(\S+)$", output, re.MULTILINE)}
    if found["OOVs"]:
        print(f"{found['OOVs']:.0f} test words are in the vocabulary but not in the training text", file=sys.stderr)
    return found["Perplexity including OOVs"], int(found["Tokens"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True, help="files or patterns, one sentence per line")
    parser.add_argument("--test", required=True)
    parser.add_argument("--model", help="a model with a softmax, as elmo perplexity takes it")
    parser.add_argument("--vocabulary", type=Path, help="marks, then words; by default that of the model, or built")
    parser.add_argument("--tokenizer", default="spaces", help="of both texts, such as han [spaces: tokenized text]")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kneser-ney")
    parser.add_argument("--memory", default="4G", help="for sorting, as lmplz -S takes it")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/kneser_ney.json")
    arguments = parser.parse_args()
    folder = arguments.folder
    (folder / "sort").mkdir(parents=True, exist_ok=True)

    corpus, test = (Corpus(paths, tokenizer=arguments.tokenizer) for paths in (arguments.train, arguments.test))
    model = weights.load(arguments.model) if arguments.model else None
    if arguments.vocabulary:
        vocabulary = Vocabulary.from_file(arguments.vocabulary)
    elif model is not None and model.vocabulary is not None:
        vocabulary = Vocabulary(model.vocabulary)
    else:
        vocabulary = build_vocabulary(corpus, N_WORDS + len(PUBLISHED_MARKS))
        vocabulary.write(folder / "vocabulary.txt")
    check_vocabulary(vocabulary)
    if model is not None and model.vocabulary != vocabulary.words:
        sys.exit("--vocabulary: expected the words of --model, found others: the figures would not compare")

    programs = build_programs(folder)
    options = {"memory": arguments.memory, "tokenizer": arguments.tokenizer}
    binary = train(corpus, vocabulary, programs, folder, **options)
    figure, n_tokens = query(binary, test.read(), vocabulary, programs)
    print(f"{len(vocabulary) - len(PUBLISHED_MARKS):,} words and the unknown one; {n_tokens:,} predictions\n")
    print(f"{'modified Kneser-Ney 5-gram':<40}{figure:8.2f}")
    numbers: dict[str, float] = {"words": len(vocabulary), "predictions": n_tokens, "kneser_ney": figure}
    if model is not None:
        ours = perplexity(model, test.read())
        assert ours.tokens == n_tokens, f"KenLM has made {n_tokens} predictions, the model {ours.tokens}"
        for name in ("forward", "backward", "mean", "geometric_mean"):
            label = f"{Path(arguments.model).name}, {name.replace('_', ' ')}"
            print(f"{label:<40}{getattr(ours, name):8.2f}")
            numbers[name] = getattr(ours, name)
        numbers["out_of_vocabulary"] = ours.out_of_vocabulary
    files.write("kneser_ney", numbers, files=[Path(arguments.test)], model=model, output=arguments.output)


if __name__ == "__main__":
    main()
