"""Pictures: drawn without a display, written all at once, light on ink."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError, MissingExtraError, OutputError
from elmokit.weights.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
_DATES = {".svg": "Date", ".pdf": "CreationDate"}  # what files of these kinds call the time of day: it is left out

# The first has Latin, Greek, Cyrillic and more; the others, where one is installed, what it lacks.
_FONTS = (
    "DejaVu Sans", "Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "NanumGothic",
    "Droid Sans Fallback", "Malgun Gothic", "AppleGothic", "Arial Unicode MS",
)  # fmt: skip


_STROKES = (("#1f5a99", "o"), ("0.45", "s"), ("#b5541c", "^"))  # colour and mark of the lines of a curve


def check_picture(path: Path) -> Path:
    """The file to draw into, if that can be done: its suffix is known, its folder and the library are there."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: expected a picture's name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: expected a file in a folder that exists, found no {path.parent}")
    if path.is_dir():
        raise OutputError(f"{path}: expected a file to write, found a folder")
    require_drawing()
    return path


def require_drawing() -> None:
    """See that pictures can be drawn at all, before there is something to draw."""
    _matplotlib()


def heat_map(
    values: NDArray[np.floating], rows: Sequence[str], columns: Sequence[str], *, title: str, value_name: str,
    limits: tuple[float, float] | None = None, marked: tuple[int, int] | None = None, numbers: bool | None = None,
) -> Figure:  # fmt: skip
    """A table of numbers as shades, (rows, columns): darker is more.

    limits: the numbers of the lightest and the darkest shade; by default the least and the greatest value.
    marked: one cell to put a frame around. numbers: write them into the cells; by default if there is room.
    """
    library = _matplotlib()
    n, m = values.shape
    low, high = limits or (float(np.min(values)), float(np.max(values)))
    numbers = (n <= 25 and m <= 25) if numbers is None else numbers
    side = 0.5 if numbers else 0.3  # inches a cell
    left, top = (0.09 * max(map(len, words), default=1) for words in (rows, columns))
    with library.rc_context({"font.family": _fonts(library), "font.size": 9}):
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
        axes.set_title(title, fontsize=10, loc="left")
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
    lines: Mapping[str, Sequence[tuple[float, Sequence[float]]]], ticks: Mapping[float, str], *, title: str,
    x_name: str, y_name: str,
) -> Figure:  # fmt: skip
    """Lines over a logarithmic axis, the first of them the one that matters.

    lines: of each the points, x and what was measured there, several times or once: their mean and standard deviation.
    ticks: where the x axis has which label.
    """
    library = _matplotlib()
    with library.rc_context({"font.family": _fonts(library), "font.size": 9}):
        figure: Figure = library.figure.Figure(figsize=(5.2, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for (name, points), (colour, marker) in zip(lines.items(), _STROKES, strict=False):
            x, values = zip(*points, strict=True)
            means = [fmean(some) for some in values]
            spreads = [stdev(some) if len(some) > 1 else 0.0 for some in values]
            axes.errorbar(
                x, means, yerr=spreads if any(spreads) else None, color=colour, marker=marker, markersize=4,
                linewidth=1.4, capsize=2, label=name,
            )  # fmt: skip
        axes.legend(frameon=False, labelcolor="linecolor")
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


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture, all at once; an older one of the same name is replaced."""
    check_picture(path)
    with whole_file(path) as fresh:
        fresh.write_bytes(picture(figure, path.suffix.lower()))


def picture(figure: Figure, suffix: str) -> bytes:
    """The content of a picture's file; the same figure gives the same bytes."""
    content = io.BytesIO()
    with warnings.catch_warnings(), _matplotlib().rc_context({"svg.hashsalt": "elmokit"}):
        warnings.filterwarnings("ignore", message="Glyph")  # no installed font has it: a box stands there
        figure.savefig(content, format=suffix[1:], dpi=150, metadata={_DATES[suffix]: None} if suffix in _DATES else {})
    return content.getvalue()


def _fonts(library: Any) -> list[str]:
    installed = {font.name for font in library.font_manager.fontManager.ttflist}
    return [name for name in _FONTS if name in installed]


def _matplotlib() -> Any:
    """The library without pyplot, which would look for a display; or the command that installs it."""
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.font_manager
        import matplotlib.patches
    except ImportError:
        raise MissingExtraError("drawing", "analysis") from None
    return matplotlib
