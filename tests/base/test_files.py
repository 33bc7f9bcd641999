"""Files: arrays in every form that is read, and writing that leaves the old file or the new one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedconformal._base import files
from fedconformal._base.files import read_array, read_bytes, read_npz, unreadable, write_bytes
from fedconformal.errors import InputError
from tests.contracts.tools import refused

ROWS = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- reading ---


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, anything=ROWS)
    assert np.array_equal(read_array(path, "probs"), ROWS)  # the only one there is
    np.savez(path, labels=[1, 2], probs=ROWS)
    assert np.array_equal(read_array(path, "probs"), ROWS)
    assert np.array_equal(read_array(path, "nope", "labels"), [1, 2])
    assert set(read_npz(path)) == {"labels", "probs"}
    with refused(str(path), "holds labels, probs", "name one of the arrays logits"):
        read_array(path, "logits")


BAD: dict[str, tuple[str, str | bytes, str]] = {
    "text npy": ("a.npy", "0.5,0.5\n", "cannot be read: it is no array as numpy"),
    "empty npz": ("a.npz", b"", "cannot be read"),
    "zip without arrays": ("a.npz", b"PK\x05\x06" + bytes(18), "nothing"),
    "truncated zip": ("a.npz", b"PK\x03\x04" + bytes(40), "cannot be read"),
    "another ending": ("a.txt", "0.5,0.5\n", ".npy, .npz"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused(tmp_path: Path, what: str) -> None:
    name, content, fragment = BAD[what]
    path = put(tmp_path / name, content)
    with refused(f"{path}: ", fragment):
        read_array(path, "probs")


def test_pickles_are_refused(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(tmp_path / "trapped"),)

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", probs=np.array([Trap()], dtype=object))
    for path in (tmp_path / "a.npy", tmp_path / "a.npz"):
        with refused(f"{path}: ", "cannot be read: it holds object"):
            read_array(path, "probs")
    assert not (tmp_path / "trapped").exists()


def test_a_truncated_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    np.savez_compressed(tmp_path / "a.npz", probs=np.random.default_rng(0).random((50, 9)))
    for path in (tmp_path / "a.npy", tmp_path / "a.npz"):
        data = path.read_bytes()
        for length in {0, 1, 5, 9, 60, len(data) // 2, len(data) - 8, len(data) - 1}:
            put(path, data[:length])
            with refused(f"{path}: "):
                read_array(path, "probs")


def test_a_flipped_byte_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, probs=ROWS)
    data = path.read_bytes()
    for i in range(len(data)):
        for flip in (1, 0x40, 0xFF):
            put(path, data[:i] + bytes([data[i] ^ flip]) + data[i + 1 :])
            try:
                read_array(path, "probs")
            except InputError as error:
                assert str(path) in str(error)  # noqa: PT017


def test_read_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.fcs", b"123")
    assert read_bytes(path) == b"123"
    monkeypatch.setattr(files, "MAX_FILE", 2)
    with refused(f"{path}: has 3 bytes, more than 2"):
        read_bytes(path)
    monkeypatch.undo()
    (tmp_path / "folder.npy").mkdir()
    for read in (read_bytes, read_array):
        for name, reason in (("no.npy", "No such file or directory"), ("folder.npy", "Is a directory")):
            with refused(f"{tmp_path / name}: cannot be read ({reason})"):
                read(tmp_path / name)


@pytest.mark.parametrize(
    "error", [MemoryError(), EOFError(), ValueError(""), ValueError("one\ntwo"), OSError("odd"), OSError(13, "Denied")]
)
def test_any_reason_fits_in_a_line(error: Exception) -> None:
    message = str(unreadable(Path("a.npy"), error))
    assert message.startswith("a.npy: cannot be read")
    assert len(message.splitlines()) == 1


# --- writing ---


def test_write_and_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "a.fcs"
    for data in (b"", b"old", bytes(10**6)):
        write_bytes(path, data)
        assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]


def test_the_file_has_the_usual_rights(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "a", b"x")
        assert os.umask(0o027) == 0o027  # left as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_private_file_is_its_owner_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a", b"old")
    path.chmod(0o644)
    rights: list[int] = []
    replace = Path.replace

    def watched(here: Path, to: Path) -> Path:
        rights.append(here.stat().st_mode)
        return replace(here, to)

    monkeypatch.setattr(Path, "replace", watched)
    before = os.umask(0)
    try:
        write_bytes(path, b"new", private=True)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(rights[0]) == 0o600  # also before it has its name


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = put(tmp_path / "a.fcs", b"old")

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(step, fail)
    if isinstance(error, OSError):
        with refused(f"{path}: cannot be written (No space left on device)"):
            write_bytes(path, b"new")
    else:
        with pytest.raises(KeyboardInterrupt):
            write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    file = put(tmp_path / "file", b"old")
    for path in (tmp_path / "no" / "a.fcs", file / "a.fcs", tmp_path / ("a" * 300)):
        with refused(param="output"):
            write_bytes(path, b"x")
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_plain_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InputError, match="is a directory or a device, not a file"):
            write_bytes(path, b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for data in (b"one", b"two"):
        write_bytes(tmp_path / "link", data)
        assert (tmp_path / "target").read_bytes() == data
    assert (tmp_path / "link").is_symlink()
