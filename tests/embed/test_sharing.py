"""One Elmo for many threads; and for processes, by pickle, spawn and fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import write_variant
from random_words import WORDS, largest_difference, layers, sentences

from elmokit import Elmo
from elmokit.embed import sharing
from elmokit.errors import ForkError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_variant(tmp_path_factory.mktemp("model"), "usual")[0]


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Elmo:
    return Elmo.from_pretrained(folder)


def test_eight_threads_get_the_vectors_of_one(folder: Path) -> None:
    texts = [sentences(seed) for seed in range(40)]
    alone = Elmo.from_pretrained(folder)
    expected = [layers(alone, text) for text in texts]
    shared = Elmo.from_pretrained(folder)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: layers(shared, text), texts))
    for a, b in zip(found, expected, strict=True):
        assert largest_difference(a, b) < 1e-5
    for text, b in zip(texts, expected, strict=True):  # and it stays right
        assert largest_difference(layers(shared, text), b) < 1e-5


def test_eight_threads_are_no_slower_than_one(folder: Path) -> None:
    """The best of several rounds of either, in turn: a busy machine slows both, and not each round alike."""
    texts, elmo = [sentences(seed, 100) for seed in range(24)], Elmo.from_pretrained(folder)
    one_after_another, threads = [], []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: layers(elmo, text), texts))  # starts the threads, and encodes all words
        for _ in range(8):
            started = time.monotonic()
            for text in texts:
                layers(elmo, text)
            middle = time.monotonic()
            list(pool.map(lambda text: layers(elmo, text), texts))
            one_after_another.append(middle - started)
            threads.append(time.monotonic() - middle)
            if len(threads) >= 3 and min(threads) < 1.3 * min(one_after_another):
                return
    pytest.fail(f"one after another {min(one_after_another):.3f} s, in eight threads {min(threads):.3f} s")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6), min_size=2, max_size=8), st.integers(1, 40))
def test_any_interleaving_with_a_small_cache(folder: Path, parts: list[list[int]], capacity: int) -> None:
    """A cache that is always full hands out rows again and again, which is where threads would meet."""
    shared, alone = Elmo.from_pretrained(folder), Elmo.from_pretrained(folder)
    shared._engine.cache.capacity = capacity
    texts = [[[WORDS[k] for k in part]] * 3 for part in parts]
    barrier = threading.Barrier(len(texts))
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        barrier.wait()
        found[number] = layers(shared, texts[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, text in enumerate(texts):
        assert largest_difference(found[number], layers(alone, text)) < 1e-5


@pytest.mark.parametrize("step", ["_encode", "_rows", "_keep", "_grow"])
def test_an_interruption_leaves_no_wrong_vectors(folder: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a notebook: the object is used again, and no row of the word cache may belong to two words."""
    elmo, alone = Elmo.from_pretrained(folder), Elmo.from_pretrained(folder)
    cache = elmo._engine.cache
    cache.capacity = 40
    layers(elmo, [WORDS[:30]])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(cache, step, interrupted)
        layers(elmo, [WORDS[20:55]])
    for text in ([WORDS[50:60]], [WORDS[:30]], sentences(1)):
        assert largest_difference(layers(elmo, text), layers(alone, text)) < 1e-5


def interrupted(*args: object) -> None:
    raise KeyboardInterrupt


FORK = """
import os, pickle, sys, torch
from elmokit import Elmo
torch.set_num_threads(2)
elmo = Elmo.from_pretrained(sys.argv[1])
content = pickle.dumps(elmo)
next(elmo.embed([["a"] * 50] * 50))
child = os.fork()
if not child:
    try:
        if sys.argv[2] == "one":
            torch.set_num_threads(1)
        elif sys.argv[2] == "pickled":
            elmo = pickle.loads(content)
        elif sys.argv[2] == "loaded":
            elmo = Elmo.from_pretrained(sys.argv[1])
        next(elmo.embed([["b"] * 50] * 50))
        os._exit(0)
    except Exception as error:
        print(error, flush=True)
        os._exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("case", ["two", "one", "pickled", "loaded"])
def test_a_fork_after_threads_works_or_says_what_to_do(folder: Path, case: str) -> None:
    result = subprocess.run([sys.executable, "-c", FORK, str(folder), case], capture_output=True, text=True, timeout=60)
    if case != "two":  # a model that arrives in the fork computes with one thread
        assert result.returncode == 0, result.stdout + result.stderr
    else:
        assert result.returncode == 3 and "start it with the method 'spawn'" in result.stdout


def test_a_lock_that_another_thread_held_at_the_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = sharing.EngineLock()
    with guard:
        monkeypatch.setattr(guard, "_process", -1)  # as in a fork
        done = threading.Event()

        def enter() -> None:
            with guard:
                done.set()

        threading.Thread(target=enter, daemon=True).start()
        assert done.wait(10)
        guard._lock.acquire()  # so that the outer `with` can leave
    monkeypatch.setattr(sharing, "_lost_threads", True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ForkError, match="spawn"), sharing.EngineLock():
            pass
    finally:
        torch.set_num_threads(before)
