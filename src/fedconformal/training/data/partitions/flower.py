"""Partitioners of Flower Datasets, used as they are.

One partitioner parts the shuffled rows of all three splits at once. So a site's rows to train, calibrate and test
with are draws from one pool, with any partitioner, and its training share is also its calibration share.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset
from fedconformal.training.data.partitions.partition import Partition, Sites, numbered

ROW = "fedconformal_row"


@dataclass(frozen=True, kw_only=True)
class FlowerPartition(Partition):
    """Part a data set with a `flwr_datasets.partitioner`; its columns are `label` and those of the data set.

    A partitioner that leaves rows out is refused.

        FlowerPartition(partitioner=DirichletPartitioner(num_partitions=10, partition_by="label", alpha=0.5))
    """

    partitioner: Any

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        try:
            from datasets import Dataset as Table
        except ImportError:
            raise InputError("partitioners of Flower need: pip install flwr-datasets") from None
        if self.partitioner.is_dataset_assigned():
            raise InputError(f"{self._kind}: has a dataset already; give a fresh partitioner")
        sizes = [len(dataset.rows(split)) for split in SPLITS]
        order = np.random.default_rng(seed).permutation(sum(sizes))
        columns = {"label": np.concatenate([dataset.rows(split).y for split in SPLITS]), ROW: np.arange(sum(sizes))}
        for name in dataset.train.columns:
            columns[name] = np.concatenate([dataset.column(split, name) for split in SPLITS])
        # A partitioner takes one table only: a copy takes it, and the one that was given can be used again.
        partitioner = copy.deepcopy(self.partitioner)
        partitioner.dataset = Table.from_dict({name: values[order].tolist() for name, values in columns.items()})
        parts = [partitioner.load_partition(k) for k in range(partitioner.num_partitions)]
        owners = self._owners(parts, sum(sizes))
        train, val, test = np.split(owners, np.cumsum(sizes)[:-1])
        return Sites(names=numbered(len(parts)), train=train, val=val, test=test)

    @property
    def _kind(self) -> str:
        return type(self.partitioner).__name__

    def _owners(self, parts: list[Any], rows: int) -> Integers:
        if any(ROW not in part.column_names for part in parts):
            raise InputError(f"{self._kind}: parts columns, not rows; take a partitioner that parts rows")
        taken = [np.asarray(part[ROW], np.int64) for part in parts]
        times = np.bincount(np.concatenate(taken), minlength=rows)
        if (times != 1).any():
            raise InputError(
                f"{self._kind}: puts {np.count_nonzero(times == 0)} rows in no partition and "
                f"{np.count_nonzero(times > 1)} in several; take one that gives every row to one"
            )
        owners = np.empty(rows, np.int64)
        for k, chosen in enumerate(taken):
            owners[chosen] = k
        return owners
