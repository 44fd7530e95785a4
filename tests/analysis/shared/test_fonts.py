"""Fonts that have the characters, found again after they were installed."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elmokit.analysis.shared import fonts

HAN = "苹果"


class Manager:
    """matplotlib's list of fonts, which does not know the second yet."""

    def __init__(self) -> None:
        self.ttflist = [SimpleNamespace(name="DejaVu Sans", fname="/fonts/dejavu.ttf")]

    def addfont(self, path: Path) -> None:
        if path.name == "damaged.ttf":
            raise RuntimeError("no font")
        self.ttflist.append(SimpleNamespace(name="Noto Sans CJK JP", fname=str(path)))


def library(*system: str) -> Any:
    manager = Manager()
    glyphs = {"DejaVu Sans": set("abc -"), "Noto Sans CJK JP": set(HAN)}
    return SimpleNamespace(
        font_manager=SimpleNamespace(
            fontManager=manager,
            findSystemFonts=lambda: list(system),
            findfont=lambda name: name,
            get_font=lambda name: SimpleNamespace(get_char_index=lambda code: int(chr(code) in glyphs[name])),
        )
    )


def test_a_font_that_was_installed_since_is_found(caplog: pytest.LogCaptureFixture) -> None:
    new = library("/fonts/dejavu.ttf", "/fonts/damaged.ttf", "/fonts/noto.ttc")
    assert fonts.fonts_for(new, ["a b", "-c"]) == ["DejaVu Sans"]  # nothing was missing, nothing was read again
    assert fonts.fonts_for(new, [HAN, "a"]) == ["DejaVu Sans", "Noto Sans CJK JP"]
    assert not caplog.records


def test_boxes_are_warned_of(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_packaged", list)
    with caplog.at_level(logging.WARNING, logger="elmokit"):
        assert fonts.fonts_for(library(), [HAN]) == ["DejaVu Sans"]
    assert "no installed font has 果苹" in caplog.text
    assert "apt install fonts-noto-cjk" in caplog.text and "pip install mplfonts" in caplog.text


def test_the_package_from_pypi_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mplfonts" / "fonts").mkdir(parents=True)
    (tmp_path / "mplfonts" / "__init__.py").touch()
    (tmp_path / "mplfonts" / "fonts" / "a.otf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert fonts._packaged() == [tmp_path / "mplfonts" / "fonts" / "a.otf"]
