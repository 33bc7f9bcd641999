"""The path that apps of earlier versions import; the code is in `engines/flower/learning.py`."""

from fedconformal.engines.flower.learning import add_handlers

__all__ = ["add_handlers"]
