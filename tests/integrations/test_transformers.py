"""ELMo in Hugging Face transformers: the same vectors as the engine, Auto classes, pipelines, Trainer, saving."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import many_langs
import models
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from elmokit import Elmo, weights
from elmokit.cli import app
from elmokit.errors import ConfigError, FormatError, InputError

pytest.importorskip("transformers", minversion="5", reason="needs the extra transformers")
pytest.importorskip("accelerate", reason="needs the extra transformers")
import transformers

from elmokit.integrations.transformers import (
    ElmoConfig,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    save_folder,
)

TEXTS = ["I will buy you a present.", "", "Live in the present—not in the “U.S.”", "Zxqvy naïve 東京"]
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged model as a folder."""
    folder = tmp_path_factory.mktemp("hub") / "base"
    save_folder("base", folder)
    return folder


@pytest.fixture(scope="module")
def loaded(base: Path) -> tuple[ElmoModel, ElmoTokenizer]:
    return transformers.AutoModel.from_pretrained(base), transformers.AutoTokenizer.from_pretrained(base)


@torch.no_grad()
def check_vectors(model: Any, tokenizer: Any, elmo: Elmo, texts: list[str]) -> None:
    read = model(**tokenizer(texts, padding=True, return_tensors="pt"), output_hidden_states=True)
    assert len(read.hidden_states) == elmo.config.n_vectors
    for row, sentence in enumerate(elmo.embed(texts)):
        n = len(sentence)
        for layer, hidden in zip(sentence.layers, read.hidden_states, strict=True):
            np.testing.assert_allclose(hidden[row, :n], layer, atol=1e-5, rtol=0)
            assert not hidden[row, n:].any()
        np.testing.assert_allclose(read.last_hidden_state[row, :n], sentence.vectors, atol=1e-5, rtol=0)


def test_vectors_are_those_of_the_engine(loaded: Any) -> None:
    model, tokenizer = loaded
    assert isinstance(model, ElmoModel) and isinstance(tokenizer, ElmoTokenizer)
    check_vectors(model, tokenizer, Elmo.from_pretrained(), TEXTS)
    lines = (Path(__file__).parents[2] / "examples" / "sentences.txt").read_text("utf-8").splitlines()
    check_vectors(model, tokenizer, Elmo.from_pretrained(), lines[:40])


@pytest.mark.parametrize(
    "variant",
    ["usual", "three layers", "no skip connections", "no projection of tokens", "two highways, tanh", "words"],
)
def test_every_kind_of_model_and_its_warm_state(tmp_path: Path, variant: str) -> None:
    source, *_ = models.write_variant(tmp_path / "source", variant)
    save_folder(source, tmp_path / "hub")
    model = transformers.AutoModel.from_pretrained(tmp_path / "hub")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    elmo = Elmo.from_pretrained(source)
    assert elmo.state == "warm" and model.initial_cell.any()
    check_vectors(model, tokenizer, elmo, ["Live in the present .", "a", "the the unseen"])
    assert ("char_ids" in tokenizer("a")) == (variant != "words")


def test_models_with_words_and_code_points(tmp_path: Path) -> None:
    source = many_langs.write(tmp_path / "de", *many_langs.random_tensors())
    save_folder(source, tmp_path / "hub")
    model = transformers.AutoModel.from_pretrained(tmp_path / "hub")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    words = " ".join(word for word in many_langs.WORDS if word.isalpha())
    check_vectors(model, tokenizer, Elmo.from_pretrained(source), [f"{words} unseen .", "ä"])
    assert weights.load(tmp_path / "hub").fingerprint == weights.load(source).fingerprint


@torch.no_grad()
def test_padding_changes_nothing(loaded: Any) -> None:
    model, tokenizer = loaded
    alone = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state
    wide = tokenizer(TEXTS[0], padding="max_length", max_length=20, return_tensors="pt")
    assert wide["char_ids"].shape == (1, 20, 50) and wide["attention_mask"].sum() == 7
    read = model(**wide).last_hidden_state
    torch.testing.assert_close(read[:, :7], alone, atol=1e-6, rtol=0)
    assert not read[:, 7:].any()
    without_mask = model(char_ids=wide["char_ids"]).last_hidden_state
    assert torch.equal(without_mask, read)
    nothing = model(**tokenizer(["", ""], padding=True, return_tensors="pt"))
    assert nothing.last_hidden_state.shape == (2, 0, alone.shape[-1])


