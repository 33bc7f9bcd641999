"""Files in and out: arrays from .npy, .npz and .csv; outputs written beside and renamed."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError

READABLE = (".npy", ".npz", ".csv")
MAX_FILE = 2**30
"""Files that come from somebody else (summaries, predictors) are refused above this."""


def read_array(path: Path, *names: str, text: bool = False) -> NDArray[Any]:
    """Read an array; in an .npz with several, the one with one of these names."""
    if path.suffix not in READABLE:
        raise InputError(f"{path}: expected a file that ends in {', '.join(READABLE)}")
    try:
        if path.suffix == ".csv":
            return _read_csv(path, text=text)
        if path.suffix == ".npy":
            array: NDArray[Any] = np.load(path, allow_pickle=False)
            return array
        return _pick(read_npz(path), path, names)
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from None


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise InputError(f"{path}: is a single array, not an .npz archive")
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """Read a file that came from somebody else, if it is not too large."""
    try:
        if path.stat().st_size > MAX_FILE:
            raise InputError(f"{path}: has {path.stat().st_size} bytes, more than {MAX_FILE}")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside and rename, so that a reader sees the old file or the new one, never half of it."""
    try:
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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


def unreadable(path: Path, error: Exception) -> InputError:
    """Say in one line that a file cannot be read, and why."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
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
        lines = (line for line in file if line.strip())
        first = next(lines, "")
    if not first:
        raise InputError(f"{path}: is empty")
    header = not text and not all(_is_number(cell) for cell in first.split(","))
    return np.loadtxt(
        path,
        dtype=np.str_ if text else np.float64,
        delimiter=",",
        skiprows=int(header),
        ndmin=2,
        encoding="utf-8-sig",
        comments=None,
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
