"""Run old ELMo code unchanged: `allennlp`, `simple_elmo` and `elmoformanylangs` are imported from elmokit.

    import elmokit.compat
    elmokit.compat.install()

    python -m elmokit.compat script.py arguments          # without changing the script
    python -m elmokit.compat -m allennlp elmo in.txt out.hdf5 --all

An installed library is left alone. Only ELMo is covered: the modules in MODULES. Any other import from these libraries
raises a ModuleNotFoundError that lists them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from os import PathLike
from pathlib import Path
from types import ModuleType

from elmokit.errors import ElmoError

LIBRARIES = ("allennlp", "simple_elmo", "elmoformanylangs")

_OURS = "elmokit.integrations.allennlp"

# old module -> our module -> names
MODULES: dict[str, dict[str, str]] = {
    "allennlp": {},
    "allennlp.commands": {f"{_OURS}.command": "main"},
    "allennlp.commands.elmo": {
        f"{_OURS}.embedder": "ElmoEmbedder DEFAULT_BATCH_SIZE empty_embedding",
        f"{_OURS}.command": "elmo_command",
        _OURS: "DEFAULT_OPTIONS_FILE DEFAULT_WEIGHT_FILE batch_to_ids _ElmoBiLm ELMoTokenCharactersIndexer",
    },
    "allennlp.common": {_OURS: "Params", f"{_OURS}.params": "FromParams"},
    "allennlp.common.checks": {_OURS: "ConfigurationError"},
    "allennlp.common.file_utils": {"elmokit.integrations.published": "cached_path"},
    "allennlp.common.params": {_OURS: "Params"},
    "allennlp.data": {f"{_OURS}.data": "Token Vocabulary"},
    "allennlp.data.token_indexers": {_OURS: "ELMoTokenCharactersIndexer"},
    "allennlp.data.token_indexers.elmo_indexer": {_OURS: "ELMoTokenCharactersIndexer ELMoCharacterMapper"},
    "allennlp.data.tokenizers": {f"{_OURS}.data": "Token"},
    "allennlp.data.tokenizers.token": {f"{_OURS}.data": "Token"},
    "allennlp.data.tokenizers.token_class": {f"{_OURS}.data": "Token"},
    "allennlp.data.vocabulary": {f"{_OURS}.data": "Vocabulary"},
    "allennlp.modules": {_OURS: "Elmo ScalarMix Highway"},
    "allennlp.modules.elmo": {
        _OURS: "Elmo batch_to_ids _ElmoBiLm _ElmoCharacterEncoder ScalarMix ElmoLstm Highway ELMoCharacterMapper "
        "ELMoTokenCharactersIndexer ConfigurationError remove_sentence_boundaries add_sentence_boundary_token_ids"
    },
    "allennlp.modules.elmo_lstm": {_OURS: "ElmoLstm LstmCellWithProjection _EncoderBase"},
    "allennlp.modules.encoder_base": {_OURS: "_EncoderBase"},
    "allennlp.modules.highway": {_OURS: "Highway"},
    "allennlp.modules.lstm_cell_with_projection": {_OURS: "LstmCellWithProjection"},
    "allennlp.modules.scalar_mix": {_OURS: "ScalarMix"},
    "allennlp.modules.token_embedders": {_OURS: "ElmoTokenEmbedder ElmoTokenEmbedderMultiLang"},
    "allennlp.modules.token_embedders.elmo_token_embedder": {_OURS: "ElmoTokenEmbedder Elmo"},
    "allennlp.modules.token_embedders.elmo_token_embedder_multilang": {_OURS: "ElmoTokenEmbedderMultiLang Elmo"},
    "allennlp.nn": {},
    "allennlp.nn.util": {
        f"{_OURS}.util": "add_sentence_boundary_token_ids remove_sentence_boundaries get_device_of "
        "get_lengths_from_binary_sequence_mask sort_batch_by_length tiny_value_of_dtype"
    },
    "simple_elmo": {"elmokit.integrations.simple_elmo": "ElmoModel divide_chunks"},
    "simple_elmo.elmo_helpers": {"elmokit.integrations.simple_elmo": "ElmoModel divide_chunks"},
    "elmoformanylangs": {"elmokit.integrations.elmoformanylangs": "Embedder"},
    "elmoformanylangs.elmo": {"elmokit.integrations.elmoformanylangs": "Embedder"},
}

# library -> module whose `main` is run by `python -m`
_COMMANDS = {
    "allennlp": f"{_OURS}.command",
    "allennlp.run": f"{_OURS}.command",
    "elmoformanylangs": "elmokit.integrations.elmoformanylangs",
}


class _Finder(MetaPathFinder, Loader):
    """Import hook that creates the modules of one old library."""

    def __init__(self, library: str) -> None:
        self.library = library

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Spec of a module of this library; raises a ModuleNotFoundError for modules that are not covered."""
        if name.partition(".")[0] != self.library:
            return None
        if name in MODULES:
            packages = {module.rpartition(".")[0] for module in MODULES}
            return ModuleSpec(name, self, origin="elmokit.compat", is_package=name in packages)
        covered = ", ".join(module for module in MODULES if module.startswith(self.library) and MODULES[module])
        # no `name` argument, because a `from` import would then replace the message
        raise ModuleNotFoundError(f"elmokit.compat has no {name}; it covers ELMo only: {covered}")

    def exec_module(self, module: ModuleType) -> None:
        """Populate the module."""
        for source, names in MODULES[module.__name__].items():
            origin = importlib.import_module(source)
            for name in names.split():
                setattr(module, name, getattr(origin, name))


