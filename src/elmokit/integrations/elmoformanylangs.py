"""Drop-in replacement for ELMoForManyLangs: `Embedder`, and the command `python -m elmoformanylangs test`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmokit.disk.whole import new_file
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, InputError


class Embedder:
    """Embeds tokenized sentences; each sentence is independent of the others."""

    def __init__(self, model_dir: str | os.PathLike[str], batch_size: int = 64) -> None:
        self.model_dir, self.batch_size = model_dir, batch_size
        self.model = Elmo.from_pretrained(model_dir)

    def sents2elmo(self, sents: Iterable[Iterable[str]], output_layer: int = -1) -> list[NDArray[Any]]:
        """Vectors (n, 2D) of each sentence: layer 0, 1 or 2, or their average with -1; with -2 all layers, (3, n, 2D).

        sents: lists or numpy arrays of tokens.
        """
        sentences = [[str(word) for word in sentence] for sentence in sents]
        return [
            _choose(found.layers, output_layer) for found in self.model.embed(sentences, batch_size=self.batch_size)
        ]


def _choose(layers: NDArray[Any], output_layer: int) -> NDArray[Any]:
    if output_layer == -2:
        return layers
    if not -1 <= output_layer < len(layers):
        raise ConfigError(f"output_layer: expected -2, -1 or a layer from 0 to {len(layers) - 1}, found {output_layer}")
    return np.average(layers, axis=0) if output_layer == -1 else layers[output_layer]


def read_sentences(path: str | os.PathLike[str], input_format: str) -> list[list[str]]:
    """Read the sentences of a file.

    plain: one per line, words between tabs. conll: CoNLL-U, without ranges (1-2) and empty nodes (1.1). conll_char:
    the same, every character a token; conll_char_vi: every part of a word between spaces a token.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a UTF-8 text file ({error})") from None
    if input_format == "plain":
        return [line.split("\t") for line in text.split("\n")]
    sentences = []
    for block in text.split("\n\n"):
        words = list(_conll_words(block, path))
        if input_format == "conll_char":
            words = [character for word in words for character in word]
        elif input_format == "conll_char_vi":
            words = [part for word in words for part in word.split()]
        sentences.append(words)
    return sentences


def _conll_words(block: str, path: Any) -> Iterator[str]:
    for line in block.splitlines():
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) < 2:
            raise InputError(f"{path}: expected an id, a tab and a word, found {line!r}")
        if "-" not in fields[0] and "." not in fields[0]:
            yield fields[1]


def main() -> None:
    """Run the command `test`."""
    parser = argparse.ArgumentParser(
        prog="elmoformanylangs",
        description="ELMoForManyLangs' command, run by elmokit.",
        epilog="example: test --input_format conll --input a.conllu --model zhs.model --output_prefix a "
        "--output_layer -1",
    )
    parser.add_argument("command", choices=["test"], help="Write the vectors of a text file.")
    parser.add_argument("--gpu", type=int, default=-1, help="GPU index; -1 is the CPU [-1].")
    formats = ["plain", "conll", "conll_char", "conll_char_vi"]
    parser.add_argument("--input_format", default="plain", choices=formats, help="Format of the input [plain].")
    parser.add_argument("--input", required=True, help="Text file.")
    parser.add_argument("--output_format", default="hdf5", help="hdf5, txt, or both, separated by a comma [hdf5].")
    parser.add_argument("--output_prefix", required=True, help="Prefix of the files <prefix>.ly<layer>.<format>.")
    parser.add_argument("--output_layer", required=True, help="0, 1, 2, or -1 for the average; comma-separated.")
    parser.add_argument("--model", required=True, help="Model folder.")
    parser.add_argument("--batch_size", "--batch", type=int, default=1, help="Sentences per batch [1].")
    args = parser.parse_args(_negative_values(sys.argv[1:]))
    embedder = Embedder(args.model, args.batch_size)
    if args.gpu >= 0:
        embedder.model = Elmo.from_pretrained(args.model, device=f"cuda:{args.gpu}")
    sentences = read_sentences(args.input, args.input_format)
    _write(embedder, sentences, args.output_prefix, _layers(args.output_layer), args.output_format.split(","))


def _negative_values(arguments: list[str]) -> list[str]:
    """Join `--output_layer -1,0` into one argument, because argparse takes -1,0 for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--output_layer":
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _layers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--output_layer: expected comma-separated numbers, such as -1,0, found {text!r}") from None


def _write(
    embedder: Embedder, sentences: Sequence[list[str]], prefix: str, layers: list[int], formats: list[str]
) -> None:
    """Write <prefix>.ly<layer>.<format> atomically; a repeated sentence is written once."""
    if unknown := [name for name in formats if name not in ("hdf5", "txt")]:
        raise ConfigError(f"--output_format: expected hdf5 or txt, found {unknown[0]!r}")
    seen: dict[str, list[str]] = {}
    for sentence in sentences:
        seen.setdefault("\t".join(sentence).replace(".", "$period$").replace("/", "$backslash$"), sentence)
    names = {(layer, name): Path(f"{prefix}.ly{layer}.{name}") for name in formats for layer in layers}
    with ExitStack() as stack:
        files: dict[tuple[int, str], Any] = {}
        for key, path in names.items():
            fresh = stack.enter_context(new_file(path))  # replaces an older file, as the original did
            opened = h5py.File(fresh, "w") if key[1] == "hdf5" else open(fresh, "w", encoding="utf-8")  # noqa: SIM115
            files[key] = stack.enter_context(opened)
        vectors = embedder.sents2elmo(seen.values(), output_layer=-2)
        for (sentence_key, words), array in zip(seen.items(), vectors, strict=True):
            for (layer, name), file in files.items():
                rows = _choose(array, layer)
                if name == "hdf5":
                    file.create_dataset(sentence_key, data=rows, dtype="float32")
                else:
                    for word, row in zip(words, rows, strict=True):
                        print(word, *(f"{number:.8f}" for number in row), sep="\t", file=file)
                    print(file=file)
