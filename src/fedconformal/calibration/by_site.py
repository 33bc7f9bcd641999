"""Rows by site: which rows are whose, which of them are held out, and whose an error is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Integers, as_clients
from fedconformal._base.names import shown
from fedconformal.calibration.source import Source
from fedconformal.errors import InputError

Site = tuple[Any, ArrayLike]


@contextmanager
def naming_site(site: Any) -> Iterator[None]:
    """Say which site an error is from."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(f"site {site!r}: {error}") from error


def scored_by(source: Source, sites: Mapping[str, Site]) -> Iterator[tuple[str, Any, Any]]:
    """Give each site's probabilities and labels, one site at a time."""
    for name, site in sites.items():
        with naming_site(name):
            rows, labels = site
            probs = source.probabilities(rows)
        yield name, probs, labels


def index_of(rows: int, sites: Any) -> dict[str, Integers]:
    """Return which rows are a site's, by its name; without ids all are of one site.

    >>> index_of(3, ["b", "a", "b"])
    {'a': array([1]), 'b': array([0, 2])}
    """
    if sites is None:
        return {"#1": np.arange(rows)}
    names, of_row = np.unique(as_clients(sites, rows=rows, name="sites"), return_inverse=True)
    return {str(name): np.flatnonzero(of_row == k) for k, name in enumerate(names)}


def held_out(index: Mapping[str, Integers], share: Any, rng: Any) -> dict[str, Integers]:
    """Choose the same share of each site's rows at random, one at least; labels have no say in it."""
    if not isinstance(share, float) or not 0 < share < 1:
        raise InputError(f"test_size is {shown(share)}, expected a share between 0 and 1, such as 0.25")
    return {name: rng.permutation(mine)[: math.ceil(share * len(mine))] for name, mine in index.items()}
