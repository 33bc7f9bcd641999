"""The path that apps of earlier versions import; the code is in `engines/flower/handlers.py`."""

from fedconformal.engines.flower.handlers import add_handlers

__all__ = ["add_handlers"]
