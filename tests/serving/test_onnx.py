"""A row gets the same bits alone, among others, at calibration and later; models that cannot be served are refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from fedconformal.errors import InputError
from fedconformal.serving import onnx as runner
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service
from tests.contracts.tools import refused
from tests.serving.models import CLASSES, WIDTH, features, labels, predictor, write_model

ESTIMATORS = {
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(20, random_state=0),
    "network": MLPClassifier((16,), max_iter=300, random_state=0, tol=0.01),
}


def linear(path: Path, *, rows: Any = "rows", output: str = "logits", width: Any = WIDTH, **more: Any) -> Path:
    """Write one linear layer; its sizes may be fixed or not, its output called anything."""
    weights = np.random.default_rng(0).normal(size=(WIDTH, 3)).astype(np.float32)
    kind = more.get("kind", TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info("x", kind, [rows, width])]
    inputs += [helper.make_tensor_value_info(name, kind, [rows, WIDTH]) for name in more.get("inputs", ())]
    given = (output, *more.get("also", ()))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3]) for name in given]
    nodes = [helper.make_node("MatMul", ["x", "w"], [output])] if kind == TensorProto.FLOAT else []
    if kind != TensorProto.FLOAT:
        nodes = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("MatMul", ["f", "w"], [output])]
    nodes += [helper.make_node("Identity", [output], [name]) for name in given[1:]]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_row_has_the_same_bits_in_every_batch(name: str, tmp_path: Path) -> None:
    model, rows = OnnxModel(write_model(tmp_path / "m.onnx", estimator=ESTIMATORS[name])), features(200, seed=9)
    whole = model.probabilities(rows)
    for size in (1, 2, 3, 7, 63, 64, 65, 199):
        parts = [model.probabilities(rows[start : start + size]) for start in range(0, len(rows), size)]
        assert np.array_equal(np.concatenate(parts), whole), size


def test_logits_become_probabilities_at_a_temperature(tmp_path: Path) -> None:
    model, rows = OnnxModel(linear(tmp_path / "m.onnx")), features(5)
    assert model.gives == "logits"
    cold, warm = model.probabilities(rows), model.probabilities(rows, temperature=2.0)
    assert np.allclose(cold.sum(axis=1), 1)
    assert np.allclose(warm, np.sqrt(cold) / np.sqrt(cold).sum(axis=1, keepdims=True))


def test_one_row_of_logits_may_look_like_probabilities(tmp_path: Path) -> None:
    model = OnnxModel(linear(tmp_path / "m.onnx"))
    weights = np.random.default_rng(0).normal(size=(WIDTH, 3)).astype(np.float32)
    looks = np.array([0.5, 0.25, 0.25])
    row = np.linalg.lstsq(weights.T.astype(np.float64), looks, rcond=None)[0]
    assert np.allclose(model.probabilities(row[None]), np.exp(looks) / np.exp(looks).sum(), atol=1e-6)


def test_rows_that_are_fixed_in_the_file_are_filled_up(tmp_path: Path) -> None:
    fixed, free = OnnxModel(linear(tmp_path / "a.onnx", rows=8)), OnnxModel(linear(tmp_path / "b.onnx"))
    rows = features(19)
    assert np.allclose(fixed.probabilities(rows), free.probabilities(rows), atol=1e-6)
    assert np.array_equal(fixed.probabilities(rows)[:3], fixed.probabilities(rows[:3]))


def test_the_fingerprint_is_of_the_file_and_of_how_it_is_run(tmp_path: Path) -> None:
    path = linear(tmp_path / "m.onnx")
    same, copy = OnnxModel(path), tmp_path / "copy.onnx"
    copy.write_bytes(path.read_bytes())
    other = OnnxModel(linear(tmp_path / "o.onnx", rows=8))
    assert same.fingerprint == OnnxModel(copy).fingerprint
    assert len({same.fingerprint, other.fingerprint, OnnxModel(path, gives="probs").fingerprint}) == 3
    assert same.fingerprint.startswith("onnx:")
    assert len(same.fingerprint) <= 64


def test_a_predictor_for_another_model_is_refused(tmp_path: Path) -> None:
    mine, other = OnnxModel(write_model(tmp_path / "a.onnx")), OnnxModel(linear(tmp_path / "b.onnx"))
    Service(predictor(mine), mine)
    with pytest.raises(InputError, match="was calibrated for the model onnx:"):
        Service(predictor(mine), other)
    with pytest.raises(InputError, match="was calibrated for no model"):
        Service(predictor(), mine)
    with pytest.raises(InputError, match="was calibrated for an ONNX model; give that model too"):
        Service(predictor(mine))


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        ({"inputs": ["y"]}, "has 2 inputs, x, y; expected one of numbers"),
        ({"kind": TensorProto.INT64}, "expected numbers, float or double"),
        ({"output": "a", "also": ["b"]}, "has the outputs a, b"),
    ],
)
def test_models_that_do_not_fit_are_refused(about: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        OnnxModel(linear(tmp_path / "m.onnx", **about))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (np.zeros((2, 5)), "have 5 numbers a row, the model takes 4"),
        (np.zeros(4), "expected rows of numbers"),
        (np.zeros((0, 4)), "expected rows of numbers"),
        (np.array([[0.0] * 4, [np.nan] * 4]), "row 1 holds a value that is not finite"),
        (np.full((1, 4), 1e300), "row 0 holds a value that is not finite as float32"),
    ],
)
def test_bad_features_are_refused(rows: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        OnnxModel(linear(tmp_path / "m.onnx")).probabilities(rows)


def test_dictionaries_strange_features_and_a_temperature_of_probabilities_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="zipmap"):
        OnnxModel(write_model(tmp_path / "m.onnx", zipmap=True))
    with pytest.raises(InputError, match="the model cannot take them"):
        OnnxModel(linear(tmp_path / "m.onnx", width="columns")).probabilities(np.zeros((2, 9)))
    with pytest.raises(InputError, match="a temperature is for logits"):
        OnnxModel(write_model(tmp_path / "m.onnx")).probabilities(features(2), temperature=2.0)


def test_class_names_in_another_order_than_the_models_are_refused(tmp_path: Path) -> None:
    rows = features(50)
    fitted = LogisticRegression().fit(rows, np.array(CLASSES)[labels(rows)])
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(fitted, rows[:1], options={"zipmap": False}).SerializeToString())
    model = OnnxModel(path)
    model.check_names(rows, CLASSES)
    model.check_names(rows[:1], CLASSES)
    with refused(param="classes"):
        model.check_names(rows, CLASSES[::-1])
    OnnxModel(write_model(tmp_path / "numbers.onnx")).check_names(rows, CLASSES[::-1])  # whose labels are numbers


def naming(path: Path, location: Path | str) -> bytes:
    """Write a linear layer whose weights are in another file."""
    model = onnx.load(linear(path))
    (weights,) = model.graph.initializer
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=str(location))
    path.write_bytes(model.SerializeToString())
    return path.read_bytes()


@pytest.mark.parametrize("length", [b"\x08", b"\x88\x00", b"\x88\x80\x80\x00"])
def test_a_model_that_names_another_file_is_refused(
    tmp_path: Path, length: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could carry the file out in its scores, or be exchanged; however the length of the key is written."""
    path = tmp_path / "m.onnx"
    path.write_bytes(naming(path, "site.key").replace(b"\x08location", length + b"location"))
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: pytest.fail("a session was made"))
    with pytest.raises(InputError, match="names another file for its weights"):
        OnnxModel(path)


def test_the_runtime_itself_finds_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second lock: without the check, the runtime still looks into an empty folder only."""
    monkeypatch.chdir(tmp_path)
    path, private, secret = tmp_path / "m.onnx", tmp_path / "site.key", bytes(range(1, 49))
    private.write_bytes(secret)
    plain = onnxruntime.InferenceSession(naming(path, private.name), providers=["CPUExecutionProvider"])
    assert plain.run(None, {"x": np.eye(WIDTH, dtype=np.float32)})[0].tobytes() == secret  # without any lock
    monkeypatch.setattr(runner, "LOCATION", re.compile(b"never"))
    for location in (private.name, private):
        naming(path, location)
        with pytest.raises(InputError, match="no ONNX model that can be run"):
            OnnxModel(path)


@pytest.mark.parametrize("data", [b"", b"this is no model", b"\x3a\x05ab", b"\x1c\x00\x00\x00ORTM" + bytes(64)])
def test_bytes_that_are_no_model_are_refused(tmp_path: Path, data: bytes) -> None:
    """Among them the format of ONNX Runtime's own, in which a file is named otherwise."""
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError, match="no ONNX model that can be run"):
        OnnxModel(path)
