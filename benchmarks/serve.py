"""Throughput and latency of `elmo serve`, compared with the engine itself.

    python benchmarks/serve.py     # about three minutes; writes docs/results/serve.json, see `make tables`

The load generator speaks HTTP over raw sockets (asyncio), since a full HTTP client would be the bottleneck. Engine and
server are measured in turns in one run, so that other work on the machine slows both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import results

from elmokit.weights import load

ROOT = Path(__file__).parents[1]
PATH, ACCEPT = "/embed_all", "application/x-npz"


def sentences(count: int, seed: int) -> list[list[str]]:
    """Sentences of 5 to 30 tokens, words as frequent as in text (Zipf)."""
    words = (ROOT / "src/elmokit/models/base/vocabulary.txt").read_text(encoding="utf-8").split("\n")[3:20000]
    rng = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    return [rng.choices(words, weights, k=rng.randint(5, 30)) for _ in range(count)]


def request_bytes(body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAccept: {ACCEPT}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


@dataclass
class Load:
    """What some clients saw."""

    seconds: float = 0.0
    tokens: int = 0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    errors: int = 0

    def facts(self) -> dict[str, Any]:
        ordered = sorted(self.latencies) or [0.0]
        at = lambda share: 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
        return {
            "seconds": round(self.seconds, 2),
            "requests": len(self.latencies),
            "tokens_per_second": round(self.tokens / max(self.seconds, 1e-9)),
            "p50_ms": round(at(0.5), 1),
            "p99_ms": round(at(0.99), 1),
            "p99_over_p50": round(at(0.99) / max(at(0.5), 1e-9), 2),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "connection_errors": self.errors,
        }


async def client(port: int, requests: list[tuple[bytes, int]], end: float, load: Load, pause: float, seed: int) -> None:
    """One connection that asks until the time is over. pause: mean seconds between an answer and the next request."""
    rng = random.Random(seed)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        number = seed
        while time.perf_counter() < end:
            if pause:
                await asyncio.sleep(min(rng.expovariate(1 / pause), max(0.0, end - time.perf_counter())))
                if time.perf_counter() >= end:
                    break
            content, tokens = requests[number % len(requests)]
            number += 1
            start = time.perf_counter()
            writer.write(content)
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
            load.statuses[status] = load.statuses.get(status, 0) + 1
            if status == 200:
                load.latencies.append(time.perf_counter() - start)
                load.tokens += tokens
            else:
                await asyncio.sleep(1)  # as Retry-After says
        writer.close()
    except (OSError, asyncio.IncompleteReadError):
        load.errors += 1


async def run_load(
    port: int, requests: list[tuple[bytes, int]], clients: int, seconds: float, pause: float = 0
) -> Load:
    load, start = Load(), time.perf_counter()
    end = start + seconds
    await asyncio.gather(*(client(port, requests, end, load, pause, k) for k in range(clients)))
    load.seconds = time.perf_counter() - start
    return load


def engine_speed(batches: list[list[list[str]]], seconds: float) -> tuple[float, float]:
    """Tokens per second of `Elmo.embed`, and per second of processor time, in batches of the size of the server's."""
    code = (
        "import json, sys, time, torch; torch.set_num_threads(1)\n"
        "from elmokit import Elmo\n"
        "batches, seconds = json.load(sys.stdin); elmo = Elmo.from_pretrained()\n"
        "for b in batches: list(elmo.embed(b))\n"
        "start, cpu, tokens = time.perf_counter(), time.process_time(), 0\n"
        "while time.perf_counter() - start < seconds:\n"
        "    for b in batches: tokens += sum(len(s.tokens) for s in elmo.embed(b))\n"
        "print(tokens / (time.perf_counter() - start), tokens / (time.process_time() - cpu))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps([batches, seconds]), capture_output=True, text=True, check=True
    )
    speed, per_cpu = map(float, result.stdout.split())
    return speed, per_cpu


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int) -> float:
    """Memory of a process and its children."""
    pages = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in (pid, *children(pid))]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor_times(server: int) -> tuple[float, float]:
    """Processor seconds of the HTTP process and of the engine process."""
    return processor_seconds(server), sum(map(processor_seconds, children(server)))


