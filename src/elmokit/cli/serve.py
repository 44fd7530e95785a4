"""`elmo serve`: the explorer page and an HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import InferenceDevice, ModelPath, ModelTokenizer


def serve(
    model: ModelPath = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Folder of a task run, or NAME=RUN; repeatable. With the packaged model, its taggers are served, too.",
        ),
    ] = None,
    index: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Index made by `elmo index build`.")] = None,
    vectors: Annotated[Path | None, typer.Option(metavar="FILE", help="Static vectors, GloVe or word2vec.")] = None,
    tokenizer: ModelTokenizer = None,
    dtype: Annotated[str, typer.Option(metavar="float32|int8", help="Precision of the LSTM weights.")] = "float32",
    device: InferenceDevice = None,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to bind to; the default is reachable from this machine only."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 for any free one.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the API key [environment variable ELMO_API_KEY, if set]."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Site whose pages may use the API (CORS) [none]; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Engine processes, each with its own model.")] = 1,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="CPU threads per engine process [all cores].")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(metavar="N", help="Tokens per batch.")] = 4096,
    max_sentences: Annotated[int, typer.Option(metavar="N", help="Maximum sentences per request.")] = 1024,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="Maximum tokens per request.")] = 8192,
    max_bytes: Annotated[int, typer.Option(metavar="N", help="Maximum bytes per request body.")] = 2 * 2**20,
    queue_requests: Annotated[
        int, typer.Option(metavar="N", help="Maximum waiting requests; more get status 429.")
    ] = 512,
    queue_tokens: Annotated[
        int, typer.Option(metavar="N", help="Maximum waiting tokens; more get status 429.")
    ] = 65536,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Timeout of a request, in seconds.")] = 30,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print one line per request.")] = False,
) -> None:
    """Serve the explorer page and an HTTP API, for example:

    \b
    elmo serve
    elmo serve --task runs/ner --index corpus.index --vectors glove.txt
    elmo serve --host 0.0.0.0 --api-key-file key

    The page is at http://127.0.0.1:8000, the API at /docs. Ctrl-C (or SIGTERM) finishes the requests that were
    accepted, and ends.
    """
    from typing import Any

    from elmokit.errors import ConfigError, MissingExtraError

    try:
        from elmokit.serve.run_server import run_server
        from elmokit.serve.security import read_key
        from elmokit.serve.settings import ServeSettings, served_tasks
    except ImportError as error:
        if str(error.name).startswith("elmokit"):
            raise
        raise MissingExtraError("elmo serve", "serve") from None
    if dtype not in ("float32", "int8"):
        raise ConfigError(f"--dtype: expected float32 or int8, found {dtype!r}")
    chosen: Any = dtype
    settings = ServeSettings(
        model=model,
        tasks=served_tasks(task or [], model or index),
        index=index,
        vectors=vectors,
        tokenizer=tokenizer,
        dtype=chosen,
        device=device,
        host=host,
        port=port,
        api_key=read_key(api_key_file),
        origins=tuple(allow_origin or ()),
        workers=workers,
        threads=threads,
        batch_tokens=batch_tokens,
        max_sentences=max_sentences,
        max_tokens=max_tokens,
        max_bytes=max_bytes,
        queue_requests=queue_requests,
        queue_tokens=queue_tokens,
        timeout=timeout,
    )

    def announce(address: str, is_ready: bool) -> None:
        if is_ready:
            typer.echo("Ready.")
            return
        typer.echo(f"Serving on {address} (the API: {address}/docs). Loading the model ...")
        if settings.api_key is None and host not in ("127.0.0.1", "::1", "localhost"):
            typer.echo(f"elmo: anyone who can reach {host} can use this server; --api-key-file sets a key", err=True)

    run_server(settings, announce, access_log=access_log)
