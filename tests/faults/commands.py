"""The commands that write much or for long, each on a small example, to be killed or to run out of disk."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import entity_files
import language_model
import models
import synthetic
import torch
from typer.testing import CliRunner, Result

from elmokit import weights
from elmokit.cli import app


@dataclass(frozen=True)
class Command:
    """A command that writes `output`."""

    name: str
    arguments: Callable[[Path], list[str]]  # for an output
    again: tuple[str, ...]  # more arguments after an interruption
    suffix: str = ""  # of the output's name
    # files of the output that are the same whenever they are made; "" is the output itself
    compared: tuple[str, ...] = ("",)

    def output(self, place: Path) -> Path:
        """The output in a folder."""
        return place / f"out{self.suffix}"

    def run(self, place: Path, *more: str) -> Result:
        """Run the command in this process."""
        return CliRunner().invoke(app, [*self.arguments(self.output(place)), *more])

    def complete(self, place: Path, *more: str) -> None:
        """Run the command; anything but success is an AssertionError."""
        result = self.run(place, *more)
        assert result.exit_code == 0, f"{self.name}: {result.exit_code} {result.output} {result.exception!r}"

    def resume(self, place: Path) -> None:
        """Run the command again after an interruption. One without --resume may say that all had been done."""
        result = self.run(place, *self.again)
        was_done = result.exit_code == 2 and "exists already" in result.output and not self.again
        assert result.exit_code == 0 or was_done, f"{self.name}: {result.output} {result.exception!r}"

    def content(self, place: Path) -> dict[str, bytes]:
        """What must not differ."""
        output = self.output(place)
        if self.compared == ("",):
            return {"": output.read_bytes()}
        found = {str(path.relative_to(output)): path for name in self.compared for path in output.rglob(name)}
        assert found, f"{self.name}: no {self.compared} in {output}"
        return {name: path.read_bytes() for name, path in sorted(found.items())}


def listing(place: Path) -> list[str]:
    """All that there is in a folder; random names of cache files are all the same."""
    names = (str(path.relative_to(place)) for path in place.rglob("*") if "tfevents" not in path.name)
    return sorted(re.sub(r"\b[0-9a-f]{32}\b", "#", name) for name in names)


NAMES = ("embed", "convert", "index", "pretrain", "finetune", "task", "ablate")


def make_commands(folder: Path) -> dict[str, Command]:
    """The commands by name; inputs are written into a new folder."""
    torch.set_num_threads(1)  # forks of a process with threads could not compute
    native, bare = folder / "native", folder / "bare"
    weights.save(weights.load(language_model.write(folder / "published").folder), native)
    models.write_variant(bare, "usual")  # without a softmax: fine-tuning has to fit one first
    options = folder / "options.json"
    options.write_text(json.dumps(synthetic.CONFIG.to_options()))
    text, dev = synthetic.write(folder / "text.txt", 40), synthetic.write(folder / "dev.txt", 8, seed=1)
    train = entity_files.write(folder / "ner.txt", 12)

    def flags(**values: object) -> list[str]:
        pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in values.items()]
        return list(itertools.chain.from_iterable(pairs))

    training = flags(train=text, heldout=dev, batch_tokens=60, log_every=1, checkpoint_every=2, heldout_every=2,
                     threads=1)  # fmt: skip
    task = flags(train=train, dev=train, model=native, word_dim=4, hidden=8, character_filters=4, threads=1)

    def with_cache(arguments: list[str], output: Path) -> list[str]:
        return [*arguments, "-q", *flags(output=output, cache_dir=output.parent / "cache")]

    made = [
        Command("embed", lambda o: ["embed", str(text), "-q", *flags(output=o, model=native, chunk_characters=300)],
                ("--resume",), ".npz"),
        Command("convert", lambda o: ["convert", str(native), str(o)], (),
                compared=("weights.safetensors", "softmax.safetensors", "options.json", "vocabulary.txt")),
        Command("index", lambda o: ["index", "build", "-q", *flags(corpus=text, output=o, model=native)], (),
                compared=("index.json", "*.npy", "words.txt", "*.faiss")),
        Command("pretrain", lambda o: ["pretrain", "-q", *training, *flags(steps=4, options=options, output=o)],
                ("--resume",), compared=("weights.safetensors", "softmax.safetensors", "vocabulary.txt")),
        Command("finetune", lambda o: ["finetune", str(bare), "-q", *training, *flags(steps=3, output=o)],
                ("--resume",), compared=("weights.safetensors", "softmax.safetensors", "vocabulary.txt")),
        Command("task", lambda o: with_cache(["task", "ner", "train", *task, *flags(epochs=2)], o),
                ("--resume",), compared=("weights.safetensors", "labels.json", "words.json")),
        Command("ablate", lambda o: with_cache(["ablate", "ner", *task, *flags(epochs=1)], o),
                (), compared=("weights.safetensors", "labels.json", "words.json")),
    ]  # fmt: skip
    assert tuple(command.name for command in made) == NAMES
    return {command.name: command for command in made}
