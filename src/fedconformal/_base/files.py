"""Files in and out: arrays from .npy and .npz; outputs written beside and renamed."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedconformal._base import npy
from fedconformal._base.names import shown
from fedconformal.errors import InputError

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)
READABLE = (".npy", ".npz")
TEXT = (".csv", ".tsv", ".txt")
"""How the names of tables of text end."""
MAX_FILE = 2**30
"""Files that come from somebody else (summaries, predictors) are refused above this."""


def read_array(path: Path, *names: str) -> NDArray[Any]:
    """Read an array; in an .npz with several, the one with one of these names."""
    if path.suffix.lower() not in READABLE:
        raise InputError(f"expected a file that ends in {', '.join(READABLE)}", where=path)
    if path.suffix.lower() == ".npz":
        return next(iter(_arrays(path, lambda there: [_pick(there, names)]).values()))
    with reading(path), path.open("rb") as file:
        return npy.read_npy(file)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of an .npz file."""
    return _arrays(path, lambda there: there)


def _arrays(path: Path, choose: Callable[[list[str]], list[str]]) -> dict[str, NDArray[Any]]:
    with reading(path), path.open("rb") as file:
        return npy.read_npz(file, choose)


def read_bytes(path: Path) -> bytes:
    """Read a file that came from somebody else, if it is not too large."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise InputError(f"has {path.stat().st_size} bytes, more than {MAX_FILE}", where=path)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def write_bytes(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write beside and rename, so that a reader sees the old file or the new one, never half of it.

    A link is followed; what is no plain file, such as a device, is left alone. A private file is readable by its owner
    only, on systems that have such rights: Windows does not, there the folder's rights count.
    """
    try:
        path = path.resolve() if path.is_symlink() else path
        if path.exists() and not path.is_file():
            raise InputError("is a directory or a device, not a file; choose another place", param="output", where=path)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".fedconformal-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if not private:  # which it is as long as it has another name
                mask = os.umask(0)
                os.umask(mask)
                Path(beside).chmod(0o666 & ~mask)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror}); choose another place", param="output", where=path
        ) from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one line which file cannot be read, and why."""
    try:
        with naming(path):
            yield
    except UNREADABLE as error:
        raise unreadable(path, error) from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its content."""
    try:
        yield
    except InputError as error:
        raise error.at(path) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """Say in one line that a file cannot be read, and why."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) else None
    reason = reason or " ".join(str(error).split()) or type(error).__name__
    advice = "; check its name and its folder" if isinstance(error, FileNotFoundError) else ""
    return InputError(f"cannot be read ({reason}){advice}", where=path)


def _pick(there: list[str], names: tuple[str, ...]) -> str:
    if len(there) == 1:
        return there[0]
    for name in names:
        if name in there:
            return name
    held = shown(", ".join(there)) or "nothing"
    raise InputError(f"holds {held}; name one of the arrays {' or '.join(names)}")
