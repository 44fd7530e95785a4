"""How OpenMP threads wait is decided before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import elmokit

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def chosen(monkeypatch: pytest.MonkeyPatch, *, busy: bool, torch: bool = False, **own: str) -> dict[str, str]:
    for name in NAMES:
        monkeypatch.setenv(name, "x")  # so that the end of the test restores it
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    modules = {"torch": sys} if torch else {}
    monkeypatch.setattr(elmokit.sys, "modules", modules)
    monkeypatch.setattr(elmokit, "_is_busy", lambda: busy)
    elmokit._choose_wait_policy()
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def test_threads_spin_briefly_and_sleep_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, busy=False) == {"GOMP_SPINCOUNT": "10000"}
    assert chosen(monkeypatch, busy=True) == {"OMP_WAIT_POLICY": "PASSIVE"}


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_of_the_user_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, busy=True, **{name: "1"}) == {name: "1"}


def test_nothing_is_set_after_torch_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, busy=True, torch=True) == {}


def test_importing_elmokit_decides_and_leaves_torch_alone() -> None:
    program = f"import elmokit, os, sys; print('torch' in sys.modules, any(n in os.environ for n in {NAMES}))"
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(("running", "cores", "busy"), [(1, 2, False), (2, 2, True), (2, 4, False), (3, 4, True)])
def test_busy_means_work_for_half_of_the_cores(
    running: int, cores: int, busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from io import StringIO

    monkeypatch.setattr(elmokit.os, "cpu_count", lambda: cores)
    monkeypatch.setattr("builtins.open", lambda *_, **__: StringIO(f"0.1 0.2 0.3 {running}/500 12345\n"))
    assert elmokit._is_busy() is busy
