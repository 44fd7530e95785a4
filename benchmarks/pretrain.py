"""Speed of a training step, relative to idiomatic PyTorch baselines and to the matrix-product rate.

    python benchmarks/pretrain.py TEXT [--markdown benchmarks/pretrain.md]    writes docs/results/pretrain.json

TEXT: a file of real sentences, one a line, tokens separated by spaces; plain or compressed. A step is a batch of about
2,560 tokens, the loss with a sampled softmax (8,192 negatives of 100,000 words), gradients, and an Adagrad update. Ours
is that of `elmo pretrain`, with its optimizer and its way with freed memory; the others have torch's defaults.
All is measured in one run on one machine, each in a process of its own, one step of each after the other, so that a
slow minute of the machine is slow for all. Ratios are medians over the steps: read them, not the rates. 12 minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import results as files
import torch
from embed import SHAPES, WORK, sgemm
from isolated import contender
from torch import Tensor, nn
from torch.nn import functional

from elmokit import __version__
from elmokit.config import ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.cpu.optimize import optimize_
from elmokit.nn.device import cpu_name
from elmokit.nn.initialize import initialize
from elmokit.nn.softmax import SoftmaxHead
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loss import bilm_loss
from elmokit.pretrain.training_batch import TrainingBatch, make_batch
from elmokit.pretrain.training_state import adagrad
from elmokit.text.characters import BOS, EOS, UNK, ByteCharacters
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.memory import keep_freed_memory

N_WORDS, N_SAMPLES, BATCH_TOKENS = 100_000, 8192, 2560
STEPS = {"small": 15, "original": 5}  # that count, after one that does not


class Encoder(nn.Module):
    """Token encoder built from stock layers: a convolution over all 50 characters."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        chars = config.char_cnn
        assert chars is not None
        self.embedding = nn.Embedding(chars.n_characters, chars.embedding_dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(chars.embedding_dim, n, width) for width, n in chars.filters)
        self.highways = nn.ModuleList(nn.Linear(chars.n_filters, 2 * chars.n_filters) for _ in range(chars.n_highway))
        self.projection = nn.Linear(chars.n_filters, config.lstm.projection_dim)

    def forward(self, characters: Tensor) -> Tensor:
        x = self.embedding(characters).transpose(1, 2)
        x = torch.cat([functional.relu(convolution(x).amax(dim=-1)) for convolution in self.convolutions], dim=-1)
        for highway in self.highways:
            t, g = highway(x).chunk(2, dim=-1)
            x = torch.lerp(x, functional.relu(t), torch.sigmoid(g))
        return self.projection(x)


class Stock(nn.Module):
    """(a) biLM with torch's `nn.LSTM(proj_size)`, without clipping, over packed sequences."""

    def __init__(self, config: ModelConfig, *, distinct: bool) -> None:
        super().__init__()
        self.encoder, self.distinct = Encoder(config), distinct
        d, c = config.lstm.projection_dim, config.lstm.dim
        self.stacks = nn.ModuleList(
            nn.ModuleList(nn.LSTM(d, c, proj_size=d) for _ in range(config.lstm.n_layers)) for _ in range(2)
        )
        self.softmax = nn.Embedding(N_WORDS, d)
        self.bias = nn.Parameter(torch.zeros(N_WORDS))

    def forward(self, batch: TrainingBatch) -> Tensor:
        table = self.encoder(batch.characters) if self.distinct else None
        reverse = batch.packing.reverse
        steps = torch.tensor([stop - start for start, stop in batch.packing.steps()])
        tops = []
        for stack, index in zip(self.stacks, (batch.left, batch.right[reverse]), strict=True):
            x = self.encoder(batch.characters[index]) if table is None else table[index]
            for n, lstm in enumerate(stack):
                y = lstm(nn.utils.rnn.PackedSequence(x, steps))[0].data
                x = y + x if n else y
            tops.append(x)
        x = torch.cat((tops[0], tops[1][reverse]))
        return sampled_loss(self.softmax, self.bias, x, batch.word_ids[torch.cat((batch.right, batch.left))])


