"""Train the starter model that the package ships until a better one replaces it.

    python recipes/starter.py --minutes 55 --heldout dev.txt.xz -o starter/ train-*.txt.xz

One sentence a line, tokens separated by spaces. Both directions are trained together from zero state at every
sentence, with the full softmax over the most frequent words. The perplexity printed at the end is over that vocabulary,
all other words being one unknown word, with the end (begin) of the sentence counted.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.nn.bilm import BiLM
from elmokit.nn.packing import Packing
from elmokit.text.batch import by_length, windows
from elmokit.text.characters import BOS, EOS, UNK, ByteCharacters
from elmokit.text.lines import read_lines
from elmokit.weights import native
from elmokit.weights.model import Model

CONFIG = ModelConfig(
    lstm=LstmConfig(dim=512, projection_dim=128),
    char_cnn=CharCnnConfig(filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)), n_highway=1),
    state="reset",
)
MAX_TOKENS = 60  # of a sentence; the rest is cut off
characters = ByteCharacters(50)


def initialise(bilm: BiLM) -> None:
    """As published: small uniform characters and filters, scaled normals elsewhere, gates that mostly carry."""
    for name, parameter in bilm.named_parameters():
        if name.endswith("char_embedding"):
            nn.init.uniform_(parameter, -1, 1)
        elif "convolutions" in name and parameter.dim() == 2:
            nn.init.uniform_(parameter, -0.05, 0.05)
        elif parameter.dim() == 2:
            nn.init.normal_(parameter, std=parameter.shape[0] ** -0.5)
        else:
            nn.init.constant_(parameter, -2 if name.endswith("gate_bias") else 0)
            if name.endswith(".bias") and "layers" in name:
                size = len(parameter) // 4
                parameter.data[size : 2 * size] = 1  # the forget gate


def loss_of(batch: Sequence[Sequence[str]], bilm: BiLM, softmax: nn.Linear, ids: dict[str, int]) -> tuple[Tensor, int]:
    """Summed loss of both directions over a batch in descending length, and the number of predictions."""
    sentences = [[BOS, *words[:MAX_TOKENS], EOS] for words in batch]
    packing = Packing.from_lengths([len(sentence) for sentence in sentences])
    words = list(dict.fromkeys(itertools.chain.from_iterable(sentences)))
    place = {word: k for k, word in enumerate(words)}
    order = list(zip(packing.sentence.tolist(), packing.time.tolist(), strict=True))
    index = torch.tensor([place[sentences[b][t]] for b, t in order])
    target = torch.tensor([ids.get(sentences[b][t], ids[UNK]) for b, t in order])
    vectors = bilm.token_encoder(torch.from_numpy(characters.encode(words)), None)
    dropout = 0.1 if bilm.training else 0.0
    output = bilm(functional.dropout(vectors, dropout), index, packing)
    length = torch.tensor(packing.lengths)[packing.sentence]
    offset = torch.tensor(packing.offsets)
    is_input = packing.time < length - 1  # the end predicts nothing
    following = (offset[packing.time + 1] + packing.sentence)[is_input]
    forward = functional.dropout(output.forward[-1][is_input], dropout)
    backward = functional.dropout(output.backward[-1][following], dropout)
    logits = softmax(torch.cat((forward, backward)))
    return functional.cross_entropy(logits, torch.cat((target[following], target[is_input])), reduction="sum"), len(
        logits
    )


def batches(lines: Iterator[str], tokens: int, rng: random.Random) -> Iterator[list[list[str]]]:
    """Batches by length, shuffled inside windows of 400,000 tokens."""
    for window in windows((line.split() for line in lines), len, 400_000):
        rng.shuffle(window)
        cuts = by_length([min(len(words), MAX_TOKENS) for words in window], batch_tokens=tokens)
        rng.shuffle(cuts)
        for cut in cuts:
            yield [window[k] for k in cut]


@torch.no_grad()
def perplexity(path: Path, bilm: BiLM, softmax: nn.Linear, ids: dict[str, int]) -> float:
    """exp of the mean loss of both directions."""
    bilm.eval()
    total, count = 0.0, 0
    for batch in batches(read_lines(path), 4096, random.Random(0)):
        loss, n = loss_of(batch, bilm, softmax, ids)
        total, count = total + float(loss), count + n
    bilm.train()
    return float(np.exp(total / count))


def main() -> None:
    """Train for so many minutes, then save the model as a native folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", nargs="+", type=Path)
    parser.add_argument("--heldout", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--vocabulary-size", type=int, default=5000)
    parser.add_argument("--batch-tokens", type=int, default=2000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    counts: Counter[str] = Counter()
    for line in itertools.islice(read_lines(arguments.train[0]), 200_000):
        counts.update(line.split())
    vocabulary = [BOS, EOS, UNK, *(word for word, _ in counts.most_common(arguments.vocabulary_size - 3))]
    ids = {word: k for k, word in enumerate(vocabulary)}
    bilm = BiLM(config=CONFIG)
    softmax = nn.Linear(CONFIG.lstm.projection_dim, len(vocabulary))
    initialise(bilm)
    parameters = [*bilm.parameters(), *softmax.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=2e-3, betas=(0.9, 0.99))
    started = time.monotonic()
    seen, shown, running = 0, 0.0, 9.0
    lines = itertools.chain.from_iterable(itertools.cycle([*map(read_lines, arguments.train)]))
    for batch in batches(lines, arguments.batch_tokens, rng):
        share = (time.monotonic() - started) / (60 * arguments.minutes)
        if share >= 1:
            break
        optimiser.param_groups[0]["lr"] = 2e-3 * min(1, seen / 100_000 + 0.01) * (1 - share) ** 0.7
        loss, n = loss_of(batch, bilm, softmax, ids)
        optimiser.zero_grad()
        (loss / n).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        seen += sum(map(len, batch))
        running += 0.02 * (float(loss.detach()) / n - running)
        if share - shown > 0.01:
            shown = share
            print(f"{share:5.0%}  {seen:9,} tokens  perplexity {np.exp(running):7.1f}", flush=True)
    native.save(Model(config=CONFIG, bilm=bilm, format="native"), arguments.output, half=True, overwrite=True)
    value = perplexity(arguments.heldout, bilm, softmax, ids)
    print(
        f"{seen:,} tokens in {arguments.minutes:g} minutes; held-out perplexity {value:.1f} ({len(vocabulary):,} words)"
    )


if __name__ == "__main__":
    main()
