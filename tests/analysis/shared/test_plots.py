"""Pictures are drawn, without a display, and all at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmokit.analysis.shared.plots import check_picture, heat_map, save_picture
from elmokit.errors import ConfigError, MissingExtraError, OutputError

VALUES = np.array([[1.0, 0.5], [0.0, -0.2], [0.3, 0.9]])


def draw(path: Path, **options: object) -> None:
    figure = heat_map(VALUES, ["a", "b", "눈"], ["x", "present"], title="t", value_name="cosine", **options)  # type: ignore[arg-type]
    save_picture(figure, path)


def pixels(path: Path) -> np.ndarray:
    from matplotlib import image

    return np.asarray(image.imread(path))


def test_a_picture_is_written(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    draw(path, marked=(0, 1))
    with pytest.raises(OutputError, match="exists already; use overwrite=True"):
        draw(path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    height, width = pixels(path).shape[:2]
    assert 200 < height < 2000 and 200 < width < 2000
    assert [child.name for child in tmp_path.iterdir()] == ["map.png"]
    for name, start in (("map.svg", b"<?xml"), ("map.pdf", b"%PDF")):
        draw(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_numbers_frame_and_limits_show(tmp_path: Path) -> None:
    plain, numbered, framed, limited = (tmp_path / f"{k}.png" for k in range(4))
    draw(plain, numbers=False)
    draw(numbered, numbers=True)
    draw(framed, numbers=False, marked=(2, 0))
    draw(limited, numbers=False, limits=(-1.0, 10.0))
    assert pixels(plain).shape != pixels(numbered).shape
    crimson = np.abs(pixels(framed)[:, :, :3] - np.array([220, 20, 60]) / 255).sum(axis=2) < 0.05
    assert crimson.sum() > 50
    assert pixels(limited)[:, :, 0].mean() > pixels(plain)[:, :, 0].mean()  # lighter: all are small on that scale


def test_no_display_is_needed(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.environ.pop('DISPLAY', None); import numpy as np; from pathlib import Path\n"
        "from elmokit.analysis.shared.plots import *\n"
        f"save_picture(heat_map(np.eye(3), 'abc', 'abc', title='', value_name=''), Path({str(tmp_path / 'x.png')!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_what_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.png, \.svg, \.pdf"):
        check_picture(tmp_path / "map.doc")
    with pytest.raises(OutputError, match="folder that exists"):
        check_picture(tmp_path / "no" / "map.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[analysis\]"):
        check_picture(tmp_path / "map.png")
