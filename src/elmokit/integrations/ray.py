"""Ray: embedding on many cores and machines, with Ray Data and one loaded model per actor."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.config import State
from elmokit.embed.elmo import Dtype, Elmo
from elmokit.embed.embed_files import CHUNK_CHARACTERS, Progress
from elmokit.embed.layer_choice import Layers, check_layers
from elmokit.embed.parquet import load_pyarrow
from elmokit.embed.portable import PortableModel, pack_model, unpack_model
from elmokit.embed.record import RecordLayout
from elmokit.embed.sentence import Pool
from elmokit.embed.shards import (
    Embedding,
    Reading,
    Shard,
    ShardFolder,
    expand,
    read_shards,
    shard_sizes,
    write_shard,
)
from elmokit.errors import ConfigError, ElmoError, InputError, MissingExtraError, first_line
from elmokit.nn.state_policy import INDEPENDENT_STATES
from elmokit.text.token_check import looks_tokenized
from elmokit.weights.locate import load as load_model
from elmokit.weights.model import Model

ACTOR_CPUS = 0.5  # reserved per actor: with whole CPUs, reading and writing would get none and everything would stall
CONNECT_SECONDS = 10.0  # until a cluster counts as unreachable
_BLOCK_BYTES = 4 * CHUNK_CHARACTERS  # of text that an actor is given at a time


@dataclass(frozen=True)
class ActorSettings:
    """Settings with which an actor loads the model."""

    state: State
    dtype: Dtype
    device: str | None
    threads: int = 1  # per actor: many actors with one thread each do more than few with many


class _Loaded:
    """A model in an actor; it comes from the object store, where it was put once."""

    def __init__(self, model: Any, settings: ActorSettings) -> None:
        import ray

        torch.set_num_threads(settings.threads)
        parts: PortableModel = ray.get(model)
        self.elmo = Elmo(unpack_model(parts), state=settings.state, dtype=settings.dtype, device=settings.device)


class ShardEmbedder(_Loaded):
    """Actor that embeds a shard and writes its file; it returns no vectors, only counts."""

    def __init__(self, model: Any, settings: ActorSettings, folder: str, embedding: Embedding, split: bool) -> None:
        super().__init__(model, settings)
        self._folder, self._embedding, self._split = Path(folder), embedding, split

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """One shard, as JSON, to its name and its numbers of sentences and tokens."""
        shard = Shard(**json.loads(row["shard"]))
        tokens = write_shard(self.elmo, self._folder, shard, self._embedding, split=self._split)
        return {"name": shard.name, "sentences": len(shard.texts), "tokens": tokens}


class BatchEmbedder(_Loaded):
    """Actor that adds vectors to batches of a dataset."""

    def __init__(
        self, model: Any, settings: ActorSettings, column: str, embedding: Embedding, vector_column: str
    ) -> None:
        super().__init__(model, settings)
        self._column, self._embedding, self._vectors = column, embedding, vector_column

    def __call__(self, table: Any) -> Any:
        """Arrow table to the same table with more columns."""
        return add_vectors(self.elmo, table, self._column, self._embedding, self._vectors)


def add_vectors(elmo: Elmo, table: Any, column: str, embedding: Embedding, vector_column: str = "vector") -> Any:
    """Arrow table with the vectors of a text column in more columns, of the types that `elmo embed` writes.

    With pooling, `vector_column` is one fixed-size list (2D,) per row. Without, there is a column `tokens`, and
    `vector_column` is a list of fixed-size lists (n, 2D); of all layers, `layer_0`, `layer_1`, ... are such columns.
    """
    pa, _ = load_pyarrow()
    if column not in table.column_names:
        raise InputError(f"column: expected one of {', '.join(table.column_names)}, found {column!r}")
    texts = ["" if text is None else text for text in table.column(column).to_pylist()]
    found = list(elmo.embed(texts, layers=embedding.layers, tokenizer=embedding.tokenizer, progress=False))
    layout = embedding.layout(elmo)
    columns: dict[str, Any] = {}
    if embedding.pool is not None:
        rows = [sentence.vector(embedding.pool, punctuation=embedding.punctuation) for sentence in found]
        columns[vector_column] = _fixed_size_lists(pa, rows, layout)
    else:
        columns["tokens"] = pa.array([sentence.tokens for sentence in found], pa.list_(pa.string()))
        ends = pa.array(np.cumsum([0, *map(len, found)], dtype=np.int32))
        for k in range(layout.n_layers or 1):
            name = vector_column if layout.n_layers is None else f"layer_{k}"
            rows = [sentence.vectors if layout.n_layers is None else sentence.layers[k] for sentence in found]
            columns[name] = pa.ListArray.from_arrays(ends, _fixed_size_lists(pa, rows, layout))
    for name, values in columns.items():
        if name in table.column_names:
            raise InputError(f"dataset: expected no column {name!r}, which is added, found one; rename it first")
        table = table.append_column(name, values)
    return table


def _fixed_size_lists(pa: Any, arrays: list[NDArray[np.floating]], layout: RecordLayout) -> Any:
    """Vectors (2D,), or (n, 2D) one after the other, as an Arrow column with one vector per row."""
    flat = [array.reshape(-1).astype(layout.dtype, copy=False) for array in arrays]
    numbers = np.concatenate(flat) if flat else np.empty(0, layout.dtype)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), layout.dim)


def embed_dataset(
    dataset: Any,
    model: str | os.PathLike[str] | None = None,
    *,
    column: str = "text",
    vector_column: str = "vector",
    pool: Pool | None = "mean",
    layers: Layers = "average",
    tokenizer: str | None = None,
    punctuation: bool = True,
    state: State | None = None,
    dtype: Dtype = "float32",
    device: str | None = None,
    num_actors: int | None = None,
    cpus_per_actor: float = ACTOR_CPUS,
    batch_size: int = 256,
) -> Any:
    """Add vectors to a Ray dataset, lazily, on actors that keep the model loaded. All other columns are kept.

    column: raw text, or lists of tokens. With `pool`, `vector_column` is one vector (2D,) per row; with pool=None it is
    one vector per token, beside a column `tokens`. Arrow types are fixed_size_list, and list of it.
    layers: as for `Elmo.embed`; of "all", the average is pooled, and with pool=None the columns are `layer_0`,
    `layer_1`, ..., as `elmo embed` writes them.
    num_actors: by default one per CPU of the cluster, or one per GPU with device="cuda".
    Rows keep their order if `ray.data.DataContext.get_current().execution_options.preserve_order` is true.
    """
    ray = load_ray()
    loaded = load_model(model)
    settings = _actor_settings(loaded, state, dtype, device)
    layers = check_layers(layers, loaded.config.n_vectors)
    if layers == "all" and pool is None and vector_column != "vector":
        raise ConfigError(
            f"vector_column: with layers='all' and pool=None the columns are layer_0, layer_1, ...; leave it out, or "
            f"choose layers='average' for one column {vector_column!r}"
        )
    chosen = Embedding(layers, tokenizer or loaded.config.default_tokenizer, pool, punctuation)
    reference = ray.put(pack_model(loaded))
    return dataset.map_batches(
        BatchEmbedder,
        fn_constructor_args=(reference, settings, column, chosen, vector_column),
        batch_format="pyarrow",
        batch_size=batch_size,
        **_resources(ray, settings, num_actors, cpus_per_actor),
    )


def embed_files_on_ray(
    inputs: Sequence[str],
    output: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
    *,
    address: str = "auto",
    embedding: Embedding | None = None,
    tokenizer: str | None = None,
    split: bool = False,
    state: State | None = None,
    dtype: Dtype = "float32",
    device: str | None = None,
    encoding_errors: Any = "strict",
    num_actors: int | None = None,
    cpus_per_actor: float = ACTOR_CPUS,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
    shard_characters: int = CHUNK_CHARACTERS,
) -> Progress:
    """Embed text files into a folder of Parquet shards on a Ray cluster.

    inputs: paths or patterns, read by the workers: on several machines, in a shared file system, as the output.
    address: of the cluster; "local" starts one on this machine; "auto" takes the running one, or starts one.
    embedding: layers, pooling and rows; its tokenizer is replaced by `tokenizer`, by default the model's own, or
        "spaces" where the first lines of the text are tokenized already.
    resume: keep the shards of an unfinished run with the same settings.
    """
    ray = load_ray()
    load_pyarrow()
    files = expand(inputs)
    reading = Reading(shard_characters, split, encoding_errors)
    for path in files:
        reading.source(path)  # a missing file is reported before anything starts
    loaded = load_model(model)
    settings = _actor_settings(loaded, state, dtype, device)
    chosen = embedding or Embedding()
    check_layers(chosen.layers, loaded.config.n_vectors)
    own = loaded.config.default_tokenizer
    chosen = replace(chosen, tokenizer=tokenizer or _detected(files[0], reading, own))
    target = Path(os.path.abspath(output))
    with _cluster(ray, address), _quiet_data(ray):
        sizes = _sizes(ray, files, reading)
        recorded = {"--model": loaded.fingerprint[:16], "--state": settings.state, "--dtype": settings.dtype}
        recorded |= {f"embedding {name}": value for name, value in asdict(replace(chosen, batch_tokens=None)).items()}
        recorded |= {f"reading {name}": value for name, value in asdict(reading).items()}
        folder = ShardFolder(target, recorded, sizes, resume=resume)
        if folder.complete:
            return Progress(sentences=sum(folder.sizes.values()), was_complete=True)
        starts = [0, *accumulate(map(sum, sizes.values()))]
        jobs = [{"number": k, "path": path, "first": starts[k]} for k, path in enumerate(files)]
        done = folder.done()
        rows = _read(ray, jobs, reading, done).map(
            ShardEmbedder,
            fn_constructor_args=(ray.put(pack_model(loaded)), settings, str(target), chosen, split),
            **_resources(ray, settings, num_actors, cpus_per_actor),
        )
        finished = _consume(ray, rows, folder, done, progress or (lambda _: None))
        folder.finish()
    return finished


def load_ray() -> Any:
    """The package `ray` with `ray.data`, or the error that says how to install it."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("embedding on Ray", "ray") from None
    return ray


