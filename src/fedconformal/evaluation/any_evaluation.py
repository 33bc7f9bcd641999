"""What is found about sets or about intervals."""

from __future__ import annotations

from fedconformal.evaluation.regression import IntervalEvaluation
from fedconformal.evaluation.sets import Evaluation

AnyEvaluation = Evaluation | IntervalEvaluation
