"""Guards against the worst language patterns: riddle docstrings, help without a noun, British spelling in names."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

import elmokit

PACKAGE = Path(elmokit.__file__).parent
REPOSITORY = Path(__file__).parents[1]
FILES = sorted(PACKAGE.rglob("*.py"))
OTHER_CODE = [
    path for room in ("benchmarks", "examples", "tests") for path in sorted((REPOSITORY / room).rglob("*.py"))
]
PAGES = [*sorted((REPOSITORY / "docs").rglob("*.md")), *sorted(REPOSITORY.glob("*.md"))]
OLD_NAMES = re.compile(r"--optimiser|optimiser\.|\blicence:|\btravelled\b")  # names that old files and flags still have

Find = Callable[[ast.Module], list[tuple[int, str]]]

BRITISH = re.compile(
    r"colour|neighbour|behaviour|favour|(?<!-)labell(ed|ing)|centre|licence|learnt|misspelt|modell(ed|ing)"
    r"|(general|initial|maxim|minim|normal|optim|organ|quant|recogn|serial|standard|summar|token)is(e|er|ed|es|ing|ation)"
    r"(?![a-z])",
    re.IGNORECASE,
)
AWKWARD = re.compile(
    r"\w+s a (batch|line|sentence|step|token|word)\b|\b[Gg]o(es|ing)? on\b|\bits begin\b|^By default|^What\b|^Which\b"
)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def help_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Help of typer options and arguments (`help=`), and of settings fields (the second argument of `option`)."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        values = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
        if name == "option" and len(node.args) > 1:
            values.append(node.args[1])
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.lineno, value.value


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that this code defines: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def riddles(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, text) for line, text in docstrings(tree) if re.match(r"What\b", text)]


def poor_help(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, text) for line, text in help_texts(tree) if not text.strip() or text.startswith("Of ")]


def british_names(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, name) for line, name in identifiers(tree) if BRITISH.search(name)]


def british_prose(tree: ast.Module) -> list[tuple[int, str]]:
    """Docstrings, messages and help; not single words, which may be keys of files that others have written."""
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [
        (node.lineno, node.value)
        for node in texts
        if " " in node.value and BRITISH.search(OLD_NAMES.sub("", node.value))
    ]


def british_comments(text: str) -> list[tuple[int, str]]:
    """Comments of Python code."""
    lines = StringIO(text).readline
    comments = (token for token in tokenize.generate_tokens(lines) if token.type == tokenize.COMMENT)
    return [(token.start[0], token.string) for token in comments if BRITISH.search(OLD_NAMES.sub("", token.string))]


def awkward_help(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, text) for line, text in help_texts(tree) if AWKWARD.search(text)]


@pytest.mark.parametrize("find", [riddles, poor_help, awkward_help, british_names, british_prose])
def test_language(find: Find) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.splitlines()[0] if text else 'empty'}"
        for path in FILES
        for line, text in find(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("find", [british_names, british_prose])
def test_spelling_of_tests_benchmarks_and_examples(find: Find) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {text.splitlines()[0]}"
        for path in OTHER_CODE
        if path != Path(__file__)
        for line, text in find(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


def test_spelling_of_comments() -> None:
    found = [
        f"{path}:{line}: {text}"
        for path in (*FILES, *OTHER_CODE)
        for line, text in british_comments(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_spelling_of_pages() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line}"
        for path in PAGES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if BRITISH.search(OLD_NAMES.sub("", line))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("find", "code"),
    [
        (riddles, '"""What training makes smaller."""'),
        (riddles, 'class A:\n    """What a file holds."""'),
        (poor_help, 'typer.Option(help="Of all random numbers.")'),
        (poor_help, 'x: int = option(1, "")'),
        (awkward_help, 'typer.Option(help="Tokens a step.")'),
        (awkward_help, 'typer.Option(help="Go on from the last checkpoint.")'),
        (british_prose, 'raise ValueError("expected labelled data")'),
        (british_prose, 'raise ValueError("the learnt weights")'),
        (british_names, "def misspelt(): ..."),
        (british_names, "neighbours_of = 1"),
        (british_names, "def f(colour): ..."),
        (british_names, "self.tokeniser = 1"),
    ],
)
def test_the_patterns_are_found(find: Find, code: str) -> None:
    assert find(ast.parse(code))
    assert not find(ast.parse('"""Whatever."""\nx = option(1, "Random seed.")\nclass Tokenizer: ...'))
