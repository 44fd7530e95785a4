"""The README's commands and examples do what it says."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from shown_commands import check

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
ELMO = shutil.which("elmo", path=str(Path(sys.executable).parent))


def test_the_first_command_embeds_the_example(tmp_path: Path) -> None:
    install, _, command = BLOCKS[0][1].strip().partition(" && ")
    assert install == "pip install ."
    if ELMO is None:
        pytest.skip("elmokit is not installed: the command is not there")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    subprocess.run([ELMO, *command.split()[1:]], cwd=tmp_path, check=True, capture_output=True)
    lines = (ROOT / "examples" / "sentences.txt").read_text().splitlines()
    with h5py.File(tmp_path / "vectors.h5") as file:
        assert len(file) == len(lines) + 1  # and sentence_to_index
        for k, line in enumerate(lines):
            assert file[str(k)].shape[1] == len(line.split())


def test_the_second_command_is_what_ci_runs() -> None:
    install, _, run = BLOCKS[1][1].strip().partition(" && ")
    script = (ROOT / ".ci" / "run").read_text()
    assert install == "pip install '.[test]'" and run == "pytest"
    assert script.splitlines()[-1] == f"{install} && {run}"


def test_examples_print_what_the_readme_shows() -> None:
    examples = doctest.DocTestParser().get_doctest(BLOCKS[2][1], {}, "README", "README.md", 0)
    assert len(examples.examples) >= 5
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert result.failed == 0


def test_other_python_runs() -> None:
    """Every block with imports of its own; the API summary has none."""
    code = [text for language, text in BLOCKS[3:] if language == "python" and "import" in text]
    assert len(code) == 2
    for text in code:
        exec(compile(text, "README", "exec"), {})


@pytest.mark.parametrize(
    "page", ["README.md", "docs/tagging.md", "docs/tasks.md", "docs/analyses.md", "docs/pretraining.md"]
)
def test_commands_exist_with_the_options_shown(page: str) -> None:
    assert check((ROOT / page).read_text(encoding="utf-8")) >= 5


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
