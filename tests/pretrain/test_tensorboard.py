"""TensorBoard's files, where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic

from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.pretrain_run import open_run

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_curves_go_on_where_a_run_was_killed(tmp_path: Path) -> None:
    text, dev = synthetic.write(tmp_path / "train.txt", 120), synthetic.write(tmp_path / "dev.txt", 20, seed=1)

    def begin() -> object:
        return synthetic.state(text, heldout=str(dev), steps=12, checkpoint_every=5, heldout_every=6)

    for event in open_run(tmp_path / "run", Processes(), begin).go():  # type: ignore[arg-type]
        if event.step == 9:
            break  # killed: steps 7 to 9 are in the files, but come again after the look at step 6
    list(open_run(tmp_path / "run", Processes(), begin, resume=True).go())  # type: ignore[arg-type]

    board = event_accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    tags = board.Tags()["scalars"]
    assert {"step/loss", "step/perplexity", "step/tokens_per_second", "heldout/mean", "heldout/forward"} <= set(tags)
    assert [event.step for event in board.Scalars("step/loss")] == list(range(1, 13))
    assert [event.step for event in board.Scalars("heldout/mean")] == [6, 12]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert f'"loss": {board.Scalars("step/loss")[-1].value:.4f}'[:12] in lines
