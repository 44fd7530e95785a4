"""Tokenized corpus: a stream of sentences from text files of any size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from elmokit.embed.source import TextSource
from elmokit.errors import ConfigError
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize


class TokenizedCorpus:
    """Iterates over the sentences of plain or compressed text files, one per line, as lists of tokens.

    Blank lines are skipped. Iteration ends with the sentence in which `max_tokens` is reached. Files can be read
    several times; `bytes_read` accumulates across passes.
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        tokenizer: str | Tokenizer = "spaces",
        max_tokens: int | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise ConfigError(f"--max-tokens: expected a positive integer, found {max_tokens}")
        self.inputs = [os.fspath(path) for path in inputs]
        self._source = TextSource(self.inputs)
        self.use(tokenizer)
        self._max_tokens = max_tokens
        self.sentences = self.tokens = 0  # read in the current pass

    def use(self, tokenizer: str | Tokenizer) -> None:
        """Read with this tokenizer from now on."""
        # str.split gives the same tokens as "spaces" without their offsets, which are not needed here
        self._tokenizer: Tokenizer = str.split if tokenizer == "spaces" else get_tokenizer(tokenizer)

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, on the scale of `bytes_total`."""
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Total input size on disk; None if unknown, such as for standard input.

        With `max_tokens` it is estimated from the part read so far.
        """
        total = self._source.bytes_total
        if total is None or self._max_tokens is None or not self.tokens:
            return total
        return min(total, self.bytes_read * max(self._max_tokens, self.tokens) // self.tokens)

    def __iter__(self) -> Iterator[list[str]]:
        self.sentences = self.tokens = 0
        for line in self._source:
            tokens, _ = tokenize(line.text, self._tokenizer)
            if tokens:
                self.sentences += 1
                self.tokens += len(tokens)
                yield tokens
            if self._max_tokens is not None and self.tokens >= self._max_tokens:
                return
