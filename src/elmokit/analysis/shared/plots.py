"""Plots: headless rendering and atomic, reproducible output files."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.shared.fonts import fonts_for
from elmokit.disk.outputs import check_output
from elmokit.disk.whole import new_file
from elmokit.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
_DATES = {".svg": "Date", ".pdf": "CreationDate"}  # metadata keys of the creation time, which is omitted

_STROKES = (  # color and mark of lines and of groups of points
    ("#1f5a99", "o"),
    ("0.45", "s"),
    ("#b5541c", "^"),
    ("#2b7a4b", "D"),
    ("#7a4fa3", "v"),
    ("#8a6d00", "P"),
)


def check_picture(path: Path, *, overwrite: bool = False) -> Path:
    """Check an output path: known suffix, not existing, and matplotlib installed."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: expected a picture's name that ends in {', '.join(SUFFIXES)}")
    require_drawing()
    return check_output(path, overwrite=overwrite)


def require_drawing() -> None:
    """Check that matplotlib is installed, before any work is done."""
    _matplotlib()


def heat_map(
    values: NDArray[np.floating],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    value_name: str,
    limits: tuple[float, float] | None = None,
    marked: tuple[int, int] | None = None,
    numbers: bool | None = None,
) -> Figure:
    """Heat map of a (rows, columns) table; darker is larger.

    limits: values of the lightest and the darkest shade; by default minimum and maximum.
    marked: a cell to frame. numbers: write the values into the cells; by default if they fit.
    """
    library = _matplotlib()
    n, m = values.shape
    low, high = limits or (float(np.min(values)), float(np.max(values)))
    numbers = (n <= 25 and m <= 25) if numbers is None else numbers
    side = 0.5 if numbers else 0.3  # inches per cell
    left, top = (0.09 * max(map(len, words), default=1) for words in (rows, columns))
    with library.rc_context({"font.family": fonts_for(library, [title, *rows, *columns]), "font.size": 9}):
        figure: Figure = library.figure.Figure(
            figsize=(max(3.2, side * m + left + 1.3), max(2.0, side * n + top + 0.7)), layout="constrained"
        )
        axes = figure.add_subplot()
        image = axes.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="equal")
        axes.set_xticks(range(m), columns, rotation=90 if max(map(len, columns), default=1) > 3 else 0)
        axes.set_yticks(range(n), rows)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")  # of the figure: a small map is narrower than its title
        if numbers:
            dark = low + 0.6 * (high - low)
            for (i, j), value in np.ndenumerate(values):
                shade = "white" if value > dark else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=shade, fontsize=7.5)
        if marked is not None:
            i, j = marked
            frame = library.patches.Rectangle(
                (j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="crimson", linewidth=2, clip_on=False
            )
            axes.add_patch(frame)
            axes.get_yticklabels()[i].set_fontweight("bold")
            axes.get_xticklabels()[j].set_fontweight("bold")
        bar = figure.colorbar(image, ax=axes, shrink=0.8, label=value_name)
        bar.outline.set_visible(False)
    return figure


def curves(
    lines: Mapping[str, Sequence[tuple[float, Sequence[float]]]],
    ticks: Mapping[float, str],
    *,
    title: str,
    x_name: str,
    y_name: str,
    logarithmic: bool = True,
) -> Figure:
    """Line plot; the first line is emphasized.

    lines: per line its points, each an x and one or more measurements, shown as mean and standard deviation.
    ticks: positions and labels of the x axis. logarithmic: whether the x axis is.
    """
    library = _matplotlib()
    with library.rc_context({"font.family": fonts_for(library, [title, *lines]), "font.size": 9}):
        figure: Figure = library.figure.Figure(figsize=(5.2, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for (name, points), (color, marker) in zip(lines.items(), _STROKES, strict=False):
            x, values = zip(*points, strict=True)
            means = [fmean(some) for some in values]
            spreads = [stdev(some) if len(some) > 1 else 0.0 for some in values]
            axes.errorbar(
                x,
                means,
                yerr=spreads if any(spreads) else None,
                color=color,
                marker=marker,
                markersize=4,
                linewidth=1.4,
                capsize=2,
                label=name,
            )
        axes.legend(frameon=False, labelcolor="linecolor")
        if logarithmic:
            axes.set_xscale("log")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xticks([], minor=True)
        axes.margins(x=0.06)
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


def bars(values: Mapping[str, Sequence[float]], names: Sequence[str], *, title: str, value_name: str) -> Figure:
    """Horizontal bars, one group per name and one bar per series. values: per series one value per name."""
    library = _matplotlib()
    with library.rc_context({"font.family": fonts_for(library, [title, *names, *values]), "font.size": 9}):
        figure: Figure = library.figure.Figure(figsize=(7.2, 0.8 + 0.45 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        thickness = 0.8 / len(values)
        for k, (series, numbers) in enumerate(values.items()):
            places = [place + (k - (len(values) - 1) / 2) * thickness for place in range(len(names))]
            drawn = axes.barh(places, numbers, thickness, color=_STROKES[k][0], label=series)
            axes.bar_label(drawn, fmt="%+.1f", padding=2, fontsize=8)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_xlabel(value_name)
        axes.set_title(title, fontsize=10, loc="left")
        axes.legend(frameon=False, loc="lower right")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    return figure


def scatter(groups: Mapping[str, Sequence[tuple[float, float]]], *, title: str) -> Figure:
    """Points on a plane whose axes have no unit, one color and mark per group."""
    library = _matplotlib()
    with library.rc_context({"font.family": fonts_for(library, [title, *groups]), "font.size": 9}):
        figure: Figure = library.figure.Figure(figsize=(5.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for (name, points), (color, marker) in zip(groups.items(), itertools.cycle(_STROKES), strict=False):
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=26, color=color, marker=marker, label=name, alpha=0.85, linewidths=0)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(title, fontsize=10, loc="left")
        if len(groups) > 1:
            axes.legend(frameon=False, labelcolor="linecolor")
        axes.spines[:].set_color("0.8")
    return figure


def bubbles(
    points: Mapping[str, tuple[float, float, float]], *, title: str, x_name: str, y_name: str, size_name: str
) -> Figure:
    """Named points whose area is a third quantity, over a logarithmic x axis. points: x, y and size by name."""
    library = _matplotlib()
    largest = max(size for _, _, size in points.values())
    with library.rc_context({"font.family": fonts_for(library, [title, *points]), "font.size": 9}):
        figure: Figure = library.figure.Figure(figsize=(5.2, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for (name, (x, y, size)), (color, _) in zip(points.items(), itertools.cycle(_STROKES), strict=False):
            axes.scatter([x], [y], s=1200 * size / largest, color=color, alpha=0.55, linewidths=0)
            says = f"{name}\n{size:.0f} {size_name}"
            axes.annotate(says, (x, y), xytext=(0, 20), textcoords="offset points", ha="center", color=color)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(library.ticker.LogLocator(subs=(1, 3)))
        axes.xaxis.set_major_formatter(library.ticker.StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(library.ticker.NullFormatter())  # its labels would overlap
        axes.margins(x=0.3, y=0.35)
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


def save_picture(figure: Figure, path: Path, *, overwrite: bool = False) -> None:
    """Write a figure atomically."""
    check_picture(path, overwrite=overwrite)
    with new_file(path, replace=overwrite) as fresh:
        fresh.write_bytes(picture(figure, path.suffix.lower()))


def picture(figure: Figure, suffix: str) -> bytes:
    """Render a figure to bytes, reproducibly."""
    content = io.BytesIO()
    with warnings.catch_warnings(), _matplotlib().rc_context({"svg.hashsalt": "elmokit"}):
        warnings.filterwarnings("ignore", message="Glyph")  # `fonts_for` has logged a warning already
        figure.savefig(content, format=suffix[1:], dpi=150, metadata={_DATES[suffix]: None} if suffix in _DATES else {})
    return content.getvalue()


def _matplotlib() -> Any:
    """Import matplotlib without pyplot, which would look for a display; the error names the install command."""
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.font_manager
        import matplotlib.patches
        import matplotlib.ticker
    except ImportError:
        raise MissingExtraError("drawing", "analysis") from None
    return matplotlib
