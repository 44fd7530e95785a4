"""Draw docs/images/gains.svg, the picture of the front page, from Table 1 of docs/report.md.

    python recipes/front_picture.py

Run it after docs/report.md was made again; `make report` does. Needs `pip install 'elmokit[analysis]'`.
"""

from __future__ import annotations

from pathlib import Path

from elmokit.analysis.report import paper
from elmokit.analysis.report.summary import gains_chart
from elmokit.serve.figures import figures

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Draw the gains of the tasks that the report has with and without ELMo."""
    rows = figures((ROOT / "docs" / "report.md").read_text("utf-8"))["tasks"]
    keys = {scores.name: task for task, scores in paper.TABLE_1.items()}
    gains: dict[str, float] = {}
    for row in rows:
        baseline, elmo = row["ours"]["baseline"], row["ours"]["elmo"]
        if baseline and elmo and row["task"] in keys and keys[row["task"]] not in gains:  # the first row is the best
            gains[keys[row["task"]]] = elmo[0] - baseline[0]
    if not gains:
        raise SystemExit("docs/report.md: expected scores with and without ELMo in Table 1, found none")
    (ROOT / "docs" / "images" / "gains.svg").write_bytes(gains_chart(gains).svg)


if __name__ == "__main__":
    main()