class PaddedLoop(nn.Module):
    """(b) The same with autograd through the loop over padded steps of `straightforward.py`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.encoder = config.lstm, Encoder(config)
        d, c = config.lstm.projection_dim, config.lstm.dim
        self.stacks = nn.ModuleList(
            nn.ModuleList(
                nn.ModuleList((nn.Linear(d, 4 * c), nn.Linear(d, 4 * c, bias=False), nn.Linear(c, d, bias=False)))
                for _ in range(config.lstm.n_layers)
            )
            for _ in range(2)
        )
        self.softmax = nn.Embedding(N_WORDS, d)
        self.bias = nn.Parameter(torch.zeros(N_WORDS))

    def forward(self, batch: TrainingBatch) -> Tensor:
        table, packing, lstm = self.encoder(batch.characters), batch.packing, self.config
        alive = packing.pad(torch.ones(packing.n_tokens, 1)).bool()  # (B, T, 1)
        tops = []
        for stack, index in zip(self.stacks, (batch.left, batch.right[packing.reverse]), strict=True):
            x = packing.pad(table[index])  # (B, T, D)
            for number, (from_input, from_state, project) in enumerate(stack):
                m, c = x.new_zeros(len(x), lstm.projection_dim), x.new_zeros(len(x), lstm.dim)
                outputs = []
                for t in range(x.shape[1]):
                    i, f, o, j = (from_input(x[:, t]) + from_state(m)).chunk(4, dim=1)
                    c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
                    c_new = c_new.clamp(-lstm.cell_clip, lstm.cell_clip)
                    m_new = project(torch.sigmoid(o) * torch.tanh(c_new)).clamp(-lstm.proj_clip, lstm.proj_clip)
                    m, c = torch.where(alive[:, t], m_new, m), torch.where(alive[:, t], c_new, c)
                    outputs.append(m)
                y = torch.stack(outputs, dim=1)
                x = y + x if number else y
            tops.append(packing.pack(x))
        x = torch.cat((tops[0], tops[1][packing.reverse]))
        return sampled_loss(self.softmax, self.bias, x, batch.word_ids[torch.cat((batch.right, batch.left))])


class PackedLoop(nn.Module):
    """elmokit's network, encoder and packing, with autograd through the LSTM steps."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.bilm = optimize_(BiLM(config=config))
        initialize(self.bilm)
        self.softmax = nn.Embedding(N_WORDS, config.lstm.projection_dim)
        self.bias = nn.Parameter(torch.zeros(N_WORDS))

    def forward(self, batch: TrainingBatch) -> Tensor:
        table = self.bilm.token_encoder(batch.characters, None)
        reverse, lstm = batch.packing.reverse, self.bilm.config.lstm
        tops = []
        stacks = (self.bilm.forward_layers, self.bilm.backward_layers)
        for stack, index in zip(stacks, (batch.left, batch.right[reverse]), strict=True):
            x = table[index]
            for number, layer in enumerate(stack):
                m, c = x.new_zeros(len(batch.packing.lengths), lstm.projection_dim), None
                outputs = []
                for start, stop in batch.packing.steps():
                    n = stop - start
                    gates = x[start:stop] @ layer.input.weight + m[:n] @ layer.state.weight + layer.bias
                    i, f, o, j = gates.chunk(4, dim=1)
                    new = torch.sigmoid(i) * torch.tanh(j)
                    c = new if c is None else torch.sigmoid(f) * c[:n] + new
                    c = c.clamp(-lstm.cell_clip, lstm.cell_clip)
                    m = (torch.sigmoid(o) * torch.tanh(c)) @ layer.projection.weight
                    m = m.clamp(-lstm.proj_clip, lstm.proj_clip)
                    outputs.append(m)
                y = torch.cat(outputs)
                x = y + x if number else y
            tops.append(x)
        x = torch.cat((tops[0], tops[1][reverse]))
        return sampled_loss(self.softmax, self.bias, x, batch.word_ids[torch.cat((batch.right, batch.left))])


def sampled_loss(table: nn.Embedding, bias: Tensor, x: Tensor, targets: Tensor) -> Tensor:
    """Idiomatic sampled softmax: shared negatives, log-Q correction, accidental hits masked, cross-entropy."""
    samples = (
        (torch.rand(N_SAMPLES).mul(torch.log(torch.tensor(N_WORDS + 1.0))).exp() - 1).long().clamp(max=N_WORDS - 1)
    )

    def log_q(ids: Tensor) -> Tensor:
        return torch.log(torch.log((ids + 2.0) / (ids + 1.0)) * N_SAMPLES / torch.log(torch.tensor(N_WORDS + 1.0)))

    true = (x * table(targets)).sum(-1) + bias[targets] - log_q(targets)
    negative = x @ table(samples).t() + bias[samples] - log_q(samples)
    negative = negative.masked_fill(targets.unsqueeze(1) == samples, -1e9)
    logits = torch.cat((true.unsqueeze(1), negative), dim=1)
    return functional.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))


class Ours(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.bilm = optimize_(BiLM(config=config))  # as `elmo pretrain` does
        initialize(self.bilm)
        self.head = optimize_(SoftmaxHead(n_words=N_WORDS, dim=config.lstm.projection_dim))
        self.head.sparse = True  # as `elmo pretrain` does with this loss and this optimizer
        nn.init.normal_(self.head.weight, std=0.05)
        nn.init.zeros_(self.head.bias)
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, batch: TrainingBatch) -> Tensor:
        return bilm_loss(self.bilm, self.head, batch, n_samples=N_SAMPLES, generator=self.generator).mean()


CONTENDERS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "ours": Ours,
    "distinct": lambda config: Stock(config, distinct=True),
    "every": lambda config: Stock(config, distinct=False),
    "loop": PaddedLoop,
    "packed": PackedLoop,
}


