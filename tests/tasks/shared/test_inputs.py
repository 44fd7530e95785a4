"""[x; ELMo] and [h; ELMo] against a twin that goes token by token; words, characters and ids as tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
from torch.nn import functional
from toy_elmo import DIM, N_LAYERS, ToyElmo, token_layers

from elmokit.embed.elmo import Elmo, load_model
from elmokit.errors import ConfigError
from elmokit.nn.scalar_mix import ScalarMix
from elmokit.tasks.ner import Ner, NerSentence
from elmokit.tasks.runs.batch_reader import BatchReader
from elmokit.tasks.runs.layer_cache import LiveLayers
from elmokit.tasks.runs.task_bilm import load_bilm
from elmokit.tasks.runs.task_model import sentences_of
from elmokit.tasks.runs.word_rows import new_words
from elmokit.tasks.shared.inputs import ElmoSource, TextBatch, TextInputs
from elmokit.tasks.shared.task_settings import InputSettings
from elmokit.tasks.squad import Squad
from elmokit.tasks.squad.question import Passage, Question

TEXT = [["The", "cat", "sat"], ["Berlin"], [], ["the", "Übermaß", "of", "the", "cat", "zzz"]]
GLOVE = "the 1 0 0\ncat 0 1 0\nberlin 0 0 1\nBerlin 5 5 5\nrare 2 2 2\n"


def settings(**changes: Any) -> InputSettings:
    return InputSettings(**{"elmo_dropout": 0.0, "word_dim": 4, **changes})


def made(config: InputSettings) -> tuple[TextInputs, TextBatch]:
    """Inputs over TEXT with random weights, and TEXT as their batch; ELMo's layers are toys."""
    torch.manual_seed(1)
    words, table = new_words(config, TEXT * 2, [])
    source = ElmoSource(N_LAYERS, DIM) if config.elmo else None
    inputs = TextInputs(settings=config, words=table, elmo=source)
    for mix in inputs.mixes.values():
        assert isinstance(mix, ScalarMix)
        mix.scalars.data, mix.gamma.data = torch.randn(N_LAYERS), torch.rand(()) + 1
    layers = LiveLayers(ToyElmo()) if config.elmo else None  # type: ignore[arg-type]
    reader = BatchReader(Ner(), config, words, layers=layers)
    [text] = reader.batch([NerSentence(tuple(tokens)) for tokens in TEXT]).texts
    return inputs, text


def elmo_twin(inputs: TextInputs, place: str, tokens: list[str]) -> list[torch.Tensor]:
    """ELMo of every token, as equation 1 of the paper has it."""
    mix = inputs.mixes[place]
    assert isinstance(mix, ScalarMix)
    weights = [float(w) for w in torch.softmax(mix.scalars.detach(), 0)]
    layers = token_layers(tokens).astype(np.float16).astype(np.float32)
    return [
        mix.gamma.item() * sum(weights[j] * torch.from_numpy(layers[j, k]) for j in range(N_LAYERS))
        for k in range(len(tokens))
    ]


def word_twin(inputs: TextInputs, row: int) -> torch.Tensor:
    assert inputs.words is not None
    return torch.cat((inputs.words.learned.detach(), inputs.words.fixed))[row]


def characters_twin(inputs: TextInputs, token: str) -> torch.Tensor:
    """The largest answer of each filter over all windows of the word, with its marks and as much padding as a width."""
    cnn = inputs.characters
    assert cnn is not None
    ids = [259, *(byte + 1 for byte in token.encode()), 260, *[261] * cnn.width]
    rows = [torch.cat([cnn.table[i] for i in ids[k : k + cnn.width]]) for k in range(len(ids) - cnn.width + 1)]
    return functional.relu(torch.stack([cnn.filters(row) for row in rows]).amax(dim=0)).detach()


@pytest.mark.parametrize("place", ["input", "output", "both"])
@pytest.mark.parametrize("filters", [0, 7])
def test_every_token_has_what_the_paper_says(place: str, filters: int) -> None:
    config = settings(elmo_at=place, character_filters=filters)
    inputs, text = made(config)
    x = inputs(text)
    h = torch.randn(*text.mask.shape, 2)
    y = inputs.output(text, h)
    assert x.shape[-1] == inputs.input_dim == 4 + filters + (DIM if place != "output" else 0)
    assert y.shape[-1] - 2 == inputs.elmo_output_dim == (DIM if place != "input" else 0)
    assert text.lengths.tolist() == [3, 1, 0, 6] and not x[~text.mask].any() and not y[~text.mask][:, 2:].any()
    for b, tokens in enumerate(TEXT):
        for k, token in enumerate(tokens):
            parts = [word_twin(inputs, int(text.words[b, k]))]
            if filters:
                parts.append(characters_twin(inputs, token))
            if place != "output":
                parts.append(elmo_twin(inputs, "input", tokens)[k])
            torch.testing.assert_close(x[b, k].detach(), torch.cat(parts))
            if place != "input":
                torch.testing.assert_close(y[b, k, 2:].detach(), elmo_twin(inputs, "output", tokens)[k])
    assert torch.equal(y[..., :2], h)


