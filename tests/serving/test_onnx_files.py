"""A model that names other files is refused before anything is loaded: it could carry them out, or be exchanged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from fedconformal.errors import InputError
from fedconformal.serving import onnx as runner
from fedconformal.serving.onnx import OnnxModel, check_self_contained
from tests.serving.models import WIDTH, features

SECRET = bytes(range(1, 49))
"""The private file: as float32 three weights for each of four features."""
KEY = "site.key"


@pytest.fixture(autouse=True)
def _at_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(KEY).write_bytes(SECRET)


def outside(name: str = "w", shape: tuple[int, ...] = (WIDTH, 3), location: str = KEY) -> TensorProto:
    """A tensor whose numbers are in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def model_of(nodes: Any, initializers: Any = (), **more: Any) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", 3])]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **more)


def product(inputs: Any = ("x", "w")) -> onnx.NodeProto:
    return helper.make_node("MatMul", list(inputs), ["logits"])


INSIDE = numpy_helper.from_array(np.zeros((WIDTH, 3), np.float32), "w")
INDICES = numpy_helper.from_array(np.arange(12, dtype=np.int64), "")


def with_attribute(value: Any, **about: Any) -> onnx.ModelProto:
    """A model of which one node has an attribute that nobody uses."""
    node = product()
    node.attribute.append(
        helper.make_attribute("own", value) if not about else onnx.AttributeProto(name="own", **about)
    )
    return model_of([node], [INSIDE])


def constant(**value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["w"], **value)


def branches(initializers: Any = ()) -> onnx.ModelProto:
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    inner = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    one, other = (helper.make_graph(inner, name, [], made, list(initializers)) for name in ("one", "other"))
    truth = numpy_helper.from_array(np.array(True), "c")
    return model_of([helper.make_node("If", ["c"], ["logits"], then_branch=one, else_branch=other)], [truth])


def function(body: Any, **about: Any) -> onnx.ModelProto:
    own = helper.make_function("own", "layer", ["a"], ["b"], body, [helper.make_opsetid("", 17)], **about)
    return model_of([helper.make_node("layer", ["x"], ["logits"], domain="own")], functions=[own])


def sparse(values: TensorProto, indices: TensorProto) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(values=values, indices=indices, dims=[WIDTH, 3])


def sparse_initializer() -> onnx.ModelProto:
    found = model_of([product()])
    found.graph.sparse_initializer.append(sparse(outside("w", (12,)), INDICES))
    return found


def sparse_indices() -> onnx.ModelProto:
    values, places = numpy_helper.from_array(np.ones(6, np.float32), "w"), outside("", (6,))
    places.data_type = TensorProto.INT64
    return model_of([constant(sparse_value=sparse(values, places)), product()])


def training_graph() -> onnx.ModelProto:
    found = model_of([product()], [INSIDE])
    graph = onnx.GraphProto.FromString(PLACES["graph"]().graph.SerializeToString())
    found.training_info.append(onnx.TrainingInfoProto(algorithm=graph))
    return found


IDENTITY = helper.make_node("Identity", ["a"], ["b"])
SPARSE = onnx.AttributeProto.SPARSE_TENSORS
PLACES: dict[str, Callable[[], onnx.ModelProto]] = {
    "graph": lambda: model_of([product()], [outside()]),
    "constant": lambda: model_of([constant(value=outside()), product()]),
    "list of tensors": lambda: with_attribute([outside()]),
    "subgraph": lambda: branches([outside()]),
    "list of subgraphs": lambda: with_attribute([branches([outside()]).graph.node[0].attribute[0].g]),
    "function": lambda: function([constant(value=outside()), helper.make_node("MatMul", ["a", "w"], ["b"])]),
    "default of a function": lambda: function([IDENTITY], attribute_protos=[helper.make_attribute("value", outside())]),
    "sparse values": sparse_initializer,
    "sparse indices": sparse_indices,
    "list of sparse tensors": lambda: with_attribute(
        None, type=SPARSE, sparse_tensors=[sparse(outside("v", (12,)), INDICES)]
    ),
    "training graph": training_graph,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_model_that_names_another_file_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.onnx").write_bytes(PLACES[place]().SerializeToString())
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("a session was made"))
    with pytest.raises(InputError, match="names another file for its weights; save it with its weights in one file"):
        OnnxModel("m.onnx")


