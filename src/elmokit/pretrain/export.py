"""Model export: write the best weights and a model card into the run folder, which is then a model folder too."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from elmokit import __version__
from elmokit.disk.json_file import read_bytes
from elmokit.disk.scratch import scratch
from elmokit.disk.whole import put_in_place
from elmokit.errors import FormatError, OutputError
from elmokit.pretrain.training_state import TrainingState
from elmokit.weights import native

_TITLE = "# A biLM trained with elmokit"


def export(state: TrainingState, folder: Path) -> None:
    """Write the model into the run folder; each file is replaced atomically."""
    model = state.model()
    if (tokenizer := state.settings.tokenizer) != "spaces":  # else the text came tokenized, nobody knows by what
        model.config = replace(model.config, tokenizer=tokenizer)
    model.card = card(state)
    try:
        with scratch(folder / "model") as temporary:
            native.save(model, temporary / "model")
            for path in sorted((temporary / "model").iterdir()):
                put_in_place(path, folder / path.name)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}; the last checkpoint is kept") from None


def is_card(path: Path) -> bool:
    """Whether a README.md is a model card that `export` wrote, perhaps with additions."""
    try:
        return _TITLE.encode() in read_bytes(path)
    except FormatError:
        return False


def card(state: TrainingState) -> str:
    """Model card as Markdown."""
    settings, notes, lstm = state.settings, state.notes, state.config.lstm
    facts: dict[str, Any] = {
        "shape": f"{lstm.n_layers} LSTM layers per direction, {lstm.dim} cells, projected to {lstm.projection_dim}",
        "vocabulary": f"{len(state.vocabulary):,} words",
        "softmax": settings.loss,
        "training text": ", ".join(Path(pattern).name for pattern in settings.train),
        "tokens seen": f"{state.tokens:,} in {state.step:,} steps, {state.epochs:.2f} passes",
        "time": f"{state.seconds / 3600:.2f} hours on {notes.get('processes', 1)} process(es)",
    }
    if "changes" in notes:
        facts["changed during the run"] = "; ".join(notes["changes"])
    if "parent" in notes:
        facts["initialized from"] = notes["parent"]
    if "before" in notes:
        facts["held-out perplexity before"] = f"{notes['before']:.2f}"
    if state.best is not None:
        best = state.best
        facts["held-out text"] = Path(settings.heldout or "").name
        facts["held-out perplexity"] = (
            f"{best['forward']:.2f} forward, {best['backward']:.2f} backward, {best['mean']:.2f} their mean, "
            f"{best['geometric_mean']:.2f} their geometric mean"
        )
        facts["out-of-vocabulary rate"] = f"{best['out_of_vocabulary']:.2%}"
    places = ("train", "heldout", "vocabulary", "options")  # paths on the training machine are left out of the card
    values = {name: value for name, value in asdict(settings).items() if name not in places and value is not None}
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"{_TITLE} {__version__}\n\n"
        "Load it with `Elmo.from_pretrained(folder)`. Every sentence starts from a zero state.\n\n"
        f"| | |\n|---|---|\n{rows}\n\n"
        "Perplexities use the full softmax over the vocabulary, with all other words as one unknown word, and include "
        "the end (forward) or start (backward) of each sentence.\n\n"
        f"Command:\n\n```\n{notes.get('command', 'not recorded')}\n```\n\n"
        f"Settings:\n\n```json\n{json.dumps(values, indent=2)}\n```\n"
    )
