"""With a real network: a resumed run and one that was never interrupted are the same to the last bit."""

from __future__ import annotations

from pathlib import Path

import models
import numpy as np
import pytest

from elmokit import Elmo
from elmokit.embed.embed_files import Progress, embed_files


class Killed(BaseException):
    pass


@pytest.mark.parametrize(("state", "batch_size"), [("reset", None), ("warm", 3), ("carry", 2)])
def test_resumed_is_the_same_to_the_last_bit(state: str, batch_size: int | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = models.write(
        tmp_path / "model", *models.oracle.random_model(rng, dim=64, projection_dim=32, filters=((2, 40),))
    )
    words = ["".join(rng.choice(list("abcdefgh"), size=rng.integers(1, 9))) for _ in range(60)]
    text = tmp_path / "text.txt"
    lines = (" ".join(rng.choice(words, size=rng.integers(0, 12))) for _ in range(80))
    text.write_text("".join(f"{line}\n" for line in lines))
    options = {"batch_size": batch_size, "chunk_characters": 300}

    def run(output: Path, stop_after: int = 10**9, resume: bool = False) -> None:
        def progress(done: Progress) -> None:
            if done.sentences - done.resumed_sentences > stop_after:
                raise Killed

        elmo = Elmo.from_pretrained(model, state=state)  # type: ignore[arg-type]
        embed_files(elmo, [text], output, resume=resume, progress=progress, **options)  # type: ignore[arg-type]

    run(tmp_path / "whole.npz")
    for _ in range(3):
        with pytest.raises(Killed):
            run(tmp_path / "parts.npz", stop_after=20, resume=True)
    run(tmp_path / "parts.npz", resume=True)
    assert (tmp_path / "parts.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
