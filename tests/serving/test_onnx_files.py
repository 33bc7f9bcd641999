"""A model that names other files is refused before anything is loaded: it could carry them out, or be exchanged."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from fedconformal.errors import InputError
from fedconformal.serving import onnx as runner
from fedconformal.serving.onnx import OnnxModel
from tests.serving.models import WIDTH, features

SECRET = bytes(range(1, 49))
"""The private file: as float32 three weights for each of four features."""
KEY = "site.key"


@pytest.fixture(autouse=True)
def _at_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(KEY).write_bytes(SECRET)


def outside(location: str = KEY) -> TensorProto:
    """A tensor whose numbers are in another file."""
    external = TensorProto.EXTERNAL
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(WIDTH, 3), data_location=external)
    tensor.external_data.add(key="location", value=location)
    return tensor


def model_of(nodes: Any, initializers: Any = ()) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", 3])]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def product() -> onnx.NodeProto:
    return helper.make_node("MatMul", ["x", "w"], ["logits"])


def branches(initializers: Any = ()) -> onnx.ModelProto:
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    inner = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    one, other = (helper.make_graph(inner, name, [], made, list(initializers)) for name in ("one", "other"))
    truth = numpy_helper.from_array(np.array(True), "c")
    return model_of([helper.make_node("If", ["c"], ["logits"], then_branch=one, else_branch=other)], [truth])


PLACES = {
    "graph": model_of([product()], [outside()]),
    "constant": model_of([helper.make_node("Constant", [], ["w"], value=outside()), product()]),
    "subgraph": branches([outside()]),
}


@pytest.mark.parametrize("length", [b"\x08", b"\x88\x00", b"\x88\x80\x80\x00"])
@pytest.mark.parametrize("place", PLACES)
def test_a_model_that_names_another_file_is_refused(place: str, length: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tensor is, and however the length of the key is written."""
    Path("m.onnx").write_bytes(PLACES[place].SerializeToString().replace(b"\x08location", length + b"location"))
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("a session was made"))
    with pytest.raises(InputError, match="names another file for its weights"):
        OnnxModel("m.onnx")


def test_the_runtime_itself_finds_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second lock: without the check, the runtime still looks into an empty folder only."""
    Path("m.onnx").write_bytes(PLACES["graph"].SerializeToString())
    plain = onnxruntime.InferenceSession(Path("m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    read = plain.run(None, {"x": np.eye(WIDTH, dtype=np.float32)})[0].tobytes()
    assert read == SECRET  # without any lock
    monkeypatch.setattr(runner, "LOCATION", re.compile(b"never"))
    for location in (KEY, str(Path(KEY).resolve())):
        Path("m.onnx").write_bytes(model_of([product()], [outside(location=location)]).SerializeToString())
        with pytest.raises(InputError, match="no ONNX model that can be run"):
            OnnxModel("m.onnx")


@pytest.mark.parametrize("data", [b"", b"this is no model", b"\x3a\x05ab", b"\x1c\x00\x00\x00ORTM" + bytes(64)])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    """Among them the format of ONNX Runtime's own, in which a file is named otherwise."""
    Path("m.onnx").write_bytes(data)
    with pytest.raises(InputError, match="no ONNX model that can be run"):
        OnnxModel("m.onnx")


def test_a_model_with_its_weights_inside_is_run() -> None:
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(WIDTH, 3), "w")
    for found in (model_of([product()], [weights]), branches([weights])):
        Path("m.onnx").write_bytes(found.SerializeToString())
        assert OnnxModel("m.onnx").probabilities(features(3)).shape == (3, 3)
