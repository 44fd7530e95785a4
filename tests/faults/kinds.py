"""One small example of every kind of file that a command reads, and the reading of it."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entity_files
import language_model
import many_langs
import numpy as np
import synthetic
import torch
from safetensors.torch import save_file

from elmokit import Elmo, weights
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_index import VectorIndex, build_index
from elmokit.analysis.shared.layers import View
from elmokit.analysis.studies.study import read_outcome
from elmokit.embed.embed_files import embed_files
from elmokit.embed.shards import ShardFolder
from elmokit.errors import MissingExtraError
from elmokit.pretrain.training_state import TrainingState
from elmokit.tasks.runs import run_folder
from elmokit.tasks.runs.layer_cache import LayerCache
from elmokit.tasks.runs.run_comparison import compare
from elmokit.tasks.runs.tagger_folder import pack_tagger
from elmokit.tasks.runs.task_model import TaskModel
from elmokit.tasks.runs.task_run import Data, open_run
from elmokit.tasks.shared.task_registry import get_task
from elmokit.tasks.text_tagger import load_tagger
from elmokit.training import checkpoint, metrics
from elmokit.weights import allennlp, transformers_folder


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder."""

    name: str
    path: Path  # the file, or the folder of files
    read: Callable[[Path], Any]  # what a command makes of it
    files: tuple[str, ...] = ("*",)  # of a folder, which ones to change
    exact: bool = False  # whether a change must be refused, or change nothing
    mend: Callable[[Path], None] | None = None  # brings checksums up to date, to get behind them
    missing: str = ""  # extra that is needed and not installed


def digest(value: Any) -> str:
    """Equal for equal results."""
    return hashlib.sha256(pickle.dumps(value)).hexdigest()


def model_digest(path: Path) -> str:
    """Load a model and use it: vectors, and guesses of words where it has a softmax."""
    model = weights.load(path)
    elmo = Elmo(model)
    if model.has_softmax:
        model.softmax()
    return digest([s.layers.tobytes() for s in elmo.embed([["the", "present"], ["x"]])])


