"""A few sentences with named entities, as files of columns."""

from __future__ import annotations

import random
from pathlib import Path

from elmokit.tasks.shared.tags import Scheme, Span, encode

PEOPLE = ("Ada Lovelace", "Grace Hopper", "Emmy Noether", "Mary Anning", "Euler")
PLACES = ("Lyme Regis", "Basel", "Göttingen", "New Haven", "Erlangen")
FRAMES = ("P met P in L .", "In L , P wrote to P .", "P lives in L", "L is far from L .", "nobody was there", "P !")


def sentence(rng: random.Random) -> tuple[list[str], list[Span]]:
    tokens: list[str] = []
    spans: list[Span] = []
    for word in rng.choice(FRAMES).split():
        names = {"P": PEOPLE, "L": PLACES}.get(word)
        piece = rng.choice(names).split() if names else [word]
        if names:
            spans.append(Span(len(tokens), len(tokens) + len(piece), "PER" if word == "P" else "LOC"))
        tokens += piece
    return tokens, spans


def write(path: Path, n: int, *, seed: int = 0, scheme: Scheme = "IOB1") -> Path:
    rng = random.Random(seed)
    blocks = ["-DOCSTART- -X- O O\n"]
    for _ in range(n):
        tokens, spans = sentence(rng)
        tags = encode(spans, len(tokens), scheme)
        blocks.append("".join(f"{token} NN I-NP {tag}\n" for token, tag in zip(tokens, tags, strict=True)))
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path
