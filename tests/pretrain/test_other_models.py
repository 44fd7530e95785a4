"""Models that do not read bytes: word tables, code points, or both. They are measured and trained as any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import many_langs
import models
import numpy as np
import pytest
import synthetic
import torch

from elmokit import Elmo, weights
from elmokit.errors import ConfigError
from elmokit.nn.softmax import assemble_head
from elmokit.pretrain.distributed import Processes
from elmokit.pretrain.finetune import finetune
from elmokit.pretrain.perplexity import perplexity
from elmokit.pretrain.pretrain_run import CHECKPOINTS, SOFTMAX, PretrainRun
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.text.vocabulary import vocabulary_of
from elmokit.training import checkpoint

KINDS = ("words", "many langs", "code points")
SENTENCES = [["das", "Haus"], ["dasdasdasdas", "<bos>", "日"], ["unbekannt"]]


def write(folder: Path, kind: str) -> Path:
    """A random model without softmax."""
    if kind == "words":
        return models.write_variant(folder, "words")[0]
    tensors = many_langs.random_tensors(word_dim=many_langs.W if kind == "many langs" else 0)
    return many_langs.write(folder, *tensors, files=[("cnn.json", many_langs.architecture())])


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """Text that has some words of the models, with the unknown word among them."""
    for name, n, seed in (("train.txt", 150, 2), ("dev.txt", 20, 3)):
        path = synthetic.write(tmp_path / name, n, seed)
        path.write_text(path.read_text().replace("cat", "das").replace("red", "Haus").replace("now", "present"))
    return {
        "train": (str(tmp_path / "train.txt"),),
        "heldout": str(tmp_path / "dev.txt"),
        "batch_tokens": 100,
        "steps": 15,
        "heldout_every": 5,
        "checkpoint_every": 5,
        "warm_up": 2,
        "learning_rate": 0.02,
    }


def complete(name: Path, folder: Path, given: dict[str, Any], **options: Any) -> list[PretrainRun]:
    runs = []
    for run in finetune(str(name), folder, Processes(), given=given, **options):
        for _ in run.go():
            pass
        runs.append(run)
    return runs


def test_many_langs_against_a_slow_twin(tmp_path: Path) -> None:
    """A word is cut to what its characters can hold, also where it is to be predicted."""
    embedder, encoder = many_langs.random_tensors()
    model = weights.load(
        many_langs.write(tmp_path / "de", embedder, encoder, files=[("cnn.json", many_langs.architecture())])
    )
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((7, many_langs.D)), rng.standard_normal(7)
    head = assemble_head({"weight": torch.tensor(w).float(), "bias": torch.tensor(b).float()})
    model.read_softmax = lambda: head

    losses: tuple[list[float], list[float]] = ([], [])
    words = many_langs.WORDS
    for sentence in SENTENCES:
        tokens = ["<bos>", *(token[:7] for token in sentence), "<eos>"]
        ids = [words.index(token) if token in words else 0 for token in tokens]
        top = many_langs.read(tokens[1:-1], embedder, encoder, 9, np.tanh, 0.5, 0.4)[-1]
        forward, backward = np.split(top @ np.kron(np.eye(2), w.T) + np.tile(b, 2), 2, axis=1)  # (n + 2, V) each
        for scores, target, part in (
            *((forward[k], ids[k + 1], losses[0]) for k in range(len(tokens) - 1)),
            *((backward[k + 1], ids[k], losses[1]) for k in range(len(tokens) - 1)),
        ):
            part.append(np.log(np.exp(scores).sum()) - scores[target])
    result = perplexity(model, SENTENCES)
    assert [result.forward, result.backward] == pytest.approx([np.exp(np.mean(part)) for part in losses], rel=1e-4)
    assert (result.tokens, result.sentences, result.unknown) == (9, 3, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_softmax_is_fitted_and_the_model_tuned(tmp_path: Path, given: dict[str, Any], kind: str) -> None:
    source = write(tmp_path / "source", kind)
    fit, run = complete(source, tmp_path / "out", given)
    old, fitted, tuned = (weights.load(path) for path in (source, tmp_path / "out" / SOFTMAX, tmp_path / "out"))
    for name, tensor in old.bilm.state_dict().items():
        assert torch.equal(tensor, fitted.bilm.state_dict()[name]), name
        assert not torch.equal(tensor, tuned.bilm.state_dict()[name]), name
    assert fit.state.best is not None and run.state.best is not None
    assert run.state.best["mean"] < fit.state.best["mean"]

    assert (tuned.alphabet, tuned.config) == (old.alphabet, replace(old.config, state="reset"))
    if kind == "code points":
        assert tuned.vocabulary is not None and {"<S>", "das"} < set(tuned.vocabulary)
    else:
        assert tuned.vocabulary == old.vocabulary
    found = perplexity(tuned, read_lines(given["heldout"]))
    assert found.mean == pytest.approx(run.state.best["mean"], rel=1e-5)
    unknown = vocabulary_of(tuned.config, tuned.vocabulary or ()).marks[2]
    elmo = Elmo.from_pretrained(tmp_path / "out")
    everything = elmo.predict_next(["das"], top=1000, exclude=())
    assert sum(word.probability for word in everything) == pytest.approx(1, abs=1e-5)
    assert unknown in {word.word for word in everything}
    assert unknown not in {word.word for word in elmo.predict_next(["das"], top=1000)}
    gap = elmo.predict_next(["das", "___", "."], direction="gap", top=1000)
    assert sum(word.probability for word in gap) == pytest.approx(1, abs=1e-5)
    assert not {"<S>", "</S>", "<bos>", "<eos>"} & {word.word for word in gap}


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_after_a_crash(tmp_path: Path, given: dict[str, Any], kind: str) -> None:
    source = write(tmp_path / "source", kind)
    complete(source, tmp_path / "whole", given)
    fit, tuning = (tmp_path / "out" / SOFTMAX, tmp_path / "out")
    for crash_in in (fit, tuning):
        for run in finetune(str(source), tuning, Processes(), given=given, resume=True):
            for event in run.go():
                if run.folder == crash_in and event.step == 7:
                    break
            if run.folder == crash_in:
                break
    complete(source, tuning, given, resume=True)
    for name in ("weights.safetensors", "softmax.safetensors", "options.json", "vocabulary.txt"):
        assert (tuning / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    kept, _ = checkpoint.latest(tuning / CHECKPOINTS, lambda found: None)
    assert kept is not None
    state = TrainingState.from_checkpoint(kept)
    assert state.alphabet == weights.load(source).alphabet
    assert (state.characters is None) == (kind == "words")


@pytest.mark.parametrize("kind", ["words", "many langs"])
def test_a_model_that_reads_words_predicts_the_same_words(tmp_path: Path, given: dict[str, Any], kind: str) -> None:
    source = write(tmp_path / "source", kind)
    (tmp_path / "other.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    with pytest.raises(ConfigError, match="vocabulary: expected the words of the model, which reads the same words"):
        complete(source, tmp_path / "out", {**given, "vocabulary": str(tmp_path / "other.txt")})
    (tmp_path / "same.txt").write_text("".join(f"{word}\n" for word in weights.load(source).vocabulary or ()))
    if kind == "words":
        runs = complete(source, tmp_path / "out", {**given, "vocabulary": str(tmp_path / "same.txt"), "steps": 2})
        assert len(runs) == 2


def test_a_word_table_without_the_marks(tmp_path: Path, given: dict[str, Any]) -> None:
    source = write(tmp_path / "source", "words")
    words = (source / "vocabulary.txt").read_text()
    (source / "vocabulary.txt").write_text(words.replace("</S>", "end"))
    with pytest.raises(ConfigError, match="expected the words <S> </S> <UNK>, found no </S>"):
        complete(source, tmp_path / "out", given)


def test_an_alphabet_that_is_missing(tmp_path: Path) -> None:
    weights.save(weights.load(write(tmp_path / "source", "code points")), tmp_path / "native")
    (tmp_path / "native" / "alphabet.json").write_text(json.dumps(None))
    with pytest.raises(Exception, match=r"alphabet\.json: expected an object of characters"):
        weights.load(tmp_path / "native")
