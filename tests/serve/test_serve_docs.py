"""The examples of the page on serving, against a server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shown_commands import check

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx")
from served import serving

from elmokit import Elmo

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
PLACE = "http://127.0.0.1:8000"


def test_commands_exist_with_the_options_shown() -> None:
    assert check(PAGE) >= 4


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"```sh\n(curl.*?)```", PAGE, flags=re.DOTALL)
    programs = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(commands) == 3 and len(programs) == 2
    dim = Elmo.from_pretrained().config.vector_dim
    with serving() as server:
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        outputs = []
        environment = {**os.environ, "no_proxy": "*"}
        for command in commands:
            shown = command.replace(PLACE, server.address)
            result = subprocess.run(["sh", "-c", shown], capture_output=True, text=True, env=environment, check=True)
            outputs.append(result.stdout)
        assert outputs[0].startswith("[[") and '"word":"the"' in outputs[2]
        assert np.load(tmp_path / "vectors.npz")["vectors"].shape == (3, 7, dim)
        pytest.importorskip("openai", reason="needs the client: pip install openai")
        for program in programs:
            exec(compile(program.replace(PLACE, server.address), "serve.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        f"{dim} 8",
        f"(3, 7, {dim}) ['I', 'will', 'buy', 'you', 'a', 'present', '.']",
    ]


def test_every_route_is_on_the_page() -> None:
    from elmokit.serve import routes_explore, routes_status, routes_vectors

    for router in (routes_vectors.router, routes_explore.router, routes_status.router):
        for route in router.routes:
            assert f"{route.path}`" in PAGE or f"{route.path} " in PAGE, route.path  # type: ignore[attr-defined]


def test_container_files_name_what_exists() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, flags=re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name
    assert "USER elmo" in dockerfile
    assert (ROOT / "docker" / "nginx.conf").is_file() and "nginx.conf" in (ROOT / "docker" / "compose.yml").read_text()


def instruction(name: str) -> list[str]:
    """The command of an instruction of the Dockerfile, in its JSON form."""
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(rf"^{name} .*?(\[.*\])$", dockerfile, flags=re.MULTILINE)
    command: list[str] = json.loads(line)
    return command


def test_the_health_check_asks_the_port_of_the_environment() -> None:
    python, *arguments = instruction("HEALTHCHECK")
    assert python == "python" and "ELMO_PORT=8000" in (ROOT / "docker" / "Dockerfile").read_text()
    with serving() as server:
        environment = {**os.environ, "ELMO_PORT": str(server.port), "no_proxy": "*"}
        assert subprocess.run([sys.executable, *arguments], env=environment, check=False).returncode == 0
    result = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    assert result.returncode != 0  # nobody is there any more


def test_the_entry_point_serves_on_that_port(tmp_path: Path) -> None:
    (tmp_path / "elmo").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "elmo").chmod(0o755)
    environment = {**os.environ, "ELMO_PORT": "9000", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [*instruction("ENTRYPOINT"), "--workers", "2", "--task", "my run"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "serve --host 0.0.0.0 --port 9000 --workers 2 --task my run\n"
