"""The SRL network, its Viterbi, and what the task does with text."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from torch import Tensor

from elmokit.errors import InputError
from elmokit.nn.packing import Packing
from elmokit.tasks.runs.fit import Epoch
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.runs.task_run import Data, open_run
from elmokit.tasks.shared.crf import Constraints, viterbi
from elmokit.tasks.shared.inputs import ElmoSource, TextBatch, TextInputs, WordTable
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.shared.task_base import TaskBatch, predict_batch
from elmokit.tasks.shared.task_settings import Place
from elmokit.tasks.srl import Srl, SrlSettings
from elmokit.tasks.srl.proposition import LabeledPredicate, Proposition, Roles, SrlSentence
from elmokit.tasks.srl.srl_network import SrlNetwork
from elmokit.tasks.srl.viterbi import bio_viterbi

VOCABULARY = ("the", "cat", "dog", "saw", "heard", "and", "a", "bird", "quietly", "that", "today", ".", "hello")
WORDS = {word: k + 2 for k, word in enumerate(VOCABULARY)}
SMALL = {"layers": 2, "hidden": 24, "indicator_dim": 8, "finder_hidden": 8, "dropout": 0.0, "elmo": False}


def proposition(at: int, *spans: tuple[int, int, str]) -> Proposition:
    return Proposition(at, tuple(sorted((Span(at, at + 1, "V"), *(Span(*span) for span in spans)))))


EXAMPLES = [
    SrlSentence(("the", "cat", "saw", "the", "dog", "."), (proposition(2, (0, 2, "ARG0"), (3, 5, "ARG1")),)),
    SrlSentence(
        ("a", "bird", "that", "saw", "the", "cat", "heard", "the", "dog", "today", "."),
        (
            proposition(3, (0, 2, "ARG0"), (2, 3, "R-ARG0"), (4, 6, "ARG1")),
            proposition(6, (0, 6, "ARG0"), (7, 9, "ARG1"), (9, 10, "ARGM-TMP")),
        ),
    ),
    SrlSentence(("hello", "."), ()),
    SrlSentence(
        ("the", "dog", "heard", "and", "saw", "quietly", "a", "bird"),
        (
            proposition(2, (0, 2, "ARG0"), (6, 8, "ARG1")),
            proposition(4, (0, 2, "ARG0"), (5, 6, "ARGM-MNR"), (6, 8, "ARG1")),
        ),
    ),
    SrlSentence(("saw",), (proposition(0),)),
]


def text_batch(sentences: list[SrlSentence], padding: int = 0, elmo_dim: int = 0) -> TextBatch:
    """Padded ids; ELMo layers that depend on the word and its place."""
    longest = max(len(s.tokens) for s in sentences) + padding
    rows = torch.zeros(len(sentences), longest, dtype=torch.long)
    for b, sentence in enumerate(sentences):
        rows[b, : len(sentence.tokens)] = torch.tensor([WORDS.get(t, 1) for t in sentence.tokens])
    mask = rows > 0
    layers = None
    if elmo_dim:
        angle = rows.unsqueeze(-1) * torch.arange(1, elmo_dim + 1) + torch.arange(longest).unsqueeze(-1)
        layers = torch.stack([torch.sin(angle.float() * k) * mask.unsqueeze(-1) for k in (1, 2, 3)])
    return TextBatch(mask, rows, layers=layers)


def batch_of(sentences: list[SrlSentence], padding: int = 0, elmo_dim: int = 0) -> TaskBatch[SrlSentence]:
    return TaskBatch(sentences, [text_batch(sentences, padding, elmo_dim)])


def make_network(elmo_at: Place | None = None, **changes: object) -> SrlNetwork:
    torch.manual_seed(0)
    task = Srl()
    chosen = SMALL | changes | ({"elmo": True, "elmo_at": elmo_at, "elmo_dropout": 0.0} if elmo_at else {})
    options = SrlSettings(**chosen)  # type: ignore[arg-type]
    table = WordTable(learned=torch.randn(len(WORDS) + 2, 10))
    source = ElmoSource(n_layers=3, dim=6) if elmo_at else None
    inputs = TextInputs(settings=options, words=table, elmo=source)
    return task.network(inputs, options, task.labels(EXAMPLES))


# --- Viterbi


def brute_force(scores: Tensor) -> float:
    """The score of the best path of one sentence, (n, K), that obeys the rule."""
    n, n_tags = scores.shape
    best = -float("inf")
    for path in itertools.product(range(n_tags), repeat=n):
        before = (0, *path[:-1])
        if all(
            tag in (0, *range(1, n_tags, 2)) or old in (tag, tag - 1) for old, tag in zip(before, path, strict=True)
        ):
            best = max(best, float(scores[range(n), list(path)].sum()))
    return best


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_viterbi_equals_the_general_one_and_brute_force(data: st.DataObject) -> None:
    lengths = sorted(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)), reverse=True)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    packing = Packing.from_lengths(lengths)
    scores = torch.randn(packing.n_tokens, 5, generator=generator)
    padded = packing.pad(bio_viterbi(scores, packing)).tolist()
    ours = [row[:n] for row, n in zip(padded, lengths, strict=True)]
    mask = packing.pad(torch.ones(packing.n_tokens, dtype=torch.bool))
    rules = Constraints.of_tags(["O", "B-x", "I-x", "B-y", "I-y"], "IOB2")
    assert ours == viterbi(packing.pad(scores), mask, rules)
    of_first = scores[packing.rows(0)]
    assert float(of_first[range(lengths[0]), ours[0]].sum()) == pytest.approx(brute_force(of_first), abs=1e-5)


# --- network


@pytest.mark.parametrize("elmo_at", [None, "input", "output", "both"])
def test_scores_equal_one_sentence_at_a_time(elmo_at: Place | None) -> None:
    """The arrangement in shared rows against [token; indicator] written out for every proposition."""
    network = make_network(elmo_at).eval()
    elmo_dim = 6 if elmo_at else 0
    text = text_batch(EXAMPLES, elmo_dim=elmo_dim)
    x = network.inputs(text)
    places = [(b, p.predicate) for b, sentence in enumerate(EXAMPLES) for p in sentence.known()]
    arranged = network._arrange(text, x, places)
    scores = network._scores(text, x, arranged)
    for k, p in enumerate(arranged.order):
        b, at = places[p]
        n = len(EXAMPLES[b].tokens)
        indicator = torch.stack([network.indicator[int(t == at)] for t in range(n)])
        h = network.lstm(torch.cat((x[b, :n], indicator), dim=1), None, Packing.from_lengths([n]))
        padded = torch.zeros(len(EXAMPLES), x.shape[1], h.shape[1])
        padded[b, :n] = h
        expected = network.tagger(network.inputs.output(text, padded)[b, :n])
        torch.testing.assert_close(scores[arranged.packing.rows(k)], expected)


@pytest.mark.parametrize("elmo_at", [None, "both"])
def test_nothing_depends_on_padding_or_on_the_batch(elmo_at: Place | None) -> None:
    network = make_network(elmo_at)
    elmo_dim = 6 if elmo_at else 0
    together = predict_batch(network, batch_of(EXAMPLES, 3, elmo_dim))
    for example, roles in zip(EXAMPLES, together, strict=True):
        (alone,) = predict_batch(network, batch_of([example], 0, elmo_dim))
        assert [(p.predicate, p.spans) for p in alone.propositions] == [
            (p.predicate, p.spans) for p in roles.propositions
        ]
        for a, b in zip(alone.propositions, roles.propositions, strict=True):
            assert a.scores == pytest.approx(b.scores, abs=1e-5)
        assert alone.found == pytest.approx(roles.found, abs=1e-5)
    torch.testing.assert_close(
        network.loss(batch_of(EXAMPLES, 0, elmo_dim)), network.loss(batch_of(EXAMPLES, 4, elmo_dim))
    )


def fit(network: SrlNetwork, sentences: list[SrlSentence], steps: int) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        network.loss(batch_of(sentences)).backward()
        optimizer.step()


def test_it_learns_roles_and_predicates() -> None:
    network = make_network()
    fit(network, EXAMPLES, 80)
    task = Srl()
    scores = task.score(EXAMPLES, predict_batch(network, batch_of(EXAMPLES)))
    assert scores["f1"] == scores["predicate_f1"] == 100
    unknown = [SrlSentence(example.tokens) for example in EXAMPLES]  # predicates are to be found
    assert task.score(EXAMPLES, predict_batch(network, batch_of(unknown)))["f1"] == 100


def test_the_finder_leaves_the_inputs_alone() -> None:
    network = make_network()
    network.loss(batch_of([EXAMPLES[2]])).backward()  # no predicate: only the finder has something to learn
    assert all(p.grad is None for p in network.inputs.parameters())
    assert network.is_predicate.weight.grad is not None


def test_sentences_without_predicates() -> None:
    network = make_network()
    assert torch.isfinite(network.loss(batch_of([EXAMPLES[2]])))
    (roles,) = predict_batch(network, batch_of([EXAMPLES[2]]))
    assert roles.propositions == ()
    torch.nn.init.constant_(network.is_predicate.bias, -100)
    (roles,) = predict_batch(network, batch_of([SrlSentence(("hello", "."))]))
    assert roles == Roles((), {})


def test_roles_and_sentences_that_cannot_be_trained_on() -> None:
    network = make_network()
    new = SrlSentence(("the", "saw"), (proposition(1, (0, 1, "ARG9")),))
    with pytest.raises(InputError, match="role ARG9: expected a role of the training data"):
        network.loss(batch_of([new]))
    with pytest.raises(InputError, match="expected sentences with their propositions"):
        network.loss(batch_of([SrlSentence(("hello",))]))
    with pytest.raises(InputError, match="at least one word"):
        SrlSentence(())


# --- task


def write_columns(path: Path, sentences: list[SrlSentence]) -> None:
    """As PropBank's own files are."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences:
            known = sentence.known()
            for t, token in enumerate(sentence.tokens):
                is_target = any(p.predicate == t for p in known)
                row = [
                    "doc",
                    "0",
                    str(t),
                    token,
                    "VBD" if is_target else "X",
                    "*",
                    *(["see", "see.01"] if is_target else "--"),
                ]
                for p in known:
                    opened = next((f"({span.label}" for span in p.spans if span.start == t), "")
                    row.append(f"{opened}*{')' if any(span.end == t + 1 for span in p.spans) else ''}")
                file.write("\t".join(row) + "\n")
            file.write("\n")


