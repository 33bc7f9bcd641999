"""Strata, and the search for their smallest sufficient thresholds among the points of all summaries.

A stratum is all rows, a site, a group, a class or an end of an interval. The search depends neither on the kind of
summary, which bounds counts, nor on the guarantee, which maps counts to coverage. For a two-sided score, the lower
threshold is minus the threshold of the negated scores, and the two ends share alpha (union bound).

A promise curve is a step function from thresholds to promised coverage. Calibration scores in a published file would
permit membership inference (docs/threat-model.md). Thresholds are therefore rounded up to a public grid, with steps of
1 to 4 parts in sqrt(n) of a threshold for n rows, and the curve has only the certified alpha and one more per 64 rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Booleans, Floats, Integers, rising, shares_of
from fedconformal._base.groups import ALL, NONE
from fedconformal.certificates.certificate import Promise
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee, OneSite
from fedconformal.scores import AnyScore, RegressionScore, Score
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.format import MAX_GROUPS
from fedconformal.summaries.provenance import combine_provenances, number_of
from fedconformal.summaries.strata import StratifiedSummary, StratumKey, check_columns
from fedconformal.summaries.summary import Summary

MAX_POINTS = 1024
USUAL_ALPHAS = (*(Fraction(i, 100) for i in range(1, 51)), *(Fraction(i, 1000) for i in (1, 2, 5, 25)))
"""Levels at which an exact promise curve has no loss."""
ROWS_AN_ALPHA = 64
"""Number of rows per additional alpha of a published curve."""
FIRST = [Fraction(i, 100) for i in (10, 5, 20, 1, 50, 2, 30, 25, 15, 40)]
ALPHAS = [*FIRST, *(alpha for alpha in USUAL_ALPHAS if alpha not in FIRST)]
"""Levels of a published curve, in order of priority."""
SAMPLE = 2**14
"""Above this number of points, a sample of as many narrows the search."""
MARGIN = Fraction(1, 100)
"""Several standard errors of the coverage in a sample."""
UNSEEN = 4096
"""Maximum number of classes without scores in a certificate by class, in addition to the number with scores."""
EMPTY = ExactSummary(values=np.empty(0), sizes=(0,))


def check_thresholds(thresholds: Floats, levels: Sequence[int] | Integers, most: int) -> None:
    """Validate the columns of a curve."""
    if not 1 <= len(thresholds) == len(levels) <= most:
        raise InputError(f"the promise curve needs 1 to {most} points, and as many promises")
    if not np.isfinite(thresholds).all() or not rising(thresholds):
        raise InputError("the promise curve's thresholds are not finite and rising")


@dataclass(frozen=True, eq=False)
class PromiseCurve:
    """Promised coverage at each threshold, in units of 1e-15, rounded down; at most 1,024 steps.

    >>> curve = PromiseCurve(np.array([0.2, 0.7]), np.array([5 * 10**14, 9 * 10**14]))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20))
    (0.7, inf)
    >>> curve.p_values(np.array([0.1, 0.2, 0.5, 0.8]))
    array([1. , 1. , 0.5, 0.1])
    """

    thresholds: Floats
    promised: Integers

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds, self.promised, MAX_POINTS)
        if self.promised[0] < 0 or self.promised[-1] >= ALPHA_UNIT or not rising(self.promised):
            raise InputError("the promise curve's coverage is not rising between 0 and 1")

    def threshold(self, alpha: Fraction) -> float:
        """Return the smallest threshold that promises 1 - alpha, or +inf."""
        level = math.ceil((1 - alpha) * ALPHA_UNIT)
        index = int(np.searchsorted(self.promised, level, side="left"))
        return float(self.thresholds[index]) if index < len(self.thresholds) else math.inf

    def p_values(self, scores: Floats) -> Floats:
        """Return one minus the coverage promised just below each score; {p > alpha} is {score <= threshold(alpha)}."""
        p_values: Floats = (ALPHA_UNIT - np.append(0, self.promised)) / ALPHA_UNIT
        return p_values[np.searchsorted(self.thresholds, scores, side="left")]

    def few(
        self, alphas: Sequence[Fraction], rows: int, score: AnyScore | None = None, *, ends: int = 1
    ) -> PromiseCurve:
        """Return the rounded thresholds at the first alphas, as many as the number of rows permits for each end."""
        levels = sorted(list(dict.fromkeys(alphas))[: 1 + rows // ends // ROWS_AN_ALPHA], reverse=True)
        steps = {round_up(self.threshold(alpha), rows, score): in_units(1 - alpha) for alpha in levels}
        steps.pop(math.inf, None)
        if not steps:  # no finite threshold promises anything
            steps = {float(np.finfo(np.float64).max): 0}
        return PromiseCurve(np.array(list(steps)), np.array(list(steps.values()), dtype=np.int64))


class Points(NamedTuple):
    """Points of summaries, the increase of the count at each, and the group of its site if there are groups."""

    values: Floats
    rise: Integers
    group: Integers | None

    def at(self, places: Integers | Booleans | slice) -> Points:
        """Select points."""
        return Points(self.values[places], self.rise[places], None if self.group is None else self.group[places])


class Search:
    """Search over the candidate thresholds and their promised coverage.

    >>> from fedconformal import Mixture, Summary
    >>> search = Search([Summary.of_scores([0.1, 0.2, 0.3]), Summary.of_scores([0.2, 0.4])], Mixture(), [3, 2])
    >>> search.smallest(Fraction(3, 5)), search.smallest(Fraction(2, 5)), search.smallest(Fraction(1, 7))
    (0.2, 0.3, inf)
    """

    def __init__(
        self,
        summaries: Sequence[Summary],
        guarantee: Guarantee,
        sizes: Sequence[int],
        owners: Sequence[int] | None = None,
    ) -> None:
        """Initialise from one summary per size; `owners` are the indices of the sizes if summaries share them."""
        # The sizes are not stored, as a pooled message may claim a million sites, with one search per group.
        batch = SummaryBatch.of(summaries)
        group, self._promise = guarantee.grouped(sizes)
        self._groups = 1 if group is None else int(group.max()) + 1
        if owners is not None and group is not None:
            group = group[np.asarray(owners)]
        self._points = Points(*batch.points(), None if group is None else np.repeat(group, batch.lengths()))

    def _rises(self, points: Points) -> Floats:
        """Return the total increase of the counts by group."""
        if points.group is None:
            return np.array([points.rise.sum(dtype=np.int64)], dtype=np.float64)
        return np.bincount(points.group, points.rise, self._groups).astype(np.float64, copy=False)

    def _promised(self, counts: Floats) -> Fraction:
        """Return the coverage promised by counts, given as integer-valued floats, which are exact below 2^53."""
        return self._promise(counts[:, None].astype(np.int64))[0]

    def _firsts(
        self, wanted: Sequence[Fraction], points: Points, before: Floats, after: float = math.inf
    ) -> list[float]:
        """Return the first of ascending points, after counts `before`, that promise the levels, or else `after`."""
        values = points.values
        if not len(values):
            return [after] * len(wanted)
        pivot = float(values[len(values) // 2])
        start, stop = (int(np.searchsorted(values, pivot, side)) for side in ("left", "right"))
        upto = before + self._rises(points.at(slice(stop)))
        enough = bisect_right(wanted, self._promised(upto))
        firsts = self._firsts(wanted[:enough], points.at(slice(start)), before, pivot) if enough else []
        if enough < len(wanted):
            firsts += self._firsts(wanted[enough:], points.at(slice(stop, None)), upto, after)
        return firsts

    def smallest(self, alpha: Fraction) -> float:
        """Return the first point that promises 1 - alpha; +inf if there is none."""
        wanted, points, before = 1 - alpha, self._points, np.zeros(self._groups)
        if points.group is None and len(points.values) > SAMPLE:
            low, high = self._guess(wanted)
            upto = self._rises(points._replace(rise=points.rise * (points.values <= low)))  # faster than a selection
            near = points.at((points.values > low) & (points.values <= high))
            if self._promised(upto) < wanted <= self._promised(upto + self._rises(near)):
                points, before = near, upto
        return self._firsts([wanted], points.at(np.argsort(points.values)), before)[0]

    def _guess(self, wanted: Fraction) -> list[float]:
        """Return a probable lower and upper bound of the first point that promises a level, from a sample."""
        step = len(self._points.values) // SAMPLE
        sample = self._points.at(step * np.argsort(self._points.values[::step]))
        levels = [wanted - MARGIN, wanted + MARGIN]
        return self._firsts(levels, sample._replace(rise=sample.rise * step), np.zeros(self._groups))

    def curve(self, alpha: Fraction, usual: Sequence[Fraction] = USUAL_ALPHAS) -> PromiseCurve:
        """Return a curve of at most 1,024 points: all, or a grid, a fine tail, the usual alphas and this one."""
        points = self._points.at(np.argsort(self._points.values))
        # The last of equal values is the threshold, as all of them count there.
        ends = np.flatnonzero(np.append(points.values[1:] != points.values[:-1], True))
        thresholds, count = points.values[ends], len(ends)
        chosen = np.arange(count)
        if count > MAX_POINTS:
            exact = self._firsts(sorted(1 - level for level in {alpha, *usual}), points, np.zeros(self._groups))
            rest = MAX_POINTS - 1 - len(usual)
            even = np.linspace(0, count - 1, rest - rest // 4).astype(np.int64)
            tail = count - np.geomspace(1, count, rest // 4).astype(np.int64)
            chosen = np.unique(np.concatenate([np.searchsorted(thresholds, exact), even, tail]))
            chosen = chosen[chosen < count]
        if points.group is None:
            levels = self._promise(points.rise.cumsum()[None, ends[chosen]])
        else:  # the counts of all groups at all points may not fit the memory
            steps = (points.at(slice(*step)) for step in pairwise([0, *(ends[chosen] + 1).tolist()]))
            levels = [self._promised(counts) for counts in accumulate(map(self._rises, steps))]
        promised = np.array(list(map(in_units, levels)), dtype=np.int64)
        first = np.flatnonzero(np.diff(promised, prepend=-1) > 0)
        return PromiseCurve(thresholds[chosen[first]], promised[first])


@dataclass(frozen=True, eq=False, kw_only=True)
class Stratum:
    """Rows that share a threshold; sizes are computed lazily, as one message may claim a million sites."""

    bound: Guarantee
    alpha: Fraction
    summaries: Sequence[Summary]
    sizes_of: Callable[[], list[int]]
    site: str | None = None
    group: str | None = None
    class_index: int | None = None
    end: Literal["lower", "upper"] | None = None
    empty: bool = False
    """Whether no site has scores of the stratum."""
    owners: Sequence[int] | None = None
    """Index of the size that each summary belongs to, if summaries share sizes."""
    usual: Sequence[Fraction] = USUAL_ALPHAS
    """Levels at which the promise curve is exact."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StratumResult:
    """The threshold of a stratum, its promise, and the search for other alphas."""

    stratum: Stratum
    promise: Promise
    least: Fraction
    most: Fraction
    target: Fraction
    search: Search | None

    def curve(self) -> PromiseCurve | None:
        """Return the promise curve; None if the stratum has no scores."""
        return None if self.search is None else self.search.curve(self.stratum.alpha, self.stratum.usual)


