"""Files in and out: arrays from .npy, .npz, .csv and .parquet; outputs written beside and renamed."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedconformal.errors import InputError

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)
READABLE = (".npy", ".npz", ".csv", ".parquet")
MAX_FILE = 2**30
"""Files that come from somebody else (summaries, predictors) are refused above this."""


def read_array(path: Path, *names: str, text: bool = False) -> NDArray[Any]:
    """Read an array; in an .npz with several, the one with one of these names."""
    if path.suffix not in READABLE:
        raise InputError(f"{path}: expected a file that ends in {', '.join(READABLE)}")
    if path.suffix == ".npz":
        return _pick(read_npz(path), path, names)
    try:
        if path.suffix == ".csv":
            return _read_csv(path, text=text)
        if path.suffix == ".parquet":
            return _read_parquet(path)
        with path.open("rb") as file:
            return npy.read_array(file)
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of an .npz file."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return {name.removesuffix(".npy"): _member(archive, name) for name in archive.namelist()}
    except UNREADABLE as error:
        raise unreadable(path, error) from None


def _member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as member:
        array: NDArray[Any] = npy.read_array(member)
        if member.read(1):  # reading to the end also checks the CRC
            raise ValueError(f"{name} has trailing bytes")
    return array


def read_bytes(path: Path) -> bytes:
    """Read a file that came from somebody else, if it is not too large."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise InputError(f"{path}: has {path.stat().st_size} bytes, more than {MAX_FILE}")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside and rename, so that a reader sees the old file or the new one, never half of it.

    A link is followed; what is no plain file, such as a device, is left alone.
    """
    try:
        path = path.resolve() if path.is_symlink() else path
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is a directory or a device, not a file; choose another place with -o")
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".fedconformal-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            Path(beside).chmod(0o666 & ~mask)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another place with -o") from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its content."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(f"{path}:"):
            raise
        raise type(error)(f"{path}: {error}") from None


def unreadable(path: Path, error: Exception) -> InputError:
    """Say in one line that a file cannot be read, and why."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) else None
    reason = reason or " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{path}: cannot be read ({reason})")


def _pick(arrays: dict[str, NDArray[Any]], path: Path, names: tuple[str, ...]) -> NDArray[Any]:
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    for name in names:
        if name in arrays:
            return arrays[name]
    raise InputError(f"{path}: holds {', '.join(arrays) or 'nothing'}; name one of the arrays {' or '.join(names)}")


def _read_csv(path: Path, *, text: bool) -> NDArray[Any]:
    with path.open(encoding="utf-8-sig") as file:
        lines = [line for line in file if line.strip()]
    # A header is a first line without a single number in it; a cell that is empty is not a name.
    cells = [cell.strip() for cell in lines[0].split(",")] if lines else []
    if not text and all(cell and not _is_number(cell) for cell in cells):
        del lines[:1]
    if not lines:
        raise InputError(f"{path}: is empty")
    return np.loadtxt(lines, dtype=np.str_ if text else np.float64, delimiter=",", ndmin=2, comments=None)


def _read_parquet(path: Path) -> NDArray[Any]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: reading .parquet needs pyarrow: pip install 'fedconformal[parquet]'") from None
    table = parquet.read_table(path)
    absent = [name for name in table.column_names if table[name].null_count]
    if absent or not table.num_columns:
        raise InputError(f"{path}: has missing values in the columns {absent}" if absent else f"{path}: has no columns")
    return np.column_stack([table[name].to_numpy() for name in table.column_names])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