def _actor_settings(model: Model, state: State | None, dtype: Dtype, device: str | None) -> ActorSettings:
    chosen = state or model.config.state
    if chosen not in INDEPENDENT_STATES:
        raise ConfigError(f"state: expected {' or '.join(INDEPENDENT_STATES)} on Ray, found {chosen}")
    return ActorSettings(chosen, dtype, device)


def _resources(ray: Any, settings: ActorSettings, num_actors: int | None, cpus: float) -> dict[str, Any]:
    """Arguments of Ray Data for a pool of actors."""
    on_gpu = settings.device is not None and settings.device.startswith("cuda")
    available = ray.cluster_resources()
    size = num_actors or max(1, int(available.get("GPU" if on_gpu else "CPU", 1)))
    if size * cpus > available.get("CPU", 1):
        raise ConfigError(
            f"num_actors: expected {cpus} CPUs for each, found {size} on {available.get('CPU', 1):g} CPUs"
        )
    return {
        "compute": ray.data.ActorPoolStrategy(size=size),
        "num_cpus": cpus,
        **({"num_gpus": 1} if on_gpu else {}),
    }


def _detected(path: str, reading: Reading, own: str) -> str:
    """Tokenizer of the text: spaces where the first lines are tokenized already, else the model's own."""
    if reading.split or own != "words":  # as `elmo embed`
        return own
    shard = next(read_shards(0, path, 0, reading), None)
    return "spaces" if shard is not None and looks_tokenized(shard.texts) else own


