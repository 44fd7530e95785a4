"""How a model would go on: a line to read while it is trained."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from elmokit.pretrain.batch import make_batch
from elmokit.pretrain.state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.text.tokenizer import get_tokenizer, tokenize

WORDS, LIKELIEST = 6, 5  # shown of the sentence, and after it


def sample(state: TrainingState, heldout: Path, number: int) -> str:
    """The beginning of one of the first held-out sentences, another each time, and the likeliest next words."""
    lines = [line for line in islice(read_lines(heldout, encoding_errors="replace"), 100) if line.strip()]
    if not lines:
        return ""
    line = lines[number // state.settings.heldout_every % len(lines)]
    words = tokenize(line, get_tokenizer(state.settings.tokenizer))[0]
    beginning = words[: min(WORDS, max(1, len(words) // 2))]
    return f"{' '.join(beginning)} ... {', '.join(likeliest(state, beginning))}"


def likeliest(state: TrainingState, words: list[str], n: int = LIKELIEST) -> list[str]:
    """The n likeliest words after these."""
    bilm = state.bilm
    batch = make_batch([words], state.vocabulary, state.characters, bilm.device)
    was_training = bilm.training
    bilm.eval()
    with torch.inference_mode():
        output = bilm(bilm.token_encoder(batch.characters, batch.word_ids), batch.left, batch.packing)
        scores = state.head.log_probabilities(output.forward[-1][-1:])[0]  # (V,) after the last word
    bilm.train(was_training)
    return [state.vocabulary.words[i] for i in scores.topk(min(n, len(scores))).indices.tolist()]
