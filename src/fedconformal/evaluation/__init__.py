"""How good prediction sets and intervals are: coverage and size, over all rows and in groups; and when to abstain."""

from fedconformal.evaluation.any_evaluation import AnyEvaluation
from fedconformal.evaluation.mixture import Reweighted
from fedconformal.evaluation.regression import IntervalEvaluation, IntervalGroup, evaluate_intervals
from fedconformal.evaluation.reliability import Reliability, reliability  # a module is called like this function
from fedconformal.evaluation.selective import Selective, selective_classification
from fedconformal.evaluation.sets import Evaluation, Group, evaluate_sets, full_sets
from fedconformal.evaluation.verdict import Verdict

__all__ = [
    "AnyEvaluation",
    "Evaluation",
    "Group",
    "IntervalEvaluation",
    "IntervalGroup",
    "Reliability",
    "Reweighted",
    "Selective",
    "Verdict",
    "evaluate_intervals",
    "evaluate_sets",
    "full_sets",
    "reliability",
    "selective_classification",
]
