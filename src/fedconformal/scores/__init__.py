"""How badly a label fits: low scores conform."""

from fedconformal.scores.aps import APS
from fedconformal.scores.lac import LAC
from fedconformal.scores.raps import RAPS
from fedconformal.scores.score import Score

__all__ = ["APS", "DEFAULT", "LAC", "RAPS", "Score"]

DEFAULT: Score = LAC()
"""What is used where no score is named; docs/scores.md has the evidence."""