def make_models(folder: Path) -> list[Kind]:
    """Models of all formats."""
    small = language_model.write(folder / "published").folder
    model = weights.load(small)
    weights.save(model, folder / "native")
    allennlp.save(model, folder / "allennlp")
    zips = folder / "zips"
    zips.mkdir()
    with zipfile.ZipFile(zips / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(small.iterdir()):
            archive.write(file, file.name)
    in_transformers = folder / "transformers"
    in_transformers.mkdir()
    config = {"model_type": transformers_folder.MODEL_TYPE, "options": model.config.to_options()}
    (in_transformers / transformers_folder.CONFIG).write_text(json.dumps(config))
    bilm = {f"bilm.{name}": tensor.contiguous() for name, tensor in model.bilm.state_dict().items()}
    mix = {"mix.scalars": torch.rand(model.config.n_vectors), "mix.gamma": torch.ones(1)}
    save_file({**bilm, **mix}, in_transformers / transformers_folder.WEIGHTS)
    tensors, files = many_langs.random_tensors(), [("cnn.json", many_langs.architecture())]
    many_langs.write(folder / "efml", *tensors, files=files, legacy=False)
    many_langs.write(folder / "efml-legacy", *tensors, files=files, legacy=True)
    return [
        Kind("published model", small, model_digest),
        Kind("native model", folder / "native", model_digest),
        Kind("Transformers folder", in_transformers, model_digest),
        Kind("AllenNLP state dict", folder / "allennlp", lambda p: model_digest(p / "elmo.th")),
        Kind("zip of a model", zips, lambda p: model_digest(p / "model.zip")),
        Kind("ELMoForManyLangs", folder / "efml", model_digest),
        Kind("ELMoForManyLangs, legacy", folder / "efml-legacy", model_digest),
    ]


def make_exports(folder: Path, native: Path) -> list[Kind]:
    """Files that integrations write or read."""
    exports = folder / "exports"
    exports.mkdir()
    onnx_file, missing = exports / "model.onnx", ""
    try:
        from elmokit.integrations.onnx_export import export_onnx

        export_onnx(Elmo.from_pretrained(native), onnx_file)
    except MissingExtraError:
        missing = "onnx"

    def use_onnx(path: Path) -> Any:
        from elmokit.integrations.onnx import OnnxElmo

        return digest([s.layers.tobytes() for s in OnnxElmo(path, threads=1).embed([["the", "present"], ["x"]])])

    published = folder / "published"
    options, weight_file = next(published.glob("*options*.json")), next(published.glob("*weights.hdf5"))
    dim = weights.load(native).config.vector_dim
    torch.save(torch.eye(dim), exports / "aligning.pth")

    def align(path: Path) -> Any:
        from elmokit.integrations.allennlp.multilang import ElmoTokenEmbedderMultiLang

        ElmoTokenEmbedderMultiLang({"en": options}, {"en": weight_file}, aligning_files={"en": path})

    plan = exports / "shards"
    settings, files = {"layers": "all", "pool": None}, {"/data/a.txt": [3, 2], "/data/b.txt": [1]}
    ShardFolder(plan, settings, files, resume=False)
    return [
        Kind("ONNX file", onnx_file, use_onnx, missing=missing),
        Kind("aligning matrix", exports / "aligning.pth", align),
        Kind("plan of shards", plan, lambda p: sorted(ShardFolder(p, settings, files, resume=True).sizes.items()),
             exact=True),
    ]  # fmt: skip


def _mend_checkpoint(path: Path) -> None:
    for file in path.glob("*.safetensors"):
        try:
            found = checkpoint.read_tensors(file)
            tensors = {name: tensor.clone() for name, tensor in found[0].items()}
            record = found[1]["record"]
            save_file(tensors, file, {"record": record, "version": "1", "sha256": checkpoint._digest(record, tensors)})
        except Exception:
            continue


def _mend_run(path: Path) -> None:
    _mend_checkpoint(path / "checkpoints")


def _read_checkpoints(path: Path) -> Any:
    found, _ = checkpoint.latest(path, TrainingState.check)
    if found is None:
        return None
    state = TrainingState.from_checkpoint(found)
    for parameter in (*state.bilm.parameters(), *state.head.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    state.optimizer.step()
    return state.step


def make_runs(folder: Path, native: Path) -> list[Kind]:
    """Folders and files that elmokit writes and reads back."""
    text = synthetic.write(folder / "train.txt", 50)
    state = synthetic.state(text)
    for parameter in (*state.bilm.parameters(), *state.head.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    state.optimizer.step()
    for state.step in (1, 2):
        checkpoint.write(state.to_checkpoint(), folder / "checkpoints")
    train = entity_files.write(folder / "ner.txt", 12)
    given = {"model": str(native), "epochs": 2, "word_dim": 4, "hidden": 8, "character_filters": 4}
    cache = LayerCache(folder / "cache")
    data = Data((str(train),), str(train), None)
    run = open_run(get_task("ner"), given, data, folder / "complete", cache=cache)
    for _ in run.go():
        pass
    pack_tagger(folder / "complete", folder / "tagger")
    part = open_run(get_task("ner"), {**given, "epochs": 3}, data, folder / "unfinished", cache=cache)
    for event in part.go():
        if type(event).__name__ == "Epoch":
            break
    elmo = Elmo.from_pretrained(native)
    build_index(elmo, TokenizedCorpus([str(text)]), folder / "index", view=View("layer 1", 1))
    sentences = [["a", "b"], ["c"]]
    LayerCache(folder / "layers").layers(elmo, sentences)

    def use_layers(path: Path) -> Any:
        layers = LayerCache(path).layers(Elmo.from_pretrained(native), sentences)
        return digest(layers.rows(sentences).numpy().tobytes())

    def resume_run(path: Path) -> Any:
        again = open_run(get_task("ner"), {}, Data(), path, resume=True, cache=LayerCache(folder / "cache"))
        return sum(1 for _ in again.go())

    def use_index(path: Path) -> Any:
        index = VectorIndex(path)
        found = index.search(np.ones(index.facts.dim, np.float32), 3)
        return digest([(near.similarity, near.occurrence) for near in found])

    spool = folder / "spool"
    spool.mkdir()
    _unfinished_embedding(elmo, text, spool / "out.npz")

    def resume_embedding(path: Path) -> Any:
        embed_files(Elmo.from_pretrained(native), [text], path / "out.npz", resume=True, chunk_characters=300)
        return digest((path / "out.npz").read_bytes())

    results = ("results.json", "metrics.jsonl", "settings.json")
    return [
        Kind("checkpoints", folder / "checkpoints", _read_checkpoints),
        Kind("checkpoints, mended", folder / "checkpoints", _read_checkpoints, mend=_mend_checkpoint),
        Kind("complete run", folder / "complete", lambda p: len(TaskModel.from_pretrained(p).predict(["A b"]))),
        Kind("tagger", folder / "tagger", lambda p: len(load_tagger(p, model=str(native)).tag(["A b"]))),
        Kind("results of a run", folder / "complete", lambda p: (run_folder.read_results(p), run_folder.read_epochs(p)),
             files=results),
        Kind("run in a comparison", folder / "complete", lambda p: (len(compare([p]).groups), read_outcome(p, "ner")),
             files=results),
        Kind("unfinished run", folder / "unfinished", resume_run),
        Kind("unfinished run, mended", folder / "unfinished", resume_run, files=("step-*",), mend=_mend_run),
        Kind("metrics", folder / "complete", lambda p: metrics.MetricsLog(p, 1).path.name, files=("metrics.jsonl",)),
        Kind("index", folder / "index", use_index),
        Kind("layer cache", folder / "layers", use_layers, exact=True),
        Kind("resume spool", spool, resume_embedding, files=("*.chunk",), exact=True),
        Kind("settings of a spool", spool, resume_embedding, files=("run.json",), exact=True),
    ]  # fmt: skip


def _unfinished_embedding(elmo: Elmo, text: Path, target: Path) -> None:
    class Stop(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.sentences > 25:
            raise Stop

    with suppress(Stop):
        embed_files(elmo, [text], target, chunk_characters=300, progress=stop)


def copied(kind: Kind, place: Path) -> Path:
    """The example, copied to a new place."""
    if kind.path.is_dir():
        return Path(shutil.copytree(kind.path, place))
    place.mkdir()
    return Path(shutil.copy(kind.path, place))