def _sizes(ray: Any, files: list[str], reading: Reading) -> dict[str, list[int]]:
    """Sentences of every shard, counted on the cluster: sentence numbers of a file start after those before it."""
    count = ray.remote(shard_sizes)
    with _as_elmo_errors(ray):
        return dict(zip(files, ray.get([count.remote(path, reading) for path in files]), strict=True))


def _read(ray: Any, jobs: list[dict[str, Any]], reading: Reading, done: set[str]) -> Any:
    """Dataset of shards that are not done yet, one row each, in small blocks."""

    def read(job: dict[str, Any]) -> Iterator[dict[str, str]]:
        for shard in read_shards(int(job["number"]), str(job["path"]), int(job["first"]), reading):
            if shard.name not in done:
                yield {"shard": json.dumps(asdict(shard))}

    return ray.data.from_items(jobs, override_num_blocks=len(jobs)).flat_map(read, num_cpus=0.25)


def _consume(ray: Any, rows: Any, folder: ShardFolder, done: set[str], report: Callable[[Progress], None]) -> Progress:
    """Run the dataset to its end, and report its progress."""
    resumed = sum(folder.sizes.get(name, 0) for name in done)
    # bytes are not known here: progress is measured in sentences instead
    now = Progress(resumed, resumed_sentences=resumed, bytes_read=resumed, bytes_total=sum(folder.sizes.values()))
    with _as_elmo_errors(ray):
        for row in rows.iter_rows():
            sentences = now.sentences + row["sentences"]
            now = replace(now, sentences=sentences, tokens=now.tokens + row["tokens"], bytes_read=sentences)
            report(now)
    return now


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine; what was started or connected here ends here."""
    if ray.is_initialized():
        yield
        return
    _require_reachable(address)
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address == "auto":
            try:
                ray.init(address="auto", **options)
            except ConnectionError:
                address = "local"
        if not ray.is_initialized():
            local = {"include_dashboard": False} if address == "local" else {}
            ray.init(address=address, **options, **local)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise ConfigError(f"--ray: expected a cluster at {address}, found {first_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _require_reachable(address: str) -> None:
    """Try to connect to an address: Ray itself would try for minutes, and report it in its own words."""
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"--ray: expected local, auto or an address such as 10.0.0.1:6379, found {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(f"--ray: expected a cluster at {address}, found {first_line(error)}") from None


@contextmanager
def _quiet_data(ray: Any) -> Iterator[None]:
    """Ray Data without its own progress, and with small blocks, so that every actor gets some of a file."""
    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars, context.target_max_block_size
    context.enable_progress_bars, context.target_max_block_size = False, _BLOCK_BYTES
    log = logging.getLogger("ray.data")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars, context.target_max_block_size = before
        log.setLevel(level)


@contextmanager
def _as_elmo_errors(ray: Any) -> Iterator[None]:
    """Re-raise errors of workers as an ElmoError: with its own message if it was one, else as one line."""
    try:
        yield
    except ray.exceptions.RayError as error:
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, ElmoError):
            reason = getattr(reason, "cause", None) or reason.__cause__
        raise ElmoError(str(reason) if reason is not None else f"Ray: {first_line(error)}") from None