def install(models: str | PathLike[str] | None = None) -> tuple[str, ...]:
    """Make old ELMo libraries that are not installed importable; returns their names.

    models: folder with published files, for code that refers to them by URL; default: the environment variable
    ELMOKIT_MODELS.
    """
    if models is not None:
        importlib.import_module("elmokit.integrations.published").set_models_folder(models)
    ours = {finder.library for finder in sys.meta_path if isinstance(finder, _Finder)}
    for library in LIBRARIES:
        if library not in ours and library not in sys.modules and importlib.util.find_spec(library) is None:
            sys.meta_path.append(_Finder(library))
            ours.add(library)
    return tuple(library for library in LIBRARIES if library in ours)


def uninstall() -> None:
    """Undo `install`."""
    ours = {finder.library for finder in sys.meta_path if isinstance(finder, _Finder)}
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
        del sys.modules[name]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a script, or a module with -m, with the old libraries importable."""
    parser = argparse.ArgumentParser(
        prog="python -m elmokit.compat",
        usage="%(prog)s [--models FOLDER] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description="Run old ELMo code unchanged.",
        epilog="example: python -m elmokit.compat --models elmo train.py",
    )
    parser.add_argument("--models", metavar="FOLDER", help="Folder with published options and weight files.")
    parser.add_argument("-m", dest="module", action="store_true", help="Treat SCRIPT as a module name.")
    parser.add_argument("script", metavar="SCRIPT", help="Python file, or module name with -m.")
    parser.add_argument("rest", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="Arguments of the script.")
    options = parser.parse_args(arguments)
    installed = install(options.models)
    sys.argv = [options.script, *options.rest]
    try:
        if options.module and options.script in _COMMANDS and options.script.partition(".")[0] in installed:
            importlib.import_module(_COMMANDS[options.script]).main()
        elif options.module:
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        elif not Path(options.script).is_file():
            raise ElmoError(f"{options.script}: expected a Python file, found none")
        else:
            sys.path.insert(0, str(Path(options.script).resolve().parent))
            runpy.run_path(options.script, run_name="__main__")
    except ElmoError as error:
        print(f"elmokit.compat: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    from elmokit.compat import main as run  # not this copy of the module: `install` in a script must see its state

    sys.exit(run())