def find_threshold(stratum: Stratum, *, sure: bool) -> StratumResult:
    """Search for the threshold of a stratum; `sure` if all counts are certified."""
    sizes, bound, alpha = stratum.sizes_of(), stratum.bound, stratum.alpha
    search = None if stratum.empty else Search(stratum.summaries, bound, sizes, stratum.owners)
    threshold = search.smallest(alpha) if search else math.inf
    gaps = SummaryBatch.of(stratum.summaries).gaps
    if stratum.owners is not None:
        gaps = np.bincount(stratum.owners, gaps, len(sizes)).astype(np.int64).tolist()
    band = bound.band(alpha, sizes, gaps)
    least, most = band.least, band.most
    if not sure:  # estimates have no promise
        least, most = Fraction(0), Fraction(1)
    elif threshold == math.inf:
        least, most = Fraction(1), Fraction(1)
    if stratum.group is not None:  # rows take the largest threshold of their groups, so coverage may be larger
        most = Fraction(1)
    promise = Promise.of(
        0.0 - threshold if stratum.end == "lower" else threshold,
        sum(sizes),
        least=float(least),
        most=float(most),
        slack=float(band.slack),
        rank=(band.rank, band.out_of),
        stratum=(stratum.site, stratum.group, stratum.class_index, stratum.end),
    )
    return StratumResult(stratum=stratum, promise=promise, least=least, most=most, target=band.least, search=search)


