"""The rooms import each other only along the arrows of the design."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit

PACKAGE = Path(elmokit.__file__).parent


def read_arrows() -> dict[str, set[str]]:
    """Room -> rooms that it may import, as docs/architecture.md draws them; errors and config are free for all."""
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = page.partition("```arrows\n")[2].partition("```")[0]
    rows = [line.partition("->") for line in block.splitlines()]
    assert len(rows) > 10, "docs/architecture.md: no arrows found"
    return {room.strip(): set(others.replace(",", " ").split()) for room, _, others in rows}


ARROWS = read_arrows()
DOTTED = re.compile(r"elmokit(\.\w+)+")


def imports(path: Path) -> set[str]:
    """Rooms of elmokit that a file imports, anywhere in it, or names as a string for a later import."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            full = [node.value]
        else:
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: relative import"
            continue
        names.update(parts[1] for name in full if (parts := name.split("."))[0] == "elmokit" and len(parts) > 1)
    return names & ARROWS.keys()


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    free = {"errors"} if room in ("errors", "disk", "config") else {"errors", "config"}
    allowed = ARROWS[room] | {room} | free
    assert imports(path) <= allowed


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    seen: set[str] = set()

    def visit(room: str, path: tuple[str, ...]) -> None:
        assert room not in path, f"circle: {' -> '.join((*path, room))}"
        for other in ARROWS[room]:
            visit(other, (*path, room))
        seen.add(room)

    for room in ARROWS:
        visit(room, ())
    assert seen == ARROWS.keys()


@pytest.mark.parametrize("room", [path.name for path in sorted(PACKAGE.iterdir()) if any(path.glob("*/*.py"))])
def test_parts_of_a_room_do_not_import_each_other_in_a_circle(room: str) -> None:
    """The folders of a room, and the files beside them as one part."""
    used: dict[str, set[str]] = {}
    for path in sorted((PACKAGE / room).rglob("*.py")):
        part = path.relative_to(PACKAGE / room).parts[0] if path.parent != PACKAGE / room else "."
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(f"elmokit.{room}."):
                inside = node.module.split(".")[2:] or [node.names[0].name]
                other = inside[0] if (PACKAGE / room / inside[0]).is_dir() else "."
                used.setdefault(part, set()).add(other)

    def visit(part: str, path: tuple[str, ...]) -> None:
        assert part not in path, f"circle in {room}: {' -> '.join((*path, part))}"
        for other in used.get(part, set()) - {part}:
            visit(other, (*path, part))

    for part in used:
        visit(part, ())


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Not even for type checkers; `elmokit` itself, which has the version, is not counted."""
    names = {".".join(("elmokit", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in FILES}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    imported: dict[str, set[str]] = {}
    for name, path in names.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {each if each in names else node.module for each in full}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        imported[name] = found & names.keys() - {name}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"circle: {' -> '.join((*path[path.index(name) :], name))}"
        if name not in done:
            for other in sorted(imported[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in names:
        visit(name, ())
    assert done == names.keys() and len(done) > 100


def test_class_names_are_unique() -> None:
    """Outside the drop-ins, whose classes have the names of the libraries that they replace."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        if path.relative_to(PACKAGE).parts[0] != "integrations":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


MIRRORED = ("disk", "nn", "text", "weights", "embed", "pretrain", "training")
WITHOUT_TESTS = {
    "__init__": "imports alone",
}


@pytest.mark.parametrize("room", MIRRORED)
def test_every_module_of_the_core_rooms_has_a_test_file(room: str) -> None:
    missing = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("")
        test = Path(__file__).parent / module.parent / f"test_{module.name}.py"
        if not test.exists() and not {module.name, module.as_posix()} & WITHOUT_TESTS.keys():
            missing.append(test.relative_to(Path(__file__).parent).as_posix())
    assert not missing, f"expected test files {missing}"


@pytest.mark.parametrize("room", ["text", "cli"])
def test_torch_stays_out(room: str) -> None:
    """Text rooms work on numpy alone; the command line must answer `--help` at once."""
    code = f"import sys, elmokit.{room}; print([m for m in ('torch', 'h5py', 'spacy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import sys, elmokit; print([m for m in ('torch', 'numpy', 'h5py', 'typer') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("arguments", [["-c", "import elmokit"], ["-m", "elmokit", "--help"]], ids=["import", "help"])
def test_it_starts_in_half_a_second(arguments: list[str]) -> None:
    """The best of some runs, in processor time: other work on the machine is not ours to answer for."""
    resource = pytest.importorskip("resource", reason="needs a POSIX system")

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(usage.ru_utime + usage.ru_stime)

    seconds = []
    for _ in range(5):
        before = spent()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        seconds.append(spent() - before)
    assert min(seconds) < 0.5


def test_public_names() -> None:
    assert dir(elmokit) == elmokit.__all__
    for name in elmokit.__all__:
        assert getattr(elmokit, name) is not None
    with pytest.raises(AttributeError, match="it has Elmo"):
        _ = elmokit.Bert


def test_the_page_names_every_room_and_no_other() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert ARROWS.keys() == rooms - {"__init__", "__pycache__", "models", "py.typed"}


def test_every_file_of_the_page_exists() -> None:
    """A path in back quotes is one of the package, from any room of it, or one of the repository."""
    repository = Path(__file__).parents[1]
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:/|\.(?:py|js|json|toml)))`", page)) - {"options.json"}
    assert len(named) > 50
    there = {f"/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*")}
    outside = {name for name in named if not any(path.endswith(f"/{name.rstrip('/')}") for path in there)}
    assert {name for name in outside if not (repository / name).exists()} - {"src/elmokit/"} == set()


def test_the_picture_draws_the_same_arrows() -> None:
    """Without those that follow from others, and without errors, config and the command's start."""
    svg = (Path(__file__).parents[1] / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")
    drawn: dict[str, set[str]] = {}
    for room, other in re.findall(r"<title>(\w+)&#45;&gt;(\w+)</title>", svg):
        drawn.setdefault(room, set()).add(other)

    def reached(arrows: dict[str, set[str]], room: str) -> set[str]:
        return {room}.union(*(reached(arrows, other) for other in arrows.get(room, ())))

    shown = ARROWS.keys() - {"errors", "config", "__main__"}
    assert {room: reached(drawn, room) for room in shown} == {room: reached(ARROWS, room) for room in shown}


def test_every_arrow_is_used() -> None:
    used: dict[str, set[str]] = {room: set() for room in ARROWS}
    for path in FILES:
        used[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] |= imports(path)
    assert {room: others - used[room] for room, others in ARROWS.items() if others - used[room]} == {}
