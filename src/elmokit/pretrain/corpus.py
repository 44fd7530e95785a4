"""A corpus larger than memory, as a reproducible sequence of training batches that can be taken up again anywhere."""

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

_SHARDS, _SENTENCES, _BATCHES = 1, 2, 3  # what a permutation is for: no two of them share a random stream


@dataclass(frozen=True)
class Position:
    """A place between two batches: `Position(**json.loads(json.dumps(asdict(position))))` is the same place."""

    epoch: int = 0
    shard: int = 0  # in the order of this epoch, not of the names
    line: int = 0  # lines of that shard before the present window
    batch: int = 0  # batches of the window that are done
    long_sentences: int = 0  # cut in all windows that are done, since the first epoch
    n_files: int = 0  # of the corpus; 0 at the very start
    n_bytes: int = 0  # of its files: a corpus that has changed cannot be taken up again


@dataclass(frozen=True)
class Share:
    """What one process trains on in one step: its sentences of a batch that all processes have in common.

    `sentences` come longest first. They are none where the batch has fewer sentences than there are processes; such a
    process can take part in the step with `[[]]`, one empty sentence, whose loss it multiplies by 0.
    """

    sentences: list[list[str]]
    n_sentences: int  # of the whole batch
    n_tokens: int  # of the whole batch, predictions per direction: a sentence of n tokens has n + 1
    epoch: int  # that the batch belongs to, from 0
    position: Position  # behind this batch; its `epoch` is the next one when this was the last batch of an epoch
    progress: float  # epochs done, as 1.25; the fraction is one of bytes, compressed where the files are


class Corpus:
    """One sentence a line in one or many UTF-8 files, plain or compressed. Blank lines are skipped.

    `patterns` are paths or patterns (`corpus/*.txt.xz`, `**` for folders at any depth); a file that matches twice is
    read once. Files are read in a random order, their sentences through a window of about `window_tokens` tokens (some
    20 bytes each are held, 70 at worst) in which they are shuffled and put into batches by length. So a file in an
    order of its own, say by date, is better split into shards than left whole. A sentence of more than `max_sentence`
    tokens is cut into pieces of about equal length, so that no text is lost; `Position.long_sentences` counts them.
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
        # the named tokenizer finds the same tokens, but also their places, which takes longer
        self._tokenizer = str.split if tokenizer == "spaces" else get_tokenizer(tokenizer)

    def __str__(self) -> str:
        return ", ".join(map(str, self.files[:3])) + (", ..." if len(self.files) > 3 else "")

    def tokens(self, text: str) -> list[str]:
        """The tokens of a line."""
        return text.split() if self._tokenizer is str.split else tokenize(text, self._tokenizer)[0]

    def read(self) -> Reading:
        """All sentences as they stand in the files: whole, in order, as lists of tokens."""
        return Reading(self, range(len(self.files)))

    def batches(
        self, *, batch_tokens: int, seed: int = 0, start: Position | None = None, rank: int = 0, world: int = 1
    ) -> Iterator[Share]:
        """Batches of about `batch_tokens` tokens, a mark for each sentence counted, epoch after epoch without end.

        The sequence follows from the files, the arguments and nothing else: from the `position` of any batch it goes on
        as if never interrupted, at the price of reading again one window and the lines before it in its shard.
        Of `world` processes each reads everything and takes every `world`-th sentence of each batch, so that their
        shares are alike in length and together are the batch of a single process, however few files there are.
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
                f"{len(self.files)} of {sum(self.sizes):,} bytes; put back what is missing, or begin a new run"
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
        """The windows of all epochs from the one that `start` is in."""
        here = replace(start, batch=0, n_files=len(self.files), n_bytes=sum(self.sizes))
        for epoch in count(start.epoch):
            order = _permutation(len(self.files), _SHARDS, seed, epoch).tolist()
            reading = Reading(self, order, here.shard, here.line)
            window: _Window | None = None
            for tokens in reading:
                if window is None or window.n_tokens >= self.window_tokens:
                    here = replace(here, shard=reading.shard, line=reading.line)
                    progress = epoch + reading.progress
                    if window is not None:
                        here = window.close(here, progress)
                        yield window
                    window = _Window(here, progress)
                window.add(cut(tokens, self.max_sentence))
            if window is None:
                raise InputError(f"corpus: expected sentences, found only blank lines in {self}; check --train")
            here = window.close(replace(here, epoch=epoch + 1, shard=0, line=0), epoch + 1)
            yield window


