"""How badly a label fits: low scores conform."""

from fedconformal.scores.aps import APS
from fedconformal.scores.base import Score
from fedconformal.scores.lac import LAC
from fedconformal.scores.raps import RAPS

__all__ = ["APS", "LAC", "RAPS", "Score"]
