"""Speed under four thread policies, on an idle and on a busy machine.

    python benchmarks/threads.py TEXT [--rounds 3]

TEXT: a file of real sentences, one per line, tokens separated by spaces; plain or compressed. Each policy has its own
process, because OpenMP reads its settings once, when torch is loaded. The policies take turns; the medians over the
rounds are compared. Competitors are processes that each keep one core busy. On a machine that others use too,
--realtime measures the rows without competitors at real-time priority (Linux, root), in turns of less than a second.
The original shape is measured without competitors only: by default it would take hours with them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import results
from isolated import Worker, contender

ACTIVE = "default"
POLICIES: dict[str, dict[str, str]] = {
    ACTIVE: {},  # libgomp spins for milliseconds before it sleeps
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},  # sleeps at once
    "brief spin": {"GOMP_SPINCOUNT": "10000"},  # spins for some 0.1 ms: what elmokit chooses
    "one thread": {"OMP_NUM_THREADS": "1"},
}
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")
MODELS = {"packaged": 120, "original": 5}  # sentences; "original" is the published shape 2x4096/512, random weights


@contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Environment that the next process inherits: these thread settings and no others."""
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    # elmokit chooses a policy unless there is one: for the default of OpenMP, name what OpenMP would do anyway
    os.environ.update(settings or {"GOMP_SPINCOUNT": "300000"})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def engine(model: str, sentences: list[list[str]]) -> Worker:
    """Engine of one model. Answers "corpus" with tokens per second, "single" with the median of ms per sentence."""
    from elmokit import Elmo

    if model == "packaged":
        elmo = Elmo.from_pretrained()
    else:
        from embed import SHAPES, random_model

        elmo = Elmo(random_model(SHAPES[model]))
    for _ in elmo.embed(sentences):  # fills the word cache
        pass

    def corpus() -> float:
        started = time.perf_counter()
        for _ in elmo.embed(sentences):
            pass
        return sum(map(len, sentences)) / (time.perf_counter() - started)

    def single() -> float:
        seconds: list[float] = []
        while sum(seconds) < 0.3 or len(seconds) < 3:
            started = time.perf_counter()
            list(elmo.embed([sentences[len(seconds) % len(sentences)]]))
            seconds.append(time.perf_counter() - started)
        return 1e3 * statistics.median(seconds)

    def work(order: tuple[str, bool]) -> float:
        name, alone = order
        with realtime() if alone else nullcontext():
            return corpus() if name == "corpus" else single()

    return work


@contextmanager
def realtime() -> Iterator[None]:
    """All threads of this process ahead of every ordinary process, as on an idle machine."""
    threads = [int(folder.name) for folder in Path("/proc/self/task").iterdir()]
    for thread in threads:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def competitors(number: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    program = f"import os\nwhile os.getppid() == {os.getpid()}: pass"  # ends with us, even if we are killed
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(sentences: list[list[str]], loads: list[int], rounds: int, alone: bool) -> Iterator[dict[str, Any]]:
    """One row per model, kind of work and number of competitors, with the median of each policy."""
    for model, size in MODELS.items():
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for policy, settings in POLICIES.items():
                with environment(settings):
                    workers[policy] = stack.enter_context(contender(engine, model, sentences[:size]))
            for ask in workers.values():
                ask(("single", False))
            for load in loads if model == "packaged" else loads[:1]:
                turns: dict[tuple[str, str], list[float]] = {}
                running: list[int] = []
                with competitors(load):
                    for turn in range(rounds if load else 3 * rounds):  # small differences matter on the idle machine
                        order = list(POLICIES)[turn % len(POLICIES) :] + list(POLICIES)[: turn % len(POLICIES)]
                        for work in ("single", "corpus"):
                            for policy in order:  # a different one first in each round
                                running.append(runnable())
                                value = workers[policy]((work, alone and load == 0))
                                turns.setdefault((work, policy), []).append(value)
                for work in ("single", "corpus"):
                    row: dict[str, Any] = {"model": model, "work": work, "competitors": load}
                    row["unit"] = "ms per sentence" if work == "single" else "tokens per second"
                    for policy in POLICIES:
                        row[policy] = round(statistics.median(turns[work, policy]), 2)
                    for policy in list(POLICIES)[1:]:
                        row[f"{policy} / default"] = round(speed(row, policy) / speed(row, ACTIVE), 2)
                    row["other runnable processes"] = statistics.median(running)
                    yield row


def runnable() -> int:
    """Processes that want a core at this moment, without this one; 0 where the system does not tell."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) - 1
    except OSError:
        return 0


def speed(row: dict[str, Any], policy: str) -> float:
    """Higher is faster."""
    return 1 / row[policy] if row["work"] == "single" else row[policy]


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    head = ["model", "work", "competitors", *POLICIES]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        form = "{:.1f} ms" if row["work"] == "single" else "{:,.0f} tokens/s"
        cells = [form.format(row[policy]) for policy in POLICIES]
        ratios = ["", *(f" ({row[f'{policy} / default']:.2f}x)" for policy in list(POLICIES)[1:])]
        cells = [cell + ratio for cell, ratio in zip(cells, ratios, strict=True)]
        lines.append(f"| {row['model']} | {row['work']} | {row['competitors']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="turns per policy; without competitors 3 times as many")
    parser.add_argument("--competitors", type=int, nargs="+", default=[0, 1, 2, 4], help="busy processes beside us")
    parser.add_argument("--realtime", action="store_true", help="no competitors: run at real-time priority")
    parser.add_argument("-o", "--output", type=Path, help="JSON file [docs/results/threads.json]")
    arguments = parser.parse_args()
    from elmokit.text.lines import read_lines
    from elmokit.weights import load

    sentences = [tokens for line in islice(read_lines(arguments.text), 400) if 5 <= len(tokens := line.split()) <= 60]
    rows: list[dict[str, Any]] = []
    for row in measure(sentences, arguments.competitors, arguments.rounds, arguments.realtime):
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        facts = {"cores": os.cpu_count(), "rounds": arguments.rounds, "realtime": arguments.realtime, "rows": rows}
        results.write("threads", facts, files=[arguments.text], model=load(), output=arguments.output)
    print(table(rows))


if __name__ == "__main__":
    main()
