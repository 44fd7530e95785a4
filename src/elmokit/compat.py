"""Run old ELMo code unchanged: `allennlp`, `simple_elmo` and `elmoformanylangs` are imported from elmokit.

    import elmokit.compat
    elmokit.compat.install()

    python -m elmokit.compat script.py arguments          # without changing the script
    python -m elmokit.compat -m allennlp elmo in.txt out.hdf5 --all

An installed library is left alone. Only ELMo is covered: the modules and names in MODULES. Any other import from these
libraries raises an ImportError that lists them.

Processes that the script starts by `multiprocessing`, with any start method, can import the libraries too: they inherit
`sys.path`, to which `install` appends a folder with a placeholder module for each library.
"""

from __future__ import annotations

import argparse
import atexit
import dis
import importlib
import importlib.util
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
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
    "allennlp": {f"{_OURS}.version": "__version__"},
    "allennlp.version": {f"{_OURS}.version": "VERSION"},
    "allennlp.commands": {f"{_OURS}.command": "main"},
    "allennlp.commands.elmo": {
        f"{_OURS}.embedder": "ElmoEmbedder DEFAULT_BATCH_SIZE empty_embedding",
        f"{_OURS}.command": "elmo_command",
        f"{_OURS}.util": "lazy_groups_of remove_sentence_boundaries",
        _OURS: "DEFAULT_OPTIONS_FILE DEFAULT_WEIGHT_FILE batch_to_ids _ElmoBiLm ELMoTokenCharactersIndexer",
    },
    "allennlp.common": {_OURS: "Params", f"{_OURS}.params": "FromParams"},
    "allennlp.common.checks": {_OURS: "ConfigurationError", f"{_OURS}.util": "check_dimensions_match"},
    "allennlp.common.file_utils": {"elmokit.integrations.published": "cached_path"},
    "allennlp.common.from_params": {f"{_OURS}.params": "FromParams"},
    "allennlp.common.params": {_OURS: "Params"},
    "allennlp.common.testing": {f"{_OURS}.testing": "AllenNlpTestCase requires_gpu"},
    "allennlp.common.testing.test_case": {f"{_OURS}.testing": "AllenNlpTestCase"},
    "allennlp.common.util": {f"{_OURS}.util": "lazy_groups_of"},
    "allennlp.data": {
        f"{_OURS}.data": "Token Vocabulary",
        f"{_OURS}.fields": "Batch Instance",
        f"{_OURS}.indexer": "TokenIndexer",
    },
    "allennlp.data.batch": {f"{_OURS}.fields": "Batch"},
    "allennlp.data.data_loaders": {f"{_OURS}.fields": "SimpleDataLoader"},
    "allennlp.data.dataset": {f"{_OURS}.dataset": "Batch"},
    "allennlp.data.fields": {f"{_OURS}.fields": "ListField TextField"},
    "allennlp.data.fields.list_field": {f"{_OURS}.fields": "ListField"},
    "allennlp.data.fields.text_field": {f"{_OURS}.fields": "TextField"},
    "allennlp.data.instance": {f"{_OURS}.fields": "Instance"},
    "allennlp.data.iterators": {f"{_OURS}.dataset": "BasicIterator"},
    "allennlp.data.token_indexers": {
        f"{_OURS}.indexer": "ELMoTokenCharactersIndexer SingleIdTokenIndexer TokenIndexer"
    },
    "allennlp.data.token_indexers.elmo_indexer": {
        f"{_OURS}.indexer": "ELMoTokenCharactersIndexer ELMoCharacterMapper _make_bos_eos"
    },
    "allennlp.data.token_indexers.single_id_token_indexer": {f"{_OURS}.indexer": "SingleIdTokenIndexer"},
    "allennlp.data.token_indexers.token_indexer": {f"{_OURS}.indexer": "TokenIndexer"},
    "allennlp.data.tokenizers": {f"{_OURS}.data": "Token"},
    "allennlp.data.tokenizers.token": {f"{_OURS}.data": "Token"},
    "allennlp.data.tokenizers.token_class": {f"{_OURS}.data": "Token"},
    "allennlp.data.vocabulary": {
        f"{_OURS}.data": "Vocabulary DEFAULT_PADDING_TOKEN DEFAULT_OOV_TOKEN DEFAULT_NON_PADDED_NAMESPACES"
    },
    "allennlp.modules": {_OURS: "Elmo ScalarMix Highway", f"{_OURS}.token_embedder": "TokenEmbedder"},
    "allennlp.modules.elmo": {
        _OURS: "Elmo batch_to_ids _ElmoBiLm _ElmoCharacterEncoder ScalarMix ElmoLstm Highway ELMoCharacterMapper "
        "ELMoTokenCharactersIndexer ConfigurationError remove_sentence_boundaries add_sentence_boundary_token_ids"
    },
    "allennlp.modules.elmo_lstm": {_OURS: "ElmoLstm LstmCellWithProjection _EncoderBase"},
    "allennlp.modules.encoder_base": {_OURS: "_EncoderBase"},
    "allennlp.modules.highway": {_OURS: "Highway"},
    "allennlp.modules.lstm_cell_with_projection": {_OURS: "LstmCellWithProjection"},
    "allennlp.modules.scalar_mix": {_OURS: "ScalarMix"},
    "allennlp.modules.token_embedders": {
        _OURS: "ElmoTokenEmbedder ElmoTokenEmbedderMultiLang",
        f"{_OURS}.token_embedder": "TokenEmbedder",
    },
    "allennlp.modules.token_embedders.elmo_token_embedder": {_OURS: "ElmoTokenEmbedder Elmo"},
    "allennlp.modules.token_embedders.elmo_token_embedder_multilang": {_OURS: "ElmoTokenEmbedderMultiLang Elmo"},
    "allennlp.modules.token_embedders.token_embedder": {f"{_OURS}.token_embedder": "TokenEmbedder"},
    "allennlp.nn": {},
    "allennlp.nn.util": {
        f"{_OURS}.util": "add_sentence_boundary_token_ids remove_sentence_boundaries get_device_of "
        "get_lengths_from_binary_sequence_mask get_text_field_mask move_to_device sort_batch_by_length "
        "tiny_value_of_dtype"
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
        module.__getattr__ = _missing_name(module)  # type: ignore[method-assign]


def _missing_name(module: ModuleType) -> Callable[[str], object]:
    """`__getattr__` of a module, which says that a name is not covered."""
    names = [name for name in vars(module) if not name.startswith("__")]

    def __getattr__(name: str) -> object:
        covered = ", ".join(sorted(names)) or "its modules"
        message = f"elmokit.compat: {module.__name__}.{name} is not covered; this module has {covered}"
        # Only a `from` import gets an ImportError: hasattr, inspect and pickle expect an AttributeError.
        # The import statement itself would replace the message of an AttributeError.
        frame = sys._getframe(1)
        if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM":
            raise ImportError(message, name=module.__name__)
        raise AttributeError(message, name=name, obj=module)

    return __getattr__


_PREFIX = "elmokit-compat-"  # of the folder of placeholder modules, which is last in sys.path
_PLACEHOLDER = "import elmokit.compat\n\nelmokit.compat._replace_placeholder(__name__)\n"


def install(models: str | PathLike[str] | None = None) -> tuple[str, ...]:
    """Make old ELMo libraries that are not installed importable; returns their names.

    models: folder with published files, for code that refers to them by URL; default: the environment variable
    ELMOKIT_MODELS.
    """
    if models is not None:
        importlib.import_module("elmokit.integrations.published").set_models_folder(models)
    ours = {finder.library for finder in sys.meta_path if isinstance(finder, _Finder)}
    for library in LIBRARIES:
        if library not in ours and library not in sys.modules and _find_library(library) is None:
            sys.meta_path.append(_Finder(library))
            ours.add(library)
    if ours and not any(map(_is_placeholder_folder, sys.path)):
        sys.path.append(_write_placeholders())
    return tuple(library for library in LIBRARIES if library in ours)


def uninstall() -> None:
    """Undo `install`."""
    ours = {finder.library for finder in sys.meta_path if isinstance(finder, _Finder)}
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    sys.path[:] = [folder for folder in sys.path if not _is_placeholder_folder(folder)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
        del sys.modules[name]


def _find_library(library: str) -> ModuleSpec | None:
    """Spec of a library, placeholders left out: the installed library comes first, wherever it is in sys.path."""
    before = list(sys.path)
    sys.path[:] = [folder for folder in before if not _is_placeholder_folder(folder)]
    try:
        return importlib.util.find_spec(library)
    finally:
        sys.path[:] = before


def _is_placeholder_folder(path: str) -> bool:
    return os.path.basename(path).startswith(_PREFIX)


def _write_placeholders() -> str:
    """Temporary folder with a module for each library, for child processes; removed when this process ends."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(_remove_placeholders, folder, os.getpid())
    for library in LIBRARIES:
        Path(folder, f"{library}.py").write_text(_PLACEHOLDER, encoding="utf-8")
    return folder


def _remove_placeholders(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)


def _replace_placeholder(library: str) -> None:
    """Put the module of a library in the place of the placeholder that is being imported."""
    del sys.modules[library]
    install()
    spec = _find_library(library)
    assert spec is not None and spec.loader is not None
    module = sys.modules[library] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


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
    if options.models is not None:
        os.environ[importlib.import_module("elmokit.integrations.published").VARIABLE] = options.models  # for children
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
