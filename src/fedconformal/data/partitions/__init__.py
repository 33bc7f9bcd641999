"""The ways to part a data set among sites."""

from fedconformal.data.partitions.classes import Classes, Overlap
from fedconformal.data.partitions.column import Column
from fedconformal.data.partitions.dirichlet import Dirichlet
from fedconformal.data.partitions.flower import FlowerPartition
from fedconformal.data.partitions.iid import IID
from fedconformal.data.partitions.partition import Partition, Sites

__all__ = ["IID", "Classes", "Column", "Dirichlet", "FlowerPartition", "Overlap", "Partition", "Sites"]
