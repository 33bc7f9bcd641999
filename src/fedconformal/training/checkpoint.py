"""Files of a run that grow while it trains: the checkpoint of the last round, and one line of metrics a round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedconformal._base.files import read_bytes, read_npz, write_bytes
from fedconformal.errors import InputError
from fedconformal.training.outputs import npz
from fedconformal.training.trainer import RoundState

SAVED_TYPES = ("float32", "float64", "int64", "bool")
"""Types of the tensors of a checkpoint."""
ABSENT = np.empty(0)


def checkpoint(state: RoundState) -> bytes:
    """Return the bytes of a checkpoint: plain arrays in an .npz file."""
    arrays = {f"tensor.{name}": tensor.detach().cpu().numpy() for name, tensor in state.tensors.items()}
    return npz({"round": np.array(state.round), "stage": np.array(state.stage), **arrays})


def read_checkpoint(path: Path, rounds: int | None = None) -> RoundState | None:
    """Read a checkpoint of a run with this number of rounds; None if there is none yet."""
    if not path.exists():
        return None
    arrays = read_npz(path)
    number, stage = arrays.get("round", ABSENT), arrays.get("stage", ABSENT)
    kept = {name.removeprefix("tensor."): array for name, array in arrays.items() if name.startswith("tensor.")}
    sound = all(
        array.dtype.isnative and array.dtype.name in SAVED_TYPES and np.isfinite(array).all() for array in kept.values()
    )
    if number.shape or number.dtype.kind not in "iu" or stage.shape or stage.dtype.kind != "U" or not sound:
        raise InputError(f"{path}: is no checkpoint; start again in another directory")
    if rounds is not None and not 0 < number <= rounds:
        raise InputError(
            f"{path}: is no checkpoint of this run, which has {rounds} rounds; start again in another place"
        )
    tensors = {name: torch.from_numpy(array) for name, array in kept.items()}
    return RoundState(round=int(number), stage=str(stage), tensors=tensors)


def truncate_metrics(path: Path, done: int) -> None:
    """Drop the lines of later rounds than those done, and a last line that was cut off."""
    kept = []
    for number, line in enumerate(read_bytes(path).splitlines() if path.exists() else [], start=1):
        try:
            found = json.loads(line)
        except ValueError:
            break
        except RecursionError:
            found = None
        if not isinstance(found, dict) or type(found.get("round")) is not int:
            raise InputError(f"{path}: line {number} is not of a round; start again in another directory")
        if found["round"] <= done:
            kept.append(json.dumps(found) + "\n")
    write_bytes(path, "".join(kept).encode())


def append_metrics(path: Path, state: RoundState, more: Mapping[str, float]) -> None:
    """Append the metrics of a round."""
    line = json.dumps({"round": state.round, "stage": state.stage, **state.metrics, **more})
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); make room, then go on with resume=True", param="resume"
        ) from None
