"""spaCy component `elmo`: contextual vectors in `doc.tensor`, with similarity hooks."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

import srsly
from spacy.language import Language
from spacy.pipeline.pipe import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch
from spacy.vocab import Vocab

from elmokit.errors import ConfigError, FormatError
from elmokit.integrations.shared_model import shared_model
from elmokit.integrations.spacy.doc_vectors import embed_docs, embed_sentences, width_of
from elmokit.integrations.spacy.hooks import set_hooks

if TYPE_CHECKING:
    from elmokit.embed.elmo import Elmo

SETTINGS, WEIGHTS = "settings.json", "model"
DEFAULTS: dict[str, Any] = {
    "model": None,
    "layers": "average",
    "state": None,
    "dtype": None,
    "device": None,
    "hooks": True,
    "include_weights": True,
}


class ElmoPipe(Pipe):  # type: ignore[misc]
    """Component that fills `doc.tensor` with ELMo vectors (tokens, 2D); see `make_elmo` for the settings.

    Sentences are embedded one by one where a Doc has sentence boundaries, else the Doc is one sentence. White-space
    tokens are not read, and have zero rows. The model is loaded when it is first needed.
    """

    def __init__(self, vocab: Vocab, name: str = "elmo", **settings: Any) -> None:
        unknown = settings.keys() - DEFAULTS.keys()
        if unknown:
            raise ConfigError(f"{name}: expected settings {', '.join(DEFAULTS)}, found {', '.join(sorted(unknown))}")
        self.vocab, self.name = vocab, name
        self.settings: dict[str, Any] = {**DEFAULTS, **settings}
        self._elmo: Elmo | None = None
        self._folder: Path | None = None  # weights that came with a saved pipeline, instead of settings["model"]
        self._fingerprint: str | None = None  # expected of the weights, after loading a saved pipeline

    @property
    def elmo(self) -> Elmo:
        """The model."""
        if self._elmo is None:
            model = self.settings["model"] if self._folder is None else self._folder
            elmo = shared_model(model, **{name: self.settings[name] for name in ("state", "dtype", "device")})
            if self._fingerprint not in (None, elmo.model.fingerprint):
                raise FormatError(
                    f"{self.name}: expected the model that the pipeline was saved with, found another; set model to "
                    "the path of the right one, or save the pipeline with include_weights"
                )
            self._elmo = elmo
        return self._elmo

    def __call__(self, doc: Doc) -> Doc:
        """Fill one Doc."""
        self._fill([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Fill a stream of Docs in batches."""
        error_handler = self.get_error_handler()
        for docs in minibatch(stream, size=batch_size):
            try:
                self._fill(docs)
            except Exception as error:
                error_handler(self.name, self, docs, error)
            else:
                yield from docs

    def _fill(self, docs: list[Doc]) -> None:
        elmo, layers = self.elmo, self.settings["layers"]
        arrays = embed_docs(docs, lambda found: embed_sentences(elmo, found, layers), width_of(elmo, layers))
        for doc, array in zip(docs, arrays, strict=True):
            doc.tensor = array
            if self.settings["hooks"]:
                set_hooks(doc)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the weights as a model folder, or with include_weights=False only their fingerprint."""
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        weights = bool(self.settings["include_weights"])
        srsly.write_json(path / SETTINGS, {"fingerprint": self.elmo.model.fingerprint, "weights": weights})
        if weights:
            _save(self.elmo, path / WEIGHTS)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> ElmoPipe:
        """Take the weights in the folder if they were saved, else those at the path that the settings name."""
        path = Path(path)
        saved = srsly.read_json(path / SETTINGS)
        if not isinstance(saved, dict) or not {"fingerprint", "weights"} <= saved.keys():
            raise FormatError(f"{path / SETTINGS}: expected fingerprint and weights, found {saved!r}")
        self._elmo, self._fingerprint = None, saved["fingerprint"]
        self._folder = path / WEIGHTS if saved["weights"] else None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The files of `to_disk` as one byte string."""
        with TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            data: bytes = srsly.msgpack_dumps(
                {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
            )
        return data

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> ElmoPipe:
        """Load what `to_bytes` gave. Weights are unpacked into a temporary folder that lives as long as this object."""
        unpacked = mkdtemp(prefix="elmokit-")
        weakref.finalize(self, _remove, unpacked, os.getpid())
        for name, content in srsly.msgpack_loads(data).items():
            parts = Path(name).parts
            if not parts or len(parts) > 2 or ".." in parts or Path(name).is_absolute():
                raise FormatError(f"{self.name}: expected files of a model folder, found {name!r}")
            target = Path(unpacked, name)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
        return self.from_disk(unpacked)

    def __reduce__(self) -> tuple[Callable[..., ElmoPipe], tuple[Any, ...]]:
        """For pickle: settings and paths, not weights."""
        return _restored, (type(self), self.vocab, self.name, self.settings, self._folder, self._fingerprint)


def _restored(
    cls: type[ElmoPipe], vocab: Vocab, name: str, settings: dict[str, Any], folder: Path | None, fingerprint: str | None
) -> ElmoPipe:
    component = cls(vocab, name, **settings)
    component._folder, component._fingerprint = folder, fingerprint
    return component


def _remove(folder: str, process: int) -> None:
    if process == os.getpid():  # a forked worker uses the folder of its parent
        shutil.rmtree(folder, ignore_errors=True)  # on Windows, memory-mapped files stay


def _save(elmo: Elmo, folder: Path) -> None:
    """Write exact weights as a native folder, without the softmax."""
    from elmokit.weights import native
    from elmokit.weights.locate import load as load_model

    model = elmo.model
    if elmo.dtype == "int8":  # quantized in memory
        assert model.origin is not None  # adapters load models from files
        model = load_model(model.origin.name)
    native.save(replace(model, read_softmax=None), folder, overwrite=True)


@Language.factory("elmo", assigns=["doc.tensor"], default_config=DEFAULTS)  # type: ignore[misc,untyped-decorator]
def make_elmo(
    nlp: Language,
    name: str,
    model: str | list[str] | None,
    layers: str | int | list[float],
    state: str | None,
    dtype: str | None,
    device: str | None,
    hooks: bool,
    include_weights: bool,
) -> ElmoPipe:
    """Create the component `elmo`.

    model: path of a model, an [options, weights] pair, or None for the packaged one.
    layers: "average", "top", the number of a layer, one weight per layer, or "all" for all layers side by side.
    state: "reset" or "warm"; by default the model's own. dtype: "float32", "float16" or "int8". device: as in torch.
    hooks: whether Doc, Span and Token get hooks for vector and similarity.
    include_weights: whether a saved pipeline contains the weights, or the path of the model only.
    """
    return ElmoPipe(
        nlp.vocab,
        name,
        model=model,
        layers=layers,
        state=state,
        dtype=dtype,
        device=device,
        hooks=hooks,
        include_weights=include_weights,
    )
