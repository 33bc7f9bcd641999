"""The data sets themselves, where they are at hand: in $FEDCONFORMAL_DATA, in the cache or from Debian."""

from pathlib import Path

import numpy as np
import pytest

from fedconformal.errors import InputError
from fedconformal.training.data import SPLITS, Dataset, load, partitions
from fedconformal.training.data.download import find

SIZES = {
    "bloodmnist": 17092,
    "cifar10": 60000,
    "cifar100": 60000,
    "dermamnist": 10015,
    "digits": 1797,
    "fashionmnist": 70000,
    "heart_disease": 920,
    "pathmnist": 107180,
    "tissuemnist": 236386,
}
SUBSETS = {"pathmnist": 47184}
"""Rows of `subsets/`, for data sets that may be there in part only."""


def at_hand(name: str) -> Dataset:
    try:
        return load(name, download=False)
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", SIZES)
def test_all_rows_are_there_and_the_paper_parts_them(name: str) -> None:
    dataset = at_hand(name)
    assert sum(len(dataset.rows(split)) for split in SPLITS) in (SIZES[name], SUBSETS.get(name))
    assert set(dataset.train.y) == set(range(dataset.num_classes))
    partition = partitions.Classes() if dataset.groups else partitions.Column(column="hospital")
    sites = partition.split(dataset)
    for split in SPLITS:
        assert sites.sizes(split).min() > 0
        for k, group in enumerate(dataset.groups or ()):
            assert set(dataset.rows(split).y[sites.owners(split) == k]) <= set(group)


def test_cifar100_is_in_the_order_of_the_published_logits() -> None:
    dataset = at_hand("cifar100")
    path = find("logits") or Path("nowhere")
    published = sorted(path.glob("*cifar100*.npz"))
    if not published:
        pytest.skip("the published logits are not at hand")
    with np.load(published[0]) as logits:
        assert np.array_equal(dataset.val.y, logits["val_labels"].ravel())
        assert np.array_equal(dataset.test.y, logits["test_labels"].ravel())


def test_the_four_hospitals() -> None:
    dataset = at_hand("heart_disease")
    sites = partitions.Column(column="hospital").split(dataset)
    assert sites.names == ("cleveland", "hungarian", "switzerland", "va")
    assert sum(sites.sizes(split) for split in SPLITS).tolist() == [303, 294, 123, 200]  # type: ignore[union-attr]
    everyone = np.concatenate([dataset.rows(split).x for split in SPLITS])
    assert np.isfinite(everyone).all()
    assert np.abs(everyone).max() < 10
    sick = np.concatenate([dataset.rows(split).y for split in SPLITS])
    assert int(sick.sum()) == 509