class Reading:
    """Iterates over the sentences of a corpus, its files in `order`, and knows where it stands.

    `shard` and `line` are the place of the sentence last read: a Reading from there on begins with that sentence.
    """

    def __init__(self, corpus: Corpus, order: Sequence[int], shard: int = 0, line: int = 0) -> None:
        self.shard, self.line = shard, line
        self._corpus, self._order = corpus, order
        self._reader: LineReader | None = None

    @property
    def progress(self) -> float:
        """The fraction of the corpus that is read, by bytes as they lie on disk."""
        sizes = self._corpus.sizes
        done = sum(sizes[i] for i in self._order[: self.shard]) + (self._reader.bytes_read if self._reader else 0)
        return min(1.0, done / max(1, sum(sizes)))

    def __iter__(self) -> Iterator[list[str]]:
        skip = self.line
        for shard, number in islice(enumerate(self._order), self.shard, None):
            path = self._corpus.files[number]
            if not path.exists():
                raise InputError(f"{path}: expected a file of the corpus, found it gone; put it back, then resume")
            with LineReader(path, encoding_errors=self._corpus.encoding_errors) as reader:
                self.shard, self._reader = shard, reader
                for text in islice(reader, skip, None):
                    if tokens := self._corpus.tokens(text):
                        self.line = reader.line_number - 1
                        yield tokens
            skip = 0


@dataclass
class _Window:
    """Sentences between which the order is random."""

    start: Position
    begins: float  # epochs done before the window
    ends: float = 0.0  # and after it
    following: Position = Position()
    sentences: list[str] = field(default_factory=list)  # tokens joined by newlines: a tenth of the memory of lists
    sizes: list[int] = field(default_factory=list)  # predictions per direction of each sentence
    n_tokens: int = 0  # the sum of sizes
    long_sentences: int = 0

    def add(self, pieces: list[list[str]]) -> None:
        """Take in the pieces of one sentence, most often just one."""
        self.long_sentences += len(pieces) > 1
        for piece in pieces:
            self.sentences.append("\n".join(piece))
            self.sizes.append(len(piece) + 1)
            self.n_tokens += len(piece) + 1

    def close(self, following: Position, progress: float) -> Position:
        """Say where the next window begins; its position also counts the long sentences of this one."""
        long_sentences = self.start.long_sentences + self.long_sentences
        self.following, self.ends = replace(following, long_sentences=long_sentences), progress
        return self.following

    def batches(self, batch_tokens: int, seed: int) -> list[NDArray[np.int64]]:
        """Indices of the sentences of each batch, lengths descending; batches in random order.

        All batches have about the same number of tokens. To fill one after another would leave a last one of a few
        short sentences, whose gradient would weigh as much as that of a whole batch.
        """
        key = seed, self.start.epoch, self.start.shard, self.start.line
        sizes = np.array(self.sizes)
        order = _permutation(len(sizes), _SENTENCES, *key)  # decides between equal lengths
        order = order[np.argsort(-sizes[order], kind="stable")]
        n_batches = -(-self.n_tokens // batch_tokens)
        ends = self.n_tokens * np.arange(1, n_batches) // n_batches
        parts = np.split(order, np.searchsorted(np.cumsum(sizes[order]), ends, side="right"))
        batches = [part for part in parts if len(part)]  # none in a part that a longer sentence covers
        return [batches[i] for i in _permutation(len(batches), _BATCHES, *key)]


def cut(tokens: list[str], max_sentence: int) -> list[list[str]]:
    """A sentence in as few consecutive pieces as the bound allows, of lengths that differ by one at most."""
    if len(tokens) <= max_sentence:
        return [tokens]
    n_pieces = -(-len(tokens) // max_sentence)
    ends = [len(tokens) * i // n_pieces for i in range(n_pieces + 1)]
    return [tokens[first:last] for first, last in pairwise(ends)]


def overlap(corpus: Corpus, heldout: str | os.PathLike[str]) -> int:
    """How many sentences of a held-out file also stand in the corpus, as the same line but for white space around it.

    Reads the whole corpus once, and holds one 64-bit number for each held-out sentence.
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
    """A permutation that follows from the key: raw bits are the one random stream that numpy never changes."""
    return np.argsort(np.random.PCG64(np.random.SeedSequence(key)).random_raw(n), kind="stable")


def _expand(patterns: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files that paths and patterns stand for, sorted, each once."""
    files: set[Path] = set()
    for given in patterns:
        pattern = os.fspath(given)
        paths = [Path(pattern)] if os.path.exists(pattern) else map(Path, glob.glob(pattern, recursive=True))
        matches = {path for path in paths if path.is_file()}
        if not matches:
            hint = f"a folder; write '{Path(pattern) / '*'}'" if os.path.isdir(pattern) else "none; check the path"
            raise InputError(f"{pattern}: expected one text file or more, found {hint}")
        files |= matches
    if not files:
        raise InputError("corpus: expected one path or pattern at least, found none")
    return sorted(files)
