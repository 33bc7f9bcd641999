"""Coverage and size of sets and intervals, over all rows and in groups; verdicts on a promise."""

from fedconformal.evaluation.claims import Reweighted
from fedconformal.evaluation.regression import IntervalEvaluation, IntervalGroup, evaluate_intervals
from fedconformal.evaluation.sets import Evaluation, Group, evaluate_sets, full_sets
from fedconformal.evaluation.verdict import Verdict

AnyEvaluation = Evaluation | IntervalEvaluation

__all__ = [
    "AnyEvaluation",
    "Evaluation",
    "Group",
    "IntervalEvaluation",
    "IntervalGroup",
    "Reweighted",
    "Verdict",
    "evaluate_intervals",
    "evaluate_sets",
    "full_sets",
]
