"""`elmo embed`: text files into a file of vectors."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from elmokit.cli.options import TOKENIZERS, InferenceDevice, ModelPath, Quiet
from elmokit.config import State

if TYPE_CHECKING:
    from elmokit.embed.embed_files import Progress
    from elmokit.embed.layer_choice import Layers

_CONTINUE = "run the same command with --resume to continue"
_RAY_ADDRESS = re.compile(r"local|auto|(ray://)?[^\s/\\*?]+:[0-9]{1,5}")


def embed(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT", help="Text files, also .gz, .xz, .bz2, .zst; - is standard input.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT", help="File to write: .h5, .hdf5, .parquet or .npz; with --ray, a folder."
        ),
    ],
    model: ModelPath = None,
    state: Annotated[
        State | None,
        typer.Option(
            help="Initial LSTM state of a sentence: zero, one fixed warm state, or the final state of the previous "
            "sentence, as in the published code, whose vectors depend on --batch-size, then 1 [that of the model]."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar=TOKENIZERS,
            help="Tokenizer of raw text: words (English), han (Chinese), or a spaCy language such as spacy:de [that of "
            "the model; tokenized text is detected and split at spaces].",
        ),
    ] = None,
    split_sentences: Annotated[
        bool,
        typer.Option("--split-sentences", help="Split every line of raw text into sentences first."),
    ] = False,
    layers: Annotated[
        str | None,
        typer.Option(metavar="all|top|average|0|1|2", help="All layers, (3, n, 2D), or one, (n, 2D) [all]."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            metavar="W0,W1,W2", help="Weighted sum of the layers, instead of --layers; weights are not normalized."
        ),
    ] = None,
    pool: Annotated[
        Literal["mean", "max"] | None,
        typer.Option(
            help="One vector per sentence, (2D,): the mean or maximum over its tokens [one vector per token]. With all "
            "layers, their average is pooled. A blank line gives zeros."
        ),
    ] = None,
    no_punctuation: Annotated[
        bool, typer.Option("--no-punctuation", help="Exclude tokens without a letter or digit, with --pool.")
    ] = False,
    format: Annotated[
        Literal["hdf5", "parquet", "npz"] | None, typer.Option(help="Output format [by the suffix of OUT].")
    ] = None,
    rows: Annotated[
        Literal["tokens", "sentences"] | None,
        typer.Option(help="Rows of Parquet output [tokens; sentences with --pool]."),
    ] = None,
    forget_sentences: Annotated[
        bool,
        typer.Option(
            "--forget-sentences",
            help="Omit sentence_to_index, for which all sentences must fit into memory (HDF5), or texts and tokens "
            "(npz).",
        ),
    ] = False,
    use_sentence_keys: Annotated[
        bool,
        typer.Option(
            "--use-sentence-keys",
            help="Name HDF5 datasets by their sentences, not by line numbers. Equal sentences are an error; a slash "
            "creates groups.",
        ),
    ] = False,
    blank_lines: Annotated[
        Literal["keep", "error"],
        typer.Option(help="Blank lines: keep them as arrays without tokens, or reject them, as allennlp elmo did."),
    ] = "keep",
    dtype: Annotated[
        Literal["float32", "float16", "int8"],
        typer.Option(
            help="float16 stores half precision; int8 computes with 8-bit weights, faster, with an error of 1 to 2%."
        ),
    ] = "float32",
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sentences per batch [limited by --batch-tokens].")
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens per batch [6144; 4608 for models with over 2048 cells]."),
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, max=4096, help="CPU threads [all cores].")] = None,
    device: InferenceDevice = None,
    encoding_errors: Annotated[
        Literal["strict", "replace", "ignore"], typer.Option(help="Handling of bytes that are not UTF-8.")
    ] = "strict",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run of the same command from OUT.part.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT once the new file is complete.")] = False,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Embed on a Ray cluster into a folder of Parquet shards. An address may follow: auto, the running "
            "cluster or else a new one on this machine; local, always a new one; or HOST:PORT [auto]. INPUT may be "
            "patterns, such as 'corpus/*.xz'. Requires elmokit[ray].",
        ),
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of the Ray cluster, where --ray ADDRESS is ambiguous [auto]."),
    ] = None,
    num_actors: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Copies of the model, with --ray [one per CPU, or per GPU].")
    ] = None,
    quiet: Quiet = False,
    chunk_characters: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
) -> None:
    """Embed text files, for example: elmo embed sentences.txt -o vectors.h5

    One sentence per line: raw text, or tokens between spaces, as for `allennlp elmo`. HDF5 files have the layout of
    that command: dataset "0" for the first line, and so on. Blank lines keep their place, with no tokens. OUT appears
    when it is complete; until then the work is in OUT.part, which takes as much disk space again.

    \b
    elmo embed novel.txt -o novel.parquet --split-sentences --layers average
    elmo embed corpus.txt.gz -o corpus.h5 --resume
    zcat big.gz | elmo embed - -o sentences.npz --pool mean
    """
    from elmokit.cli.progress import warnings, watch
    from elmokit.embed.elmo import Elmo, load_model
    from elmokit.embed.embed_files import CHUNK_CHARACTERS, embed_files
    from elmokit.errors import ConfigError

    chosen = _layers(layers, mix)
    if num_actors is not None and not ray and ray_address is None:
        raise ConfigError("--num-actors: expected --ray, found none")
    if ray or ray_address is not None:
        inputs, address = _ray_address(inputs, ray_address)
        unusable = {
            "--format": format not in (None, "parquet"), "--forget-sentences": forget_sentences,
            "--use-sentence-keys": use_sentence_keys, "--blank-lines": blank_lines != "keep",
            "--batch-size": batch_size is not None, "--threads": threads is not None, "--overwrite": overwrite,
        }  # fmt: skip
        for name in (name for name, given in unusable.items() if given):
            raise ConfigError(f"{name}: not available with --ray, which writes a new folder of Parquet shards")
        if no_punctuation and pool is None:
            raise ConfigError("--no-punctuation: expected --pool, found none")
        if pool and rows == "tokens":
            raise ConfigError("--rows: expected sentences, as --pool gives one vector per sentence, found tokens")
        from elmokit.embed.shards import Embedding
        from elmokit.integrations.ray import embed_files_on_ray

        started = time.monotonic()
        with watch(quiet=quiet) as progress:
            done = embed_files_on_ray(
                inputs,
                output,
                model,
                address=address,
                embedding=Embedding(
                    layers=chosen,
                    pool=pool,
                    punctuation=not no_punctuation,
                    rows=rows or ("sentences" if pool else "tokens"),
                    batch_tokens=batch_tokens,
                ),
                tokenizer=tokenizer,
                split=split_sentences,
                state=state,
                dtype=dtype,
                device=device,
                encoding_errors=encoding_errors,
                num_actors=num_actors,
                resume=resume,
                progress=progress,
                shard_characters=chunk_characters or CHUNK_CHARACTERS,
            )
        if not quiet:
            typer.echo(f"{output}: {_summary(done, time.monotonic() - started)}", err=True)
        return
    loaded = load_model(model)
    _ = loaded.fingerprint  # kept from now on: the engine's form of the weights has none
    elmo = Elmo(loaded, state=state, dtype=dtype, device=device)
    started = time.monotonic()
    try:
        with warnings(), watch(quiet=quiet) as progress:
            done = embed_files(
                elmo,
                inputs,
                output,
                layers=chosen,
                pool=pool,
                punctuation=not no_punctuation,
                tokenizer=tokenizer,
                split=split_sentences,
                format=format,
                rows=rows,
                keep_sentences=not forget_sentences,
                sentence_keys=use_sentence_keys,
                blank_lines=blank_lines,
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                threads=threads,
                encoding_errors=encoding_errors,
                resume=resume,
                overwrite=overwrite,
                progress=progress,
                chunk_characters=chunk_characters or CHUNK_CHARACTERS,
            )
    except KeyboardInterrupt as stop:
        stop.args = (f"stopped; {_CONTINUE}",)
        raise
    if not done.sentences and not done.was_complete:
        typer.echo(f"elmo: warning: the input is empty, and so is {output}", err=True)
    elif not quiet:
        typer.echo(f"{output}: {_summary(done, time.monotonic() - started)}", err=True)


def _ray_address(inputs: list[str], address: str | None) -> tuple[list[str], str]:
    """Inputs without the address of `--ray ADDRESS`, and the address.

    typer has no options with an optional value, so `--ray` is a flag, and the word after it arrives as an input.
    """
    from elmokit.errors import ConfigError

    if address is not None:
        return inputs, address
    found = [item for item in inputs if _RAY_ADDRESS.fullmatch(item)]
    for item in found:
        if Path(item).exists():
            raise ConfigError(
                f"--ray: {item} may be the file or an address; write ./{item} for the file, or --ray-address ADDRESS"
            )
    if len(found) > 1:
        raise ConfigError(f"--ray: expected one address, found {' and '.join(found)}")
    files = [item for item in inputs if item not in found]
    if not files:
        raise ConfigError(f"INPUT: expected text files, found only the address {found[0]}")
    return files, found[0] if found else "auto"


def _layers(layers: str | None, mix: str | None) -> Layers:
    from elmokit.embed.layer_choice import LayerName
    from elmokit.errors import ConfigError

    if mix is not None:
        if layers is not None:
            raise ConfigError("--mix: cannot be combined with --layers; leave one out")
        try:
            return [float(weight) for weight in mix.split(",")]
        except ValueError:
            raise ConfigError(f"--mix: expected numbers such as 0.2,0.3,0.5, found {mix!r}") from None
    if layers is None:
        return "all"
    if layers.isdecimal():
        return int(layers)
    if layers in (names := get_args(LayerName)):
        return cast(LayerName, layers)
    raise ConfigError(f"--layers: expected {', '.join(names)} or the number of a layer, found {layers!r}")


def _summary(done: Progress, seconds: float) -> str:
    if done.was_complete:
        return "is complete, nothing to resume; use --overwrite to create it again"
    new = done.tokens - done.resumed_tokens
    resumed = f" ({done.resumed_sentences:,} resumed)" if done.resumed_sentences else ""
    return (
        f"{done.sentences:,} sentences{resumed}, {done.tokens:,} tokens in {seconds:.1f} s"
        f" ({new / max(seconds, 1e-9):,.0f} tokens/s)"
    )