def test_the_top_layer_alone() -> None:
    inputs, text = made(settings(mix="top"))
    gamma = inputs.mixes["input"].gamma.item()  # type: ignore[union-attr, operator]
    expected = gamma * torch.from_numpy(token_layers(TEXT[0])[-1])
    torch.testing.assert_close(inputs(text)[0, :3, 4:].detach(), expected, atol=2e-3, rtol=1e-3)


def test_layers_are_normalized_over_real_tokens() -> None:
    inputs, text = made(settings(layer_norm=True))
    mix = inputs.mixes["input"]
    assert isinstance(mix, ScalarMix) and text.layers is not None
    weights = torch.softmax(mix.scalars, 0)
    expected = torch.zeros(*text.mask.shape, DIM)
    for j, layer in enumerate(text.layers):
        real = layer[text.mask]
        expected += weights[j] * (layer - real.mean()) / real.std(correction=0)
    torch.testing.assert_close(inputs(text)[..., 4:], mix.gamma * expected * text.mask.unsqueeze(-1))


def test_dropout_and_gradients_of_the_mixes() -> None:
    inputs, text = made(settings(elmo_at="both", elmo_dropout=0.5, mix_l2=1.0))
    torch.manual_seed(0)
    assert not torch.equal(inputs(text), inputs(text))
    static = inputs(text)[..., :4]
    assert torch.equal(static, inputs(text)[..., :4])  # ELMo alone is dropped out here
    inputs.eval()
    assert torch.equal(inputs(text), inputs(text))
    mixes = [inputs.mixes[place] for place in ("input", "output")]
    expected = sum(s.item() ** 2 for mix in mixes for s in mix.scalars)  # type: ignore[union-attr]
    assert inputs.l2().item() == pytest.approx(expected)
    inputs(text).square().sum().backward()
    assert mixes[0].scalars.grad is not None and mixes[1].scalars.grad is None  # type: ignore[union-attr]
    weights, gamma = inputs.mix_weights()["output"]
    assert sum(weights) == pytest.approx(1) and gamma == pytest.approx(mixes[1].gamma.item())  # type: ignore[union-attr, operator]


def test_a_trained_bilm_starts_from_what_the_frozen_one_gives(tmp_path: Path) -> None:
    folder = models.write_variant(tmp_path / "model", "usual")[0]
    sentences = [["The", "cat", "sat"], ["Live"], ["in", "the", "present", "."]]
    config = settings(elmo_at="both", finetune_bilm=True, model=str(folder))
    bilm = load_bilm(config, str(folder))
    assert bilm is not None and bilm.frozen is None
    torch.manual_seed(0)
    words, table = new_words(config, sentences, [])
    inputs = TextInputs(settings=config, words=table, elmo=bilm.source())
    reader = BatchReader(Ner(), config, words, bilm=bilm.reader)
    [text] = reader.batch([NerSentence(tuple(tokens)) for tokens in sentences]).texts
    live = LiveLayers(Elmo(load_model(folder), state="reset"))
    [frozen] = BatchReader(Ner(), config, words, layers=live).batch([NerSentence(tuple(s)) for s in sentences]).texts
    twin = TextInputs(settings=config, words=table, elmo=ElmoSource(frozen.layers.shape[0], frozen.layers.shape[3]))  # type: ignore[union-attr]
    twin.load_state_dict({k: v for k, v in inputs.state_dict().items() if not k.startswith("bilm.")})
    torch.testing.assert_close(inputs(text), twin(frozen), atol=2e-3, rtol=2e-3)
    h = torch.zeros(3, 4, 0)
    y = inputs.output(text, h)
    torch.testing.assert_close(y, twin.output(frozen, h), atol=2e-3, rtol=2e-3)
    y.square().sum().backward()
    gradients = [parameter.grad for parameter in bilm.model.bilm.parameters()]
    assert all(gradient is not None for gradient in gradients)
    with torch.no_grad():
        for parameter in bilm.model.bilm.parameters():
            parameter += 0.1
    assert not torch.allclose(inputs(text), twin(frozen), atol=1e-2)  # nothing stale is kept
    assert load_model(folder).fingerprint == bilm.fingerprint  # and the file is as it was


