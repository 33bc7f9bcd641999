"""For sites that trust each other, or the coordinator, less than fully."""

from fedconformal.privacy.screening import Screened, screen

__all__ = ["Screened", "screen"]
