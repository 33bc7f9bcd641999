"""Flower's partitioners, the real ones where they are installed, and one of the same form everywhere."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fedconformal.errors import InputError
from fedconformal.training.data import SPLITS, Dataset, Sites
from fedconformal.training.data.partitions import FlowerPartition
from tests.training.data.made import random_dataset


class Table(dict[str, list[Any]]):
    """As much of a Hugging Face dataset as is needed."""

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> "Table":
        return cls(columns)

    @property
    def column_names(self) -> list[str]:
        return list(self)

    def select(self, rows: list[int]) -> "Table":
        return Table({name: [values[i] for i in rows] for name, values in self.items()})


class OneForEachValue:
    """Parts by a column, as Flower's NaturalIdPartitioner does; its dataset is set once."""

    def __init__(self, partition_by: str, lose: int = 0, double: int = 0) -> None:
        self.partition_by, self.lose, self.double = partition_by, lose, double
        self._dataset: Table | None = None

    def is_dataset_assigned(self) -> bool:
        return self._dataset is not None

    @property
    def dataset(self) -> Table:
        assert self._dataset is not None
        return self._dataset

    @dataset.setter
    def dataset(self, value: Table) -> None:
        assert self._dataset is None
        self._dataset = value

    @property
    def num_partitions(self) -> int:
        return len(set(self.dataset[self.partition_by]))

    def load_partition(self, partition_id: int) -> Table:
        values = self.dataset[self.partition_by]
        wanted = sorted(set(values))[partition_id]
        rows = [i for i, value in enumerate(values) if value == wanted]
        return self.dataset.select(rows[self.lose :] + rows[: self.double])


class Vertical(OneForEachValue):
    def load_partition(self, partition_id: int) -> Table:
        return Table(label=self.dataset["label"])


@pytest.fixture
def huggingface(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("datasets")
    module.Dataset = Table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def check(dataset: Dataset, sites: Sites) -> None:
    for split in SPLITS:
        assert len(sites.owners(split)) == len(dataset.rows(split)) == sites.sizes(split).sum()


def test_a_partitioner_of_the_same_form(huggingface: None) -> None:
    dataset = random_dataset((50, 20, 30), classes=4)
    partition = FlowerPartition(partitioner=OneForEachValue("where"))
    sites = partition.split(dataset, seed=5)
    check(dataset, sites)
    for split in SPLITS:
        for k, value in enumerate("abc"):
            assert set(sites.rows(dataset, split, k).columns["where"]) == {value}
    assert np.array_equal(partition.split(dataset, seed=5).train, sites.train)  # it can be used again
    by_label = FlowerPartition(partitioner=OneForEachValue("label")).split(dataset)
    assert np.array_equal(by_label.val, dataset.val.y)


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (OneForEachValue("where", lose=1), "OneForEachValue: puts 3 rows in no partition and 0 in several"),
        (OneForEachValue("where", double=2), "OneForEachValue: puts 0 rows in no partition and 6 in several"),
        (Vertical("where"), "Vertical: parts columns, not rows"),
    ],
)
def test_partitioners_that_do_not_give_each_row_to_one(huggingface: None, partitioner: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FlowerPartition(partitioner=partitioner).split(random_dataset((50, 20, 30), classes=4))


def test_a_partitioner_that_is_used_up(huggingface: None) -> None:
    partitioner = OneForEachValue("where")
    partitioner.dataset = Table(where=[])
    with pytest.raises(InputError, match="has a dataset already; give a fresh partitioner"):
        FlowerPartition(partitioner=partitioner).split(random_dataset((5, 5, 5), classes=2))


def test_without_flower_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="pip install flwr-datasets"):
        FlowerPartition(partitioner=OneForEachValue("where")).split(random_dataset((5, 5, 5), classes=2))


@pytest.mark.filterwarnings("ignore")  # theirs, about theirs
def test_the_real_partitioners() -> None:
    real = pytest.importorskip("flwr_datasets.partitioner", reason="flwr-datasets is not installed")
    dataset = random_dataset((600, 200, 200), classes=5)
    for partitioner in (
        real.IidPartitioner(num_partitions=4),
        real.DirichletPartitioner(num_partitions=4, partition_by="label", alpha=0.5),
        real.ShardPartitioner(num_partitions=4, partition_by="label", num_shards_per_partition=2),
        real.NaturalIdPartitioner(partition_by="where"),
    ):
        sites = FlowerPartition(partitioner=partitioner).split(dataset, seed=1)
        check(dataset, sites)
        assert np.array_equal(FlowerPartition(partitioner=partitioner).split(dataset, seed=1).test, sites.test)
        # The three splits are draws from one pool, so a site's share of each is about the same.
        shares = [sites.sizes(split) / len(dataset.rows(split)) for split in SPLITS]
        assert np.abs(np.diff(shares, axis=0)).max() < 0.15
    taken = real.PathologicalPartitioner(num_partitions=2, partition_by="label", num_classes_per_partition=1)
    with pytest.raises(InputError, match=r"PathologicalPartitioner: puts .* rows in no partition"):
        FlowerPartition(partitioner=taken).split(dataset)