@pytest.mark.parametrize("trained", [False, True])
def test_a_passage_has_the_layers_of_its_sentences(tmp_path: Path, trained: bool) -> None:
    """One sequence for the network; for the biLM sentences, each of which begins anew."""
    folder = models.write_variant(tmp_path / "model", "usual")[0]
    passages = ["The cat sat. In Berlin it rains!\n\nWhy", "One", "He left the U.S. It is far. So he wrote."]
    questions = [Question.from_text("Who sat? Say it.", Passage.from_text(passage)) for passage in passages]
    config = settings(model=str(folder), finetune_bilm=trained, state=None if trained else "reset")
    bilm = load_bilm(config, str(folder))
    assert bilm is not None
    torch.manual_seed(0)
    words, table = new_words(config, sentences_of(Squad(), questions), [])
    inputs = TextInputs(settings=config, words=table, elmo=bilm.source())
    layers = None if bilm.frozen is None else LiveLayers(bilm.frozen)
    passage, question = BatchReader(Squad(), config, words, layers=layers, bilm=bilm.reader).batch(questions).texts
    assert passage.lengths.tolist() == [len(q.passage.tokens) for q in questions] == [10, 1, 13]
    assert question.lengths.tolist() == [6, 6, 6]  # one sentence, whatever it has inside

    elmo, mix = Elmo(load_model(folder), state="reset"), inputs.mixes["input"]
    for b, asked in enumerate(questions):
        assert [len(sentence) for sentence in asked.passage.sentences] == [[4, 5, 1], [1], [5, 4, 4]][b]
        for text, sentences in ((passage, asked.passage.sentences), (question, [asked.tokens])):
            own = np.concatenate([e.layers for e in elmo.embed(sentences)], axis=1)  # (L + 1, n, 2D)
            found = inputs(text)[b, :, 4:]
            torch.testing.assert_close(found[: own.shape[1]], mix(torch.from_numpy(own)), atol=2e-3, rtol=2e-3)
            assert not found[own.shape[1] :].any()
    if trained:
        inputs(passage).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in bilm.model.bilm.parameters())


def test_a_bilm_that_was_trained_starts_from_zero(tmp_path: Path) -> None:
    """As it does in training, whatever suited the model before."""
    folder = models.write_variant(tmp_path / "model", "usual")[0]
    assert load_model(folder).config.state == "warm"
    bilm = load_bilm(settings(model=str(folder), finetune_bilm=True), str(folder))
    assert bilm is not None and bilm.record()["state"] == "reset"
    bilm.save(tmp_path / "saved")
    assert load_model(tmp_path / "saved").config.state == "reset"
    with pytest.raises(ConfigError, match="expected reset with finetune_bilm"):
        load_bilm(settings(model=str(folder), finetune_bilm=True, state="warm"), str(folder))


# ---- the words


def write_vectors(folder: Path) -> str:
    (folder / "glove.txt").write_text(GLOVE)
    return str(folder / "glove.txt")


def test_a_word_is_looked_up_as_it_is_then_in_lower_case(tmp_path: Path) -> None:
    config = settings(vectors=write_vectors(tmp_path))
    words, table = new_words(config, [["The", "zzz", "Berlin"], ["zzz", "once"]], [["CAT", "other"]])
    assert table is not None
    assert words.rows[:3] == ["<padding>", "<unknown>", "zzz"] and words.n_learned == 3  # zzz: twice, without a vector
    vector = {token: table(torch.tensor([words.row(token)]))[0].tolist() for token in ("the", "THE", "Berlin", "CAT")}
    assert vector == {"the": [1, 0, 0], "THE": [1, 0, 0], "Berlin": [5, 5, 5], "CAT": [0, 1, 0]}
    assert words.row("once") == words.row("other") == words.row("never") == 1
    assert words.row("ZZZ") == 2
    assert words.row("<unknown>") == 1
    assert table(torch.tensor([words.row("rare")]))[0].tolist() == [2, 2, 2]  # frequent words of the file are there too


def test_only_words_of_the_training_data_are_trained(tmp_path: Path) -> None:
    train, others = [["The", "zzz", "zzz"]], [["cat"]]
    frozen_words, frozen = new_words(settings(vectors=write_vectors(tmp_path)), train, others)
    words, table = new_words(settings(vectors=write_vectors(tmp_path), train_vectors=True), train, others)
    assert frozen is not None and table is not None
    assert frozen_words.n_learned == 3 and words.n_learned == 4
    assert words.row("the") == 3 and words.row("cat") > 3
    everything = torch.arange(2, len(words.rows))
    table(everything).sum().backward()
    assert table.learned.grad is not None and table.learned.grad[2:].all() and not table.fixed.requires_grad
    for token in ("the", "cat", "Berlin"):
        assert torch.equal(table(torch.tensor(words.row(token))), frozen(torch.tensor(frozen_words.row(token))))


def test_without_vectors_the_words_of_the_training_data_are_learned() -> None:
    words, table = new_words(settings(), [["a", "b", "b", "a", "c"]], [["d"]])
    assert words.rows == ["<padding>", "<unknown>", "a", "b"] and words.n_learned == 4
    assert table is not None and table.learned.shape == (4, 4) and not len(table.fixed)
    nothing, no_table = new_words(settings(word_dim=0), [["a", "a"]], [])
    assert no_table is None and nothing.row("a") == 1


def test_limits_name_the_setting() -> None:
    for name, value, message in (
        ("elmo_at", "middle", "elmo_at: expected input or output or both, found 'middle'"),
        ("elmo_dropout", 1.0, "elmo_dropout: expected less than 1"),
        ("mix_l2", -1.0, "mix_l2: expected at least 0"),
        ("mix_l2", float("nan"), "mix_l2: expected a number"),
        ("word_dim", 1.5, "word_dim: expected an integer"),
        ("elmo", "yes", "elmo: expected a bool"),
        ("character_dim", 0, "character_dim: expected at least 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            settings(**{name: value})
