"""Streaming corpus reader: a reproducible, resumable sequence of training batches from text larger than memory."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError, InputError
from elmokit.text.lines import EncodingErrors, LineReader, read_lines
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize

_SHARDS, _SENTENCES, _BATCHES = 1, 2, 3  # stream numbers: each use of a permutation has a random stream of its own


@dataclass(frozen=True)
class Position:
    """Position in the corpus between two batches. `Position(**json.loads(json.dumps(asdict(position))))` equals it."""

    epoch: int = 0
    shard: int = 0  # index in the shuffled order of this epoch
    line: int = 0  # lines of that shard before the current window
    batch: int = 0  # completed batches of the window
    long_sentences: int = 0  # sentences split so far, in completed windows of all epochs
    n_files: int = 0  # number of corpus files; 0 before the first batch
    n_bytes: int = 0  # total size of the files, to detect a changed corpus on resumption


@dataclass(frozen=True)
class Share:
    """One process's share of a global batch.

    `sentences` are sorted by descending length. The list is empty if the batch has fewer sentences than there are
    processes; such a process takes part in the step with `[[]]`, one empty sentence, and multiplies its loss by 0.
    """

    sentences: list[list[str]]
    n_sentences: int  # in the global batch
    n_tokens: int  # in the global batch, as predictions per direction: a sentence of n tokens has n + 1
    epoch: int  # epoch of the batch, from 0
    position: Position  # after this batch; after the last batch of an epoch it is in the next one
    progress: float  # completed epochs, e.g. 1.25, measured in (compressed) bytes


class Corpus:
    """UTF-8 text files, plain or compressed, with one sentence per line. Blank lines are skipped.

    `patterns` are paths or glob patterns (`corpus/*.txt.xz`, `**` for folders at any depth); a file that matches twice
    is read once. Files are read in random order. Sentences pass through a shuffle buffer (window) of about
    `window_tokens` tokens, 20 bytes each on average and 70 at worst, in which they are shuffled and batched by length.
    A sorted file, for example by date, should therefore be split into shards. A sentence of more than `max_sentence`
    tokens is split into pieces of about equal length; `Position.long_sentences` counts these sentences.
    """

    def __init__(
        self,
        patterns: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        tokenizer: str | Tokenizer = "spaces",
        encoding_errors: EncodingErrors = "strict",
        max_sentence: int = 200,
        window_tokens: int = 2_000_000,
    ) -> None:
        for name, value in (("--max-sentence", max_sentence), ("window_tokens", window_tokens)):
            if value < 1:
                raise ConfigError(f"{name}: expected at least 1, found {value}")
        self.files = _expand([patterns] if isinstance(patterns, (str, os.PathLike)) else patterns)
        self.sizes = [path.stat().st_size for path in self.files]
        self.encoding_errors = encoding_errors
        self.max_sentence, self.window_tokens = max_sentence, window_tokens
        # str.split gives the same tokens as the tokenizer "spaces" without computing offsets, which is faster
        self._tokenizer = str.split if tokenizer == "spaces" else get_tokenizer(tokenizer)

    def __str__(self) -> str:
        return ", ".join(map(str, self.files[:3])) + (", ..." if len(self.files) > 3 else "")

    def tokens(self, text: str) -> list[str]:
        """Tokenize a line."""
        return text.split() if self._tokenizer is str.split else tokenize(text, self._tokenizer)[0]

    def read(self) -> CorpusReader:
        """Iterate over all sentences in file order, unsplit, as lists of tokens."""
        return CorpusReader(self, range(len(self.files)))

    def batches(
        self, *, batch_tokens: int, seed: int = 0, start: Position | None = None, rank: int = 0, world: int = 1
    ) -> Iterator[Share]:
        """Endless batches of about `batch_tokens` tokens, counting one boundary token per sentence.

        The sequence is determined by the files and the arguments alone: started at the `position` of any batch, it
        continues as if never interrupted, after rereading one window and the lines before it in its shard.
        Each of `world` processes reads all text and takes every `world`-th sentence of each batch. Their shares have
        similar lengths and together form the batch of a single process, however few files there are.
        """
        start = start or Position()
        if batch_tokens < 1:
            raise ConfigError(f"--batch-tokens: expected at least 1, found {batch_tokens}")
        if seed < 0:
            raise ConfigError(f"--seed: expected 0 or more, found {seed}")
        if not 0 <= rank < world:
            raise ConfigError(f"rank: expected 0 to {world - 1} of {world} processes, found {rank}")
        if start.n_files and (start.n_files, start.n_bytes) != (len(self.files), sum(self.sizes)):
            raise InputError(
                f"corpus: expected the {start.n_files} files of {start.n_bytes:,} bytes that the run began with, found "
                f"{len(self.files)} of {sum(self.sizes):,} bytes; restore the original files, or start a new run"
            )
        return self._batches(batch_tokens, seed, start, rank, world)

    def _batches(self, batch_tokens: int, seed: int, start: Position, rank: int, world: int) -> Iterator[Share]:
        done = start.batch
        for window in self._windows(seed, start):
            batches = window.batches(batch_tokens, seed)
            for number, batch in islice(enumerate(batches, 1), done, None):
                last = number == len(batches)
                yield Share(
                    sentences=[window.sentences[i].split("\n") for i in batch[rank::world]],
                    n_sentences=len(batch),
                    n_tokens=sum(window.sizes[i] for i in batch),
                    epoch=window.start.epoch,
                    position=window.following if last else replace(window.start, batch=number),
                    progress=window.begins + (window.ends - window.begins) * number / len(batches),
                )
            done = 0

    def _windows(self, seed: int, start: Position) -> Iterator[_Window]:
        """Endless windows, starting with the one that contains `start`."""
        here = replace(start, batch=0, n_files=len(self.files), n_bytes=sum(self.sizes))
        for epoch in count(start.epoch):
            order = _permutation(len(self.files), _SHARDS, seed, epoch).tolist()
            reading = CorpusReader(self, order, here.shard, here.line)
            window: _Window | None = None
            for tokens in reading:
                if window is None or window.n_tokens >= self.window_tokens:
                    here = replace(here, shard=reading.shard, line=reading.line)
                    progress = epoch + reading.progress
                    if window is not None:
                        here = window.close(here, progress)
                        yield window
                    window = _Window(here, progress)
                window.add(split_sentence(tokens, self.max_sentence))
            if window is None:
                raise InputError(f"corpus: expected sentences, found only blank lines in {self}; check --train")
            here = window.close(replace(here, epoch=epoch + 1, shard=0, line=0), epoch + 1)
            yield window


class CorpusReader:
    """Iterator over the sentences of a corpus, with its files in `order`, that tracks its position.

    `shard` and `line` locate the sentence last read: a new CorpusReader at that position starts with that sentence.
    """

    def __init__(self, corpus: Corpus, order: Sequence[int], shard: int = 0, line: int = 0) -> None:
        self.shard, self.line = shard, line
        self._corpus, self._order = corpus, order
        self._reader: LineReader | None = None

    @property
    def progress(self) -> float:
        """Fraction of the corpus read so far, in bytes on disk."""
        sizes = self._corpus.sizes
        done = sum(sizes[i] for i in self._order[: self.shard]) + (self._reader.bytes_read if self._reader else 0)
        return min(1.0, done / max(1, sum(sizes)))

    def __iter__(self) -> Iterator[list[str]]:
        skip = self.line
        for shard, number in islice(enumerate(self._order), self.shard, None):
            path = self._corpus.files[number]
            if not path.exists():
                raise InputError(f"{path}: expected a file of the corpus, found none; restore it, then resume")
            with LineReader(path, encoding_errors=self._corpus.encoding_errors) as reader:
                self.shard, self._reader = shard, reader
                for text in islice(reader, skip, None):
                    if tokens := self._corpus.tokens(text):
                        self.line = reader.line_number - 1
                        yield tokens
            skip = 0


@dataclass
class _Window:
    """Shuffle buffer: sentences whose order is randomized."""

    start: Position
    begins: float  # completed epochs before the window
    ends: float = 0.0  # completed epochs after the window
    following: Position = Position()
    sentences: list[str] = field(default_factory=list)  # tokens joined by newlines: a tenth of the memory
    sizes: list[int] = field(default_factory=list)  # predictions per direction of each sentence
    n_tokens: int = 0  # the sum of sizes
    long_sentences: int = 0

    def add(self, pieces: list[list[str]]) -> None:
        """Add the pieces of one sentence, usually a single one."""
        self.long_sentences += len(pieces) > 1
        for piece in pieces:
            self.sentences.append("\n".join(piece))
            self.sizes.append(len(piece) + 1)
            self.n_tokens += len(piece) + 1

    def close(self, following: Position, progress: float) -> Position:
        """Set the start of the next window, with the long sentences of this one added to its count."""
        long_sentences = self.start.long_sentences + self.long_sentences
        self.following, self.ends = replace(following, long_sentences=long_sentences), progress
        return self.following

    def batches(self, batch_tokens: int, seed: int) -> list[NDArray[np.int64]]:
        """Sentence indices of each batch, by descending length; the batches are in random order.

        All batches have about the same number of tokens. Filling them greedily would leave a last batch of a few short
        sentences, whose gradient would weigh as much as that of a full batch.
        """
        key = seed, self.start.epoch, self.start.shard, self.start.line
        sizes = np.array(self.sizes)
        order = _permutation(len(sizes), _SENTENCES, *key)  # random order among sentences of equal length
        order = order[np.argsort(-sizes[order], kind="stable")]
        n_batches = -(-self.n_tokens // batch_tokens)
        ends = self.n_tokens * np.arange(1, n_batches) // n_batches
        parts = np.split(order, np.searchsorted(np.cumsum(sizes[order]), ends, side="right"))
        batches = [part for part in parts if len(part)]  # a part is empty where one sentence exceeds the batch size
        return [batches[i] for i in _permutation(len(batches), _BATCHES, *key)]


def split_sentence(tokens: list[str], max_sentence: int) -> list[list[str]]:
    """Split a sentence into the fewest consecutive pieces within the limit; lengths differ by at most one."""
    if len(tokens) <= max_sentence:
        return [tokens]
    n_pieces = -(-len(tokens) // max_sentence)
    ends = [len(tokens) * i // n_pieces for i in range(n_pieces + 1)]
    return [tokens[first:last] for first, last in pairwise(ends)]


def count_overlap(corpus: Corpus, heldout: str | os.PathLike[str]) -> int:
    """Number of held-out sentences that also occur in the corpus, as the same line up to surrounding white space.

    Reads the whole corpus once and keeps one 64-bit hash per held-out sentence in memory.
    """
    lines = (line.strip() for line in read_lines(Path(heldout), encoding_errors=corpus.encoding_errors))
    wanted = Counter(hash(line) for line in lines if line)
    found = {
        key
        for path in corpus.files
        for line in read_lines(path, encoding_errors=corpus.encoding_errors)
        if (key := hash(line.strip())) in wanted
    }
    return sum(wanted[key] for key in found)


def _permutation(n: int, *key: int) -> NDArray[np.int64]:
    """Deterministic permutation for a key. Only raw bits are stable across numpy versions."""
    return np.argsort(np.random.PCG64(np.random.SeedSequence(key)).random_raw(n), kind="stable")


def _expand(patterns: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Files matched by paths and glob patterns: sorted, without duplicates."""
    files: set[Path] = set()
    for given in patterns:
        pattern = os.fspath(given)
        paths = [Path(pattern)] if os.path.exists(pattern) else map(Path, glob.glob(pattern, recursive=True))
        matches = {path for path in paths if path.is_file()}
        if not matches:
            hint = f"a folder; write {Path(pattern) / '*'}" if os.path.isdir(pattern) else "none; check the path"
            raise InputError(f"{pattern}: expected one text file or more, found {hint}")
        files |= matches
    if not files:
        raise InputError("corpus: expected at least one path or pattern, found none")
    return sorted(files)
