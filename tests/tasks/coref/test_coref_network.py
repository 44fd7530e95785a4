"""Span and antecedent scores against slow twins that follow the formulas span by span and pair by pair."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from elmokit.errors import ConfigError
from elmokit.tasks.coref import antecedents as antecedents_module
from elmokit.tasks.coref import spans as spans_module
from elmokit.tasks.coref.antecedents import Antecedents, AntecedentScorer, antecedent_loss
from elmokit.tasks.coref.coref_network import CorefNetwork, Mention, link
from elmokit.tasks.coref.coref_settings import CorefSettings
from elmokit.tasks.coref.document import Document
from elmokit.tasks.coref.spans import SpanScorer, keep_best_spans, mention_loss
from elmokit.tasks.shared.inputs import ElmoSource, TextBatch, TextInputs, WordTable
from elmokit.tasks.shared.task_base import TaskBatch, predict_batch

SMALL = CorefSettings(
    elmo=False, lstm_dim=6, hidden_dim=8, feature_dim=3, max_width=4, span_ratio=0.5, max_antecedents=5,
    train_tokens=12, character_filters=0,
)  # fmt: skip
WORDS = ["the", "owl", "saw", "a", "mouse", "and", "it", "ran", "."]


def batch(document: Document, n_layers: int = 0) -> TaskBatch[Document]:
    """A document as the network gets it, with numbers for layers of a biLM where they are wanted."""
    n_tokens = max(map(len, document.sentences))
    words = torch.zeros(len(document.sentences), n_tokens, dtype=torch.long)
    for row, sentence in enumerate(document.sentences):
        words[row, : len(sentence)] = torch.tensor([2 + WORDS.index(word) for word in sentence])
    layers = torch.sin(
        torch.arange(n_layers).reshape(-1, 1, 1, 1) + words.reshape(1, *words.shape, 1) * torch.arange(1, 5)
    )
    mask = words > 0
    return TaskBatch([document], [TextBatch(mask, words, layers=layers * mask.unsqueeze(-1) if n_layers else None)])


def network(config: CorefSettings = SMALL, seed: int = 0, n_layers: int = 0) -> CorefNetwork:
    torch.manual_seed(seed)
    table = WordTable(learned=torch.randn(2 + len(WORDS), 5))
    elmo = ElmoSource(n_layers, 4) if n_layers else None
    return CorefNetwork(TextInputs(settings=config, words=table, elmo=elmo), config, ["news", "vlog"])


def story(n_sentences: int = 8) -> Document:
    """Sentences of different lengths, with clusters that span them."""
    sentences = [WORDS[k % 4 :] for k in range(n_sentences)]
    starts = [sum(map(len, sentences[:k])) for k in range(n_sentences)]
    animals = [(start + len(s) - 6, start + len(s) - 5) for start, s in zip(starts, sentences, strict=True)]
    pronouns = [(start + len(s) - 3,) * 2 for start, s in zip(starts, sentences, strict=True)]
    return Document(
        sentences, ["x", "y", "-", "x"] * (n_sentences // 4), [animals, pronouns[::2], pronouns[1::2]], "GUM_vlog_z"
    )


def test_mention_scores_and_vectors_equal_the_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    scorer = SpanScorer(n_context=6, n_words=5, n_hidden=7, n_feature=3, max_width=4, dropout=0.3).double().eval()
    context, words = torch.randn(9, 6).double(), torch.randn(9, 5).double()
    sentence = torch.tensor([0, 0, 0, 0, 0, 1, 2, 2, 2])

    def vector(start: int, end: int) -> Tensor:
        weights = [math.exp(scorer.attention(context[t]).item()) for t in range(start, end + 1)]
        head = sum(w / sum(weights) * words[t] for w, t in zip(weights, range(start, end + 1), strict=True))
        return torch.cat((context[start], context[end], head, scorer.widths.weight[end - start]))

    for block in (1, 2, 100):
        monkeypatch.setattr(spans_module, "FIRST_TOKENS_PER_BLOCK", block)
        scores = scorer(context, words, sentence)
        for start in range(9):
            for width in range(4):
                end = start + width
                if end >= 9 or sentence[start] != sentence[end]:
                    assert scores[start, width] == -torch.inf
                    continue
                g = vector(start, end)
                torch.testing.assert_close(scores[start, width], scorer.rest(scorer.first(g)).squeeze())
                torch.testing.assert_close(
                    scorer.represent(context, words, torch.tensor([start]), torch.tensor([end]))[0], g
                )


@given(st.data())
@settings(deadline=None)
def test_kept_spans_are_the_best_that_do_not_cross(data: st.DataObject) -> None:
    n_tokens, width = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    order = data.draw(st.permutations(range(n_tokens * width)))
    scores = torch.tensor(order, dtype=torch.float).reshape(n_tokens, width)
    for start in range(n_tokens):
        scores[start, n_tokens - start :] = -torch.inf
    limit = data.draw(st.integers(1, 12))

    ranked = sorted(
        ((s, s + w) for s in range(n_tokens) for w in range(min(width, n_tokens - s))),
        key=lambda span: -scores[span[0], span[1] - span[0]],
    )
    kept: list[tuple[int, int]] = []
    for a, b in ranked:
        crosses = any(a < c <= b < d or c < a <= d < b for c, d in kept)
        if not crosses and len(kept) < limit:
            kept.append((a, b))

    starts, ends = keep_best_spans(scores, limit)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(kept)


def test_antecedent_scores_equal_the_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    n, k = 75, 6
    scorer = AntecedentScorer(span_dim=6, n_hidden=7, n_feature=3, n_genres=2, max_antecedents=k, dropout=0.3)
    scorer = scorer.double().eval()
    g, mention, speakers = torch.randn(n, 6).double(), torch.randn(n).double(), torch.randint(0, 3, (n,))

    def bucket(distance: int) -> int:
        return distance - 1 if distance < 5 else min(8, int(math.log2(distance)) + 2)

    def score(i: int, j: int) -> tuple[Tensor, Tensor]:
        """The cheap score, and the whole."""
        cheap = mention[j] + scorer.query(g[i]) @ scorer.key(g[j])
        same = speakers[i] == speakers[j]
        case = 0 if speakers[i] == 0 or speakers[j] == 0 else 1 if same else 2
        product = scorer.project(g[i]) * scorer.project(g[j])
        of_pair = (scorer.distances.weight[bucket(i - j)], scorer.speakers.weight[case], scorer.genres.weight[2])
        pair = torch.cat((g[i], g[j], product, *of_pair))
        features = scorer.of_features.weight.chunk(3)
        weight = torch.cat((scorer.of_span.weight, scorer.of_antecedent.weight, scorer.of_product.weight, *features), 1)
        return cheap, cheap + mention[i] + scorer.rest(weight @ pair + scorer.of_span.bias).squeeze()

    expected = {i: {j: score(i, j) for j in range(i)} for i in (0, 1, 4, 40, 74)}
    for block in (7, 1000):
        monkeypatch.setattr(antecedents_module, "SPANS_PER_BLOCK", block)
        found = scorer(g, mention, speakers, torch.tensor(2))
        assert found.scores.shape == (n, 1 + k) and (found.scores[:, 0] == 0).all()
        for i, scores in expected.items():
            best = sorted(scores, key=lambda j: -scores[j][0].item())[:k]
            real = found.scores[i, 1:].isfinite()
            assert set(found.index[i][real].tolist()) == set(best)
            for j, value in zip(found.index[i][real].tolist(), found.scores[i, 1:][real], strict=True):
                torch.testing.assert_close(value, scores[j][1])


def test_unknown_genres_add_nothing() -> None:
    scorer = AntecedentScorer(span_dim=6, n_hidden=7, n_feature=3, n_genres=2, max_antecedents=4, dropout=0.0)
    assert scorer._features(torch.tensor(0))[2].abs().max() == 0 < scorer._features(torch.tensor(1))[2].abs().max()


def test_loss_is_the_probability_of_right_antecedents() -> None:
    inf = torch.inf
    index = torch.tensor([[1, 2], [0, 2], [0, 1], [1, 2]])
    scores = torch.tensor(
        [[0, -inf, -inf], [0, 1.5, -inf], [0, 0.5, -1], [0, 2, 1]], dtype=torch.double, requires_grad=True
    )
    loss = antecedent_loss(Antecedents(index, scores), torch.tensor([3, 3, -1, 3]))
    e = math.exp
    right = [1, e(1.5) / (1 + e(1.5)), 1 / (1 + e(0.5) + e(-1)), e(2) / (1 + e(2) + e(1))]  # span 2 is no mention
    assert loss.item() == pytest.approx(-sum(map(math.log, right)) / 4)
    loss.backward()
    assert scores.grad is not None and scores.grad.isfinite().all()


def test_spans_of_no_cluster_are_not_each_others_antecedents() -> None:
    scores = torch.tensor([[0, -torch.inf], [0, 9.0]])
    assert antecedent_loss(Antecedents(torch.tensor([[1], [0]]), scores), torch.tensor([-1, -1])) > 4


def test_mention_loss_by_hand() -> None:
    scores = torch.tensor([[0.5, -1.0], [2.0, -torch.inf]], requires_grad=True)
    loss = mention_loss(scores, torch.tensor([[True, False], [False, True]]))
    e = math.exp
    assert loss.item() == pytest.approx(math.log(1 + e(-0.5)) + math.log(1 + e(-1)) + math.log(1 + e(2)), abs=1e-6)
    loss.backward()
    assert scores.grad is not None and scores.grad.isfinite().all()


def test_the_loss_joins_both() -> None:
    document = story()
    joint, alone = (network(replace(SMALL, mention_weight=w)).eval().loss(batch(document)).item() for w in (0.25, 0.0))
    net = network().eval()
    text = batch(document).texts[0]
    x = net.inputs(text)
    scores = net.spans(net.encoder(x, text.mask)[text.mask], x[text.mask], torch.repeat_interleave(text.lengths))
    gold = torch.zeros_like(scores, dtype=torch.bool)
    for start, end in {span for cluster in document.clusters for span in cluster}:
        gold[start, end - start] = True
    n_kept = len(keep_best_spans(scores, 30)[0])  # half of 60 tokens
    assert joint - alone == pytest.approx(0.25 * mention_loss(scores, gold).item() / n_kept, rel=1e-4)


def test_links_make_clusters() -> None:
    spans = [(0, 1), (3, 3), (5, 5), (6, 9), (8, 8), (11, 11)]
    found = link(spans, [None, None, 1, None, 0, 2], [0.9, 0.9, 0.8, 0.9, 0.7, 0.6])
    assert found == [
        [Mention((0, 1), None, None), Mention((8, 8), (0, 1), 0.7)],
        [Mention((3, 3), None, None), Mention((5, 5), (3, 3), 0.8), Mention((11, 11), (5, 5), 0.6)],
    ]


def test_a_document_of_one_word() -> None:
    document = Document([["owl"]])
    net = network()
    net.loss(batch(document)).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())
    assert predict_batch(net, batch(document))[0].clusters == []


@pytest.mark.parametrize("n_layers", [0, 3])
def test_training_sees_a_part_of_a_document_as_if_it_were_the_whole(n_layers: int) -> None:
    config = replace(SMALL, elmo=n_layers > 0, elmo_at="both", dropout=0.0, lexical_dropout=0.0, elmo_dropout=0.0)
    net, document = network(config, n_layers=n_layers).train(), story()
    lengths = [len(sentence) for sentence in document.sentences]  # 9, 8, 7, 6, 9, 8, 7, 6
    drawn = set()
    for seed in range(40):
        torch.manual_seed(seed)
        loss = net.loss(batch(document, n_layers)).item()
        torch.manual_seed(seed)
        start = int(torch.randint(8, ()))  # only of the last sentence the rest fits
        stop = start + 1
        while stop < 8 and sum(lengths[start : stop + 1]) <= 12:
            stop += 1
        drawn.add((start, stop))
        before, n_tokens = sum(lengths[:start]), sum(lengths[start:stop])
        inside = [
            [(a - before, b - before) for a, b in c if before <= a < before + n_tokens] for c in document.clusters
        ]
        part = Document(document.sentences[start:stop], document.speakers[start:stop], inside, document.name)
        assert loss == pytest.approx(net.eval().loss(batch(part, n_layers)).item(), abs=1e-6)
        net.train()
    assert len(drawn) > 4


def test_whole_short_documents_are_trained_on() -> None:
    net, document = network(replace(SMALL, train_tokens=60, dropout=0.0, lexical_dropout=0.0)), story()
    assert net.train().loss(batch(document)).item() == pytest.approx(net.eval().loss(batch(document)).item())


def test_predictions_do_not_depend_on_training_state_and_speakers_matter() -> None:
    net, document = network(seed=3), story()
    first, second = predict_batch(net.train(), batch(document)), predict_batch(net, batch(document))
    assert first == second and net.training
    spoken = net.eval().loss(batch(document)).item()
    assert net.loss(batch(replace(document, speakers=[]))).item() != spoken
    assert net.loss(batch(replace(document, name=""))).item() != spoken


class Largest(TorchDispatchMode):
    """Remembers how large the largest tensor is that was made."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, Tensor):
                self.numel = max(self.numel, item.numel())
        return result


def test_ten_thousand_tokens_in_memory_that_grows_with_the_length_alone() -> None:
    net = network(replace(SMALL, span_ratio=0.4))
    largest = {}
    for n_sentences in (136, 1336):  # 1,020 and 10,020 tokens
        document = story(n_sentences)
        with Largest() as mode:
            (prediction,) = predict_batch(net, batch(document))
        largest[n_sentences] = mode.numel
        assert all(0 <= a <= b < len(document.tokens) for cluster in prediction.spans for a, b in cluster)
    assert largest[1336] < 10 * largest[136] * 1.05 + 512 * 4008  # and a block of pairs


def test_settings_name_the_flag() -> None:
    with pytest.raises(ConfigError, match=r"batch_size: expected 1.*found 8"):
        CorefSettings(batch_size=8)
    with pytest.raises(ConfigError, match=r"max_width: expected at least 1"):
        CorefSettings(max_width=0)
