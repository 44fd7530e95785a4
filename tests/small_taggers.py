"""Small taggers, trained on made-up text with a random biLM."""

from __future__ import annotations

from pathlib import Path

import entity_files
import models

from elmokit.tasks.runs.layer_cache import LayerCache
from elmokit.tasks.runs.task_run import Data, open_run
from elmokit.tasks.shared.task_registry import get_task

CONLLU = "# text = {0}\n" + "\n".join(
    f"{k}\t{{{k - 1}}}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t_"
    for k, (upos, xpos) in enumerate([("PRON", "PRP"), ("VERB", "VBZ"), ("NOUN", "NN"), ("PUNCT", ".")], start=1)
)  # fmt: skip
WHO, DOES, THINGS = ("She", "He", "It"), ("sees", "likes", "moves"), ("chess", "music", "gold", "time")
QUICK = {"learning_rate": 0.02, "dropout": 0.0, "word_dim": 6, "batch_size": 8, "epochs": 12, "patience": 12}


def train(folder: Path, name: str, **settings: object) -> Path:
    """The folder of a complete run of ner, pos, upos or sst; the biLM is `folder / "bilm"`."""
    if not (folder / "bilm").exists():
        models.write_variant(folder / "bilm", "usual")
    suffix = ".conllu" if "pos" in name else ".txt"
    files = [str(write(folder / f"{name}-{part}{suffix}", name)) for part in ("train", "dev", "test")]
    run = open_run(
        get_task(name),
        {**QUICK, "hidden": 8, "model": str(folder / "bilm"), **settings},
        Data((files[0],), files[1], files[2]),
        folder / name,
        cache=LayerCache(folder / "cache"),
        device="cpu",
    )
    for _ in run.go():
        pass
    return folder / name


def write(path: Path, name: str) -> Path:
    """Made-up data of a task."""
    if name == "ner":
        return entity_files.write(path, 24)
    if name == "sst":
        words = [(0, "bad"), (4, "good")]
        lines = [f"({label} (2 {who}) ({label} (2 is) ({label} {word})))" for who in WHO for label, word in words]
        path.write_text("\n".join(lines * 3) + "\n")
        return path
    rows = [(who, does, thing, ".") for who in WHO for does in DOES for thing in THINGS]
    path.write_text("\n\n".join(CONLLU.format(*row) for row in rows[::2]) + "\n\n")
    return path
