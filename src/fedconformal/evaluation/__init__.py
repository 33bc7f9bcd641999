"""How good prediction sets are: coverage and size, over all rows and in groups; and when to abstain."""

from fedconformal.evaluation.reliability import Reliability, reliability
from fedconformal.evaluation.selective import Selective, selective_classification
from fedconformal.evaluation.sets import GROUP_COLUMNS, Evaluation, Group, evaluate_sets

__all__ = [
    "GROUP_COLUMNS",
    "Evaluation",
    "Group",
    "Reliability",
    "Selective",
    "evaluate_sets",
    "reliability",
    "selective_classification",
]
