"""For sites that trust each other, or the coordinator, less than fully."""

from fedconformal.privacy.screening import Screened, screen
from fedconformal.privacy.sums import Sums, calibrate_by_sums

__all__ = ["Screened", "Sums", "calibrate_by_sums", "screen"]
