"""The command `allennlp elmo` of AllenNLP 0.9."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from elmokit.integrations.allennlp.embedder import DEFAULT_BATCH_SIZE, ElmoEmbedder
from elmokit.integrations.allennlp.pretrained import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE

EXAMPLE = "example: allennlp elmo sentences.txt vectors.hdf5 --all --options-file options.json --weight-file w.hdf5"


def main(prog: str | None = None, subcommand_overrides: Any = None) -> None:
    """Run the arguments of the command line: `allennlp elmo in.txt out.hdf5 --all`."""
    parser = argparse.ArgumentParser(prog=prog or "allennlp", description="AllenNLP's ELMo command, run by elmokit.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="elmo")
    elmo = commands.add_parser("elmo", help="Write ELMo vectors of a text file.", epilog=EXAMPLE)
    add_arguments(elmo)
    arguments = sys.argv[1:]
    if arguments and not arguments[0].startswith("-") and arguments[0] != "elmo":
        parser.error(f"elmokit covers only the command elmo of AllenNLP, found {arguments[0]!r}; {EXAMPLE}")
    elmo_command(parser.parse_args(arguments))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "input_file", type=argparse.FileType("r", encoding="utf-8"), help="Text, one sentence per line."
    )
    parser.add_argument("output_file", help="HDF5 file to write.")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("--all", action="store_true", help="All layers, (3, n, 1024).")
    output.add_argument("--top", action="store_true", help="The top layer, (n, 1024).")
    output.add_argument("--average", action="store_true", help="The average of the layers, (n, 1024).")
    parser.add_argument("--vocab-path", help="Ignored, as in AllenNLP.")
    parser.add_argument("--options-file", default=DEFAULT_OPTIONS_FILE, help="Options file, or a published address.")
    parser.add_argument("--weight-file", default=DEFAULT_WEIGHT_FILE, help="Weight file, or a published address.")
    parser.add_argument("--batch-size", type=int, default=DEFAULT_BATCH_SIZE, help="Sentences per batch [64].")
    parser.add_argument("--file-friendly-logging", action="store_true", help="Ignored: there is no progress bar.")
    parser.add_argument("--cuda-device", type=int, default=-1, help="Number of a GPU; -1 is the CPU [-1].")
    parser.add_argument("--forget-sentences", action="store_true", help="Leave out sentence_to_index.")
    parser.add_argument("--use-sentence-keys", action="store_true", help="Use sentences as keys, not line numbers.")
    parser.add_argument("--include-package", action="append", help="Ignored: there is no registry.")


def elmo_command(args: argparse.Namespace) -> None:
    """Embed a file with parsed arguments."""
    embedder = ElmoEmbedder(args.options_file, args.weight_file, args.cuda_device)
    embedder.embed_file(
        args.input_file,
        args.output_file,
        "all" if args.all else "top" if args.top else "average",
        args.batch_size,
        args.forget_sentences,
        args.use_sentence_keys,
    )
