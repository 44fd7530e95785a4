"""Perplexity of a model as its weights are stored: float32, half precision, and softmax rows as 8-bit integers.

    python benchmarks/stored_precision.py run/ heldout-dev.txt.xz    writes docs/results/stored_precision.json

The model should be a run, whose weights are float32. 8-bit rows have one scale each; everything else is then in half
precision. Megabytes are those of the tensors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import results as files
import torch
from torch import Tensor

from elmokit import weights
from elmokit.nn.softmax import assemble_head
from elmokit.pretrain.perplexity import perplexity
from elmokit.text.lines import read_lines

MEGABYTE = 1e6
Stored = tuple[Tensor, int]  # as it is read back, and its bytes on disk


def float32(tensor: Tensor) -> Stored:
    """Unchanged."""
    return tensor.float(), 4 * tensor.numel()


def half(tensor: Tensor) -> Stored:
    """Rounded to float16."""
    return tensor.half().float(), 2 * tensor.numel()


def int8_rows(tensor: Tensor) -> Stored:
    """Matrices as integers from -127 to 127 with a float32 scale per row; vectors in half precision."""
    if tensor.ndim != 2:
        return half(tensor)
    scale = tensor.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12) / 127
    return (tensor / scale).round() * scale, tensor.numel() + 4 * len(tensor)


# (weights of the network, softmax)
WAYS: dict[str, tuple[Callable[[Tensor], Stored], Callable[[Tensor], Stored]]] = {
    "float32": (float32, float32),
    "half": (half, half),
    "half, softmax rows int8": (half, int8_rows),
}


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model with a softmax")
    parser.add_argument("text", type=Path, help="held-out text, one sentence per line")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    model = weights.load(arguments.model)
    network, softmax = model.bilm.state_dict(), model.softmax().state_dict()
    network = {name: tensor.clone() for name, tensor in network.items()}
    lines = list(read_lines(arguments.text))
    numbers: dict[str, dict[str, float]] = {}
    for way, (of_network, of_softmax) in WAYS.items():
        stored = {name: of_network(tensor) for name, tensor in network.items()}
        rows = {name: of_softmax(tensor) for name, tensor in softmax.items()}
        model.bilm.load_state_dict({name: tensor for name, (tensor, _) in stored.items()})
        head = assemble_head({name: tensor for name, (tensor, _) in rows.items()})
        model.read_softmax = lambda head=head: head  # type: ignore[misc]
        size = sum(n_bytes for _, n_bytes in [*stored.values(), *rows.values()])
        found = perplexity(model, lines, tokenizer=model.config.corpus_tokenizer)
        numbers[way] = {"perplexity": found.mean, "megabytes": size / MEGABYTE}
        print(f"{way}: perplexity {found.mean:.2f}, {size / MEGABYTE:.1f} MB", flush=True)
    table = ["| weights | perplexity | MB |", "|---|---|---|"]
    table += [f"| {way} | {row['perplexity']:.2f} | {row['megabytes']:.1f} |" for way, row in numbers.items()]
    model.bilm.load_state_dict(network)  # for the fingerprint
    files.write(
        "stored_precision",
        {"ways": numbers},
        files=[arguments.text],
        model=model,
        table="\n".join(table),
        output=arguments.output,
    )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
