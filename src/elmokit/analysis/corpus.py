"""A corpus as an analysis reads it: sentences of tokens, out of text files of any size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from elmokit.embed.source import TextSource
from elmokit.errors import ConfigError
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize


class Corpus:
    """Iterates over the sentences of plain or compressed text files, one a line, as lists of tokens.

    Blank lines are left out. It ends with the sentence in which `max_tokens` is reached. Files can be read again and
    again; `bytes_read` then goes on from one reading to the next.
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
        # the same tokens without a place for each, which nobody asks for here
        self._tokenizer: Tokenizer = str.split if tokenizer == "spaces" else get_tokenizer(tokenizer)
        self._max_tokens = max_tokens
        self.sentences = self.tokens = 0  # read since the last beginning

    @property
    def bytes_read(self) -> int:
        """Bytes taken so far, on the scale of `bytes_total`."""
        return self._source.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Size of what will be read, as it lies on disk; None when a file has none, as standard input.

        Of a part of `max_tokens` it is estimated from what was read so far.
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
