"""How good prediction sets and intervals are: coverage and size, over all rows and in groups; and when to abstain."""

from typing import TYPE_CHECKING

from fedconformal._base.lazy import imported_late
from fedconformal.evaluation.reliability import Reliability, reliability  # a module is called like this function

if TYPE_CHECKING:
    from fedconformal.evaluation.any_evaluation import AnyEvaluation
    from fedconformal.evaluation.full import full_sets, full_words, why_full
    from fedconformal.evaluation.mixture import Reweighted
    from fedconformal.evaluation.regression import IntervalEvaluation, IntervalGroup, evaluate_intervals
    from fedconformal.evaluation.selective import Selective, selective_classification
    from fedconformal.evaluation.sets import Evaluation, Group, evaluate_sets
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
    "full_words",
    "reliability",
    "selective_classification",
    "why_full",
]

if not TYPE_CHECKING:  # of which a type checker would conclude that there is every name
    __getattr__, __dir__ = imported_late(
        __name__,
        {
            "any_evaluation": ("AnyEvaluation",),
            "full": ("full_sets", "full_words", "why_full"),
            "mixture": ("Reweighted",),
            "regression": ("IntervalEvaluation", "IntervalGroup", "evaluate_intervals"),
            "selective": ("Selective", "selective_classification"),
            "sets": ("Evaluation", "Group", "evaluate_sets"),
            "verdict": ("Verdict",),
        },
    )
