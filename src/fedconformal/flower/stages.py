"""The path that apps of earlier versions import; the code is in `engines/flower/stages.py`."""

from fedconformal.engines.flower.stages import run_stages

__all__ = ["run_stages"]