def strata_of(batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee) -> Iterator[Stratum]:
    """Yield the strata of a guarantee, in the order of the certificate."""
    if guarantee.over_classes:
        yield _over_classes(batch, alpha, guarantee)
        return
    names, sizes, bound = batch.names, [n for some in batch.sizes for n in some], bound_for(batch, guarantee)
    if guarantee.by_group or guarantee.by_class:
        yield from _by_group_and_class(batch, alpha, guarantee, guarantee.bind(names, sizes))
        return
    yield from _ends(Stratum(bound=bound, alpha=alpha, summaries=batch, sizes_of=lambda: sizes), batch)
    for name, summary in zip(names, batch, strict=False) if guarantee.by_site else ():
        own = partial(list[int], summary.sizes)
        yield from _ends(
            Stratum(bound=OneSite(site=0), alpha=alpha, summaries=[summary], sizes_of=own, site=name), batch
        )


def bound_for(batch: SummaryBatch, guarantee: Guarantee) -> Guarantee:
    """Bind a guarantee to these sites; refuse pooled summaries if it requires one summary per site."""
    sizes = [n for some in batch.sizes for n in some]
    bound = guarantee.inner.bind(batch.names, sizes)
    if bound.sites_apart and len(batch) != len(sizes):
        pooled = next(summary for summary in batch if len(summary.sizes) > 1)
        raise InputError(
            f"{pooled} are pooled, and {guarantee.inner.name} needs a summary of each site; use a guarantee that "
            "weighs all scores alike (mixture with weights by rows, fcp, pac), or send one summary per site"
        )
    return bound


