"""Coverage and size of sets and intervals, overall and by group; tests of the promise."""

from fedconformal.evaluation.regression import IntervalEvaluation, evaluate_intervals
from fedconformal.evaluation.sets import Evaluation, evaluate_sets, full_sets

AnyEvaluation = Evaluation | IntervalEvaluation

__all__ = [
    "AnyEvaluation",
    "Evaluation",
    "IntervalEvaluation",
    "evaluate_intervals",
    "evaluate_sets",
    "full_sets",
]
