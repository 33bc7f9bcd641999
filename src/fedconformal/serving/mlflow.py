"""A predictor as an MLflow model, for people who have a model server already.

It is a model from code: MLflow stores a file of Python with the predictor and the ONNX model beside it, and no pickle.
What comes in are rows of features if there is an ONNX model, else probabilities; what goes out is a row with the set,
the p-values and the certificate's sentence for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.pyfunc import PythonModel, log_model

from fedconformal._base.classes import table_of
from fedconformal._version import __version__
from fedconformal.calibration.document import load
from fedconformal.serving.bodies import Rows
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service

CODE = Path(__file__).with_name("mlflow_model.py")
"""What MLflow runs to get the model."""


class SetsModel(PythonModel):
    """Loads a predictor and its model, and answers frames and arrays with a frame of sets."""

    def load_context(self, context: Any) -> None:
        """Read the files that were logged; a model that the predictor was not calibrated for is refused."""
        onnx = context.artifacts.get("onnx")
        self.service = Service(load(context.artifacts["predictor"]), None if onnx is None else OnnxModel(onnx))

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return a frame with a row for each row; columns of probabilities are matched by name if they have names."""
        names, values = table_of(model_input)
        form = "probabilities" if self.service.model is None else "features"
        columns = list(names) if names is not None and form == "probabilities" else None
        answer = self.service.answer(Rows(form=form, matrix=np.asarray(values), columns=columns))
        return pd.DataFrame(
            {"set": answer.labels(), "p_values": answer.p_values.tolist(), "sentence": answer.about["sentence"]}
        )


def log(predictor: str | Path, onnx: str | Path | None = None, *, name: str = "sets") -> Any:
    """Log a predictor, and the ONNX model that it was calibrated for, in MLflow's active run."""
    artifacts = {"predictor": str(predictor)} | ({} if onnx is None else {"onnx": str(onnx)})
    needs = [f"fedconformal[serve]=={__version__}"]
    return log_model(name=name, python_model=str(CODE), artifacts=artifacts, pip_requirements=needs)
