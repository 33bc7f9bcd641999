"""How good prediction sets are: coverage and size, over all rows and in groups."""

from fedconformal.evaluation.sets import GROUP_COLUMNS, Evaluation, Group, evaluate_sets

__all__ = ["GROUP_COLUMNS", "Evaluation", "Group", "evaluate_sets"]
