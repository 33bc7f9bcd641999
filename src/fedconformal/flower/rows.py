"""The path that apps of earlier versions import; the code is in `engines/flower/rows.py`."""

from fedconformal.engines.flower.rows import deal, own_rows

__all__ = ["deal", "own_rows"]
