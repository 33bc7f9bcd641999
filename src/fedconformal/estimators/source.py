"""Where probabilities come from: whose rows they are, and which estimator, function or user says them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, as_sites
from fedconformal._base.classes import class_names, rows_at, table_of
from fedconformal._base.groups import Groups
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError, InputTypeError
from fedconformal.summaries.provenance import Classes, Provenance, as_classes

Site = tuple[Any, ArrayLike] | tuple[Any, ArrayLike, Groups]
"""A site's rows, their labels, and their groups where the promise is by group."""


@dataclass(frozen=True, eq=False)
class Source:
    """Turns rows into probabilities, the columns in the order of the classes.

    >>> source = Source.of(lambda rows: [[1 - row, row] for row in rows], ["no", "yes"])
    >>> source.names, source.probabilities([0.25])
    (('no', 'yes'), [[0.75, 0.25]])
    """

    estimator: Any
    names: Classes | None = None
    """The names of the classes in order, or their number; None if that is not known yet."""
    classes: NDArray[Any] | None = None
    """The classes as labels have them, where an estimator has learned them."""

    @classmethod
    def of(cls, estimator: Any, names: Sequence[str] | None, classes: NDArray[Any] | None = None) -> Source:
        """Find out the classes: by default those that the estimator says."""
        if estimator is not None and not hasattr(estimator, "predict_proba") and not callable(estimator):
            raise InputError(
                f"estimator is {abbreviate(estimator)}, which has no predict_proba; give a classifier that has, "
                "such as "
                "scikit-learn's LogisticRegression, or CalibratedClassifierCV around another"
            )
        if classes is None:  # those of a method, such as pipeline.predict_proba, are its object's
            found = getattr(estimator, "classes_", getattr(getattr(estimator, "__self__", None), "classes_", None))
            classes = None if found is None else np.asarray(found)
        said = None if names is None else as_classes(names)
        if classes is None:
            return cls(estimator, said)
        known = as_classes(class_names(classes))
        if said is not None and (differ := Provenance(classes=said).difference(Provenance(classes=known))):
            raise InputError(f"{differ}; the estimator has its own, so leave out classes=")
        return cls(estimator, known if said is None else said, classes)

    def probabilities(self, rows: Any) -> Any:
        """Return what the estimator says; a class that it has not seen in training has no probability."""
        if self.estimator is None:
            return rows
        has = hasattr(self.estimator, "predict_proba")
        probs = self.estimator.predict_proba(rows) if has else self.estimator(rows)
        seen = getattr(self.estimator, "classes_", None)
        if self.classes is None or seen is None or len(seen) == len(self.classes):
            return probs
        wide = np.zeros((len(probs), len(self.classes)), dtype=probs.dtype)
        wide[:, np.searchsorted(self.classes, seen)] = probs
        return wide

    def named_by(self, probs: Any) -> Source:
        """Take the names from the first table of probabilities, where nobody else says them."""
        return self if self.names is not None else replace(self, names=table_of(probs)[0])

    def classes_of(self, labels: int | Sequence[str] | None) -> NDArray[Any]:
        """Return the classes as users have them: the estimator's, or the names, or numbers."""
        if self.classes is not None:
            return self.classes
        return np.arange(labels) if isinstance(labels, int) else np.array(labels)


@contextmanager
def prefix_site_errors(site: Any) -> Iterator[None]:
    """Say which site an error is from."""
    try:
        yield
    except InputError as error:
        raise error.at(f"site {site!r}") from error
    except (ValueError, TypeError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError  # scikit-learn tells the two apart
        raise kind(f"site {site!r}: {error}") from error


def scored_by(source: Source, sites: Mapping[str, Site]) -> Iterator[tuple[str, Any, Any, Groups | None]]:
    """Give each site's probabilities, labels and groups, one site at a time."""
    for name, site in sites.items():
        with prefix_site_errors(name):
            rows, labels, *groups = site
            probs = source.probabilities(rows)
        yield name, probs, labels, groups[0] if groups else None


def sites_at(index: Mapping[str, Integers], X: Any, y: ArrayLike, groups: Groups | None) -> dict[str, Site]:
    """Part all rows, labels and groups into those of each site; they must be equally many, or rows would be lost."""
    _check_rows(len(np.asarray(y)), X=X, **{f"groups {name!r}": values for name, values in (groups or {}).items()})
    found: dict[str, Site] = {}
    for name, mine in index.items():
        rows, labels = rows_at(X, mine), rows_at(y, mine)
        held = {column: rows_at(values, mine) for column, values in (groups or {}).items()}
        found[name] = (rows, labels) if groups is None else (rows, labels, held)
    return found


def _check_rows(labels: int, **tables: Any) -> None:
    for name, table in tables.items():
        rows = table.shape[0] if hasattr(table, "shape") else len(np.asarray(table))
        if rows != labels:
            raise InputError(f"{name} has {rows} rows, and there are {labels} labels; give one label for each row")


def index_of(rows: int, sites: Any) -> dict[str, Integers]:
    """Return which rows are a site's, by its name; without ids all are of one site.

    >>> index_of(3, ["b", "a", "b"])
    {'a': array([1]), 'b': array([0, 2])}
    """
    if sites is None:
        return {"#1": np.arange(rows)}
    names, of_row = np.unique(as_sites(sites, rows=rows, name="sites"), return_inverse=True)
    return {str(name): np.flatnonzero(of_row == k) for k, name in enumerate(names)}


def held_out(index: Mapping[str, Integers], share: Any, rng: Any) -> dict[str, Integers]:
    """Choose the same share of each site's rows at random, one at least; labels have no say in it."""
    if not isinstance(share, float) or not 0 < share < 1:
        raise InputError(f"test_size is {abbreviate(share)}, expected a share between 0 and 1, such as 0.25")
    return {name: rng.permutation(mine)[: math.ceil(share * len(mine))] for name, mine in index.items()}
