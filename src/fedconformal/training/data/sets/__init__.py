"""The data sets, one file for each publisher."""

from fedconformal.training.data.sets.source import DataSource

__all__ = ["DataSource"]