@pytest.mark.parametrize("change", ["location", "data"])
def test_half_a_reference_is_refused_too(change: str) -> None:
    """A flag without a file, and a file without a flag: which of them counts is up to the runtime."""
    tensor = outside()
    tensor.ClearField("external_data" if change == "location" else "data_location")
    with pytest.raises(InputError, match="names another file"):
        check_self_contained(model_of([product()], [tensor]).SerializeToString())


def test_exchanged_weights_do_not_keep_a_fingerprint() -> None:
    """The fingerprint covers one file; with weights in another one, two models would have the same."""
    Path("w.bin").write_bytes(np.ones(12, np.float32).tobytes())
    Path("m.onnx").write_bytes(model_of([product()], [outside(location="w.bin")]).SerializeToString())
    with pytest.raises(InputError, match="names another file"):
        OnnxModel("m.onnx")
    found = []
    for weights in (np.ones((WIDTH, 3), np.float32), np.zeros((WIDTH, 3), np.float32)):
        Path("m.onnx").write_bytes(model_of([product()], [numpy_helper.from_array(weights, "w")]).SerializeToString())
        found.append(OnnxModel("m.onnx").fingerprint)
    assert found[0] != found[1]


def test_the_runtime_itself_finds_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second lock: without the check, the runtime still looks into an empty folder only."""
    Path("m.onnx").write_bytes(PLACES["graph"]().SerializeToString())
    plain = onnxruntime.InferenceSession(Path("m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    read = plain.run(None, {"x": np.eye(WIDTH, dtype=np.float32)})[0].tobytes()
    assert read == SECRET  # without any lock
    monkeypatch.setattr(runner, "check_self_contained", lambda _: None)
    for location in (KEY, f"./{KEY}", f"../{Path.cwd().name}/{KEY}", str(Path(KEY).resolve())):
        Path("m.onnx").write_bytes(model_of([product()], [outside(location=location)]).SerializeToString())
        with pytest.raises(InputError, match="no ONNX model that can be run"):
            OnnxModel("m.onnx")


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"this is no model",
        b"\x3a\x05ab",  # a graph that is cut off
        b"\x3b\x3c",  # a group, which ONNX has none of
        b"\xba\x80\x80\x80\x80\x01\x00",  # a number of a field that is too large
        b"\x80" * 20,  # a number without an end
        field(7, field(5, bytes([14 << 3, 0x80]))),  # the same in a tensor
        field(7, b"\x2a\x7f"),
    ],
)
def test_bytes_that_cannot_be_walked_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="no ONNX model that can be run"):
        check_self_contained(data)


def test_a_deep_nest_of_subgraphs_is_refused() -> None:
    found = field(5, field(14, b""))
    for _ in range(3000):
        inner = b"\x0a" + _length(found)  # a node of a graph
        found = b"\x2a" + _length(b"\x32" + _length(inner))  # an attribute with a graph
    with pytest.raises(InputError, match="no ONNX model that can be run"):
        check_self_contained(b"\x3a" + _length(b"\x0a" + _length(found)))


def _length(content: bytes) -> bytes:
    size, found = len(content), b""
    while size > 127:
        found += bytes([size & 127 | 128])
        size >>= 7
    return found + bytes([size]) + content


def test_a_flatbuffer_is_not_read_as_a_model() -> None:
    """ONNX Runtime has a format of its own, which this walk does not know."""
    Path("m.ort").write_bytes(b"\x1c\x00\x00\x00ORTM" + bytes(64))
    with pytest.raises(InputError, match="no ONNX model that can be run"):
        OnnxModel("m.ort")


def test_a_model_with_its_weights_inside_is_run() -> None:
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(WIDTH, 3), "w")
    for found in (model_of([product()], [weights]), branches([weights])):
        Path("m.onnx").write_bytes(found.SerializeToString())
        assert OnnxModel("m.onnx").probabilities(features(3)).shape == (3, 3)
