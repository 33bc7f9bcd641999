"""Real sites: the hospital, the camera or the skin type that a column of the data names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset
from fedconformal.training.data.partitions.partition import Partition, Sites


@dataclass(frozen=True, kw_only=True)
class Column(Partition):
    """One site for each value of a column, in alphabetical order; nothing is random.

    Rows without a value belong to no site: leave them out first, with `dataset.having(column)`.

    Attributes:
        column: the one whose values are the sites.

    >>> import numpy as np
    >>> from fedconformal.training.data import Dataset, Rows
    >>> rows = Rows(x=np.zeros((3, 1), np.float32), y=np.array([0, 0, 0]), columns={"ward": np.array(["b", "a", "b"])})
    >>> sites = Column(column="ward").split(Dataset(name="tiny", classes=("c",), train=rows, val=rows, test=rows))
    >>> sites.names, sites.train.tolist()
    (('a', 'b'), [1, 0, 1])
    """

    name = "column"

    column: str

    def split(self, dataset: Dataset, seed: int = 0) -> Sites:
        values = {split: dataset.column(split, self.column) for split in SPLITS}
        every = np.concatenate(list(values.values()))
        if nowhere := int(np.count_nonzero(every == "")):
            raise InputError(
                f"{dataset.name}: {nowhere} rows have no value in {self.column!r}; "
                f"leave them out with dataset.having({self.column!r})"
            )
        sites = np.unique(every)
        owners = {split: np.searchsorted(sites, values[split]) for split in SPLITS}
        return Sites(names=tuple(str(site) for site in sites), **owners)
