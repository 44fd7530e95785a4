"""The recipe and the page of installation say what pyproject.toml says."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import elmokit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_conda_recipe_has_the_same_version_and_requirements() -> None:
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    found = {re.sub(r"\s+#.*", "", line).strip().removeprefix("- ").replace(" ", "") for line in run.splitlines()}
    expected = {requirement.replace("torch", "pytorch") for requirement in PROJECT["dependencies"]}
    assert found == expected | {f"python{PROJECT['requires-python']}"}
    assert re.search(r'version: "(.*)"', recipe)[1] == PROJECT["version"] == elmokit.__version__  # type: ignore[index]


def test_the_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    extras = PROJECT["optional-dependencies"].keys() - {"test", "lint", "docs"}
    assert set(re.findall(r"^\| `elmokit\[([\w-]+)\]`", page, re.MULTILINE)) == extras
    everything = set(re.findall(r"[\w-]+", PROJECT["optional-dependencies"]["all"][0].partition("[")[2]))
    assert extras - everything == {"all", "flair", "ray", "transformers"}  # sentence-transformers includes the last


def test_types_are_part_of_the_package() -> None:
    assert (Path(elmokit.__file__).parent / "py.typed").is_file()


def test_the_description_of_the_package_has_no_broken_links() -> None:
    """A package index has none of the files that the README links to."""
    description = importlib.metadata.metadata("elmokit").get_payload()
    assert isinstance(description, str) and "pip install ." in description and "## Command" in description
    assert re.findall(r"\]\((?!https?://)[^)]*\)", description) == [] and "<!--" not in description
    assert "[*Deep contextualized word representations*](https://" in description