def _ends(stratum: Stratum, batch: SummaryBatch) -> Iterator[Stratum]:
    """Yield the stratum, or its two ends for a two-sided score."""
    score = batch.provenances[0].score
    if score is None or score.lower_share is None:
        yield stratum
        return
    bound, share = stratum.bound.bind((), stratum.sizes_of(), "end"), score.lower_share
    lower, upper = shares_of(stratum.alpha, share)
    usual = sorted({part for one in USUAL_ALPHAS for part in (one, *shares_of(one, share))})
    mirrored = [-summary for summary in stratum.summaries]
    yield replace(stratum, end="lower", bound=bound, alpha=lower, summaries=mirrored, usual=usual)
    yield replace(stratum, end="upper", bound=bound, alpha=upper, usual=usual)


def _by_group_and_class(
    batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee, bound: Guarantee
) -> Iterator[Stratum]:
    sites = stratified(batch, by_class=guarantee.by_class, by_group=guarantee.by_group)
    groups = _groups(sites) if guarantee.by_group else [None]
    classes: Sequence[int | None] = range(len(stated_classes(sites))) if guarantee.by_class else [None]
    seen = {key for site in sites for key in site.parts}
    absent = [EMPTY] * len(sites)
    for group in groups:
        for label in classes:
            key = StratumKey(group, label)
            empty = label is not None and key not in seen
            yield Stratum(
                bound=bound,
                alpha=alpha,
                summaries=absent if empty else [_part(site, key) for site in sites],
                sizes_of=partial(_sizes, sites, key),
                group=group,
                class_index=label,
                empty=empty,
            )


def _part(site: StratifiedSummary, key: StratumKey) -> Summary:
    """Return the scores of a stratum at a site; for a group without a class, all classes together."""
    if key in site.parts or key.label is not None or key.group is None or key.group not in site.groups:
        return site.parts.get(key, EMPTY)
    return site.in_group(key.group)


def _over_classes(batch: SummaryBatch, alpha: Fraction, guarantee: Guarantee) -> Stratum:
    """Return the stratum of all rows, with the classes in place of the sites."""
    sites = stratified(batch, by_class=True)
    names = stated_classes(sites)
    parts = [(key.label or 0, part) for site in sites for key, part in site.parts.items()]
    parts += [(label, EMPTY) for label in set(range(len(names))) - {label for label, _ in parts}]
    owners, summaries = zip(*parts, strict=True)
    sizes = [0] * len(names)
    for label, part in parts:
        sizes[label] += sum(part.sizes)
    bound = guarantee.bind(names, sizes)
    return Stratum(bound=bound, alpha=alpha, summaries=summaries, sizes_of=lambda: sizes, owners=owners)


