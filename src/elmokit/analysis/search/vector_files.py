"""Sharded FAISS files of float16 vectors, memory-mapped for search.

A shard has at most SHARD_BYTES, so that building needs the memory of one shard for a corpus of any size, and shards
are searched in parallel. All vectors have unit length: the inner product is the cosine.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.errors import FormatError, MissingExtraError, OutputError, first_line

Floats = NDArray[np.floating]

SHARD_BYTES = 128 * 2**20
LISTS = 256  # IVF lists per approximate shard: few, because every token is compared with each centroid when added
POINTS_PER_LIST = 64  # tokens to train the IVF centroids on
ROWS_PER_BLOCK = 2**14  # rows converted to float32 at a time
QUERIES, NEAREST = 64, 10  # recall measurement: number of query tokens and of neighbors per query
ENOUGH = 0.95  # target recall of an approximate index, which determines its number of probes


def load_faiss() -> Any:
    """Import FAISS; the error names the install command."""
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("an index", "analysis") from None
    return faiss


def unit(vectors: Floats) -> Floats:
    """Normalize (..., D) to unit length; zero vectors stay zero."""
    with np.errstate(over="ignore", under="ignore"):
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if (extreme := (norms == 0) | ~np.isfinite(norms)).any():  # squares of very large or small numbers
        largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
        vectors = vectors / np.where(extreme & (largest > 0), largest, 1)
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: Floats = vectors / np.where(norms > 0, norms, 1)
    return result


class VectorWriter:
    """Writes blocks of vectors to `vectors-0000.faiss`, `vectors-0001.faiss`, ..."""

    def __init__(self, folder: Path, dim: int, *, approximate: bool) -> None:
        self._faiss, self._folder, self._approximate = load_faiss(), folder, approximate
        self.rows = max(1, SHARD_BYTES // (2 * dim))  # a file
        self.count = 0
        self._shard = torch.empty(self.rows, dim, dtype=torch.float16)  # numpy is far slower in converting to float16
        self._index: Any = None
        self._samples: list[tuple[NDArray[np.int64], Floats]] = []  # queries to measure recall with

    def add(self, vectors: Floats) -> None:
        """Add n nonzero vectors, (n, D)."""
        vectors = unit(vectors)
        while len(vectors):
            at = self.count % self.rows
            part = vectors[: self.rows - at]
            self._shard[at : at + len(part)] = torch.from_numpy(part)
            self.count += len(part)
            vectors = vectors[len(part) :]
            if self.count % self.rows == 0:
                self._write(self.rows)

    def finish(self) -> tuple[NDArray[np.int64], Floats]:
        """Write the last shard; returns rows (n,) and vectors (n, D) of tokens sampled from the whole corpus."""
        if self.count % self.rows:
            self._write(self.count % self.rows)
        rows = np.concatenate([rows for rows, _ in self._samples])
        vectors = np.concatenate([vectors for _, vectors in self._samples])
        chosen = np.unique(np.linspace(0, len(rows) - 1, QUERIES).round().astype(int))
        return rows[chosen], vectors[chosen]

    def _write(self, rows: int) -> None:
        number, shard = len(self._samples), self._shard[:rows]
        if self._index is None:
            self._index = self._new(shard)
        for at in range(0, rows, ROWS_PER_BLOCK):
            self._index.add(shard[at : at + ROWS_PER_BLOCK].float().numpy())
        path = self._folder / f"vectors-{number:04}.faiss"
        try:
            self._faiss.write_index(self._index, str(path))
        except RuntimeError as error:  # the only exception type of FAISS
            free = shutil.disk_usage(path.parent).free
            raise OutputError(
                f"{path.parent}: cannot be written, with {free / 1e6:,.0f} MB free on the disk; free space, and start "
                f"again ({first_line(error)[:100]})"
            ) from None
        self._index.reset()
        sampled = np.unique(np.linspace(0, rows - 1, QUERIES).round().astype(int))
        self._samples.append((number * self.rows + sampled, shard[torch.from_numpy(sampled)].float().numpy()))

    def _new(self, shard: torch.Tensor) -> Any:
        """Create an empty index; the centroids of an approximate one are trained on the first shard."""
        faiss, dim = self._faiss, shard.shape[1]
        half, product = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        if not self._approximate:
            return faiss.IndexScalarQuantizer(dim, half, product)
        lists = max(1, min(LISTS, len(shard) // POINTS_PER_LIST))
        self._centers = faiss.IndexFlatIP(dim)  # FAISS does not keep a reference
        index = faiss.IndexIVFScalarQuantizer(self._centers, dim, lists, half, product, False)
        index.cp.spherical, index.cp.seed, index.cp.niter = True, 1, 8
        index.cp.min_points_per_centroid = 1  # avoids a FAISS warning about few training points
        step = max(1, len(shard) // (lists * POINTS_PER_LIST))
        index.train(shard[::step].float().numpy())
        return index


class VectorFiles:
    """The files of a VectorWriter, memory-mapped."""

    def __init__(self, folder: Path, *, count: int, dim: int, approximate: bool, probes: int = 1) -> None:
        """`probes`: IVF lists searched per approximate shard."""
        self._faiss, self.count, self.probes = load_faiss(), count, probes
        flag = self._faiss.IO_FLAG_MMAP if approximate else self._faiss.IO_FLAG_MMAP_IFC
        self._approximate = approximate
        self._shards = [self._open(path, flag) for path in sorted(folder.glob("vectors-*.faiss"))]
        kind = "IndexIVFScalarQuantizer" if approximate else "IndexScalarQuantizer"
        if sum(shard.ntotal for shard in self._shards) != count or any(
            shard.d != dim or type(shard).__name__ != kind for shard in self._shards
        ):
            raise FormatError(f"{folder}: expected files of {count} vectors of {dim}, found others; rebuild the index")
        self._starts = np.cumsum([0, *(shard.ntotal for shard in self._shards)])
        self._pool = ThreadPoolExecutor(max(1, min(len(self._shards), self._faiss.omp_get_max_threads())))

    def _open(self, path: Path, flag: int) -> Any:
        try:
            return self._faiss.read_index(str(path), flag)
        except RuntimeError:
            raise FormatError(f"{path}: expected a FAISS file, found it damaged; rebuild the index") from None

    def search(self, queries: Floats, k: int) -> tuple[Floats, NDArray[np.int64]]:
        """Cosines (n, k) of the nearest to each of n queries (n, D), best first, and their rows, or -1 for none."""
        queries = unit(queries).astype(np.float32)
        options = {"params": self._faiss.SearchParametersIVF(nprobe=self.probes)} if self._approximate else {}

        def one(number: int) -> tuple[Floats, NDArray[np.int64]]:
            scores, rows = self._shards[number].search(queries, k, **options)
            return scores, np.where(rows >= 0, rows + self._starts[number], -1)

        parts = list(self._pool.map(one, range(len(self._shards))))
        scores, rows = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        best = np.lexsort((rows, -scores), axis=1)[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)

    def vectors(self, rows: NDArray[np.int64]) -> Floats:
        """Vectors (n, D) of n rows in ascending order."""
        parts = []
        for shard, start in zip(self._shards, self._starts[:-1], strict=True):
            if self._approximate and shard.direct_map.no():
                shard.make_direct_map()  # row lookup, created lazily
            parts.append(shard.reconstruct_batch(rows[(rows >= start) & (rows < start + shard.ntotal)] - start))
        return np.concatenate(parts)

    def tune(self, rows: NDArray[np.int64], queries: Floats) -> float:
        """Choose the smallest number of probes that reaches the target recall; returns the recall.

        Recall is the share of the NEAREST neighbors found for each query (excluding itself) that are as near as the
        true ones. It compares similarities, not rows, because equal vectors are interchangeable.
        """
        k = NEAREST + 1  # every query is in the index
        worst = self._exhaustive(unit(queries), k).min(axis=1, keepdims=True)
        most = max(shard.nlist for shard in self._shards)
        self.probes = 1
        while True:
            scores, found = self.search(queries, k)
            good = (scores >= worst - 1e-5) & (found >= 0) & (found != rows[:, None])
            recall = float(np.minimum(good.sum(axis=1), NEAREST).mean() / max(1, min(NEAREST, self.count - 1)))
            if recall >= ENOUGH or self.probes >= most:
                return recall
            self.probes = min(2 * self.probes, most)

    def _exhaustive(self, queries: Floats, k: int) -> Floats:
        """Cosines (n, k) of the true nearest neighbors, by exhaustive matrix products independent of FAISS search."""
        wanted = torch.from_numpy(queries)
        best = torch.full((len(queries), k), -1.0)
        for shard in self._shards:
            lists = shard.invlists
            for number in range(shard.nlist):
                if size := lists.list_size(number):
                    codes = self._faiss.rev_swig_ptr(lists.get_codes(number), size * lists.code_size)
                    vectors = torch.from_numpy(codes.view(np.float16)).view(size, -1).float()
                    best = torch.cat((best, wanted @ vectors.t()), dim=1).topk(k, dim=1).values
        return best.numpy()