def test_twenty_sentences_are_learned_by_heart(tmp_path: Path) -> None:
    random = Random(0)
    nouns, verbs, times = (("the cat", "a dog", "birds"), ("saw", "heard", "chased"), ("today", "at noon", ""))
    examples = [EXAMPLES[2]]
    for _ in range(19):
        parts = [random.choice(nouns), random.choice(verbs), random.choice(nouns), random.choice(times)]
        tokens: list[str] = []
        spans = []
        for label, part in zip(("ARG0", "V", "ARG1", "ARGM-TMP"), parts, strict=True):
            if part:
                spans.append(Span(len(tokens), len(tokens) + len(part.split()), label))
                tokens += part.split()
        examples.append(SrlSentence((*tokens, "."), (Proposition(spans[1].start, tuple(spans)),)))
    write_columns(tmp_path / "train", examples)
    assert Srl().read(tmp_path / "train") == examples
    train = str(tmp_path / "train")
    given = SMALL | {"learning_rate": 0.01, "batch_size": 2, "epochs": 2, "warm_up": 0, "word_dim": 10}
    run = open_run(Srl(), given, Data((train,) * 8, train), tmp_path / "run")  # 80 steps an epoch
    *_, last = run.go()
    assert isinstance(last, Epoch)
    assert run.results is not None
    assert run.results["dev"]["f1"] == run.results["dev"]["predicate_f1"] == 100

    model = TaskModel.from_pretrained(tmp_path / "run")
    assert model.evaluate(tmp_path / "train") == run.results["dev"]
    hello, saw = model.predict(["hello . A dog saw the cat at noon .", "  "])
    assert hello["propositions"] == []
    (proposition,) = saw["propositions"]
    assert (proposition["predicate"], proposition["index"]) == ("saw", 2)
    found = [(argument["role"], argument["text"]) for argument in proposition["arguments"]]
    assert found == [("ARG0", "A dog"), ("ARG1", "the cat"), ("ARGM-TMP", "at noon")]


