"""Sites by their names: summaries in the order of these, and weights and sizes such as clinic-a=0.7,clinic-b=0.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal._base.spec import Spec
from fedconformal.cli.console import note
from fedconformal.errors import InputError
from fedconformal.summaries.summary import Summary

T = TypeVar("T")
SHOWN = 10


def by_name(text: str, option: str) -> dict[str, str] | None:
    """Read NAME=VALUE,..., each name once; None if the values have no names.

    >>> by_name("clinic-a=0.7,clinic-b=0.3", "--weights"), by_name("0.7,0.3", "--weights")
    ({'clinic-a': '0.7', 'clinic-b': '0.3'}, None)
    """
    if "=" not in text:
        return None
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        key = name_key(name)
        if not equals or not key or not value.strip():
            raise InputError(f"{option}: {abbreviate(repr(part))} is not SITE=NUMBER; give every site its name")
        if key in found:
            raise InputError(f"{option}: the site {abbreviate(repr(key))} is there twice")
        found[key] = value.strip()
    return found


def for_sites(given: Mapping[str, T], sites: Sequence[str], option: str) -> list[T]:
    """Return values in the order of the sites; every site must have one, and no other.

    >>> for_sites({"b": 0.3, "a": 0.7}, ["a", "b"], "--weights")
    [0.7, 0.3]
    """
    known = list(map(name_key, sites))
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise InputError(f"{option}: there is no site {abbreviate(repr(unknown))}; the sites are {join_names(known)}")
    lacking = next((name for name in known if name not in given), None)
    if lacking is not None:
        raise InputError(f"{option}: the site {abbreviate(repr(lacking))} has no value; give every site one")
    return [given[name] for name in known]


def in_order(paths: Sequence[Path], sites: Sequence[Sequence[str]]) -> list[int]:
    """Return where each file goes in the order of the site names, and say so if that is another one."""
    if not all(sites):
        return list(range(len(paths)))
    order = sorted(range(len(paths)), key=lambda k: tuple(map(name_key, sites[k])))
    if order != sorted(order):
        note(f"the sites are taken in the order of their names: {join_names([sites[k][0] for k in order])}")
    return order


def place_weights(spec: Spec[T], sites: Sequence[str] | None = None, order: Sequence[int] = ()) -> Spec[T]:
    """Put the weights in a spec, by site name or in the order of the files, into the order of the sites.

    Without `sites` they stay in the order in which they are given, to check them before files are read.
    """
    values = dict(spec.values)
    values |= {key: place_weights(one, sites, order) for key, one in values.items() if isinstance(one, Spec)}
    weights = values.get("weights")
    if not isinstance(weights, tuple):
        return Spec(spec.cls, values)
    named = {name_key(str(one[0])): one[1] for one in weights if isinstance(one, tuple)}
    if named and len(named) < len(weights):
        raise InputError(
            "weights: give every site one weight, by its name or in the order of the files", param="guarantee"
        )
    if sites is None:
        placed = list(named.values()) or list(weights)
    elif named and not sites:
        raise InputError(
            "weights: the summaries have no site names; give them in the order of the files", param="guarantee"
        )
    elif named:
        placed = for_sites(named, sites, "weights")
    else:
        placed = [weights[k] for k in order] if len(weights) == len(order) else list(weights)
    return Spec(spec.cls, {**values, "weights": placed})


def unnamed_classes(summaries: Sequence[Summary], paths: Sequence[Path]) -> list[str]:
    """Say which sites only count the classes that others name: they were not compared."""
    stated = [summary.provenance.classes for summary in summaries]
    named = next((classes for classes in stated if isinstance(classes, tuple)), None)
    if named is None:
        return []
    silent = [str(path) for path, classes in zip(paths, stated, strict=True) if not isinstance(classes, tuple)]
    if not silent:
        return []
    they = "gives its" if len(silent) == 1 else "give their"
    taken = f"they are taken as {join_names(named)}, in this order"
    return [f"{join_names(silent)}: {they} {len(named)} classes no names; {taken}"]


def shares_in_words(shares: Mapping[str, float]) -> str:
    """Say which part of the rows each site has, by its own claim: in a sum nothing else bounds what it counts.

    >>> shares_in_words({"a": 0.25, "b": 0.75})
    'shares of the rows, by their own claim: b 75.0%, a 25.0%'
    """
    most = sorted(shares.items(), key=lambda item: -item[1])
    said = ", ".join(f"{abbreviate(name)} {part:.1%}" for name, part in most[:SHOWN])
    return f"shares of the rows, by their own claim: {said}" + (
        f" and {len(most) - SHOWN} more sites" if len(most) > SHOWN else ""
    )
