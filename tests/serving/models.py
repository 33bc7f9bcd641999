"""Models, predictors and clients that the tests of the server share."""

from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

import fedconformal as fc
from fedconformal.monitoring.store import Watch
from fedconformal.serving.app import Settings, make_app
from fedconformal.serving.onnx import OnnxModel
from tests.serving.asgi import Client

CLASSES = ["benign", "malignant", "unsure"]
WIDTH = 4
TOKEN = b"a-token-that-nobody-guesses"


def features(rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)


def labels(rows: Any) -> Any:
    noise = np.random.default_rng(7).normal(size=(len(rows), 3))
    return (rows[:, :3] + noise).argmax(axis=1)


def write_model(path: Path, *, estimator: Any = None, zipmap: bool = False) -> Path:
    """Train a classifier of scikit-learn, and write it as ONNX."""
    rows = features(300, seed=1)
    fitted = (LogisticRegression() if estimator is None else estimator).fit(rows, labels(rows))
    path.write_bytes(to_onnx(fitted, rows[:1], options={"zipmap": zipmap}).SerializeToString())
    return path


def predictor(model: OnnxModel | None = None, *, alpha: float = 0.2, rows: int = 200, **about: Any) -> fc.Predictor:
    """Calibrate on one site; without a model, on probabilities."""
    given = features(rows, seed=2)
    probs = fc.softmax(2 * given[:, :3]) if model is None else model.probabilities(given)
    truth = np.array(CLASSES)[labels(given)]
    said = {"score": fc.LAC(), "classes": CLASSES, "site": "a", "model": None if model is None else model.fingerprint}
    site = fc.summarize(probs, truth, kind="exact", **{**said, **about})
    return fc.calibrate([site], alpha=alpha)


def client(
    rule: fc.Predictor | None = None,
    *,
    model: OnnxModel | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> Client:
    """A client of the app, in this process."""
    app = make_app(rule or predictor(model), model=model, watch=watch, settings=Settings(**settings))
    return Client(app)
