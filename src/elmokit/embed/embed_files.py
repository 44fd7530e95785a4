"""Text files to a file of vectors: what the command `elmo embed` does, as a function."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.disk.outputs import check_output, real_path
from elmokit.embed.chunk import ChunkState
from elmokit.embed.line_checks import BlankLines, checked
from elmokit.embed.parquet import Rows
from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.sentence import EmbeddedSentence, Pool
from elmokit.embed.source import Line, TextSource, chunks
from elmokit.embed.spool import Spool
from elmokit.embed.writers import SUFFIXES, Format, format_of, has_format, open_writer
from elmokit.errors import ConfigError, InputError, OutputError
from elmokit.nn.state_policy import POLICIES
from elmokit.text.lines import EncodingErrors
from elmokit.text.token_check import looks_tokenized
from elmokit.text.tokenizer import Tokenizer, get_tokenizer

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo
    from elmokit.embed.layer_choice import Layers

CHUNK_CHARACTERS = 65_536  # input characters per chunk: about 12,000 English tokens, 140 MB at three layers of 1024
_SPOOL_VERSION = 2  # version of the chunk format; runs of other versions cannot be resumed
_CHANGED = "restore the input, or use --overwrite to start over"


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    sentences: int = 0  # done, those of an earlier run included
    tokens: int = 0
    resumed_sentences: int = 0  # of them taken over from an earlier run
    resumed_tokens: int = 0
    bytes_read: int = 0  # of the input files as they lie on disk
    bytes_total: int | None = None  # None when an input has no size, as standard input
    was_complete: bool = False  # an earlier run had done everything but the cleaning up


def embed_files(
    elmo: Elmo,
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    layers: Layers = "all",
    tokenizer: str | Tokenizer | None = None,
    split: bool = False,
    pool: Pool | None = None,
    punctuation: bool = True,
    format: Format | None = None,
    rows: Rows | None = None,
    keep_sentences: bool = True,
    sentence_keys: bool = False,
    blank_lines: BlankLines = "keep",
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    threads: int | None = None,
    encoding_errors: EncodingErrors = "strict",
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    chunk_characters: int = CHUNK_CHARACTERS,
) -> Progress:
    """Embed every line of text files into one file, which appears when it is complete.

    inputs: plain, .gz, .xz, .bz2 or .zst files, or "-"; one sentence per line, or with `split` one paragraph per line.
    output: .h5, .hdf5, .parquet or .npz, unless `format` is given. It holds vectors of `layers`: (L + 1, n, 2D) for
        "all", else (n, 2D). With `pool` it holds one vector (2D,) per sentence; of "all" layers, the average is pooled,
        and a blank line gives zeros.
    tokenizer: "words", "spaces", "spacy:de" or a function. By default, text whose first lines look tokenized is split
        at spaces, and other text by the model's own tokenizer. With `split`, it is always raw text.
    rows: what a row of a Parquet file holds, "tokens" or "sentences"; by default tokens, or sentences with `pool`.
    keep_sentences: write `sentence_to_index` into HDF5, for which all sentences must fit into memory at the end; or
        texts and tokens into npz.
    sentence_keys: name HDF5 datasets by their sentences, not by their numbers; equal sentences are an error.
    blank_lines: "keep" gives a blank line an array without tokens; "error" refuses it, as `allennlp elmo` did.
    resume: continue an interrupted run with the same settings. On the same machine, the result is bit-identical to that
        of an uninterrupted run, because the engine gets the same chunks of lines.
    """
    check_output(output, overwrite=True)  # an existing one is looked at later: an earlier run may just have written it
    target = real_path(output)  # of a symbolic link, the file behind it is replaced
    # the suffix may be that of the link or of the file behind it
    chosen = format_of(target if target.suffix.lower() in SUFFIXES else Path(output), format)
    # what would have no effect is an error, not a surprise
    if rows is not None and chosen != "parquet":
        raise ConfigError(f"--rows: expected a Parquet file to write, found {chosen}")
    if not keep_sentences and chosen == "parquet":
        raise ConfigError(f"--forget-sentences: expected an HDF5 or npz file to write, found {chosen}")
    if sentence_keys and chosen != "hdf5":
        raise ConfigError(f"--use-sentence-keys: expected an HDF5 file to write, found {chosen}")
    if not punctuation and pool is None:
        raise ConfigError("--no-punctuation: expected --pool, found none")
    if target.exists() and any(os.path.exists(path) and target.samefile(path) for path in inputs):
        raise OutputError(f"{target}: is also an input file; choose another name for the vectors")
    rows = rows or ("sentences" if pool else "tokens")
    if pool and rows == "tokens" and chosen == "parquet":
        raise ConfigError("--rows: expected sentences, as --pool gives one vector per sentence, found tokens")
    layout = RecordLayout(
        dim=elmo.config.vector_dim,
        n_layers=elmo.config.n_vectors if layers == "all" and pool is None else None,
        pooled=pool is not None,
        dtype="float16" if elmo.dtype == "float16" else "float32",
    )

    def keep(sentence: EmbeddedSentence) -> NDArray[np.floating]:
        array = sentence.layers
        if pool is not None:
            array = sentence.vector(pool, punctuation=punctuation)
        elif layers != "all":
            array = sentence.vectors
        return array.astype(layout.dtype, copy=False)

    settings: dict[str, Any] = {
        "--model": elmo.model.fingerprint[:16],
        "--state": elmo.state,
        "--dtype": elmo.dtype,
        "--layers": layers if isinstance(layers, str | int) else f"mix {','.join(map(str, layers))}",
        "--tokenizer": _name_of(tokenizer, elmo.tokenizer),
        "--split-sentences": split,
        "--pool": pool,
        "--no-punctuation": not punctuation,
        "chunk size": chunk_characters,
        "spool version": _SPOOL_VERSION,
    }
    if not POLICIES[elmo.state].independent:  # elsewhere vectors do not depend on the batch
        settings["--batch-size"] = batch_size
    options: dict[str, Any] = {
        "layers": layers,
        "tokenizer": get_tokenizer(tokenizer or elmo.tokenizer),
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "threads": threads,
        "progress": False,  # the files have their own
    }
    elmo.embed([], **options)  # invalid options are reported before any work
    source = TextSource(inputs, encoding_errors=encoding_errors, split=split)
    checks: dict[str, Any] = {"blank_lines": blank_lines, "sentence_keys": sentence_keys}
    if (sentence_keys or blank_lines != "keep") and source.bytes_total is not None:
        # files can be read twice: a fault in the last line should not be found hours later
        for _ in checked(TextSource(inputs, encoding_errors=encoding_errors, split=split), **checks):
            pass
    job = _Job(elmo, options, keep, progress or (lambda _: None), Progress(bytes_total=source.bytes_total), split)
    # with a carried state, a batch must not end because a chunk does
    multiple = 1 if POLICIES[elmo.state].independent else batch_size or 1

    def assemble(path: Path, records: Iterator[Record]) -> None:
        with open_writer(
            path,
            chosen,
            layout,
            rows=rows,
            keep_sentences=keep_sentences,
            sentence_keys=sentence_keys,
            count=job.done.sentences,
        ) as writer:
            for record in records:
                writer.write(record)

    looks_complete = functools.partial(has_format, format=chosen)
    with Spool(target, settings, resume=resume, overwrite=overwrite, is_output=looks_complete) as spool:
        if spool.complete:
            return replace(job.done, was_complete=True)
        number = 0
        # the check is for punctuation attached to words; models with another tokenizer are for other languages
        guess = tokenizer is None and not split and elmo.tokenizer == "words"
        for number, lines in enumerate(chunks(checked(source, **checks), chunk_characters, multiple), start=1):
            if number == 1 and guess and looks_tokenized(line.text for line in lines):
                options["tokenizer"] = get_tokenizer("spaces")
            job.do(spool, number - 1, lines, source.bytes_read)
        if spool.has(number):
            raise _ended(source.place)
        spool.finish(number, assemble)
    return job.done


class _Job:
    """The chunks of a run, each loaded from an earlier run or computed, and the state carried between them."""

    def __init__(
        self,
        elmo: Elmo,
        options: dict[str, Any],
        keep: Callable[[EmbeddedSentence], NDArray[np.floating]],
        report: Callable[[Progress], None],
        start: Progress,
        split: bool,
    ) -> None:
        self._elmo, self._options, self._keep, self._report, self._split = elmo, options, keep, report, split
        self._skip_options = {key: options[key] for key in ("layers", "batch_size", "batch_tokens")}
        self._state: ChunkState | None = None
        self.done = start

    def do(self, spool: Spool, number: int, lines: list[Line], bytes_read: int) -> None:
        """Compute a chunk, unless the spool has it."""
        chunk = spool.chunk(number)
        if chunk is None:
            spool.write(number, self._records(lines, bytes_read), self._state_after)
        else:
            _require_same(chunk.texts, lines)
            self._state = chunk.state()
            # restores the word cache, so that later vectors are bit-identical
            self._elmo.skip(chunk.tokens, **self._skip_options)
            count = sum(map(len, chunk.tokens))
            self.done = replace(
                self.done,
                sentences=self.done.sentences + len(lines),
                tokens=self.done.tokens + count,
                resumed_sentences=self.done.resumed_sentences + len(lines),
                resumed_tokens=self.done.resumed_tokens + count,
                bytes_read=bytes_read,
            )
            self._report(self.done)

    def _records(self, lines: list[Line], bytes_read: int) -> Iterator[Record]:
        if not POLICIES[self._elmo.state].independent:
            self._elmo.carried_state = self._state
        start = self.done
        results = self._elmo.embed([line.text for line in lines], **self._options)
        for k, (line, result) in enumerate(zip(lines, results, strict=True), start=1):
            number = line.number if self._split else None
            yield Record(line.text, result.tokens, result.offsets, self._keep(result), number)
            self.done = replace(
                self.done,
                sentences=start.sentences + k,
                tokens=self.done.tokens + len(result.tokens),
                bytes_read=start.bytes_read + (bytes_read - start.bytes_read) * k // len(lines),
            )
            self._report(self.done)

    def _state_after(self) -> ChunkState | None:
        self._state = None if POLICIES[self._elmo.state].independent else self._elmo.carried_state
        return self._state


def _name_of(tokenizer: str | Tokenizer | None, own: str) -> str:
    """Name of the tokenizer in the settings of a run, compared on resumption."""
    if tokenizer is None:
        return f"automatic ({own})"
    return tokenizer if isinstance(tokenizer, str) else str(getattr(tokenizer, "__qualname__", repr(tokenizer)))


def _require_same(texts: list[str], lines: list[Line]) -> None:
    """The lines that a chunk covers must be those of the input."""
    for text, line in zip_longest(texts, lines):
        if line is None:
            raise _ended(lines[-1].place)
        if text != line.text:
            raise InputError(f"{line.place}: differs from what the unfinished run read; {_CHANGED}")


def _ended(place: str) -> InputError:
    return InputError(f"{place}: the input ends here, but the unfinished run had read more; {_CHANGED}")