def test_tokens_with_offsets_and_word_ids(loaded: Any) -> None:
    _, tokenizer = loaded
    text = TEXTS[2]
    encoded = tokenizer(text, return_offsets_mapping=True)
    sentence = next(iter(Elmo.from_pretrained().embed([text])))
    assert encoded.tokens() == tokenizer.tokenize(text) == sentence.tokens
    assert encoded["offset_mapping"] == sentence.offsets
    assert encoded.word_ids() == list(range(len(sentence)))
    assert [encoded.char_to_token(start) for start, _ in sentence.offsets][:4] == [0, 1, 2, 3]
    assert encoded.token_to_chars(3) == (12, 19) and encoded.char_to_token(4) is None
    assert encoded.word_to_tokens(3) == (3, 4) and encoded.char_to_word(13) == 3
    batch = tokenizer(["a b", "a"], padding=True)
    assert batch.word_ids(1) == [0, None] and batch["attention_mask"] == [[1, 1], [1, 0]]
    assert batch["input_ids"][1][1] == tokenizer.pad_token_id == tokenizer.get_vocab()["<PAD>"]
    assert isinstance(batch["char_ids"][0], list) and not any(batch["char_ids"][1][1])
    assert tokenizer.decode(tokenizer("I saw the man")["input_ids"]) == "I saw the man"
    assert tokenizer("Zxqvy")["input_ids"] == [tokenizer.unk_token_id] == [2]


def test_words_stay_as_they_were_split(loaded: Any) -> None:
    _, tokenizer = loaded
    words = ["don't", "stop", "New York"]
    encoded = tokenizer(words, is_split_into_words=True, return_offsets_mapping=True)
    assert encoded.tokens() == words and encoded["offset_mapping"] == [(0, 5), (0, 4), (0, 8)]
    batch = tokenizer([words, ["one"], []], is_split_into_words=True)
    assert [len(row) for row in batch["input_ids"]] == [3, 1, 0]


def test_pairs_and_truncation(loaded: Any) -> None:
    _, tokenizer = loaded
    pair = tokenizer("A man sleeps", "Nobody is awake", return_token_type_ids=True, return_special_tokens_mask=True)
    assert pair.tokens() == ["A", "man", "sleeps", "</S>", "<S>", "Nobody", "is", "awake"]
    assert pair.sequence_ids() == [0, 0, 0, None, None, 1, 1, 1] and pair.n_sequences == 2
    assert pair["special_tokens_mask"] == [0, 0, 0, 1, 1, 0, 0, 0]
    assert pair["token_type_ids"] == [0, 0, 0, 0, 0, 1, 1, 1]
    assert pair["char_ids"][3][:3] == [259, 258, 260] and pair["char_ids"][4][:3] == [259, 257, 260]
    assert tokenizer([("A man", "B")])["input_ids"] == tokenizer(["A man"], ["B"])["input_ids"]
    short = tokenizer("a b c d e", "f g", truncation=True, max_length=6)
    assert short.tokens() == ["a", "b", "</S>", "<S>", "f", "g"]
    assert tokenizer("a b c", truncation=True, max_length=2).tokens() == ["a", "b"]
    first = tokenizer("a b c d e", "f g", truncation="only_second", max_length=8)
    assert first.tokens() == ["a", "b", "c", "d", "e", "</S>", "<S>", "f"]


def test_tokenizers_can_be_pickled_and_copied(loaded: Any) -> None:
    _, tokenizer = loaded
    for twin in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert twin(TEXTS[0])["char_ids"] == tokenizer(TEXTS[0])["char_ids"]


