"""The folder of a run is a model folder too: its best weights, with a card that says how they came about."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmokit import __version__
from elmokit.errors import OutputError
from elmokit.pretrain.state import TrainingState
from elmokit.weights import native

_BESIDE = ".model"


def export(state: TrainingState, folder: Path) -> None:
    """Put the model into the folder, among the other files of the run; each file is replaced when it is complete."""
    model = state.model()
    model.card = card(state)
    beside = folder / _BESIDE
    try:
        if beside.exists():
            shutil.rmtree(beside)
        native.save(model, beside)
        for path in sorted(beside.iterdir()):
            path.replace(folder / path.name)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{folder}: cannot be written: {error.strerror}; the last checkpoint is kept") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def card(state: TrainingState) -> str:
    """The model card, Markdown."""
    settings, notes, lstm = state.settings, state.notes, state.config.lstm
    facts: dict[str, Any] = {
        "shape": f"{lstm.n_layers} LSTM layers a direction, {lstm.dim} cells, projected to {lstm.projection_dim}",
        "vocabulary": f"{len(state.vocabulary):,} words",
        "softmax": settings.loss,
        "training text": ", ".join(Path(pattern).name for pattern in settings.train),
        "tokens seen": f"{state.tokens:,} in {state.step:,} steps, {state.epochs:.2f} passes",
        "time": f"{state.seconds / 3600:.2f} hours on {notes.get('processes', 1)} process(es)",
    }
    if "changes" in notes:
        facts["changed on the way"] = "; ".join(notes["changes"])
    if "parent" in notes:
        facts["began as"] = notes["parent"]
    if "before" in notes:
        facts["held-out perplexity before"] = f"{notes['before']:.2f}"
    if state.best is not None:
        best = state.best
        facts["held-out text"] = Path(settings.heldout or "").name
        facts["held-out perplexity"] = (
            f"{best['forward']:.2f} forward, {best['backward']:.2f} backward, {best['mean']:.2f} their mean, "
            f"{best['geometric_mean']:.2f} their geometric mean"
        )
        facts["of it unknown"] = f"{best['out_of_vocabulary']:.2%} of the words"
    places = ("train", "heldout", "vocabulary", "options")  # paths on the machine that trained: nobody else's business
    values = {name: value for name, value in asdict(settings).items() if name not in places and value is not None}
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"# A biLM trained with elmokit {__version__}\n\n"
        "Load it with `Elmo.from_pretrained(folder)`. Every sentence starts from state zero.\n\n"
        f"| | |\n|---|---|\n{rows}\n\n"
        "Perplexities are those of the full softmax over the vocabulary, all other words being one unknown word, with "
        "the end (forward) or begin (backward) of each sentence counted.\n\n"
        f"Command:\n\n```\n{notes.get('command', 'not recorded')}\n```\n\n"
        f"Settings:\n\n```json\n{json.dumps(values, indent=2)}\n```\n"
    )
