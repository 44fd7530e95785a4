"""Render the import graph of docs/architecture.md as docs/images/architecture.svg; requires Graphviz (`dot`).

python recipes/architecture_svg.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
FREE = {"__main__", "errors", "config"}  # __main__ is a single line; the other two may be imported everywhere


def main() -> None:
    """Write the transitive reduction of the graph, which stays readable."""
    block = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("```arrows\n")[2].partition("```")[0]
    rows = [line.partition("->") for line in block.splitlines()]
    arrows = {room.strip(): set(others.replace(",", " ").split()) for room, _, others in rows}

    def below(room: str) -> set[str]:
        return arrows[room] | {further for other in arrows[room] for further in below(other)}

    lines = [
        f'  "{room}" -> "{other}";'
        for room, others in arrows.items()
        if room not in FREE
        for other in sorted(others)
        if not any(other in below(between) for between in others - {other})
    ]
    node = 'node [shape=box style="rounded,filled" fillcolor="#e0f2f1" fontname="Helvetica"]'
    style = f'rankdir=TB; bgcolor="transparent"; {node}'
    dot = "\n".join(["digraph rooms {", f"  {style};", '  edge [color="#607d8b"];', *lines, "}"])
    subprocess.run(["dot", "-Tsvg", "-o", DOCS / "images" / "architecture.svg"], input=dot, text=True, check=True)


if __name__ == "__main__":
    main()
