"""Pictures: drawn without a display, written all at once, light on ink."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import ConfigError, MissingExtraError, OutputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")

# The first has Latin, Greek, Cyrillic and more; the others, where one is installed, what it lacks.
_FONTS = (
    "DejaVu Sans", "Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "NanumGothic",
    "Droid Sans Fallback", "Malgun Gothic", "AppleGothic", "Arial Unicode MS",
)  # fmt: skip


def check_picture(path: Path) -> Path:
    """The file to draw into, if that can be done: its suffix is known, its folder and the library are there."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: expected a picture's name that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: expected a file in a folder that exists, found no {path.parent}")
    if path.is_dir():
        raise OutputError(f"{path}: expected a file to write, found a folder")
    _matplotlib()
    return path


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
    longest = max((len(word) for word in [*rows, *columns]), default=1)
    margin = 0.09 * longest
    with library.rc_context({"font.family": _fonts(library), "font.size": 9}):
        figure: Figure = library.figure.Figure(
            figsize=(max(3.2, side * m + margin + 1.3), max(2.0, side * n + margin + 0.7)), layout="constrained"
        )
        axes = figure.add_subplot()
        image = axes.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="equal")
        axes.set_xticks(range(m), columns, rotation=90 if longest > 3 else 0)
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


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture, all at once; an older one of the same name is replaced."""
    check_picture(path)
    fresh = path.with_name(f".{path.stem}.new-{secrets.token_hex(4)}{path.suffix}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # no installed font has it: a box stands there
            figure.savefig(fresh, dpi=150)
        fresh.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


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
