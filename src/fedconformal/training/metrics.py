"""What was measured in each round: a line of JSON, and on request an event for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.errors import InputError


class Metrics:
    """Append one line a round to a file; after a restart, from the round that the checkpoint is of.

    Args:
        path: the file, one JSON object a line.
        done: rounds that count; what the file has beyond them is dropped.
        tensorboard: a directory for TensorBoard's events, or None.
    """

    def __init__(self, path: Path, *, done: int, tensorboard: Path | None = None) -> None:
        self._path = path
        self._events = None if tensorboard is None else _events(tensorboard, done)
        kept = [line for line in _lines(path) if line["round"] <= done]
        write_bytes(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add(self, number: int, stage: str, values: Mapping[str, float]) -> None:
        """Add a round."""
        line = json.dumps({"round": number, "stage": stage, **values})
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise InputError(
                f"{self._path}: cannot be written ({error.strerror}); make room, then go on with resume=True",
                param="resume",
            ) from None
        if self._events is not None:
            for name, value in values.items():
                self._events.add_scalar(f"{stage}/{name}", value, number)
            self._events.flush()

    def close(self) -> None:
        """End TensorBoard's events."""
        if self._events is not None:
            self._events.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in read_bytes(path).splitlines() if path.exists() else []:
        try:
            one = json.loads(line)
        except ValueError:  # a last line that was cut off
            break
        except RecursionError:
            one = None
        if not isinstance(one, dict) or type(one.get("round")) is not int:
            raise InputError(f"{path}: line {len(found) + 1} is not of a round; start again in another directory")
        found.append(one)
    return found


def _events(directory: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("writing events needs TensorBoard: pip install 'fedconformal[tensorboard]'") from None
    return SummaryWriter(str(directory), purge_step=done + 1 if done else None)
