"""How well a model predicts a text: full softmax, both directions."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

from elmokit.errors import ConfigError, InputError
from elmokit.nn.bilm import BiLMState
from elmokit.nn.lstm import LstmState
from elmokit.pretrain.batch import make_batch
from elmokit.pretrain.vocabulary import require_marks
from elmokit.text.batch import by_length, windows
from elmokit.text.characters import characters_of
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.weights.model import Model

PUBLISHED_ROWS = 256  # sentences that the published test read side by side
BATCH_TOKENS = 4096
WINDOW_TOKENS = 32 * BATCH_TOKENS  # sentences to choose batches of like lengths from

Sentence = list[str]


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean of -log p, over every word and every sentence end (forward) or begin (backward).

    Words that the vocabulary lacks count as one unknown word: only figures over the same vocabulary compare.
    """

    forward: float
    backward: float
    tokens: int  # predictions a direction: the words, and one mark a sentence
    sentences: int
    unknown: int  # words that the vocabulary lacks

    @property
    def mean(self) -> float:
        """The arithmetic mean of the directions: what the paper's words, "the average", say."""
        return (self.forward + self.backward) / 2

    @property
    def geometric_mean(self) -> float:
        """exp of the mean loss of both directions: what the published program computes."""
        return math.sqrt(self.forward * self.backward)

    @property
    def out_of_vocabulary(self) -> float:
        """The share of words that the vocabulary lacks."""
        return self.unknown / max(1, self.tokens - self.sentences)


def perplexity(
    model: Model, lines: Iterable[str | Sequence[str]], *, tokenizer: str | Tokenizer = "spaces",
    state: Literal["reset", "carry"] = "reset", rows: int = PUBLISHED_ROWS, batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int, int], None] = lambda sentences, tokens: None,
) -> Perplexity:  # fmt: skip
    """Read any number of sentences, in bounded memory; those without a word are passed over.

    lines: lists of tokens, or text for `tokenizer`.
    state: "reset" starts every sentence from zero. "carry" is the published convention: so many `rows` are read side by
        side, each from zero at first and then going on from the sentence that it read before; the row that is free
        first takes the next sentence. (The published program drops what is left when the text ends; here all counts.)
    progress: called with the numbers of sentences and predictions done.
    """
    if state not in ("reset", "carry") or rows < 1 or batch_tokens < 1:
        raise ConfigError(
            f"perplexity: expected state reset or carry and positive sizes, found {state!r}, {rows}, {batch_tokens}"
        )
    bilm = model.bilm
    head = model.softmax().to(bilm.device)
    vocabulary, characters = _vocabulary(model), characters_of(model.config, model.alphabet)
    carried = bilm.zero_state(rows) if state == "carry" else None
    sentences = _tokens(lines, get_tokenizer(tokenizer))
    unknown = cast(int, vocabulary.unknown)  # `_vocabulary` has seen to that
    loss_forward = loss_backward = 0.0
    n_tokens = n_sentences = n_unknown = 0
    was_training = bilm.training
    bilm.eval()
    try:
        with torch.inference_mode():
            for taken in _in_turn(sentences, rows) if carried else _by_length(sentences, batch_tokens):
                taken.sort(key=lambda pair: -len(pair[1]))  # as `make_batch` does: so we know which row is whose
                batch = make_batch([sentence for _, sentence in taken], vocabulary, characters, bilm.device)
                row = torch.tensor([row for row, _ in taken], device=bilm.device)
                words = bilm.token_encoder(batch.characters, batch.word_ids)
                start = None if carried is None else _take(carried, row)
                output = bilm(words, batch.left, batch.packing, start, batch.right)
                if carried is not None:
                    _put(carried, row, output.state)
                following, preceding = batch.word_ids[batch.right], batch.word_ids[batch.left]
                loss_forward += head(output.forward[-1], following).cpu().double().sum().item()
                loss_backward += head(output.backward[-1], preceding).cpu().double().sum().item()
                n_tokens += batch.n_tokens
                n_sentences += len(taken)
                n_unknown += int((following == unknown).sum())
                progress(n_sentences, n_tokens)
    finally:
        bilm.train(was_training)
    if not n_sentences:
        raise InputError("perplexity: expected one sentence or more, found no word")
    # of tensors, since a model that diverged may be infinitely surprised
    forward, backward = (torch.tensor([loss_forward, loss_backward], dtype=torch.double) / n_tokens).exp().tolist()
    return Perplexity(forward, backward, n_tokens, n_sentences, n_unknown)


def _vocabulary(model: Model) -> Vocabulary:
    if model.vocabulary is None:
        raise ConfigError(
            f"{model.format} model: expected its softmax to have words, found none; put vocabulary.txt beside it,"
            " or fit a softmax over other words with elmo finetune"
        )
    vocabulary = vocabulary_of(model.config, model.vocabulary)
    require_marks(vocabulary)
    return vocabulary


def _tokens(lines: Iterable[str | Sequence[str]], tokenizer: Tokenizer) -> Iterator[Sentence]:
    for line in lines:
        if tokens := tokenize(line, tokenizer)[0] if isinstance(line, str) else list(line):
            yield tokens


def _by_length(sentences: Iterable[Sentence], batch_tokens: int) -> Iterator[list[tuple[int, Sentence]]]:
    """Batches of like lengths; which row a sentence has does not matter."""
    for window in windows(sentences, lambda sentence: len(sentence) + 1, max(batch_tokens, WINDOW_TOKENS)):
        for batch in by_length([len(sentence) + 1 for sentence in window], batch_tokens=batch_tokens):
            yield [(0, window[k]) for k in batch]


def _in_turn(sentences: Iterable[Sentence], n_rows: int) -> Iterator[list[tuple[int, Sentence]]]:
    """Batches in which no row occurs twice. The row that has read the least takes the next sentence."""
    read = [(0, row) for row in range(n_rows)]  # a heap
    batch: dict[int, Sentence] = {}
    for sentence in sentences:
        steps, row = read[0]
        heapq.heapreplace(read, (steps + len(sentence) + 1, row))
        if row in batch:
            yield list(batch.items())
            batch = {}
        batch[row] = sentence
    if batch:
        yield list(batch.items())


def _take(state: BiLMState, rows: Tensor) -> BiLMState:
    forward, backward = ([LstmState(s.output[rows], s.cell[rows]) for s in direction] for direction in state)
    return forward, backward


def _put(state: BiLMState, rows: Tensor, new: BiLMState) -> None:
    for kept, after in zip((*state[0], *state[1]), (*new[0], *new[1]), strict=True):
        kept.output[rows], kept.cell[rows] = after.output, after.cell
