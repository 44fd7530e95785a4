"""Networks make their tensors where the batch is. Here that is seen without a GPU, by looking at every tensor made."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from task_batches import MadeUp
from torch.overrides import TorchFunctionMode

from elmokit.nn.padded import TokenIds
from elmokit.tasks import ner, pos, snli, sst
from elmokit.tasks.coref.document import Document
from elmokit.tasks.shared.inputs import SentenceIds, TextBatch
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.shared.task_base import TaskBatch, predict_batch
from elmokit.tasks.shared.task_registry import TASKS, get_task
from elmokit.tasks.squad.question import Passage, Question
from elmokit.tasks.srl.proposition import Proposition, SrlSentence

MAKERS = {torch.tensor, torch.zeros, torch.ones, torch.full, torch.empty, torch.arange, torch.rand, torch.randint}
# Functions that may: their tensors are numbers for Python, or are moved by who asks, or go with every device
FREE = {"_part", "from_lengths", "targets", "l2"}
EXAMPLES: dict[str, list[Any]] = {
    "ner": [ner.NerSentence(("a", "b"), (Span(0, 1, "X"),)), ner.NerSentence(("a",), ())],
    "sst": [sst.SstSentence(("a", "b"), "1"), sst.SstSentence(("a",), "2")],
    "pos": [pos.PosSentence(("a", "b"), ("X", "Y")), pos.PosSentence(("a",), ("Y",))],
    "upos": [pos.PosSentence(("a", "b"), ("X", "Y")), pos.PosSentence(("a",), ("Y",))],
    "snli": [snli.Pair(("a", "b"), ("a",), "neutral"), snli.Pair(("a",), ("a", "b"), "entailment")],
    "squad": [Question.from_text("a b", Passage.from_text("a b. B a"), span=(1, 2))],
    "srl": [
        SrlSentence(("a", "b", "a"), (Proposition(1, (Span(0, 1, "A"), Span(1, 2, "V"))),)),
        SrlSentence(("b",), ()),
    ],
    "coref": [Document([["a", "b"], ["a"]], ["x", "y"], [[(0, 0), (2, 2)]], "GUM_vlog_x")],
}


class Watch(TorchFunctionMode):
    """Remembers where the package made a tensor without saying on which device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in MAKERS and (kwargs or {}).get("device") is None:
            frame = [frame for frame in traceback.extract_stack() if "elmokit" in frame.filename][-1]
            if frame.name not in FREE:
                self.found.add(f"{frame.filename}:{frame.lineno}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", TASKS)
def test_no_network_makes_a_tensor_somewhere_else(name: str) -> None:
    task, examples = get_task(name), EXAMPLES[name]
    made = MadeUp.of(task, examples, elmo_at="both")
    network = task.network(made.inputs, task.settings(elmo_at="both", character_filters=0), task.labels(examples))
    if task.n_texts is None:
        sentences = [sentence for example in examples for sentence in task.texts(example)]
        batch = TaskBatch(examples, [made._text(sentences, 0)])
    else:
        batch = made.batch(examples)
    with Watch() as watch:
        (network.train().loss(batch) + network.inputs.l2()).backward()
        predict_batch(network, batch)
    assert watch.found == set()


def test_the_watch_sees_what_it_should() -> None:
    with Watch() as watch:
        ner.Constraints.none(3)
    assert len(watch.found) == 1


def test_all_of_a_batch_moves() -> None:
    ids = SentenceIds(TokenIds(torch.zeros(1, 2, 3), torch.zeros(1, 2)), torch.ones(1, 2, dtype=torch.bool))
    whole = TextBatch(ids.mask, *(torch.zeros(1, 2) for _ in range(4)), ids)
    moved = whole.to("meta")
    assert moved.sentences is not None and moved.sentences.ids.characters is not None
    tensors = [moved.mask, moved.words, moved.characters, moved.character_rows, moved.layers, moved.sentences.mask]
    tensors += [moved.sentences.ids.characters, moved.sentences.ids.words]
    assert [None if tensor is None else tensor.device.type for tensor in tensors] == ["meta"] * 8
    assert TextBatch(whole.mask, whole.words).to("meta").layers is None
