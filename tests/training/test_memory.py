"""Memory that training frees stays with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import elmokit

PACKAGE = Path(elmokit.__file__).parent.resolve()


PYTHONPATH = os.pathsep.join(map(str, (PACKAGE.parent, Path(__file__).parents[1])))


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}


# Takes and frees 200 MB again and again, and prints how many pages the system had to hand out the last time.
CHURN = """
import resource, sys
import torch
from elmokit.training.memory import keep_freed_memory

if not keep_freed_memory():
    sys.exit(3)
for _ in range(5):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [torch.ones(2**20) for _ in range(50)]
    del pieces
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(after - before)
"""


def test_freed_memory_is_kept_for_the_next_step() -> None:
    result = subprocess.run([sys.executable, "-c", CHURN], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if result.returncode == 3:
        pytest.skip("the C library is not glibc")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 5_000  # of 51,200 pages
