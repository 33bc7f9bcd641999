"""The ways to part a data set among sites."""

from fedconformal.training.data.partitions.classes import Classes, Overlap
from fedconformal.training.data.partitions.column import Column
from fedconformal.training.data.partitions.dirichlet import Dirichlet
from fedconformal.training.data.partitions.flower import FlowerPartition
from fedconformal.training.data.partitions.iid import IID
from fedconformal.training.data.partitions.partition import Partition, Sites

__all__ = ["IID", "Classes", "Column", "Dirichlet", "FlowerPartition", "Overlap", "Partition", "Sites"]
