"""The wrapper for MLflow, with MLflow itself, whose pins need an environment of its own.

python -m venv .venv-mlflow && .venv-mlflow/bin/pip install mlflow -e ".[serve]" pytest hypothesis skl2onnx
.venv-mlflow/bin/python -m pytest -W ignore tests/serving/test_mlflow.py   # MLflow warns while it is imported
"""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import fedconformal as fc
from fedconformal.serving.mlflow import log
from fedconformal.serving.onnx import OnnxModel
from tests.serving.models import CLASSES, features, predictor, write_model

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # those of MLflow
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("sets")
    with mlflow.start_run() as active:
        yield active


def test_a_model_from_code_answers_as_the_library(run: Any, tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path / "model.onnx"))
    rule, rows = predictor(model), features(50, seed=4)
    rule.save(tmp_path / "predictor.json")
    logged = log(tmp_path / "predictor.json", tmp_path / "model.onnx")
    found = mlflow.pyfunc.load_model(logged.model_uri).predict(rows)
    sets = rule.predict_set(model.probabilities(rows))
    assert found["set"].tolist() == [[CLASSES[label] for label in np.flatnonzero(row)] for row in sets]
    assert np.array_equal(np.array(found["p_values"].tolist()), rule.predict_p(model.probabilities(rows)))
    assert set(found["sentence"]) == {rule.certificate.sentence()}
    stored = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    assert [path.name for path in stored.rglob("*") if path.suffix in (".pkl", ".pickle")] == []


def test_columns_of_probabilities_are_matched_by_name(run: Any, tmp_path: Path) -> None:
    rule = predictor()
    rule.save(tmp_path / "predictor.json")
    loaded = mlflow.pyfunc.load_model(log(tmp_path / "predictor.json").model_uri)
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], size=9)
    turned = pd.DataFrame(probs[:, ::-1], columns=CLASSES[::-1])
    assert loaded.predict(turned)["set"].tolist() == loaded.predict(probs)["set"].tolist()
    with pytest.raises(fc.InputError, match="is no class"):
        loaded.predict(pd.DataFrame(probs, columns=["benign", "malignant", "other"]))
