"""A model in an ONNX file, run so that a row gets the same bits at calibration and later, alone or among others.

ONNX Runtime does not promise this by itself. With two threads the trees of a forest are added in another order, and a
row alone takes another way through a linear layer than the same row among others: of a logistic regression's rows 96%
differ in the last bit. Where many rows have one score, such a bit loses coverage. So a session has one thread, and a
row alone is run twice over; other processors take other rows. The fingerprint covers the file and how it is run. It
does not cover the processor and the release of ONNX Runtime: use one release everywhere.

A tensor may name another file, which a runtime reads from the working directory: a stranger's model could turn a
private file into weights and carry it out in its scores, and weights could be exchanged under one fingerprint. Such
models are refused: the name of the file is the value of an entry with the key "location".
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Floats, Probabilities, are_distributions, as_array, for_each_chunk, softmax
from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.errors import InputError, prefix_errors

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}
RULE = "fedconformal onnx 1: one thread, two rows or more"
"""Version of the way in which a model is run; a change that could change a bit gets another number."""
PREFIX = "onnx:"
DIGITS = 56
LEAST = 2
"""Rows that are run at a time, at least."""
SIZE = 2**15
"""Numbers that are run at a time, if that is enough rows, so that they stay in a cache."""
NAMED_ROWS = 100
"""Number of rows whose labels are compared with the class names."""

FEW = 8
"""Rows of logits that may all look like probabilities by chance."""

LOCATION = re.compile(rb"(\x08|\x88[\x80-\xff]{0,8}[\x00-\x7f])location")
"""The key of the entry that names another file, after its length, which protobuf may pad."""

Gives = Literal["probs", "logits"]


class OnnxModel:
    """Turns rows of features into probabilities.

    Parameters
    ----------
    path
        The file, with all its weights in it.
    gives
        "probs" or "logits"; by default by the name of the output.

    Examples
    --------
    >>> import tempfile
    >>> from skl2onnx import to_onnx
    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    >>> fitted = LogisticRegression().fit(rows, [0, 0, 1, 1])
    >>> path = Path(tempfile.mkdtemp(), "model.onnx")
    >>> size = path.write_bytes(to_onnx(fitted, rows, options={"zipmap": False}).SerializeToString())
    >>> OnnxModel(path).probabilities(rows[:2]).round(2).tolist() == fitted.predict_proba(rows[:2]).round(2).tolist()
    True
    """

    def __init__(self, path: str | Path, *, gives: Gives | None = None) -> None:
        self.path = Path(path)
        data = read_bytes(self.path)
        with prefix_errors(self.path):
            if LOCATION.search(data):
                what = "names another file for its weights, or has a tensor called location"
                raise InputError(f"{what}; save it with its weights in one file")
            self._session = _session(data)
            self._input, self._type, self._block, self._shape = _input(self._session.get_inputs())
            self._output = _output(self._session.get_outputs())
            labels = [one.name for one in self._session.get_outputs() if one.type == "tensor(string)"]
            self._labels = labels[0] if len(labels) == 1 else None
        self.gives: Gives = gives or ("logits" if "logit" in self._output.lower() else "probs")
        said = f"{RULE}\n{self._output}\n{self.gives}\n".encode()
        self.fingerprint = PREFIX + hashlib.sha256(said + data).hexdigest()[:DIGITS]
        """Identifies the model in summaries and certificates."""

    def check_for(self, wanted: str | None) -> None:
        """Refuse to answer for a predictor that was calibrated for another model."""
        if wanted != self.fingerprint:
            known = "no model" if wanted is None else f"the model {wanted}"
            raise InputError(
                f"{self.path}: is the model {self.fingerprint}, the predictor was calibrated for {known}; "
                "summarise the calibration rows with this model",
                param="onnx",
            )

    def probabilities(self, features: ArrayLike, *, temperature: float | None = None) -> Probabilities:
        """Return (n, J) probabilities of n rows of features, which may be flat; logits are divided by a temperature."""
        if self.gives == "probs" and temperature not in (None, 1.0):
            raise InputError(f"{self.path}: gives probabilities, and a temperature is for logits; leave it out")
        found = self._outputs(self._as_input(features))
        if self.gives == "probs":
            return found
        if len(found) >= FEW and are_distributions(found):
            raise InputError(
                f'{self.path.name}: gives probabilities already, not logits; pass gives="probs"', param="onnx_gives"
            )
        return softmax(found, temperature=1.0 if temperature is None else temperature, sure=True)

    def check_names(self, features: ArrayLike, classes: Sequence[str]) -> None:
        """Refuse class names that are not those by which the model calls its most probable class, if it has names."""
        if self._labels is None:
            return
        rows = self._as_input(features)[: self._block or NAMED_ROWS]
        top = self._outputs(rows).argmax(axis=1)
        block = np.resize(rows, (self._block or len(rows), *rows.shape[1:]))
        (called,) = self._session.run([self._labels], {self._input: block})
        for row, (name, place) in enumerate(zip(called.ravel().tolist(), top.tolist(), strict=False)):
            if place >= len(classes) or name_key(str(name)) != name_key(classes[place]):
                given = abbreviate(classes[place]) if place < len(classes) else "nothing"
                raise InputError(
                    f"{self.path.name}: the model calls row {row} {abbreviate(str(name))}, and the class names given "
                    f"call it {given}; give the names in the order of the model",
                    param="classes",
                )

    def _as_input(self, features: ArrayLike) -> NDArray[Any]:
        matrix = as_array(features, "features")
        rows = len(matrix) if matrix.ndim else 0
        width = math.prod(matrix.shape[1:])
        if matrix.ndim < 2 or not rows:
            raise InputError(f"have shape {matrix.shape}, expected rows of numbers", where="features")
        if self._shape is not None and width != math.prod(self._shape):
            wanted = " x ".join(map(str, self._shape))
            raise InputError(f"have {width} numbers a row, the model takes {wanted}", where="features")
        with np.errstate(over="ignore"):
            rounded = matrix.reshape(rows, *(self._shape or (width,))).astype(self._type, copy=False)
        finite = np.isfinite(rounded)
        if not finite.all():
            row = int(np.argmin(finite.reshape(rows, -1).all(axis=1)))
            raise InputError(
                f"holds a value that is not finite as {rounded.dtype} (NaN or inf)", where="features", row=row
            )
        return rounded

    def _outputs(self, rows: NDArray[Any]) -> Floats:
        """Run blocks, several at a time; one that is too short is filled up with its last row."""
        flat = rows.reshape(len(rows), -1)
        parts: dict[int, Any] = {}

        def work(some: slice) -> None:
            step = self._block or some.stop - some.start
            for start in range(some.start, some.stop, step):
                block = rows[start : min(start + step, some.stop)]
                lacking = max(0, (self._block or LEAST) - len(block))
                if lacking:
                    block = np.concatenate([block, *[block[-1:]] * lacking])
                parts[start] = self._run(block)[: len(block) - lacking]

        for_each_chunk(flat, work, size=max(SIZE, (self._block or LEAST) * flat.shape[1]))
        return parts[0] if len(parts) == 1 else np.concatenate([parts[start] for start in sorted(parts)])

    def _run(self, block: NDArray[Any]) -> Any:
        try:
            (found,) = self._session.run([self._output], {self._input: block})
        except Exception as error:  # ONNX Runtime raises kinds of its own
            raise InputError(f"the model cannot take them ({abbreviate(str(error), 160)})", where="features") from error
        if not isinstance(found, np.ndarray) or found.ndim != 2 or len(found) != len(block):
            raise InputError(f"{self.path.name}: gives no row of probabilities for each row of features")
        return found


def _session(data: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is said below, in one line
    options.add_session_config_entry("session.load_model_format", "ONNX")  # the only one that is checked
    try:
        with tempfile.TemporaryDirectory() as empty:  # should the check have missed a file, it is not found
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
            return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"is no ONNX model that can be run ({abbreviate(str(error), 160)})") from error


def _input(inputs: Sequence[Any]) -> tuple[str, Any, int | None, tuple[int, ...] | None]:
    """Return the name and type of the input, the rows of a block if they are fixed, and the shape of a row."""
    if len(inputs) != 1:
        raise InputError(
            f"has {len(inputs)} inputs, {join_names([one.name for one in inputs])}; expected one of numbers"
        )
    (one,) = inputs
    if one.type not in TYPES:
        raise InputError(f"its input {one.name} is a {one.type}; expected numbers, float or double")
    block, *shape = one.shape or [None]
    known = tuple(shape) if shape and all(isinstance(size, int) and size > 0 for size in shape) else None
    if known is None and len(shape) > 1:
        raise InputError(f"its input {one.name} has the shape {one.shape}; fix all its sizes but the number of rows")
    return one.name, TYPES[one.type], block if isinstance(block, int) and block > 0 else None, known


def _output(outputs: Sequence[Any]) -> str:
    """Return the name of the output with a number for each class."""
    if any(one.type.startswith("seq(map") for one in outputs):
        raise InputError("gives dictionaries; convert it with options={'zipmap': False} (skl2onnx)")
    found = [one.name for one in outputs if one.type in TYPES and len(one.shape or [0, 0]) == 2]
    if len(found) > 1:
        found = [name for name in found if name in ("probabilities", "logits")]
    if len(found) != 1:
        named = join_names([one.name for one in outputs])
        raise InputError(f"has the outputs {named}; expected one with a number for each class, called probabilities")
    return str(found[0])
