"""Partitioners of Flower Datasets, taken as they are.

One partitioner parts the shuffled rows of all three splits at once. So a site's rows to train, calibrate and test
with are draws from one pool, whatever the partitioner does, and its training share is also its calibration share.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedconformal.data.base import SPLITS, Dataset
from fedconformal.data.partitions.base import Partition, Sites, numbered
from fedconformal.errors import InputError

ROW = "fedconformal_row"


@dataclass(frozen=True, kw_only=True)
class FlowerPartition(Partition):
    """Part a data set with a `flwr_datasets.partitioner`; its columns are `label` and those of the data set.

    A partitioner that leaves rows out is refused.

        FlowerPartition(partitioner=DirichletPartitioner(num_partitions=10, partition_by="label", alpha=0.5))
    """

    partitioner: Any

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        """Give every row to the partition that Flower puts it in."""
        try:
            from datasets import Dataset as Table
        except ImportError:
            raise InputError("partitioners of Flower need: pip install flwr-datasets") from None
        sizes = [len(dataset.rows(split)) for split in SPLITS]
        order = np.random.default_rng(seed).permutation(sum(sizes))
        columns = {"label": np.concatenate([dataset.rows(split).y for split in SPLITS])}
        for name in dataset.train.columns:
            columns[name] = np.concatenate([dataset.column(split, name) for split in SPLITS])
        table = Table.from_dict(
            {name: values[order].tolist() for name, values in columns.items()} | {ROW: order.tolist()}
        )
        # A partitioner takes one table in its life, so that the one given stays fresh for the next call.
        partitioner = copy.deepcopy(self.partitioner)
        partitioner.dataset = table
        owners = np.full(sum(sizes), -1, np.int64)
        times = np.zeros(sum(sizes), np.int64)
        for k in range(partitioner.num_partitions):
            rows = np.asarray(partitioner.load_partition(k)[ROW], np.int64)
            owners[rows] = k
            np.add.at(times, rows, 1)
        if (times != 1).any():
            raise InputError(
                f"{type(partitioner).__name__}: {np.count_nonzero(times == 0)} rows are in no partition and "
                f"{np.count_nonzero(times > 1)} in several; take a partitioner that gives every row to one"
            )
        train, val, test = np.split(owners, np.cumsum(sizes)[:-1])
        return Sites(names=numbered(partitioner.num_partitions), train=train, val=val, test=test)
