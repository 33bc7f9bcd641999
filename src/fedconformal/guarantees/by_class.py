"""A promise given the true label: each class is covered by itself, so a rare one is not paid for by the others.

Vovk, "Conditional validity of inductive conformal predictors", 2012, for one site. Across sites the proof of `Mixture`
serves the rows of a class: with sites in proportion to n_k, rank ceil((1 - alpha) N_c) + 1 of the N_c scores of the
class, wherever they are. So a class takes 1/alpha scores in all. With other weights lambda_k the price is the
largest lambda_k / n_k of all sites, n_k all rows of the site; the largest over the sites that happen to hold the class
would be too small (.783 at .9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedconformal._base.names import listed, name_key, shown
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Counts, Guarantee
from fedconformal.guarantees.mixture import Mixture
from fedconformal.guarantees.planning import shortfall

Names = Sequence[str] | int | None
"""The names of classes, their number, or neither."""


@dataclass(frozen=True)
class ByClass(Guarantee):
    """Keep a guarantee for every class by itself: one threshold a class, +inf where too few rows were seen.

    Every class takes as many scores as the guarantee takes in all: 1 / alpha for `Mixture()`.

    Attributes:
        guarantee: what is promised to each class.

    >>> ByClass(Mixture()).to_dict()
    {'name': 'by-class', 'guarantee': {'name': 'mixture', 'weights': 'rows'}}
    """

    guarantee: Guarantee = field(default_factory=Mixture)

    name = "by-class"
    why_not_fractional = "a loss need not have a class"
    caveat = (
        "Each class is promised by itself, on average over calibration draws: one that falls below on some test "
        "rows is not a violation. It is not a promise to a set size, nor to a single site's rows of a class unless "
        "that is stated. The summaries show how many calibration rows of each class a site has."
    )

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(), cls(Mixture(weights=(0.5, 0.3, 0.2)))

    def __post_init__(self) -> None:
        given: Any = self.guarantee
        if isinstance(given, Guarantee) and given.by_group:
            raise InputError("by-class: by group and by class is ByGroup(ByClass(...)), the groups outside")
        if not isinstance(given, Guarantee) or given.by_class:
            raise InputError(f"{self.name}: {given!r:.60} is not a guarantee such as fedconformal.Mixture()")

    @property
    def kept(self) -> Guarantee:
        return self.guarantee

    @property
    def by_class(self) -> bool:
        return True

    @property
    def sites_apart(self) -> bool:
        return self.guarantee.sites_apart

    # Not a class variable as in the others: it follows from what is kept.
    @property
    def assumption(self) -> str:  # type: ignore[override]
        """What the promise rests on."""
        return self.guarantee.assumption_in_class

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        """Return what promises coverage to a class, from the counts and sizes of that class alone."""
        return self.guarantee.bind(sites, sizes).in_class(sizes)

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return what is promised to a class that all rows are of."""
        return self.guarantee.in_class(sizes).promised(counts, sizes)

    def plainly(self, sites: Sequence[str]) -> str:
        return f"the cases of each right answer by itself: {self.guarantee.plainly(sites)}"

    def promise(self, sites: Sequence[str]) -> str:
        return f"given the true label, whichever it is, {self.guarantee.promise_in_class(sites)}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "guarantee": self.guarantee.to_dict()}


def class_key(given: Any, field: str) -> str:
    """Return the name or the number of a class as it is compared.

    >>> class_key(1, "shares"), class_key(" benign", "shares")
    ('1', 'benign')
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 0:
        return str(int(given))
    if not isinstance(given, str) or not name_key(given):
        raise InputError(f"{field}: {shown(repr(given))} is not the name of a class, nor its number from 0")
    return name_key(given)


def class_place(name: str, classes: Sequence[str], count: int, field: str) -> int:
    """Find a class by its name; or by its number, if no class has a number for a name.

    >>> class_place("1", ["benign", "malignant"], 2, "shares"), class_place("1", ["2", "1"], 2, "shares")
    (1, 1)
    """
    names = list(map(name_key, classes)) or list(map(str, range(count)))
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < count and not any(known.isdecimal() for known in names):
        return int(name)
    raise InputError(f"{field}: no class is called {shown(repr(name))}; there are {listed(names)}")


def name_of(parameters: Mapping[str, Any]) -> str:
    """Name a described guarantee in a word or two.

    >>> name_of(ByClass().to_dict())
    'mixture by class'
    """
    name = str(parameters["name"])
    inner = [value for value in parameters.values() if isinstance(value, Mapping)]
    return f"{name_of(inner[0])} {name.replace('-', ' ')}" if inner else name


def class_called(label: int, names: Names = None) -> str:
    """Return what a class is called, or its number; names may also be the number of classes, as certificates have it.

    >>> class_called(1, ["benign", "malignant"]), class_called(1, 2)
    ('malignant', '1')
    """
    known = names if isinstance(names, Sequence) and label < len(names) else None
    return str(label) if known is None else shown(known[label])


def to_classes(labels: Sequence[int], names: Names = None) -> str:
    """Say to which classes something cannot be promised, the first ten by label.

    >>> to_classes([3, 5]), to_classes([1], ["benign", "malignant"])
    ('to the classes 3, 5, which are', 'to class malignant, which is')
    """
    if len(labels) == 1:
        return f"to class {class_called(labels[0], names)}, which is"
    rest = f" and {len(labels) - 10} more" if len(labels) > 10 else ""
    return f"to the classes {', '.join(class_called(label, names) for label in labels[:10])}{rest}, which are"


def shortfalls(
    bound: Guarantee,
    alpha: Fraction,
    labels: Sequence[int],
    sizes_of: Callable[[int], Counts],
    sites: Sequence[str],
    names: Names = None,
) -> str:
    """Say what each of these classes is missing, from the sizes that it has at the sites; the first five by label.

    >>> sizes = {1: [5, 2], 3: [0, 1]}
    >>> bound = Mixture().in_class([20, 20])
    >>> words = shortfalls(bound, Fraction(1, 10), [1, 3], sizes.__getitem__, ["a", "b"])
    >>> print(*words.split("; "), sep=chr(10))
    class 1: calibration scores needed: 3 more in all, at any site (10 of each class)
    class 3: calibration scores needed: 9 more in all, at any site (10 of each class)
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for label in labels[:5]:
        alike.setdefault(tuple(sizes_of(label)), []).append(label)
    parts = [
        f"{'class' if len(some) == 1 else 'classes'} {', '.join(class_called(label, names) for label in some)}: "
        f"{shortfall(bound, alpha, held, sites)}"
        for held, some in alike.items()
    ]
    return "; ".join([*parts, *([f"and {len(labels) - 5} more classes"] if len(labels) > 5 else [])])
