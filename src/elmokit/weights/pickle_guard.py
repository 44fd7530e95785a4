"""Static check of pickle opcodes before anything is unpickled.

The safe unpickler of torch runs no code, but allows `bytearray(4_000_000_000)`: 38 bytes that allocate any amount of
memory. A state dict needs tensors, dictionaries, numbers and text, so everything else is rejected.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from typing import IO

from elmokit.errors import FormatError, first_line

# Globals that a pickle of tensors may use; "*" is any name. Storages are types such as torch.FloatStorage.
ALLOWED = {
    "collections": ("OrderedDict",),
    "torch": ("*Storage", "Size", "device", "float16", "float32", "float64", "bfloat16", "int64", "Tensor"),
    "torch.storage": ("TypedStorage", "UntypedStorage", "_load_from_bytes"),
    "torch._utils": ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"),
    "torch.nn.parameter": ("Parameter",),
}
_REFUSED = ("BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER", "EXT1", "EXT2", "EXT4", "INST", "OBJ")
_NUMBERS = ("INT", "LONG", "LONG1", "LONG4")
_LONGEST_NUMBER = 10**30  # the magic number of torch has 24 digits
_ZIP = b"PK\x03\x04"
_LEGACY = 5  # pickles at the start of a file of torch before 1.6: magic, version, system, content, keys


def check_pickle(file: IO[bytes], label: str) -> None:
    """Check a file of `torch.save` and rewind it.

    Raises a FormatError if it uses anything but tensors, and a ValueError for a damaged pickle.
    """
    try:
        for stream in _streams(file):
            _check(stream, label)
    finally:
        file.seek(0)


def _streams(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Pickles that torch would read. Zips are detected by their first bytes, as in torch: one may also be appended."""
    file.seek(0)
    is_zip = file.read(len(_ZIP)) == _ZIP
    file.seek(0)
    if not is_zip:
        for _ in range(_LEGACY):
            yield file
        return
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():  # not by name, which several members may have
                if info.filename.lower().endswith(".pkl"):  # torch finds members by name in any case
                    with archive.open(info) as stream:
                        yield stream
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(first_line(error)) from None  # torch may read it all the same, so it must not try


def _check(stream: IO[bytes], label: str) -> None:
    texts: list[str] = []  # the last two, the operands of STACK_GLOBAL
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name in _REFUSED:
                raise FormatError(
                    f"{label}: expected a pickle of tensors and nothing else; it was refused: {opcode.name}"
                )
            if isinstance(argument, str):
                texts = [*texts[-1:], argument]
            if opcode.name == "GLOBAL":
                module, _, name = str(argument).partition(" ")
                _require_allowed(module, name, label)
            elif opcode.name == "STACK_GLOBAL":
                _require_allowed(texts[0], texts[-1], label)
            elif opcode.name in _NUMBERS and abs(int(argument or 0)) > _LONGEST_NUMBER:
                raise FormatError(f"{label}: expected a pickle of tensors, found a number of too many digits")
    except FormatError:
        raise
    except Exception as error:  # a damaged pickle can raise any error; what cannot be checked is not read
        raise ValueError(first_line(error)) from None


def _require_allowed(module: str, name: str, label: str) -> None:
    wanted = ALLOWED.get(module, ())
    if name not in wanted and not ("*Storage" in wanted and name.endswith("Storage")):
        raise FormatError(
            f"{label}: expected a pickle of tensors and nothing else; it was refused: it calls {f'{module}.{name}'!r}"
        )
