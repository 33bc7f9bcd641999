"""Summaries side by side: a column for each thing that a calibration asks of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import overload

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import name_key
from fedconformal.errors import InputError
from fedconformal.summaries.origin import Origin
from fedconformal.summaries.summary import Summary, check_origins


class Stack(Sequence[Summary]):
    """Several summaries, and the columns of what they say.

    Columns are put together from the summaries when they are first asked for; `Received` has them before it has any
    summary.

    >>> from fedconformal import summarize
    >>> stack = Stack([summarize([0.1, 0.3], site="a"), summarize([0.2], site="b")])
    >>> stack.sites, stack.sizes, stack.gaps
    ([('a',), ('b',)], [(2,), (1,)], [0, 0])
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        for kind in set(map(type, summaries)):
            if not issubclass(kind, Summary):
                raise InputError(f"expected summaries, got {kind.__name__}; fedconformal.summarize makes them")
        self._given = summaries

    @staticmethod
    def of(summaries: Sequence[Summary]) -> Stack:
        """Put summaries side by side, unless they are."""
        return summaries if isinstance(summaries, Stack) else Stack(summaries)

    @property
    def summaries(self) -> Sequence[Summary]:
        """The summaries themselves."""
        return self._given

    def __len__(self) -> int:
        return len(self.summaries)

    @overload
    def __getitem__(self, index: int) -> Summary: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Summary]: ...
    def __getitem__(self, index: int | slice) -> Summary | Sequence[Summary]:
        return self.summaries[index]

    def __iter__(self) -> Iterator[Summary]:
        return iter(self.summaries)

    def __repr__(self) -> str:
        return repr(self.summaries)

    @cached_property
    def sites(self) -> list[tuple[str, ...]]:
        """The names of the sites in each summary."""
        return [summary.sites for summary in self.summaries]

    @cached_property
    def sizes(self) -> list[tuple[int, ...]]:
        """How many scores each of these sites has."""
        return [summary.sizes for summary in self.summaries]

    @cached_property
    def names(self) -> list[str]:
        """The names of all sites; those without a name are numbered."""
        return names_of(self.sites, self.sizes)

    @cached_property
    def gaps(self) -> list[int]:
        """What each summary can be off by."""
        return [summary.gap for summary in self.summaries]

    @cached_property
    def origins(self) -> list[Origin]:
        """What the scores were made from: each once, in the order in which they come."""
        return list({id(summary.origin): summary.origin for summary in self.summaries}.values())

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each summary, by its name."""
        return [summary.name for summary in self.summaries]

    @cached_property
    def certified(self) -> bool:
        """Whether the counts of all summaries are bounded for sure."""
        return all(summary.certified for summary in self.summaries)

    @cached_property
    def digests(self) -> list[str]:
        """The SHA-256 of the bytes of each."""
        return [summary.digest() for summary in self.summaries]

    def points(self) -> tuple[Floats, Integers]:
        """Return the points of all summaries, one after the other, and by how much the lower count rises at each."""
        # Many sites share one column of counts.
        reached = [summary.reached for summary in self.summaries]
        rises = {key: np.diff(column, prepend=0) for key, column in {id(one): one for one in reached}.items()}
        values = np.concatenate([summary.points for summary in self.summaries])
        return values, np.concatenate([rises[id(column)] for column in reached])

    def lengths(self) -> list[int]:
        """Return how many points each summary has."""
        return [len(summary.points) for summary in self.summaries]


def names_of(sites: Sequence[Sequence[str]], sizes: Sequence[Sequence[int]]) -> list[str]:
    """Name every site; those without a name are numbered.

    >>> names_of([("a",), ()], [(5,), (2, 3)])
    ['a', '#2', '#3']
    """
    if all(sites):
        return list(chain.from_iterable(sites))
    names: list[str] = []
    for some, counts in zip(sites, sizes, strict=True):
        names += some or [f"#{len(names) + i + 1}" for i in range(len(counts))]
    return names


def check_together(summaries: Sequence[Summary], names: Sequence[str] = ()) -> None:
    """Refuse summaries that do not go together, naming both (by these names, such as file names, if given)."""
    stack = Stack.of(summaries)
    if len(set(map(bool, stack.sites))) > 1:
        raise InputError("some summaries have site names and some have none; name all of them or none")
    sites = list(map(name_key, chain.from_iterable(stack.sites)))
    if len(stack.origins) <= 1 and len(set(sites)) == len(sites):
        return
    names = names or [summary.label for summary in stack]
    check_origins([summary.origin for summary in stack], names)
    seen: dict[str, str] = {}
    for some, name in zip(stack.sites, names, strict=True):
        for site in map(name_key, some):
            if site in seen:
                raise InputError(
                    f"site {site!r} is there twice ({seen[site]}, {name}); give each site once, by its own name",
                    param="site",
                )
            seen[site] = name


def pool(summaries: Sequence[Summary]) -> Summary:
    """Put several sites into one message; it keeps every n_k and counts as that many sites.

    >>> import fedconformal as fc
    >>> both = fc.pool([fc.summarize([0.1, 0.3], site="a"), fc.summarize([0.2], site="b")])
    >>> both.sizes, both.count_at_most(0.2)
    ((2, 1), (2, 2))
    """
    summaries = list(summaries)
    if not summaries:
        raise InputError("there is nothing to pool")
    check_together(summaries)
    kind = type(summaries[0])
    if any(type(summary) is not kind for summary in summaries):
        raise InputError(f"only summaries of one kind pool; got {', '.join(sorted({s.name for s in summaries}))}")
    if any(summary.origin != summaries[0].origin for summary in summaries):
        raise InputError("only summaries that say the same of their scores pool; summarise all sites with one release")
    return kind.merge(
        summaries,
        sizes=tuple(size for summary in summaries for size in summary.sizes),
        sites=tuple(site for summary in summaries for site in summary.sites),
        origin=summaries[0].origin,
    )