def stratified(batch: Sequence[Summary], *, by_class: bool = False, by_group: bool = False) -> list[StratifiedSummary]:
    """Check that all summaries have these strata."""
    sites: list[StratifiedSummary] = []
    for summary in batch:
        grouped = isinstance(summary, StratifiedSummary) and bool(summary.columns)
        if grouped and not by_group:
            problem = "was summarised by group; summarise with by_class=True and without groups="
            raise InputError(f"{summary} {problem}", param="groups")
        if by_group and not grouped:
            raise InputError(f"{summary} was not summarised by group; summarise with groups=", param="groups")
        if not isinstance(summary, StratifiedSummary) or (by_class and not summary.by_class):
            raise InputError(f"{summary} was not summarised by class; summarise with by_class=True", param="by_class")
        sites.append(summary)
    check_columns(sites)
    return sites


def stated_classes(sites: Sequence[StratifiedSummary]) -> Sequence[str]:
    """Return the names of all classes, or numbers as text if the summaries have no names."""
    stated = combine_provenances(site.provenance for site in sites).classes
    seen = {key.label or 0 for site in sites for key in site.parts}
    count = max(seen) + 1 if stated is None else number_of(stated)
    last = max(sites, key=lambda site: max(key.label or 0 for key in site.parts))
    if max(seen) >= count:
        raise InputError(f"{last} has scores of class {max(seen)}, and there are {count} classes")
    if count > 2 * len(seen) + UNSEEN:
        raise InputError(
            f"{last} names class {count - 1}, and only {len(seen)} classes have scores; number the classes from 0"
        )
    return stated if isinstance(stated, tuple) else [str(label) for label in range(count)]


def _groups(sites: Sequence[StratifiedSummary]) -> list[str]:
    """Return the groups of all sites: all rows first, those in no other group last."""
    groups = {group for site in sites for group in site.groups if group is not None}
    if len(groups) > MAX_GROUPS:
        raise InputError(
            f"the sites have {len(groups)} groups together, more than {MAX_GROUPS}; name values alike at all sites"
        )
    return [ALL, *sorted(groups - {ALL, NONE}), *([NONE] if NONE in groups else [])]


def _sizes(sites: Sequence[StratifiedSummary], key: StratumKey) -> list[int]:
    return [n for site in sites for n in site.sizes_of(*key)]


def in_units(coverage: Fraction) -> int:
    """Convert promised coverage to units of 1e-15, rounded down."""
    return coverage.numerator * ALPHA_UNIT // coverage.denominator


def round_up(q: float, rows: int, score: AnyScore | None = None) -> float:
    """Round a threshold up to the grid for this number of rows; finite values stay finite.

    Scores of labels cluster at 0, at 1, and above 1 at multiples of the penalty per rank, so the distance to the
    nearest of these values is rounded. Regression scores have arbitrary units: their leading binary digits are kept.

    >>> round_up(0.3, rows=150), round_up(0.97, rows=5000), round_up(9.0, rows=150)
    (0.3125, 0.97021484375, 9.0)
    >>> from fedconformal.scores import RAPS, Residual
    >>> round_up(1.2, 150, RAPS(penalty=0.25)), round_up(8.9, 150, Residual())
    (1.203125, 9.0)
    """
    digits = max(1, (rows.bit_length() - 1) // 2)
    if isinstance(score, RegressionScore):
        return _first_digits(q, digits + 1)
    if not 0.5 < q < 2.0**40:
        return _first_digits(q, digits)
    if q <= 1:
        return 1.0 + _first_digits(q - 1.0, digits)  # exact in this range
    price = score.rank_price if isinstance(score, Score) else 1.0
    ranks, part = divmod((q - 1.0) / price, 1.0)
    part = _first_digits(part, digits) if part <= 0.5 else 1.0 + _first_digits(part - 1.0, digits)
    return max(q, 1.0 + (ranks + part) * price)


def _first_digits(q: float, digits: int) -> float:
    """Round up to this number of significant binary digits."""
    if not math.isfinite(q):
        return q
    fraction, exponent = math.frexp(q)
    try:
        return math.ldexp(math.ceil(math.ldexp(fraction, digits)), exponent - digits) + 0.0
    except OverflowError:
        return float(np.finfo(np.float64).max)
