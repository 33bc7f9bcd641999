"""Models in ONNX files, run so that a row's outputs are bitwise identical at calibration and in use, in any batch.

ONNX Runtime does not guarantee this by itself. With two threads the trees of a forest are summed in another order, and
a single row takes another path through a linear layer than in a batch: for a logistic regression, 96% of rows differ in
the last bit. Therefore a session has one thread, and a single row is duplicated; parallel threads process different
rows. The fingerprint covers the file and the way it is run, but not the processor and the release of ONNX Runtime.

A tensor may name another file, which a runtime reads from the working directory: an untrusted model could load a
private file as weights and disclose it in its scores. Such models are refused: the name of the file is the value of an
entry with the key "location".
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
"""Version of the execution of models; increased by any change that could affect a bit."""
PREFIX = "onnx:"
DIGITS = 56
LEAST = 2
"""Minimum number of rows per run."""
SIZE = 2**15
"""Numbers per run, to fit in a cache, unless that is fewer than the minimum of rows."""
NAMED_ROWS = 100
"""Number of rows whose labels are compared with the class names."""

FEW = 8
"""Number of rows below which logits may look like probabilities by chance."""

LOCATION = re.compile(rb"(\x08|\x88[\x80-\xff]{0,8}[\x00-\x7f])location")
"""Key of the entry that names another file, after its length, which protobuf may pad."""

Gives = Literal["probs", "logits"]


class OnnxModel:
    """Model in an ONNX file, from rows of features to probabilities.

    Parameters
    ----------
    path
        The file, including all weights.
    gives
        "probs" or "logits"; by default inferred from the name of the output.

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
                problem = "names another file for its weights, or has a tensor called location"
                raise InputError(f"{problem}; save it with its weights in one file")
            self._session = _session(data)
            self._input, self._type, self._block, self._shape = _input(self._session.get_inputs())
            self._output = _output(self._session.get_outputs())
            labels = [out.name for out in self._session.get_outputs() if out.type == "tensor(string)"]
            self._labels = labels[0] if len(labels) == 1 else None
        self.gives: Gives = gives or ("logits" if "logit" in self._output.lower() else "probs")
        execution = f"{RULE}\n{self._output}\n{self.gives}\n".encode()
        self.fingerprint = PREFIX + hashlib.sha256(execution + data).hexdigest()[:DIGITS]
        """Identifies the model in summaries and certificates."""

    def check_for(self, wanted: str | None) -> None:
        """Refuse a predictor that was calibrated for another model."""
        if wanted != self.fingerprint:
            known = "no model" if wanted is None else f"the model {wanted}"
            raise InputError(
                f"{self.path}: is the model {self.fingerprint}, the predictor was calibrated for {known}; "
                "summarise the calibration rows with this model",
                param="onnx",
            )

    def probabilities(self, features: ArrayLike, *, temperature: float | None = None) -> Probabilities:
        """Return (n, J) probabilities of n rows of features, which may be flattened; a temperature is for logits."""
        if self.gives == "probs" and temperature not in (None, 1.0):
            raise InputError(f"{self.path}: gives probabilities, and a temperature is for logits; leave it out")
        outputs = self._outputs(self._as_input(features))
        if self.gives == "probs":
            return outputs
        if len(outputs) >= FEW and are_distributions(outputs):
            raise InputError(
                f'{self.path.name}: gives probabilities already, not logits; pass gives="probs"', param="onnx_gives"
            )
        return softmax(outputs, temperature=1.0 if temperature is None else temperature, sure=True)

    def check_names(self, features: ArrayLike, classes: Sequence[str]) -> None:
        """Refuse class names that differ from the model's own names of its most probable classes, if it has names."""
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
            expected = " x ".join(map(str, self._shape))
            raise InputError(f"have {width} numbers a row, the model takes {expected}", where="features")
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
        """Run blocks, several in parallel; a short block is padded with its last row."""
        flat = rows.reshape(len(rows), -1)
        parts: dict[int, Any] = {}

        def work(chunk: slice) -> None:
            step = self._block or chunk.stop - chunk.start
            for start in range(chunk.start, chunk.stop, step):
                block = rows[start : min(start + step, chunk.stop)]
                padding = max(0, (self._block or LEAST) - len(block))
                if padding:
                    block = np.concatenate([block, *[block[-1:]] * padding])
                parts[start] = self._run(block)[: len(block) - padding]

        for_each_chunk(flat, work, size=max(SIZE, (self._block or LEAST) * flat.shape[1]))
        return parts[0] if len(parts) == 1 else np.concatenate([parts[start] for start in sorted(parts)])

    def _run(self, block: NDArray[Any]) -> Any:
        try:
            (outputs,) = self._session.run([self._output], {self._input: block})
        except Exception as error:  # ONNX Runtime raises its own types
            raise InputError(f"the model cannot take them ({abbreviate(str(error), 160)})", where="features") from error
        if not isinstance(outputs, np.ndarray) or outputs.ndim != 2 or len(outputs) != len(block):
            raise InputError(f"{self.path.name}: gives no row of probabilities for each row of features")
        return outputs


def _session(data: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # the error below reports problems in one line
    options.add_session_config_entry("session.load_model_format", "ONNX")  # the only checked format
    try:
        with tempfile.TemporaryDirectory() as empty:  # external files are not found, even if the check misses one
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", empty)
            return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"is no ONNX model that can be run ({abbreviate(str(error), 160)})") from error


def _input(inputs: Sequence[Any]) -> tuple[str, Any, int | None, tuple[int, ...] | None]:
    """Return name and type of the input, the fixed number of rows of a block or None, and the shape of a row."""
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
    """Return the name of the output with one number per class."""
    if any(one.type.startswith("seq(map") for one in outputs):
        raise InputError("gives dictionaries; convert it with options={'zipmap': False} (skl2onnx)")
    found = [one.name for one in outputs if one.type in TYPES and len(one.shape or [0, 0]) == 2]
    if len(found) > 1:
        found = [name for name in found if name in ("probabilities", "logits")]
    if len(found) != 1:
        named = join_names([one.name for one in outputs])
        raise InputError(f"has the outputs {named}; expected one with a number for each class, called probabilities")
    return str(found[0])
