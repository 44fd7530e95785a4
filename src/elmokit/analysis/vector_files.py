"""Vectors of a corpus in FAISS files of half-precision floats, searched where they lie on disk.

A file holds at most SHARD_BYTES, so that building takes the memory of one file however long the corpus is, and the
files of an index are searched side by side. All vectors have length 1: the inner product is their cosine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.errors import FormatError, MissingExtraError, OutputError

Floats = NDArray[np.floating]

SHARD_BYTES = 128 * 2**20
LISTS = 256  # parts into which an approximate file is cut: few, as every token is compared with each when it is added
POINTS_PER_LIST = 64  # tokens that the parts are learnt from
BLOCK = 2**14  # rows that are turned into float32 at a time
QUERIES, NEAREST = 64, 10  # with which recall is measured: so many tokens of the corpus, so many neighbours of each
ENOUGH = 0.95  # recall at which an approximate index is good; it looks at as many parts as that takes


def load_faiss() -> Any:
    """The library, or the command that installs it."""
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("an index", "analysis") from None
    return faiss


def unit(vectors: Floats) -> Floats:
    """(..., D) at length 1; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: Floats = vectors / np.where(norms > 0, norms, 1)
    return result


class VectorWriter:
    """Takes vectors one block after the other and writes `vectors-0000.faiss`, `vectors-0001.faiss`, ..."""

    def __init__(self, folder: Path, dim: int, *, approximate: bool) -> None:
        self._faiss, self._folder, self._approximate = load_faiss(), folder, approximate
        self.rows = max(1, SHARD_BYTES // (2 * dim))  # a file
        self.count = 0
        self._shard = torch.empty(self.rows, dim, dtype=torch.float16)  # numpy turns floats into halves far slower
        self._index: Any = None
        self._samples: list[tuple[NDArray[np.int64], Floats]] = []  # queries to measure recall with

    def add(self, vectors: Floats) -> None:
        """Add n vectors, (n, D), of any length but zero."""
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
        """Write what is left; returns row numbers (n,) and vectors (n, D) of tokens from all over the corpus."""
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
        for at in range(0, rows, BLOCK):
            self._index.add(shard[at : at + BLOCK].float().numpy())
        path = self._folder / f"vectors-{number:04}.faiss"
        try:
            self._faiss.write_index(self._index, str(path))
        except RuntimeError:  # the library's only kind of error
            raise OutputError(f"{path.parent}: cannot be written; is the disk full?") from None
        self._index.reset()
        sampled = np.unique(np.linspace(0, rows - 1, QUERIES).round().astype(int))
        self._samples.append((number * self.rows + sampled, shard[torch.from_numpy(sampled)].float().numpy()))

    def _new(self, shard: torch.Tensor) -> Any:
        """An empty index; the parts of an approximate one are learnt from the first file's vectors."""
        faiss, dim = self._faiss, shard.shape[1]
        half, product = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        if not self._approximate:
            return faiss.IndexScalarQuantizer(dim, half, product)
        lists = max(1, min(LISTS, len(shard) // POINTS_PER_LIST))
        self._centres = faiss.IndexFlatIP(dim)  # the library holds no reference of its own
        index = faiss.IndexIVFScalarQuantizer(self._centres, dim, lists, half, product, False)
        index.cp.spherical, index.cp.seed, index.cp.niter = True, 1, 8
        index.cp.min_points_per_centroid = 1  # of fewer than it likes, the library would complain
        step = max(1, len(shard) // (lists * POINTS_PER_LIST))
        index.train(shard[::step].float().numpy())
        return index


class VectorFiles:
    """The files of a VectorWriter, memory-mapped."""

    def __init__(self, folder: Path, *, count: int, dim: int, approximate: bool, probes: int = 1) -> None:
        """`probes`: how many parts of each approximate file a search looks at."""
        self._faiss, self.count, self.probes = load_faiss(), count, probes
        flag = self._faiss.IO_FLAG_MMAP if approximate else self._faiss.IO_FLAG_MMAP_IFC
        self._approximate = approximate
        self._shards = [self._open(path, flag) for path in sorted(folder.glob("vectors-*.faiss"))]
        kind = "IndexIVFScalarQuantizer" if approximate else "IndexScalarQuantizer"
        if (
            sum(shard.ntotal for shard in self._shards) != count
            or any(shard.d != dim or type(shard).__name__ != kind for shard in self._shards)
        ):  # fmt: skip
            raise FormatError(
                f"{folder}: expected files of {count} vectors of {dim}, found others; build the index anew"
            )
        self._starts = np.cumsum([0, *(shard.ntotal for shard in self._shards)])
        self._pool = ThreadPoolExecutor(max(1, min(len(self._shards), self._faiss.omp_get_max_threads())))

    def _open(self, path: Path, flag: int) -> Any:
        try:
            return self._faiss.read_index(str(path), flag)
        except RuntimeError:
            raise FormatError(f"{path}: expected a FAISS file, found it damaged; build the index anew") from None

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
        """(n, D) of n rows in rising order."""
        parts = []
        for shard, start in zip(self._shards, self._starts[:-1], strict=True):
            if self._approximate and shard.direct_map.no():
                shard.make_direct_map()  # where each row lies: made when it is first asked for
            parts.append(shard.reconstruct_batch(rows[(rows >= start) & (rows < start + shard.ntotal)] - start))
        return np.concatenate(parts)

    def tune(self, rows: NDArray[np.int64], queries: Floats) -> float:
        """Choose the fewest probes with which an approximate index finds enough; returns the recall that it has then.

        Recall: of the NEAREST neighbours that a search finds of each query, itself left out, the part that is as near
        as the true ones. (Not by their rows: where equal vectors compete for the last place, any will do.)
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
        """Cosines (n, k) of the true nearest, out of every stored vector: matrix products, not the library's search."""
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