def test_labels_are_the_roles_of_the_training_data() -> None:
    assert Srl().labels(EXAMPLES) == {"roles": ["ARG0", "ARG1", "ARGM-MNR", "ARGM-TMP", "R-ARG0", "V"]}


def test_text_becomes_sentences() -> None:
    task = Srl()
    assert [example.tokens for example in task.parse("Don't go. It rains!")] == [
        ("Do", "n't", "go", "."),
        ("It", "rains", "!"),
    ]
    assert task.parse("  ") == []
    assert task.parse("Go")[0].propositions is None


ROLES = Roles(
    (
        LabeledPredicate(2, (Span(0, 2, "ARG0"), Span(2, 3, "V"), Span(3, 5, "ARG1")), (0.9, 1.0, 0.51239)),
        LabeledPredicate(4, (Span(0, 4, "C-ARGM-TMP"), Span(4, 5, "V")), (0.25, 1.0)),
    ),
    {2: 0.98765},
)


def test_json() -> None:
    record = json.loads(json.dumps(Srl().to_json(EXAMPLES[0], ROLES)))
    assert record == {
        "tokens": ["the", "cat", "saw", "the", "dog", "."],
        "propositions": [
            {
                "predicate": "saw",
                "index": 2,
                "score": 0.9877,
                "arguments": [
                    {"role": "ARG0", "text": "the cat", "start": 0, "end": 2, "score": 0.9},
                    {"role": "ARG1", "text": "the dog", "start": 3, "end": 5, "score": 0.5124},
                ],
            },
            {
                "predicate": "dog",
                "index": 4,
                "arguments": [{"role": "C-ARGM-TMP", "text": "the cat saw the", "start": 0, "end": 4, "score": 0.25}],
            },
        ],
    }


def test_show() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(Srl().show(EXAMPLES[0], ROLES))
        console.print(Srl().show(EXAMPLES[2], Roles((), {})))
    assert capture.get().splitlines() == [
        "[ARG0 the cat] [V saw] [ARG1 the dog] .",
        "[C-ARGM-TMP the cat saw the] [V dog] .",
        "hello .",
    ]
