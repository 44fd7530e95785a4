"""Export of the best weights into the run folder, and the model card."""

from __future__ import annotations

from pathlib import Path

import synthetic

from elmokit import weights
from elmokit.pretrain.export import export


def test_an_export_removes_no_folder_of_others(tmp_path: Path) -> None:
    state = synthetic.state(synthetic.write(tmp_path / "text.txt", 20))
    run = tmp_path / "run"
    (run / ".model").mkdir(parents=True)
    (run / ".model" / "thesis.txt").write_text("years of work")
    before = {path.name for path in run.iterdir()}
    export(state, run)
    assert (run / ".model" / "thesis.txt").read_text() == "years of work"
    assert weights.load(run).config == state.config
    assert not [path for path in run.iterdir() if path.name.startswith(".") and path.name not in before]
