"""The examples of docs/integrations/transformers.md run, and print what their comments promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shown_commands import check

from elmokit import Elmo

pytest.importorskip("transformers", minversion="5", reason="needs the extra transformers")
pytest.importorskip("sentence_transformers", minversion="6", reason="needs the extra sentence-transformers")
pytest.importorskip("datasets", reason="needs the extra sentence-transformers")
import torch
import transformers

from elmokit.integrations.transformers import save_folder

PAGE = (Path(__file__).parents[2] / "docs" / "integrations" / "transformers.md").read_text(encoding="utf-8")


def test_commands_exist_with_the_options_shown() -> None:
    assert check(PAGE) == 1


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    transformers.utils.logging.disable_progress_bar()
    save_folder("base", "elmo-hub")  # what the page's command writes
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        torch.manual_seed(0)
        exec(compile(block, "transformers.md", "exec"), {})
    printed = capsys.readouterr().out
    dim = str(Elmo.from_pretrained().config.vector_dim)
    promises = [found.replace("2D", dim) for found in re.findall(r"print\(.*\)\s*# (.*)", "\n".join(blocks))]
    assert len(promises) == 3 and all(promise in printed for promise in promises)
    assert Elmo.from_pretrained("ner-hub").model.mixes
