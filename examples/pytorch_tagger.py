"""Train a tagger in PyTorch on top of a frozen biLM.

    python examples/pytorch_tagger.py
    python examples/pytorch_tagger.py "Maria Keller left Siemens and moved to Vienna ."

The data is examples/entities.txt, 60 sentences with persons (PER), places (LOC) and organizations (ORG), one token and
its tag per line. For real data use `elmo task ner train`, which adds a BiLSTM, a CRF, early stopping and scores.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from elmokit import ElmoEmbedding

torch.manual_seed(0)
blocks = (Path(__file__).parent / "entities.txt").read_text().strip().split("\n\n")
data = [[line.split() for line in block.splitlines()] for block in blocks]
sentences = [[token for token, _ in sentence] for sentence in data]
names = sorted({tag for sentence in data for _, tag in sentence})
tags = [torch.tensor([names.index(tag) for _, tag in sentence]) for sentence in data]
split = len(data) * 4 // 5


class Tagger(nn.Module):
    """A learned mix of the biLM's layers and a linear classifier per token."""

    def __init__(self) -> None:
        super().__init__()
        self.elmo = ElmoEmbedding.from_pretrained(dropout=0.3)
        self.out = nn.Linear(self.elmo.vector_dim, len(names))

    def forward(self, sentences: list[list[str]]) -> torch.Tensor:
        """(sentences, longest, tags)"""
        (vectors,) = self.elmo(sentences).representations
        return self.out(vectors)


tagger = Tagger()
optimizer = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], lr=0.01)
targets = nn.utils.rnn.pad_sequence(tags[:split], batch_first=True, padding_value=-100)
for epoch in range(60):
    loss = nn.functional.cross_entropy(tagger(sentences[:split]).transpose(1, 2), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 19:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

tagger.eval()
with torch.no_grad():
    guesses = tagger(sentences[split:]).argmax(-1)
right = sum(int((guess[: len(tag)] == tag).sum()) for guess, tag in zip(guesses, tags[split:], strict=True))
total = sum(map(len, tags[split:]))
print(f"{right} of {total} tags are right in {len(data) - split} sentences that it has not seen")

tokens = (sys.argv[1] if len(sys.argv) > 1 else "Clara Schumann played in Leipzig .").split()
with torch.no_grad():
    best = tagger([tokens])[0].argmax(-1)
print(" ".join(f"{token}/{names[k]}" if names[k] != "O" else token for token, k in zip(tokens, best, strict=True)))
