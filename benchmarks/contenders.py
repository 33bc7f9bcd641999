"""The same job done by everybody: calibrate on (probs, labels), return (n, J) sets for the rows of `test`.

Probabilities go in as they are: MAPIE sees a prefit model that returns its input, TorchCP's scores are set to
"identity", as a second softmax would be silent. All scores are deterministic.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc

ALPHA = 0.1
PENALTY, FREE_RANKS = 0.001, 1
SORTED_AT_ONCE = 2**17
SCORES = {
    "lac": fc.LAC(),
    "aps": fc.APS(),
    "raps": fc.RAPS(penalty=PENALTY, free_ranks=FREE_RANKS),
    "saps": fc.SAPS(),
    "margin": fc.Margin(),
    "topk": fc.TopK(),
}

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]
Job = Callable[[Matrix, Labels, Matrix], Any]


def fedconformal(name: str, *, allow_empty: bool = False) -> Job:
    """Use the public functions, every check included."""
    score = SCORES[name]

    def run(probs: Matrix, labels: Labels, test: Matrix) -> Any:
        summary = fc.Summary.of_scores(score.evaluate(probs, labels), kind="exact", score=score)
        return score.predict_set(test, fc.calibrate([summary], alpha=ALPHA).threshold, allow_empty=allow_empty)

    return run


def lower_bound(name: str) -> Job:
    """Do the least there seems to be: for LAC one unchecked pass, else sort the values of both halves in chunks."""
    return one_pass if name == "lac" else sorts


def one_pass(probs: Matrix, labels: Labels, test: Matrix) -> Any:
    """Gather, select, compare."""
    own = probs[np.arange(len(probs)), labels]
    rank = int(np.floor((len(own) + 1) * ALPHA))
    return test >= np.partition(own, rank - 1)[rank - 1]


def sorts(probs: Matrix, labels: Labels, test: Matrix) -> None:  # noqa: ARG001
    """Sort and forget."""
    step = SORTED_AT_ONCE // probs.shape[1]
    for half in (probs, test):
        for start in range(0, len(half), step):
            np.sort(half[start : start + step], axis=1)


def mapie(name: str) -> Job:
    """MAPIE's split conformal classifier; its RAPS holds out a fifth of the rows to choose the penalty itself."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Identity(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self, classes: int = 2) -> None:
            self.classes = classes
            self.classes_ = np.arange(classes)
            self.n_features_in_ = classes

        def fit(self, X: Matrix, y: Labels) -> Any:
            return self

        def predict_proba(self, X: Matrix) -> Matrix:
            return X

        def predict(self, X: Matrix) -> Any:
            return X.argmax(axis=1)

        def __sklearn_is_fitted__(self) -> bool:
            return True

    def run(probs: Matrix, labels: Labels, test: Matrix) -> Any:
        predictor = SplitConformalClassifier(
            Identity(probs.shape[1]), confidence_level=1 - ALPHA, conformity_score=name, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # not every class is among the labels
            return predictor.conformalize(probs, labels).predict_set(test)[1][:, :, 0]

    return run


def torchcp(name: str) -> Job:
    """TorchCP's split predictor."""
    import torch

    load_torchcp()
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS, LAC, RAPS, SAPS, TOPK, Margin

    makers: dict[str, Callable[[], Any]] = {
        "lac": lambda: LAC(score_type="identity"),
        "aps": lambda: APS(score_type="identity", randomized=False),
        "raps": lambda: RAPS(score_type="identity", randomized=False, penalty=PENALTY, kreg=FREE_RANKS),
        "saps": lambda: SAPS(score_type="identity", randomized=False),
        "margin": lambda: Margin(score_type="identity"),
        "topk": lambda: TOPK(score_type="identity", randomized=False),
    }

    def run(probs: Matrix, labels: Labels, test: Matrix) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            predictor = SplitPredictor(makers[name](), alpha=ALPHA)
        inputs = torch.from_numpy(probs)
        own = inputs.clone() if name == "margin" else inputs  # which it writes into
        predictor.calculate_threshold(own, torch.from_numpy(labels))
        return predictor.predict_with_logits(torch.from_numpy(test)).numpy()

    return run


def load_torchcp() -> None:
    """Make `torchcp.classification` importable by itself; graphs and language models need much more."""
    if "torchcp" in sys.modules:
        return
    spec = importlib.util.find_spec("torchcp")
    if spec is None:
        raise ImportError("torchcp is not installed")
    package = types.ModuleType("torchcp")
    package.__path__ = list(spec.submodule_search_locations or [])
    sys.modules["torchcp"] = package
    if importlib.util.find_spec("torchsort") is None:  # used by one training loss only
        stand_in = types.ModuleType("torchsort")
        vars(stand_in).update(soft_rank=None, soft_sort=None)
        sys.modules["torchsort"] = stand_in


MAKERS: dict[str, Callable[[str], Job]] = {
    "bound": lower_bound,
    "fedconformal": fedconformal,
    "TorchCP": torchcp,
    "MAPIE": mapie,
}


def available(name: str) -> tuple[dict[str, Job], dict[str, str]]:
    """Return everybody who can be run, and for the others why not."""
    jobs, missing = {}, {}
    for who, make in MAKERS.items():
        try:
            jobs[who] = make(name)
        except Exception as error:  # noqa: BLE001
            missing[who] = f"{type(error).__name__}: {error}"
    return jobs, missing
