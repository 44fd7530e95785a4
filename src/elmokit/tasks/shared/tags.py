"""Conversion between tags (IOB1, IOB2, BIOES) and spans, with conlleval's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Scheme = Literal["IOB1", "IOB2", "BIOES"]
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I"}  # BILOU and BMES are read as BIOES


class Span(NamedTuple):
    """A labeled span: tokens `start` to `end - 1`."""

    start: int
    end: int
    label: str


def split(tag: str) -> tuple[str, str] | None:
    """Split a tag into prefix (O, B, I, E, S) and label; None if it is not a tag. The label of O is empty."""
    if tag == "O":
        return "O", ""
    prefix, hyphen, label = tag.partition("-")
    return (PREFIXES[prefix], label) if hyphen and label and prefix in PREFIXES else None


def decode(tags: Sequence[str]) -> list[Span]:
    """Decode tags into spans by the rules of conlleval, which accept any tag sequence.

    A span ends where its label changes, after E and S, and before B, S and O; any tag other than O that does not
    continue a span starts one. This one rule covers all three schemes.
    """
    spans: list[Span] = []
    start, before = None, ("O", "")
    for k, tag in enumerate((*tags, "O")):
        now = split(tag)
        if now is None:
            raise ValueError(f"expected a tag such as O, B-X, I-X, E-X or S-X, found {tag!r}")
        goes_on = start is not None and now[0] in "IE" and before[0] in "BI" and now[1] == before[1]
        if not goes_on:
            if start is not None:
                spans.append(Span(start, k, before[1]))
            start = None if now[0] == "O" else k
        before = now
    return spans


def encode(spans: Iterable[Span], n: int, scheme: Scheme) -> list[str]:
    """Encode non-overlapping spans as the tags of n tokens."""
    tags = ["O"] * n
    label_before: dict[int, str] = {}  # by span end
    for start, end, label in sorted(spans):
        if not 0 <= start < end <= n or any(tag != "O" for tag in tags[start:end]):
            raise ValueError(f"expected spans inside {n} tokens that do not overlap, found {start} to {end}")
        tags[start:end] = [f"I-{label}"] * (end - start)
        if scheme == "IOB2" or (scheme == "IOB1" and label_before.get(start) == label):
            tags[start] = f"B-{label}"
        elif scheme == "BIOES":
            tags[start], tags[end - 1] = f"B-{label}", f"E-{label}"
            if end - start == 1:
                tags[start] = f"S-{label}"
        label_before[end] = label
    return tags


def detect(sequences: Iterable[Sequence[str]]) -> tuple[Scheme, int]:
    """The scheme that most sequences follow (the first on a tie), and how many violate it."""
    breaks: dict[Scheme, int] = {"IOB2": 0, "IOB1": 0, "BIOES": 0}
    for tags in sequences:
        plain = [_plain(tag) for tag in tags]
        spans = decode(plain)
        for scheme in breaks:
            breaks[scheme] += encode(spans, len(plain), scheme) != plain
    best = min(breaks, key=lambda scheme: breaks[scheme])
    return best, breaks[best]


def may_follow(before: str | None, after: str | None, scheme: Literal["IOB2", "BIOES"]) -> bool:
    """Whether one tag may follow another; None is the sentence boundary."""
    (p, x), (q, y) = (split(tag) if tag is not None else ("O", "") for tag in (before, after))  # type: ignore[misc]
    if scheme == "IOB2":
        return q != "I" or (p in "BI" and x == y)
    inside = p in "BI"  # then the span must continue
    return (q in "IE" and x == y) if inside else q in "OBS"


def _plain(tag: str) -> str:
    parts = split(tag)
    return tag if parts is None or parts[0] == "O" else "-".join(parts)
