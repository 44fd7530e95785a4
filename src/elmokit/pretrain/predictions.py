"""Next-word predictions on held-out text, shown during training."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from elmokit.pretrain.training_batch import make_batch
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.text.tokenizer import get_tokenizer, tokenize

WORDS, PREDICTIONS = 6, 5  # context words and predictions shown


def sample(state: TrainingState, heldout: Path, number: int) -> str:
    """The start of one of the first held-out sentences, in rotation, and the most likely next words."""
    lines = [line for line in islice(read_lines(heldout, encoding_errors="replace"), 100) if line.strip()]
    if not lines:
        return ""
    line = lines[number // state.settings.heldout_every % len(lines)]
    words = tokenize(line, get_tokenizer(state.settings.tokenizer))[0]
    beginning = words[: min(WORDS, max(1, len(words) // 2))]
    return f"{' '.join(beginning)} ... {', '.join(most_likely(state, beginning))}"


def most_likely(state: TrainingState, words: list[str], n: int = PREDICTIONS) -> list[str]:
    """The n most likely next words."""
    bilm = state.bilm
    batch = make_batch([words], state.vocabulary, state.characters, bilm.device)
    was_training = bilm.training
    bilm.eval()
    with torch.inference_mode():
        output = bilm(bilm.token_encoder(batch.characters, batch.word_ids), batch.left, batch.packing)
        scores = state.head.log_probabilities(output.forward[-1][-1:])[0]  # (V,) after the last word
    bilm.train(was_training)
    return [state.vocabulary.words[i] for i in scores.topk(min(n, len(scores))).indices.tolist()]
