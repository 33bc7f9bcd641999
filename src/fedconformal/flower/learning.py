"""The path that apps of earlier versions import; the code is in `engines/flower/learning.py`."""

from fedconformal.engines.flower.learning import outputs, train_reply

__all__ = ["outputs", "train_reply"]
