"""No row is lost or doubled, a seed says it all, and the three splits are parted alike."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedconformal._base.registry import members, rebuild
from fedconformal.errors import InputError
from fedconformal.training.data import SPLITS, Dataset, Partition, Rows, Sites, partitions
from tests.training.data.made import random_dataset

IID, Classes, Column = partitions.IID, partitions.Classes, partitions.Column
Dirichlet, Overlap = partitions.Dirichlet, partitions.Overlap


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    sizes = draw(st.tuples(*[st.integers(0, 60)] * 3))
    return random_dataset(sizes, classes=draw(st.integers(2, 12)), seed=draw(st.integers(0, 9)))


@st.composite
def parted(draw: st.DrawFn) -> tuple[Dataset, Partition]:
    dataset = draw(datasets())
    classes = dataset.num_classes
    order = draw(st.permutations(range(classes)))
    kinds = [
        IID(clients=draw(st.integers(1, 15))),
        Classes(groups=(order[: classes // 2], order[classes // 2 :])),
        Classes(groups=(range(classes), order[:1])),
        Overlap(classes_per_client=draw(st.integers(2, classes))),
        Dirichlet(clients=draw(st.integers(1, 4)), concentration=draw(st.floats(0.01, 100))),
        Column(column="where"),
    ]
    return dataset, draw(st.sampled_from(kinds))


def split_or_none(dataset: Dataset, partition: Partition, seed: int) -> Sites | None:
    """Some data sets are too small: that is said, and then there is nothing to check."""
    try:
        return partition.split(dataset, seed)
    except InputError as error:
        said = "less than 2 rows" in str(error) or "one name a site" in str(error)
        if said and isinstance(partition, Dirichlet | Column):
            return None
        raise


@given(parted(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_every_row_has_exactly_one_site(case: tuple[Dataset, Partition], seed: int) -> None:
    dataset, partition = case
    if not (sites := split_or_none(dataset, partition, seed)):
        return
    for split in SPLITS:
        whole = dataset.rows(split)
        parts = [sites.rows(dataset, split, k) for k in range(len(sites))]
        assert [len(part) for part in parts] == sites.sizes(split).tolist()
        together = np.concatenate([part.x for part in parts])
        # The rows are random numbers: equal when sorted means that none is lost and none is doubled.
        assert np.array_equal(np.sort(together, axis=0), np.sort(whole.x, axis=0))
        labels = np.concatenate([part.y for part in parts])
        assert np.array_equal(labels[np.argsort(together[:, 0])], whole.y[np.argsort(whole.x[:, 0])])


@given(parted(), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_the_same_seed_gives_the_same_sites(case: tuple[Dataset, Partition], seed: int) -> None:
    dataset, partition = case
    first, second = split_or_none(dataset, partition, seed), split_or_none(dataset, partition, seed)
    if first and second:
        for split in SPLITS:
            assert np.array_equal(first.owners(split), second.owners(split))


@pytest.mark.parametrize("width", [2, 3, 4, 10])
def test_the_papers_sweep_on_ten_classes(width: int) -> None:
    dataset = random_dataset((5000, 500, 500), classes=10)
    sites = Overlap(classes_per_client=width).split(dataset)
    assert len(sites) == 5
    for split in SPLITS:
        for k in range(5):
            held = set(sites.rows(dataset, split, k).y.tolist())
            assert held == {(2 * k + i) % 10 for i in range(width)}
    # A class that several sites have is dealt out evenly among them.
    holders = np.bincount(sites.train[dataset.train.y == 0], minlength=5)
    assert np.ptp(holders[holders > 0]) <= 1


def test_dirichlet_shares_are_the_same_in_every_split() -> None:
    dataset = random_dataset((20000, 20000, 20000), classes=4)
    sites = Dirichlet(clients=5, concentration=0.3).split(dataset, seed=3)
    shares = []
    for split in SPLITS:
        table = np.zeros((4, 5))
        np.add.at(table, (dataset.rows(split).y, sites.owners(split)), 1)
        shares.append(table / table.sum(axis=1, keepdims=True))
    assert np.allclose(shares[0], shares[1], atol=1e-3)
    assert np.allclose(shares[0], shares[2], atol=1e-3)
    assert shares[0].max() > 0.6  # and far from even


def test_dirichlet_leaves_nobody_without_rows() -> None:
    dataset = random_dataset((400, 100, 100), classes=4)
    for seed in range(5):
        sites = Dirichlet(clients=6, concentration=0.2).split(dataset, seed)
        assert min(sites.sizes(split).min() for split in SPLITS) >= 2


def test_a_site_without_rows_of_a_split_is_said(caplog: pytest.LogCaptureFixture) -> None:
    dataset = random_dataset((40, 40, 40), classes=2)
    only_first = dataset.val.take(dataset.val.y == 0)
    Classes(groups=((0,), (1,))).split(dataclasses.replace(dataset, val=only_first))
    assert "no val rows at site-1" in caplog.text


def test_column_keeps_the_names_of_the_sites() -> None:
    dataset = random_dataset((50, 20, 20), classes=2, values="xyz")
    sites = Column(column="where").split(dataset)
    assert sites.names == ("x", "y", "z")
    assert set(sites.rows(dataset, "test", 1).columns["where"]) == {"y"}


def test_partitions_are_built_from_a_configuration() -> None:
    assert set(members(Partition)) == {"classes", "column", "dirichlet", "iid", "overlap"}
    assert rebuild({"name": "overlap", "classes_per_client": 3}, Partition) == Overlap(classes_per_client=3)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (IID(clients=0), "clients is 0"),
        (Dirichlet(clients=-1), "clients is -1"),
        (Dirichlet(concentration=float("nan")), "concentration is nan"),
        (Dirichlet(concentration=1e300), "concentration is 1e.300, expected above 0"),
        (Dirichlet(clients=40), "some of 40 sites are always left with less than 2 rows"),
        (Overlap(classes_per_client=1), "classes_per_client is 1, expected 2 to 4"),
        (Classes(), "random: has no class groups"),
        (Classes(groups=((0, 1), (2,))), "no site has class 3 of random"),
        (Classes(groups=((0, 1), (2, 3, 4))), "4 is no class of random"),
        (Column(column="ward"), "has no column 'ward'; there are where"),
    ],
    ids=str,
)
def test_what_cannot_be_parted_is_said(partition: Partition, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        partition.split(random_dataset((60, 30, 30), classes=4))


def test_rows_without_a_value_are_not_given_to_a_site_in_silence() -> None:
    rows = Rows(x=np.zeros((3, 1), np.float32), y=np.zeros(3, np.int64), columns={"skin": np.array(["I", "", "II"])})
    dataset = Dataset(name="tiny", classes=("c",), train=rows, val=rows, test=rows)
    with pytest.raises(InputError, match=r"3 rows have no value in 'skin'; leave them out"):
        Column(column="skin").split(dataset)
    assert Column(column="skin").split(dataset.having("skin")).names == ("I", "II")


def test_sites_check_themselves() -> None:
    ok = np.array([0, 1])
    with pytest.raises(InputError, match="every val row needs a site, a number from 0 to 1"):
        Sites(names=("a", "b"), train=ok, val=np.array([2]), test=ok)
    with pytest.raises(InputError, match="each a different one"):
        Sites(names=("a", "a"), train=ok, val=ok, test=ok)