def test_round_trip(loaded: Any, tmp_path: Path) -> None:
    model, tokenizer = loaded
    model.save_pretrained(tmp_path / "again")
    tokenizer.save_pretrained(tmp_path / "again")
    again = transformers.AutoModel.from_pretrained(tmp_path / "again")
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert again.config.to_dict() | {"_name_or_path": ""} == model.config.to_dict() | {"_name_or_path": ""}
    other = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert other.get_vocab() == tokenizer.get_vocab() and other(TEXTS)["char_ids"] == tokenizer(TEXTS)["char_ids"]
    assert len(other) == model.config.vocab_size
    names = {"input_ids", "char_ids", "attention_mask"}
    assert set(other.model_input_names) == set(other(TEXTS[0])) == names


def test_a_repeated_word_has_its_own_id(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\na\na\n")
    tokenizer = ElmoTokenizer(tmp_path / "vocabulary.txt", pad_token="<PAD>")
    assert tokenizer.pad_token_id == 5 and tokenizer("a")["input_ids"] == [4]
    assert tokenizer.convert_ids_to_tokens([3, 4, 5]) == ["a", "a", "<PAD>"]


def test_new_models_are_initialized(base: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(base)
    assert isinstance(config, ElmoConfig)
    assert (config.hidden_size, config.num_hidden_layers) == (Elmo.from_pretrained().config.vector_dim, 2)
    fresh = transformers.AutoModel.from_config(config)
    assert all(torch.isfinite(parameter).all() for parameter in fresh.parameters())
    assert (fresh.bilm.forward_layers[0].bias.chunk(4)[1] == 1).all() and (fresh.mix.gamma == 1).all()
    trained = weights.load("base").bilm.state_dict()
    for kind in (ElmoForTokenClassification, ElmoForSequenceClassification):
        head = kind.from_pretrained(base, num_labels=3)
        assert torch.isfinite(head.classifier.weight).all() and not head.classifier.bias.any()
        assert head.classifier.weight.std() > 0.005
        assert all(torch.equal(head.elmo.bilm.state_dict()[name], tensor) for name, tensor in trained.items())


def test_parameters_missing_from_a_file_are_initialized(base: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in base.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(base / "model.safetensors")
    kept = {name: t for name, t in tensors.items() if "highways" not in name and not name.startswith("mix")}
    assert len(kept) < len(tensors)
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    model = ElmoModel.from_pretrained(tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.isfinite(tensor).all(), name
        assert torch.equal(tensor, tensors[name]) == (name in kept or name.startswith("mix")), name


def classifier(base: Path, **kwargs: Any) -> ElmoForTokenClassification:
    torch.manual_seed(0)
    id2label = dict(enumerate(LABELS))
    return ElmoForTokenClassification.from_pretrained(
        base, id2label=id2label, label2id={label: index for index, label in id2label.items()}, **kwargs
    )


def arguments(folder: Path, **kwargs: Any) -> Any:
    return transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=2, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
        logging_steps=1, seed=0, **kwargs,
    )  # fmt: skip


def test_trainer_pipeline_and_back_to_elmokit(base: Path, tmp_path: Path) -> None:
    """Token classification from training to exact spans, and the fine-tuned biLM in elmokit."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    sentences = [
        (["“", "Ada", "Lovelace", "”", "lived", "in", "London", "."], [0, 1, 2, 0, 0, 0, 3, 0]),
        (["We", "met", "Grace", "Hopper", "in", "New", "York", "."], [0, 0, 1, 2, 0, 3, 4, 0]),
    ]
    data = [dict(tokenizer(words, is_split_into_words=True), labels=labels) for words, labels in sentences]
    trainer = transformers.Trainer(
        model=classifier(base, classifier_dropout=0.1),
        args=arguments(tmp_path / "run", max_steps=16, learning_rate=2e-3),
        train_dataset=data,
        data_collator=transformers.DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train()
    losses = [step["loss"] for step in trainer.state.log_history if "loss" in step]
    assert losses[-1] < 0.1 * losses[0]
    trainer.save_model(str(tmp_path / "ner"))

    ner = transformers.pipeline("token-classification", model=str(tmp_path / "ner"), aggregation_strategy="simple")
    text = "We met “Ada Lovelace” in New York."
    entities = ner(text)
    assert [(e["entity_group"], text[e["start"] : e["end"]]) for e in entities] == [
        ("PER", "Ada Lovelace"),
        ("LOC", "New York"),
    ]
    assert ner(["Ada lived in London.", text], batch_size=2)[1] == entities
    ((words,),) = ner([["We", "met", "Grace", "Hopper", "."]], is_split_into_words=True)
    assert (words["start"], words["end"], words["word"]) == (7, 19, "Grace Hopper")

    tuned = weights.load(tmp_path / "ner")
    assert tuned.format == "transformers" and tuned.fingerprint != weights.load("base").fingerprint
    assert len(tuned.mixes) == 1 and tuned.mixes[0].gamma != 1
    saved = tuned.bilm.state_dict()
    for name, tensor in trainer.model.elmo.bilm.state_dict().items():
        assert torch.equal(saved.pop(name), tensor), name
    assert not saved
    layers = next(iter(Elmo(tuned).embed([text]))).layers
    with torch.no_grad():
        read = trainer.model.eval()(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    for layer, hidden in zip(layers, read.hidden_states, strict=True):
        # after these large steps the network amplifies rounding: both differ from the one in float64 by as much
        np.testing.assert_allclose(hidden[0], layer, atol=1e-3, rtol=1e-5)


def test_spans_of_every_token(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Words outside of the vocabulary are shown as they stand in the text."""
    model, tokenizer = classifier(base), transformers.AutoTokenizer.from_pretrained(base)
    tag = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, ignore_labels=[])
    text = TEXTS[2] + " Zxqvy!"
    found = tag(text)
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    assert [(token["start"], token["end"]) for token in found] == offsets
    assert found[-2]["word"] == "Zxqvy"
    assert "is not supported" not in caplog.text  # pipelines know the class


def test_a_frozen_bilm_learns_the_mix_alone(base: Path, tmp_path: Path) -> None:
    """Sequence classification by the Trainer, with the biLM frozen."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    torch.manual_seed(0)
    model = ElmoForSequenceClassification.from_pretrained(base, num_labels=2, classifier_dropout=0.0)
    model.elmo.bilm.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    texts = ["What a good film !", "It was wonderful .", "What a bad film !", "It was awful ."]
    data = [dict(tokenizer(text), labels=label) for text, label in zip(texts, (1, 1, 0, 0), strict=True)]
    args = arguments(tmp_path, max_steps=40, learning_rate=0.05)
    trainer = transformers.Trainer(model=model, args=args, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"elmo.mix.scalars", "elmo.mix.gamma", "classifier.weight", "classifier.bias"}
    classify = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    assert [found["label"] for found in classify(texts)] == ["LABEL_1", "LABEL_1", "LABEL_0", "LABEL_0"]


def test_feature_extraction(base: Path) -> None:
    extract = transformers.pipeline("feature-extraction", model=str(base))
    (vectors,) = extract(TEXTS[0])
    expected = next(iter(Elmo.from_pretrained().embed([TEXTS[0]]))).vectors
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_tuples_and_losses(base: Path) -> None:
    model, tokenizer = classifier(base), ElmoTokenizer.from_elmokit("base")
    encoded = tokenizer(["a b", "c"], padding=True, return_tensors="pt")
    loss, logits, hidden = model(**encoded, labels=torch.tensor([[1, 2], [0, -100]]), output_hidden_states=True,
                                 return_dict=False)  # fmt: skip
    expected = torch.nn.functional.cross_entropy(logits[encoded["attention_mask"].bool()], torch.tensor([1, 2, 0]))
    torch.testing.assert_close(loss, expected)
    assert len(hidden) == 3 and logits.shape == (2, 2, 5)


def test_bad_inputs_get_one_line(loaded: Any, tmp_path: Path) -> None:
    model, tokenizer = loaded
    with pytest.raises(InputError, match=r"char_ids: expected character ids .* ElmoTokenizer gives them"):
        model(input_ids=torch.tensor([[1, 2]]))
    with pytest.raises(InputError, match=r"expected shape \(B, T, 50\), found \(1, 2, 3\)"):
        model(char_ids=torch.ones(1, 2, 3, dtype=torch.long))
    with pytest.raises(InputError, match="before its padding"):
        model(**tokenizer(["a b", "c"], padding=True, padding_side="left", return_tensors="pt"))
    with pytest.raises(InputError, match="of words, set is_split_into_words"):
        tokenizer([["a", "b", "c"]])
    with pytest.raises(InputError, match="expected 2 texts, as many as the first, found 1"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="texts of any length"):
        tokenizer("a b c", return_overflowing_tokens=True)
    with pytest.raises(FormatError, match=r"expected the words of this model's word table"):
        options = json.loads((models.write_variant(tmp_path, "words")[0] / "options.json").read_text())
        ElmoTokenizer(options=options | {"elmokit": {"n_words": 9}})


def elmo_command(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_convert_there_and_back(tmp_path: Path) -> None:
    output = elmo_command("convert", "base", tmp_path / "hub", "--to", "transformers")
    assert f"native to transformers, {Elmo.from_pretrained().model.parameter_count:,} parameters, without its" in output
    elmo_command("convert", "base", tmp_path / "hub", "--to", "transformers", "--overwrite")
    elmo_command("convert", tmp_path / "hub", tmp_path / "native", "--half")
    first, last = weights.load("base"), weights.load(tmp_path / "native")
    assert (first.fingerprint, first.vocabulary, first.card) == (last.fingerprint, last.vocabulary, last.card)
    assert weights.load(tmp_path / "hub").mixes == ()
    refused = CliRunner().invoke(app, ["convert", "base", str(tmp_path / "other"), "--to", "transformers", "--half"])
    assert refused.exit_code == 2 and "--half: expected --to native, found --to transformers" in refused.output


def test_folders_of_other_models_are_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes())
    with pytest.raises(FormatError, match=r"expected model_type 'elmo', found 'bert'"):
        weights.load(tmp_path)


def python(code: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    cache = {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **cache, **environment}
    )


def test_the_folder_loads_without_an_import_of_ours(base: Path, tmp_path: Path) -> None:
    code = f"""
from transformers import AutoModel, AutoTokenizer
model = AutoModel.from_pretrained({str(base)!r}, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained({str(base)!r}, trust_remote_code=True)
print(type(model).__module__, model(**tokenizer("A b", return_tensors="pt")).last_hidden_state.shape)
model.save_pretrained({str(tmp_path / "saved")!r}), tokenizer.save_pretrained({str(tmp_path / "saved")!r})
"""
    result = python(code, tmp_path)
    assert result.returncode == 0, result.stderr
    dim = Elmo.from_pretrained().config.vector_dim
    assert result.stdout.strip() == f"elmokit.integrations.transformers.model torch.Size([1, 2, {dim}])"
    saved, first = ({file.name for file in folder.iterdir()} for folder in (tmp_path / "saved", base))
    assert saved == first - {"README.md"}


def test_the_folder_names_the_pip_command_without_elmokit(base: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["elmokit"] = None
from transformers import AutoConfig
AutoConfig.from_pretrained({str(base)!r}, trust_remote_code=True)
"""
    result = python(code, tmp_path)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1] == (
        "ImportError: This model needs elmokit with its extra for transformers: pip install 'elmokit[transformers]'"
    )


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['transformers'] = None; from elmokit.__main__ import main; main()"
    command = [sys.executable, "-c", code, "convert", "base", str(tmp_path / "hub"), "--to", "transformers"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and not (tmp_path / "hub").exists()
    assert result.stderr.count("\n") == 1 and "pip install 'elmokit[transformers]'" in result.stderr


def test_elmokit_does_not_import_transformers(tmp_path: Path) -> None:
    code = "import sys, elmokit, elmokit.cli.convert; from elmokit import Elmo; print('transformers' in sys.modules)"
    assert python(code, tmp_path).stdout.strip() == "False"
