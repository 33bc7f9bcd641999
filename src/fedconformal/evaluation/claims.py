"""What a certificate claims of the rows at hand: for which of them, how often they may be missed, luck included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Integers
from fedconformal._base.groups import ALL, NONE
from fedconformal._base.names import name_key
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.evaluation.tails import Sample
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import MOST_SCORES, MissRateBound


class Rows(NamedTuple):
    """The rows at hand: whether each is covered, its label, and its site and cluster where they are given."""

    covered: Booleans
    labels: Integers
    sites: NDArray[Any] | None = None
    clusters: Integers | None = None
    groups: Mapping[str, Integers] | None = None
    """Which rows are in each group, where the promise is by group and they are given."""

    def sample(self, index: Any = slice(None), **more: Any) -> Sample:
        """Take some of the rows."""
        clusters = None if self.clusters is None else self.clusters[index]
        return Sample(covered=self.covered[index], clusters=clusters, **more)


class Claim(NamedTuple):
    """Rows and how often they may be missed at the most."""

    name: str | None
    """The site, the class or the group, where each is promised coverage by itself."""
    limit: float
    sample: Sample


class Claims(NamedTuple):
    """All claims, or why there are none; and what is left out."""

    claims: list[Claim]
    why_none: str | None = None
    without_rows: tuple[str, ...] = ()
    """Sites, classes and groups that are promised coverage, and have no row."""
    in_every_set: tuple[int, ...] = ()
    """Classes that nothing is promised to."""
    others: tuple[str, ...] = ()
    """Sites with rows that the promise is not about."""
    full_groups: tuple[str, ...] = ()
    """Groups that nothing is promised to."""
    strata: str | None = None
    """What the promise is given: class or group."""
    over_classes: bool = False
    """Whether the classes play the sites."""
    sites_known: bool = True


def claims_of(certificate: Certificate, alpha: Fraction, rows: Rows, failure: float) -> Claims:
    """List what is claimed; all limits hold together, but with probability `failure` over calibration draws."""
    guarantee, sites, sizes = certificate.terms()
    names = list(map(name_key, sites))
    if not all(1 <= n <= MOST_SCORES for n in sizes):
        return Claims([], why_none="the certificate has sites with no scores, or with more than there can be")
    if certificate.provenance.class_scores is not None:
        return _over_classes(certificate, alpha, rows, failure, why_none=text.why_no_bound(guarantee))
    bound = guarantee.bind(names, sizes)
    if guarantee.inner is not guarantee:
        by = _by_group if certificate.by == "group" else _by_class
        return by(certificate, bound, alpha, rows, failure, sites=len(sizes))
    limits = certificate.miss_rate_bounds(bound, alpha, sizes, failure)
    if not limits:
        return Claims([], why_none=text.why_no_bound(bound))
    everything = limits[0].shares is None and limits[0].site is None
    if everything or rows.sites is None or len(set(names)) != len(sizes):
        # If each site is within its limit, any mixture is within the largest.
        worst = max(limit.rate for limit in limits)
        alike = everything or len(sizes) == 1
        return Claims([Claim(None, max(worst, float(alpha)), rows.sample(alike=alike))], sites_known=everything)
    return _by_site(limits, alpha, rows, rows.sites.astype(np.str_), names)


def _over_classes(certificate: Certificate, alpha: Fraction, rows: Rows, failure: float, *, why_none: str) -> Claims:
    """Weigh the rows by their classes; where a class looks the same everywhere, their sites do not matter."""
    bound, names, sizes = certificate.parties()
    limits = bound.miss_rate_bounds(alpha, sizes, failure)
    if not limits:
        return Claims([], why_none=why_none)
    found = _by_site(limits, alpha, rows, classes_of(rows.labels, names), names, noun="class")
    return found._replace(over_classes=True)


def classes_of(labels: Integers, names: Sequence[str]) -> NDArray[np.str_]:
    """Name the class of every row; one that has no name is called by its number.

    >>> classes_of(np.array([1, 0, 2]), ["benign", "malignant"]).tolist()
    ['malignant', 'benign', '2']
    """
    beyond = range(len(names), int(labels.max(initial=0)) + 1)
    return np.array([*names, *map(str, beyond)], dtype=np.str_)[labels]


def _by_site(
    limits: list[MissRateBound],
    alpha: Fraction,
    rows: Rows,
    owners: NDArray[Any],
    names: list[str],
    *,
    noun: str = "site",
) -> Claims:
    claims, without, wanted = [], [], set()
    seen = set(np.unique(owners).tolist())
    for limit in limits:
        shares = _shares(limit, names)
        here = {site: share for site, share in shares.items() if share and site in seen}
        wanted |= {site for site, share in shares.items() if share}
        without += [site for site, share in shares.items() if share and site not in seen]
        if not here:
            continue
        index = np.flatnonzero(np.isin(owners, list(here)))
        number = {site: k for k, site in enumerate(here)}
        sites = np.array([number[site] for site in owners[index].tolist()], dtype=np.int64)
        weights = np.array([float(share) for share in here.values()])
        sample = rows.sample(index, sites=sites, shares=weights, alike=len(here) == 1)
        name = f"{noun} {names[limit.site]}" if limit.site is not None and len(limits) > 1 else None
        claims.append(Claim(name, max(limit.rate, float(alpha)), sample))
    return Claims(claims, without_rows=tuple(without), others=tuple(sorted(seen - wanted)))


def _shares(limit: MissRateBound, names: list[str]) -> dict[str, Fraction]:
    if limit.site is not None:
        return {names[limit.site]: Fraction(1)}
    return dict(zip(names, limit.shares or (), strict=True))


def _by_class(
    certificate: Certificate, bound: Guarantee, alpha: Fraction, rows: Rows, failure: float, *, sites: int
) -> Claims:
    if bound.sites_apart:
        return Claims([], why_none=text.why_no_bound(bound, "class"), strata="class")
    held = {int(label): one.scores for label, (one,) in certificate.parts.items()}
    present = np.unique(rows.labels).tolist()
    each = failure / len(present)
    claims, infeasible = [], []
    for label in sorted({*held, *present}):
        of_class = [held.get(label, 0), *[0] * (sites - 1)]  # where all weigh alike, only their sum counts
        limits = bound.miss_rate_bounds(alpha, of_class, each)
        if not limits:
            return Claims([], why_none=text.why_no_bound(bound, "class"), strata="class")
        if limits[0].rate >= 1 or _is_infinite(certificate, alpha, label):
            infeasible.append(label)
        elif label in present:
            sample = rows.sample(np.flatnonzero(rows.labels == label), alike=sites == 1)
            name = f"class {text.class_called(label, certificate.class_names)}"
            claims.append(Claim(name, max(limits[0].rate, float(alpha)), sample))
    lacking = [label for label in held if label not in present and label not in infeasible]
    without = [f"class {text.class_called(label, certificate.class_names)}" for label in lacking]
    return Claims(claims, without_rows=tuple(without), in_every_set=tuple(infeasible), strata="class")


def _by_group(
    certificate: Certificate, bound: Guarantee, alpha: Fraction, rows: Rows, failure: float, *, sites: int
) -> Claims:
    """Test every group that has rows; its rows are missed no more often than at its own threshold, the lower one."""
    groups = certificate.parts
    if rows.groups is None:
        return Claims([], why_none="the groups of the rows are not given")
    if bound.sites_apart or any(len(part) > 1 for part in groups.values()):
        return Claims([], why_none=text.why_no_bound(bound, "group"))
    each = failure / len(rows.groups)
    claims, infeasible = [], []
    for group, (record,) in groups.items():
        limits = bound.miss_rate_bounds(alpha, [record.scores, *[0] * (sites - 1)], each)
        if not limits:
            return Claims([], why_none=text.why_no_bound(bound, "group"))
        if limits[0].rate >= 1 or (float(alpha) == certificate.alpha and record.limit == np.inf):
            infeasible.append(str(group))
        elif group in rows.groups:
            sample = rows.sample(rows.groups[str(group)], alike=sites == 1)
            claims.append(Claim(group_called(str(group)), max(limits[0].rate, float(alpha)), sample))
    lacking = [str(group) for group in groups if group not in rows.groups and group not in infeasible]
    without = tuple(map(group_called, lacking))
    return Claims(claims, without_rows=without, full_groups=tuple(infeasible), strata="group")


def group_called(group: str) -> str:
    """Return what a group is called where rows of it are spoken of.

    >>> group_called("sex=F"), group_called(ALL)
    ('sex=F', 'all groups')
    """
    return {ALL: "all groups", NONE: "no other group"}.get(group, group)


def _is_infinite(certificate: Certificate, alpha: Fraction, label: int) -> bool:
    """Whether the class has no finite threshold; where alpha is another one, the scores that it has decide."""
    records = certificate.parts.get(label, ())
    return float(alpha) == certificate.alpha and any(one.limit == np.inf for one in records)
