"""Fonts for pictures: one that has the characters, or a warning that names what to install."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

log = logging.getLogger("elmokit.analysis")

# The first has Latin, Greek, Cyrillic and more; the others, if installed, are fallbacks for characters that it lacks.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK KR",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "NanumGothic",
    "Droid Sans Fallback",
    "Malgun Gothic",
    "AppleGothic",
    "Arial Unicode MS",
)
PACKAGE = "mplfonts"  # on PyPI: brings Noto Sans CJK


def fonts_for(library: Any, texts: Iterable[str]) -> list[str]:
    """Names of the installed fonts, in order of preference; `library` is matplotlib.

    If they lack a character of the texts, system fonts are searched again, because matplotlib caches the list of its
    first start. A warning is logged for characters that no font has, which are drawn as boxes.
    """
    wanted = {character for text in texts for character in text if not character.isspace()}
    names = _installed(library)
    if missing := _missing(library, names, wanted):
        _look_again(library)
        names = _installed(library)
        missing = _missing(library, names, wanted)
    if missing:
        shown = "".join(sorted(missing)[:8])
        log.warning(
            "no installed font has %s, drawn as boxes; for Chinese, Japanese and Korean: apt install fonts-noto-cjk, "
            "or pip install %s",
            shown,
            PACKAGE,
        )
    return names


def _installed(library: Any) -> list[str]:
    installed = {font.name for font in library.font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in installed]


def _missing(library: Any, names: list[str], wanted: set[str]) -> set[str]:
    missing = set(wanted)
    for name in names:
        if not missing:
            break
        font = library.font_manager.get_font(library.font_manager.findfont(name))
        missing = {character for character in missing if not font.get_char_index(ord(character))}
    return missing


def _look_again(library: Any) -> None:
    """Add fonts that were installed since matplotlib made its list."""
    manager = library.font_manager.fontManager
    known = {Path(font.fname) for font in manager.ttflist}
    paths = [Path(path) for path in library.font_manager.findSystemFonts()] + _packaged()
    for path in paths:
        if path not in known:
            try:
                manager.addfont(path)
            except Exception:  # a damaged font of the system is none of our business
                continue


def _packaged() -> list[Path]:
    """The fonts inside the package from PyPI, if it is installed."""
    spec = find_spec(PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    return [path for folder in folders for path in sorted(Path(folder).glob("fonts/*.?tf"))]