def read_batches(text: Path) -> list[TrainingBatch]:
    """First batches of a file, with the vocabulary of the whole file."""
    corpus = Corpus([str(text)])
    counts = Counter(word for tokens in corpus.read() for word in tokens)
    words = [BOS, EOS, UNK, *(word for word, _ in counts.most_common(N_WORDS - 3))]
    words += [f"word{k}" for k in range(N_WORDS - len(words))]
    vocabulary, characters = Vocabulary(words), ByteCharacters(50)
    shares = islice(corpus.batches(batch_tokens=BATCH_TOKENS), 1 + max(STEPS.values()))
    return [make_batch(share.sentences, vocabulary, characters) for share in shares]


def trainer(name: str, shape: str, batches: list[TrainingBatch]) -> Callable[[int], float]:
    """Runs a step over the batch of an index, and returns its time in seconds."""
    torch.manual_seed(0)
    module = CONTENDERS[name](replace(SHAPES[shape], state="reset"))
    if isinstance(module, Ours):  # as `elmo pretrain` does
        keep_freed_memory()
        optimizer = adagrad(module.parameters(), module.head, 0.1)
    else:
        optimizer = torch.optim.Adagrad(module.parameters(), lr=0.1, initial_accumulator_value=1.0)

    def step(number: int) -> float:
        started = time.perf_counter()
        optimizer.zero_grad()
        module(batches[number]).backward()
        optimizer.step()
        return time.perf_counter() - started

    return step


def flops(config: ModelConfig, shape: str, batch: TrainingBatch) -> float:
    """Lower bound of the operations per token: LSTMs, sampled softmax, distinct words; backward is twice forward."""
    chars = config.char_cnn
    assert chars is not None
    per_word = 2 * chars.n_filters * (2 * chars.n_filters * chars.n_highway + config.lstm.projection_dim)
    softmax = 2 * 2 * config.lstm.projection_dim * N_SAMPLES
    return 3 * (WORK[shape] * 25 / 27 + softmax + per_word * len(batch.characters) / batch.n_tokens)


def measure(shape: str, batches: list[TrainingBatch]) -> dict[str, float]:
    names = list(CONTENDERS) if shape == "small" else ["ours", "distinct"]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    peak = 0.0
    with ExitStack() as stack:
        steps = {name: stack.enter_context(contender(trainer, name, shape, batches)) for name in names}
        for number in range(1 + STEPS[shape]):
            peak = max(peak, sgemm())
            for name in names:
                seconds[name].append(steps[name](number))
    rates = [batch.n_tokens / s for batch, s in zip(batches, seconds["ours"], strict=False)][1:]  # the first warms up
    ours = statistics.median(rates)
    of_sgemm = ours * flops(SHAPES[shape], shape, batches[1]) / peak
    ratios = {
        name: statistics.median(
            theirs / own for theirs, own in zip(seconds[name][1:], seconds["ours"][1:], strict=True)
        )
        for name in names[1:]
    }
    return {"ours": ours, "of_sgemm": of_sgemm, **ratios}


def report(results: dict[str, Any]) -> str:
    rows = [
        ("our step, tokens/s", "ours", "{:,.0f}"),
        ("... share of the sgemm rate (lower bound of the work)", "of_sgemm", "{:.0%}"),
        ("ours / `nn.LSTM(proj_size)`, every token encoded", "every", "{:.1f}x"),
        ("ours / `nn.LSTM(proj_size)`, distinct words encoded", "distinct", "{:.1f}x"),
        ("ours / autograd through a loop over padded steps, distinct words encoded", "loop", "{:.1f}x"),
        ("ours / autograd through a loop over our packed steps, with our token encoder", "packed", "{:.1f}x"),
    ]
    lines = [
        "# Speed of a training step",
        "",
        results["machine"],
        "",
        "| | small 2x1024/128 | original 2x4096/512 |",
        "|---|---|---|",
    ]
    for label, key, form in rows:
        cells = []
        for shape in ("small", "original"):
            cells.append(form.format(results[shape][key]) if key in results[shape] else "")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--markdown", type=Path, help="write the table into this file")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/pretrain.json")
    arguments = parser.parse_args()
    batches = read_batches(arguments.text)
    results: dict[str, Any] = {
        "machine": f"elmokit {__version__}, torch {torch.__version__}, {cpu_name()}, {torch.get_num_threads()} threads."
    }
    for shape in ("small", "original"):
        results[shape] = measure(shape, batches)
        print(json.dumps({shape: results[shape]}, indent=1), file=sys.stderr)
    table = report(results)
    print(table)
    rows = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    files.write("pretrain", results, files=[arguments.text], seeds=[0], table=rows, output=arguments.output)
    if arguments.markdown:
        command = f"python benchmarks/pretrain.py {arguments.text.name} --markdown {arguments.markdown}"
        arguments.markdown.write_text(f"{table}\nMade with `{command}`.\n")


if __name__ == "__main__":
    main()
