"""Safe file access: arrays from .npy and .npz, and atomic writes.

Array files are untrusted: nothing is unpickled, and memory is bounded by the size of the file. An array is read only if
its header matches the length of the file, and an archive is refused if it expands far beyond its own size.
"""

from __future__ import annotations

import io
import math
import os
import tempfile
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as numpys
from numpy.typing import NDArray

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError, prefix_errors

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)
READABLE = (".npy", ".npz")
TEXT = (".csv", ".tsv", ".txt")
"""File suffixes of text tables."""
MOST_BYTES = 2**33
"""Maximum size of arrays, in bytes."""
FREE_BYTES = 2**27
RATIO = 100
"""Maximum expansion of a file; `FREE_BYTES` are always allowed."""
HEADERS = {(1, 0): numpys.read_array_header_1_0, (2, 0): numpys.read_array_header_2_0}
LONGEST_HEADER = 4096
MAX_FILE = 2**30
"""Maximum size of an untrusted file (summary, predictor), in bytes."""


def read_array(path: Path, *names: str) -> NDArray[Any]:
    """Read an array; from an .npz file with several arrays, the first of these names."""
    if path.suffix.lower() not in READABLE:
        raise InputError(f"expected a file that ends in {', '.join(READABLE)}", where=path)
    if path.suffix.lower() == ".npz":
        return next(iter(_arrays(path, lambda available: [_pick(available, names)]).values()))
    with reading(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_size(size, size)
        return _read_npy(file, size)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of an .npz file."""
    return _arrays(path, lambda available: available)


def _arrays(path: Path, choose: Callable[[list[str]], list[str]]) -> dict[str, NDArray[Any]]:
    with reading(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise InputError("holds two arrays of one name")
        chosen = {name: members[name] for name in choose(list(members))}
        check_size(sum(info.file_size for info in chosen.values()), path.stat().st_size)
        return {name: _member(archive, info, name) for name, info in chosen.items()}


def check_size(claimed: int, on_disk: int) -> None:
    """Refuse content that is too large, absolutely or relative to its file."""
    if claimed > MOST_BYTES:
        raise InputError(f"holds {claimed} bytes of numbers, more than {MOST_BYTES}; split it into several files")
    if claimed > max(FREE_BYTES, RATIO * on_disk):
        raise InputError(
            f"unpacks from {on_disk} to {claimed} bytes, which is more than {RATIO} times as much; "
            "save it without compression, as .npy or with numpy.savez"
        )


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{name} is compressed in a way that numpy does not write; save it with numpy.savez")
    with prefix_errors(name), archive.open(info) as stream:
        array = _read_npy(stream, info.file_size)
        if stream.read(1):  # reading to the end also checks the CRC
            raise InputError("has trailing bytes")
        return array


def _read_npy(stream: IO[bytes], size: int) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about odd headers, which are refused below
        try:
            head = io.BytesIO(stream.read(LONGEST_HEADER))
            read_header = HEADERS[numpys.read_magic(head)]
            shape, _, dtype = read_header(head, max_header_size=LONGEST_HEADER)
        except (*UNREADABLE, SyntaxError, TypeError, KeyError, tokenize.TokenError):
            raise InputError("cannot be read: it is no array as numpy.save writes it") from None
        if dtype.kind not in "biufSU" or not dtype.itemsize:
            raise InputError(f"cannot be read: it holds {dtype}, not plain numbers or text; save a plain array")
        length = size - head.tell()
        if math.prod(shape) * dtype.itemsize != length:
            raise InputError(
                f"its header claims {dtype} {shape}, and it holds {length} bytes; it was cut off or altered"
            )
        check_size(math.prod(max(1, side) for side in shape) * dtype.itemsize, length)
        stream.seek(0)
        array = numpys.read_array(stream, allow_pickle=False, max_header_size=LONGEST_HEADER)
        if dtype.kind == "U":
            array.astype(dtype.newbyteorder("<")).tobytes().decode("utf-32-le")  # raises on invalid code points
        return array


def read_bytes(path: Path) -> bytes:
    """Read an untrusted file, up to the maximum size."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise InputError(f"has {path.stat().st_size} bytes, more than {MAX_FILE}", where=path)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def write_bytes(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write atomically, by renaming a temporary file; follow links, refuse devices. `private`: for its owner only."""
    try:
        path = path.resolve() if path.is_symlink() else path
        if path.exists() and not path.is_file():
            raise InputError("is a directory or a device, not a file; choose another place", param="output", where=path)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".fedconformal-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if not private:  # mkstemp creates private files
                mask = os.umask(0)
                os.umask(mask)
                Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror}); choose another place", param="output", where=path
        ) from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert read errors raised inside to an `InputError` with the path and the reason."""
    try:
        with prefix_errors(path):
            yield
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the `InputError` for a file that cannot be read, with the reason."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) else None
    reason = reason or " ".join(str(error).split()) or type(error).__name__
    advice = "; check its name and its folder" if isinstance(error, FileNotFoundError) else ""
    return InputError(f"cannot be read ({reason}){advice}", where=path)


def _pick(available: list[str], names: tuple[str, ...]) -> str:
    if len(available) == 1:
        return available[0]
    for name in names:
        if name in available:
            return name
    held = abbreviate(", ".join(available)) or "nothing"
    raise InputError(f"holds {held}; name one of the arrays {' or '.join(names)}")
