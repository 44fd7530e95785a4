"""Perplexity of a text under the full softmax, in both directions."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from elmokit.errors import ConfigError, InputError
from elmokit.nn.softmax import Head
from elmokit.nn.state_policy import POLICIES
from elmokit.pretrain.output_vocabulary import require_marks
from elmokit.pretrain.training_batch import make_batch
from elmokit.text.batch import by_length, windows
from elmokit.text.characters import characters_of
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize
from elmokit.text.vocabulary import Vocabulary, vocabulary_of
from elmokit.weights.model import Model

PUBLISHED_ROWS = 256  # batch size of the published evaluation
BATCH_TOKENS = 4096
_MERGED_ROWS = 64  # predictions whose full distributions are in memory at a time
WINDOW_TOKENS = 32 * BATCH_TOKENS  # buffer in which sentences are batched by length

TokenList = list[str]
PerplexityState = Literal["reset", "carry"]


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean of -log p over all words and sentence ends (forward) or starts (backward).

    Out-of-vocabulary words count as one unknown word: only values over the same vocabulary are comparable.
    """

    forward: float
    backward: float
    tokens: int  # predictions per direction: the words, and one boundary per sentence
    sentences: int
    unknown: int  # out-of-vocabulary words

    @property
    def mean(self) -> float:
        """Arithmetic mean of both directions, the "average" of the paper."""
        return (self.forward + self.backward) / 2

    @property
    def geometric_mean(self) -> float:
        """exp of the mean loss of both directions, as the published program computes it."""
        return math.sqrt(self.forward * self.backward)

    @property
    def out_of_vocabulary(self) -> float:
        """Fraction of words that are out of vocabulary."""
        return self.unknown / max(1, self.tokens - self.sentences)


def perplexity(
    model: Model,
    lines: Iterable[str | Sequence[str]],
    *,
    tokenizer: str | Tokenizer = "spaces",
    state: PerplexityState = "reset",
    rows: int = PUBLISHED_ROWS,
    batch_tokens: int = BATCH_TOKENS,
    words: Iterable[str] | None = None,
    progress: Callable[[int, int], None] = lambda sentences, tokens: None,
) -> Perplexity:
    """Compute the perplexity of any number of sentences in bounded memory; empty ones are skipped.

    lines: lists of tokens, or text for `tokenizer`.
    state: "reset" starts every sentence from a zero state. "carry" is the published convention: a batch of `rows`
        sentences is read in parallel, each row starts from zero and then continues with the state of its previous
        sentence, and the first free row takes the next sentence. (The published program drops the remainder at the end
        of the text; here all sentences count.)
    words: smaller vocabulary to score over, to compare models with different vocabularies: all other words form one
        unknown word, whose probability is the sum of theirs.
    progress: called with the numbers of sentences and predictions so far.
    """
    if state not in get_args(PerplexityState) or rows < 1 or batch_tokens < 1:
        raise ConfigError(
            f"perplexity: expected state reset or carry and positive sizes, found {state!r}, {rows}, {batch_tokens}"
        )
    bilm = model.bilm
    head = model.softmax().to(bilm.device)
    vocabulary, characters = _vocabulary(model), characters_of(model.config, model.alphabet)
    policy = POLICIES[state](bilm)
    sentences = _tokens(lines, get_tokenizer(tokenizer))
    unknown = cast(int, vocabulary.unknown)  # checked by `_vocabulary`
    merged = None if words is None else _merged(vocabulary, unknown, words).to(bilm.device)
    loss_forward = loss_backward = 0.0
    n_tokens = n_sentences = n_unknown = 0
    was_training = bilm.training
    bilm.eval()
    try:
        with torch.inference_mode():
            for taken in _by_length(sentences, batch_tokens) if policy.independent else _in_turn(sentences, rows):
                taken.sort(key=lambda pair: -len(pair[1]))  # the order of `make_batch`, to match rows with sentences
                batch = make_batch([sentence for _, sentence in taken], vocabulary, characters, bilm.device)
                row = torch.tensor([row for row, _ in taken], device=bilm.device)
                words = bilm.token_encoder(batch.characters, batch.word_ids)
                output = bilm(words, batch.left, batch.packing, policy.start(row), batch.right)
                policy.end(row, output.state)
                following, preceding = batch.word_ids[batch.right], batch.word_ids[batch.left]
                loss_forward += _loss(head, output.forward[-1], following, merged)
                loss_backward += _loss(head, output.backward[-1], preceding, merged)
                n_tokens += batch.n_tokens
                n_sentences += len(taken)
                n_unknown += int(((following == unknown) if merged is None else merged[following]).sum())
                progress(n_sentences, n_tokens)
    finally:
        bilm.train(was_training)
    if not n_sentences:
        raise InputError("perplexity: expected at least one sentence, found no words")
    # torch returns infinity on overflow, where math.exp raises an error
    forward, backward = (torch.tensor([loss_forward, loss_backward], dtype=torch.double) / n_tokens).exp().tolist()
    return Perplexity(forward, backward, n_tokens, n_sentences, n_unknown)


def _merged(vocabulary: Vocabulary, unknown: int, words: Iterable[str]) -> Tensor:
    """(V,) mask of model words that count as unknown."""
    kept = set(words) | set(vocabulary.marks)
    merged = torch.tensor([word not in kept for word in vocabulary.words])
    merged[unknown] = True
    return merged


def _loss(head: Head, outputs: Tensor, targets: Tensor, merged: Tensor | None) -> float:
    """Summed -log p of the targets; for a merged target, p is summed over all merged words."""
    losses = head(outputs, targets)
    if merged is not None:
        rows = merged[targets].nonzero().squeeze(1)
        for part in torch.split(rows, _MERGED_ROWS):
            losses[part] = -torch.logsumexp(head.log_probabilities(outputs[part])[:, merged], dim=1)
    return float(losses.cpu().double().sum())


def _vocabulary(model: Model) -> Vocabulary:
    if model.vocabulary is None:
        raise ConfigError(
            f"{model.format} model: expected a vocabulary for its softmax, found none; put vocabulary.txt beside it,"
            " or fit a softmax over other words with elmo finetune"
        )
    vocabulary = vocabulary_of(model.config, model.vocabulary)
    require_marks(vocabulary)
    return vocabulary


def _tokens(lines: Iterable[str | Sequence[str]], tokenizer: Tokenizer) -> Iterator[TokenList]:
    for line in lines:
        if tokens := tokenize(line, tokenizer)[0] if isinstance(line, str) else list(line):
            yield tokens


def _by_length(sentences: Iterable[TokenList], batch_tokens: int) -> Iterator[list[tuple[int, TokenList]]]:
    """Batches of similar lengths; row numbers are unused."""
    for window in windows(sentences, lambda sentence: len(sentence) + 1, max(batch_tokens, WINDOW_TOKENS)):
        for batch in by_length([len(sentence) + 1 for sentence in window], batch_tokens=batch_tokens):
            yield [(0, window[k]) for k in batch]


def _in_turn(sentences: Iterable[TokenList], n_rows: int) -> Iterator[list[tuple[int, TokenList]]]:
    """Batches in which no row occurs twice; the row with the fewest tokens so far takes the next sentence."""
    read = [(0, row) for row in range(n_rows)]  # heap of (tokens, row)
    batch: dict[int, TokenList] = {}
    for sentence in sentences:
        steps, row = read[0]
        heapq.heapreplace(read, (steps + len(sentence) + 1, row))
        if row in batch:
            yield list(batch.items())
            batch = {}
        batch[row] = sentence
    if batch:
        yield list(batch.items())
