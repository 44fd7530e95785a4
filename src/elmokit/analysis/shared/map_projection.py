"""Vectors on a plane: PCA, or UMAP where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

LEAST = 3  # points of a map


def project(vectors: NDArray[np.floating], method: str = "pca") -> NDArray[np.floating]:
    """(n, D) to (n, 2), centered. method: "pca", or "umap" (McInnes et al. 2018; seed 0)."""
    if len(vectors) < LEAST:
        raise InputError(f"a map needs {LEAST} points, found {len(vectors)}")
    if method == "umap":
        points = _umap(vectors)
    else:
        centered = vectors - vectors.mean(axis=0)
        _, _, axes = np.linalg.svd(centered, full_matrices=False)
        points = centered @ axes[:2].T
    centered_points: NDArray[np.floating] = points - points.mean(axis=0)
    return centered_points


def _umap(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    try:
        import umap
    except ImportError:
        raise InputError("method: UMAP is not installed on the server: pip install umap-learn; or use pca") from None
    # spectral initialization needs more points than dimensions; random is as good for so few
    options: dict[str, Any] = {"n_neighbors": min(15, len(vectors) - 1), "random_state": 0, "init": "random"}
    points: NDArray[np.floating] = umap.UMAP(metric="cosine", **options).fit_transform(vectors)
    return points