def measure_throughput(server: int, port: int, texts: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Engine and server in turns: tokens per second of each, their ratio, and latency."""
    requests = make_requests(texts)
    together = [[s for one in texts[k : k + 32] for s in one] for k in (0, 32)]  # what 32 clients ask at a time
    engine, per_cpu, loads, spent = [], [], [], [0.0, 0.0]
    for _ in range(options.rounds):
        speed, speed_per_cpu = engine_speed(together, options.seconds)
        engine.append(speed)
        per_cpu.append(speed_per_cpu)
        before = processor_times(server)
        loads.append(asyncio.run(run_load(port, requests, options.clients, options.seconds)))
        spent = [total + now - then for total, now, then in zip(spent, processor_times(server), before, strict=True)]
    http = [load.tokens / load.seconds for load in loads]
    ratios = [a / b for a, b in zip(http, engine, strict=True)]
    tokens = sum(load.tokens for load in loads)
    # half of that load: the clients pause so long that half as many requests arrive per second
    rate = sum(len(load.latencies) for load in loads) / sum(load.seconds for load in loads)
    usual = statistics.median(latency for load in loads for latency in load.latencies)
    pause = options.clients / (rate / 2) - usual / 4
    half = asyncio.run(run_load(port, requests, options.clients, 2 * options.seconds, pause=pause))
    return {
        "clients": options.clients,
        "engine_tokens_per_second": [round(one) for one in engine],
        "http_tokens_per_second": [round(one) for one in http],
        "http_over_engine": {"median": round(statistics.median(ratios), 3), "rounds": [round(r, 3) for r in ratios]},
        # these depend less on what else the machine does: whichever process is slower bounds the throughput
        "tokens_per_processor_second": {
            "engine_alone": round(statistics.median(per_cpu)),
            "http_process": round(tokens / spent[0]),
            "engine_process": round(tokens / spent[1]),
        },
        "full_load": loads[-1].facts(),
        "half_load": half.facts(),
    }


async def measure_connections(server: int, port: int, texts: list[Any], count: int, seconds: float) -> dict[str, Any]:
    """Many connections at once that ask without a pause: statuses, errors, and memory every few seconds."""
    memory = [resident_megabytes(server)]

    async def watch() -> None:
        while True:
            await asyncio.sleep(max(1.0, seconds / 12))
            memory.append(resident_megabytes(server))

    watching = asyncio.ensure_future(watch())
    load = await run_load(port, make_requests(texts), count, seconds)
    watching.cancel()
    facts = load.facts()
    wanted = ("seconds", "tokens_per_second", "statuses", "connection_errors")
    return {"count": count, **{name: facts[name] for name in wanted}, "memory_mb": [round(one) for one in memory]}


def make_requests(texts: list[Any]) -> list[tuple[bytes, int]]:
    return [(request_bytes({"texts": one}), sum(map(len, one))) for one in texts]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    texts = [sentences(options.sentences, seed) for seed in range(64)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "elmokit", "serve", "--port", "0", "--threads", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout is not None
    facts: dict[str, Any] = {"cores": os.cpu_count(), "load_average_before": round(os.getloadavg()[0], 1)}
    try:
        found = re.search(r":(\d+) ", server.stdout.readline())
        assert found and server.stdout.readline() == "Ready.\n"
        port = int(found[1])
        asyncio.run(run_load(port, make_requests(texts), options.clients, 2))  # warm-up
        facts |= measure_throughput(server.pid, port, texts, options)
        if options.connections:
            facts["connections"] = asyncio.run(
                measure_connections(server.pid, port, texts, options.connections, options.connection_seconds)
            )
    finally:
        server.terminate()
        server.wait()
    return facts


def table(facts: dict[str, Any]) -> str:
    """The figures as the Markdown table of docs/serve.md."""
    ratio, cpu, half = facts["http_over_engine"], facts["tokens_per_processor_second"], facts["half_load"]
    rows = [
        (
            f"tokens/s over HTTP, {facts['clients']} clients, relative to the engine: median of {len(ratio['rounds'])} "
            "rounds (range)",
            f"{ratio['median']:.2f} ({min(ratio['rounds']):.2f} to {max(ratio['rounds']):.2f})",
        ),
        ("tokens per processor second, engine alone", f"{cpu['engine_alone']:,}"),
        ("tokens per processor second, engine process of the server", f"{cpu['engine_process']:,}"),
        ("tokens per processor second, HTTP process of the server", f"{cpu['http_process']:,}"),
        ("latency at half load, median", f"{half['p50_ms']:.0f} ms"),
        ("latency at half load, 99th percentile", f"{half['p99_ms']:.0f} ms ({half['p99_over_p50']:.1f} x the median)"),
    ]
    if many := facts.get("connections"):
        statuses = ", ".join(f"{count:,} x {status}" for status, count in many["statuses"].items())
        memory = many["memory_mb"]
        rows += [
            (f"{many['count']:,} connections for {many['seconds']:.0f} s: answers", statuses),
            ("their connection errors", f"{many['connection_errors']}"),
            ("memory of all processes during that time", f"{min(memory[1:])} to {max(memory[1:])} MB"),
        ]
    return "\n".join(["| measured | value |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="JSON file [docs/results/serve.json]")
    parser.add_argument("--seconds", type=float, default=5, help="seconds per measurement [5]")
    parser.add_argument("--rounds", type=int, default=7, help="turns of engine and server [7]")
    parser.add_argument("--clients", type=int, default=32, help="concurrent clients [32]")
    parser.add_argument("--sentences", type=int, default=8, help="sentences per request [8]")
    parser.add_argument("--connections", type=int, default=1000, help="connections of the last measurement; 0: none")
    parser.add_argument("--connection-seconds", type=float, default=60, help="seconds of the last measurement [60]")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is an open file
    facts = measure(options)
    print(table(facts))
    results.write("serve", facts, model=load(), table=table(facts), output=options.output)


if __name__ == "__main__":
    main()
