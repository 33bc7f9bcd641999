"""The data sets, one file for each publisher."""

from fedconformal.data.sets.base import Source

__all__ = ["Source"]
