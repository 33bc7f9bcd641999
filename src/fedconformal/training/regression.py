"""What a run that learns to predict a number leaves: predictions.npz, and how large the errors are.

No temperature is fitted, so all validation rows calibrate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedconformal.federated.outputs import COLUMNS
from fedconformal.training.data import Dataset, Sites
from fedconformal.training.logits import Answers, write_answers


@dataclass(frozen=True, kw_only=True)
class RegressionResult:
    """How good the trained regressor is.

    Attributes:
        target: what it predicts.
        columns: what it answers with, such as lower and upper.
        mean_absolute_error: on the test rows of all sites, of the prediction, or of the middle of lower and upper.
        rows: how many rows trained, calibrate and test.
        seconds: how long the training took, since its last start.
    """

    target: str
    columns: tuple[str, ...]
    mean_absolute_error: float
    root_mean_squared_error: float
    clients: int
    rows: dict[str, int]
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {**asdict(self), "columns": list(self.columns), "seconds": round(self.seconds, 3)}


def finish_regression(
    dataset: Dataset, sites: Sites, val: Answers, test: Answers
) -> tuple[str, bytes, RegressionResult]:
    """Measure the errors, and write the predictions."""
    columns = COLUMNS[test.logits.shape[1]]
    middle = test.logits[:, columns.index("prediction")] if "prediction" in columns else test.logits.mean(axis=1)
    errors = middle.astype(np.float64) - test.labels
    target = "" if dataset.target is None else dataset.target.name
    result = RegressionResult(
        target=target,
        columns=columns,
        mean_absolute_error=float(np.abs(errors).mean()),
        root_mean_squared_error=float(np.sqrt(np.square(errors).mean())),
        clients=len(sites),
        rows={"train": len(dataset.train), "calibration": len(dataset.val), "test": len(dataset.test)},
    )
    parts = {"val": val, "test": test}
    keys = ("predictions", "targets")
    return "predictions.npz", write_answers(parts, sites, keys, columns=columns, target=target), result
