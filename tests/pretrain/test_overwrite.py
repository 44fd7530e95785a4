"""`--overwrite` removes what elmokit wrote, and nothing else; what cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic

from elmokit.errors import OutputError
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.pretrain_run import CHECKPOINTS, open_run
from elmokit.training import checkpoint


def test_foreign_files_in_a_run_stop_an_overwrite(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "text.txt", 20)
    run = tmp_path / "run"
    open_run(run, Processes(), lambda: synthetic.state(text))
    (run / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match=r"found also thesis\.txt; nothing was removed"):
        open_run(run, Processes(), lambda: synthetic.state(text), overwrite=True)
    assert (run / "thesis.txt").read_text() == "years of work" and checkpoint.paths(run / CHECKPOINTS)
    (run / "thesis.txt").unlink()
    open_run(run, Processes(), lambda: synthetic.state(text), overwrite=True)


def test_a_folder_with_checkpoints_of_others_is_not_a_run(tmp_path: Path) -> None:
    text = synthetic.write(tmp_path / "text.txt", 20)
    home = tmp_path / "home"
    (home / "checkpoints").mkdir(parents=True)
    (home / "checkpoints" / "model.pt").write_text("somebody's")
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="expected an empty folder or none, found other files"):
        open_run(home, Processes(), lambda: synthetic.state(text), overwrite=True)
    assert sorted(path.name for path in home.rglob("*")) == ["checkpoints", "model.pt", "thesis.txt"]
