"""Claims of a certificate on test rows: the coverage of the certified mixture, and bounds on the miss rate.

Each mixture that is promised coverage has an upper bound on its miss rate. The test rows may be another mixture of the
sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal._base.groups import ALL, NONE
from fedconformal._base.names import join_names, name_key
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.evaluation.intervals import Sample
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import MOST_SCORES, MissRateBound

SITES_UNKNOWN = "This assumes that rows come from the sites as promised, as the site of each row is not known."
OVER_CLASSES = "It weights the rows by class, and assumes that a class looks the same here as at the sites."


class EvaluatedRows(NamedTuple):
    """Test rows: coverage and label of each row, with sites and clusters if given."""

    covered: Booleans
    labels: Integers
    sites: NDArray[Any] | None = None
    clusters: Integers | None = None
    groups: Mapping[str, Integers] | None = None
    """Rows of each group, if the promise is by group and groups are given."""

    def sample(self, index: Any = slice(None), **more: Any) -> Sample:
        """Return a sample of selected rows."""
        clusters = None if self.clusters is None else self.clusters[index]
        return Sample.of(self.covered[index], clusters=clusters, **more)


class Claim(NamedTuple):
    """A sample of rows and the bound on its miss rate; named if sites, classes or groups have separate promises."""

    name: str | None
    limit: float
    sample: Sample


class Claims(NamedTuple):
    """All claims, or the reason why there are none; parts without test rows; and notes on the assumptions."""

    claims: list[Claim]
    why_none: str | None = None
    without_rows: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def claims_of(certificate: Certificate, alpha: Fraction, rows: EvaluatedRows, failure: float) -> Claims:
    """Return the claims; all limits hold simultaneously, except with probability `failure` over calibration draws."""
    guarantee, sites, sizes = certificate.terms()
    names = list(map(name_key, sites))
    if not all(1 <= n <= MOST_SCORES for n in sizes):
        return Claims([], why_none="the certificate has sites with no scores, or with more than there can be")
    if certificate.provenance.class_scores is not None:
        return _over_classes(certificate, alpha, rows, failure, why_none=text.why_no_bound(guarantee))
    bound = guarantee.bind(names, sizes)
    if guarantee.inner is not guarantee:
        return _by_stratum(certificate, bound, alpha, rows, failure, sites=len(sizes))
    limits = certificate.miss_rate_bounds(bound, alpha, sizes, failure)
    if not limits:
        return Claims([], why_none=text.why_no_bound(bound))
    everything = limits[0].shares is None and limits[0].site is None
    if everything or rows.sites is None or len(set(names)) != len(sizes):
        # If each site is within its limit, any mixture is within the largest limit.
        worst = max(limit.rate for limit in limits)
        alike = everything or len(sizes) == 1
        return Claims(
            [Claim(None, max(worst, float(alpha)), rows.sample(alike=alike))],
            notes=() if everything else (SITES_UNKNOWN,),
        )
    return _by_site(limits, alpha, rows, rows.sites, names)


def _over_classes(
    certificate: Certificate, alpha: Fraction, rows: EvaluatedRows, failure: float, *, why_none: str
) -> Claims:
    """Weight the rows by class; if X given Y is the same everywhere, the sites do not matter."""
    bound, names, sizes = certificate.parties()
    limits = bound.miss_rate_bounds(alpha, sizes, failure)
    if not limits:
        return Claims([], why_none=why_none)
    claims = _by_site(limits, alpha, rows, classes_of(rows.labels, names), names, noun="class")
    return claims._replace(notes=(OVER_CLASSES, *claims.notes))


def classes_of(labels: Integers, names: Sequence[str]) -> NDArray[np.str_]:
    """Return the class name of every row; unnamed classes are numbered."""
    beyond = range(len(names), int(labels.max(initial=0)) + 1)
    return np.array([*names, *map(str, beyond)], dtype=np.str_)[labels]


def _by_site(
    limits: list[MissRateBound],
    alpha: Fraction,
    rows: EvaluatedRows,
    owners: NDArray[Any],
    names: list[str],
    *,
    noun: str = "site",
) -> Claims:
    claims, without, counted = [], [], np.zeros(len(owners), dtype=np.bool_)
    seen, index = np.unique(owners.astype(np.str_), return_inverse=True)
    for limit in limits:
        alone = None if limit.site is None else names[limit.site]
        shares = dict(zip(names, limit.shares or (), strict=True)) if alone is None else {alone: Fraction(1)}
        mixture = select_rows(seen, index, shares)
        without += mixture.missing
        if not len(mixture.rows):
            continue
        counted[mixture.rows] = True
        sample = rows.sample(mixture.rows, sites=mixture.sites, shares=mixture.weights, alike=len(mixture.weights) == 1)
        name = f"{noun} {alone}" if alone is not None and len(limits) > 1 else None
        claims.append(Claim(name, max(limit.rate, float(alpha)), sample))
    others = join_names(seen[np.unique(index[~counted])].tolist())
    notes = (f"The rows of {others} do not count: the promise is not about them.",) if others else ()
    return Claims(claims, without_rows=tuple(without), notes=notes)


def _by_stratum(
    certificate: Certificate, bound: Guarantee, alpha: Fraction, rows: EvaluatedRows, failure: float, *, sites: int
) -> Claims:
    """Return a claim per class or group with rows; a row of several groups has the largest of their thresholds."""
    stratum = certificate.by
    if stratum == "group" and rows.groups is None:
        return Claims([], why_none="the groups of the rows are not given")
    if bound.sites_apart or any(len(part) > 1 for part in certificate.parts.values()):
        return Claims([], why_none=text.why_no_bound(bound, stratum))
    held = {key: (one.scores, one.limit) for key, (one,) in certificate.parts.items()}
    present: dict[Any, Integers] = dict(rows.groups or {})
    if stratum == "class":
        present = {label: np.flatnonzero(rows.labels == label) for label in np.unique(rows.labels).tolist()}
    each = failure / len(present)
    claims, infeasible, without = [], [], []
    for key in [*held, *(key for key in present if key not in held)]:
        scores, limit = held.get(key, (0, np.inf))
        # With equal weights, only the sum over the sites matters.
        bounds = bound.miss_rate_bounds(alpha, [scores, *[0] * (sites - 1)], each)
        if not bounds:
            return Claims([], why_none=text.why_no_bound(bound, stratum))
        name = _called(key, certificate)
        if bounds[0].rate >= 1 or (float(alpha) == certificate.alpha and limit == np.inf):
            infeasible.append((None, key) if isinstance(key, int) else (key, None))
        elif key in present:
            sample = rows.sample(present[key], alike=sites == 1)
            claims.append(Claim(name, max(bounds[0].rate, float(alpha)), sample))
        else:
            without.append(name)
    notes = [f"It assumes that the rows of each {stratum} come from the sites as its calibration rows did."]
    if infeasible:
        notes.append(f"Nothing is promised {text.without_promise(infeasible, certificate.class_names)}.")
    why = None if claims or without else f"no {stratum} that has rows is promised anything"
    return Claims(claims, why_none=why, without_rows=tuple(without), notes=tuple(notes))


def _called(key: str | int, certificate: Certificate) -> str:
    """Return the name of a class or a group in sentences."""
    if isinstance(key, int):
        return text.stratum_called(None, key, certificate.class_names)
    return {ALL: "all groups", NONE: "no other group"}.get(key, key)


class Reweighted(msgspec.Struct, frozen=True, kw_only=True):
    """Mean coverage of the sites with the certified weights, or the reason why it is missing."""

    coverage: float | None = None
    low: float | None = None
    high: float | None = None
    mixture: str | None = None
    """Population of the mixture, in words."""
    why_not: str | None = None

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.coverage is None:
            return f"Coverage is not reweighted to the certified mixture: {self.why_not}."
        interval = f"95% interval {self.low:.3f} to {self.high:.3f}"
        return f"Coverage for a test row {self.mixture}: {self.coverage:.4f}, {interval}."


def reweighted(rows: EvaluatedRows, owners: NDArray[Any] | None, certificate: Certificate) -> Reweighted:
    """Average the coverage of sites or classes, the owners of the rows, with the certified weights."""
    guarantee, names, _ = certificate.terms()
    certified, shares = certified_shares(certificate)
    if shares is None:
        return Reweighted(why_not=f"the guarantee {text.guarantee_name(certificate.guarantee)} names no single one")
    words = guarantee.inner.audience(names).population
    if len(set(certified)) != len(shares):
        return Reweighted(mixture=words, why_not="the certified sites have no names, or not one each")
    if owners is None:
        return Reweighted(mixture=words, why_not="it needs the site of each test row (sites)")
    seen, index = np.unique(owners.astype(np.str_), return_inverse=True)
    mixture = select_rows(seen, index, dict(zip(certified, shares, strict=True)))
    if mixture.missing:
        return Reweighted(mixture=words, why_not=f"there are no test rows of {join_names(mixture.missing)}")
    sample = rows.sample(mixture.rows, sites=mixture.sites, shares=mixture.weights)
    low, high = sample.coverage_interval()
    return Reweighted(coverage=1 - sample.missed, low=low, high=high, mixture=words)


class MixtureRows(NamedTuple):
    """Rows of a mixture: positions, site numbers from 0, weights of the sites, and sites without rows."""

    rows: Integers
    sites: Integers
    weights: Floats
    missing: list[str]


def select_rows(seen: NDArray[np.str_], index: Integers, shares: Mapping[str, Fraction]) -> MixtureRows:
    """Return the rows of the sites with positive weight; `seen[index]` are the sites of all rows."""
    names, wanted = seen.tolist(), [site for site, share in shares.items() if share]
    here = set(names)
    number = {site: k for k, site in enumerate(site for site in wanted if site in here)}
    places = np.array([number.get(name, -1) for name in names])[index]
    rows, weights = np.flatnonzero(places >= 0), np.array([float(shares[site]) for site in number])
    return MixtureRows(rows, places[rows], weights, [site for site in wanted if site not in number])


def certified_shares(certificate: Certificate) -> tuple[list[str], tuple[Fraction, ...] | None]:
    """Return names of the sites or classes, and their shares in the promised mixture, None without a single one."""
    bound, names, sizes = certificate.parties()
    stratum = certificate.by if certificate.by in ("class", "group") else None
    shares = bound.site_shares(sizes, stratum)
    if shares is not None and (sum(shares) != 1 or min(shares) < 0):
        raise InputError("the certificate is malformed: its sites have no scores")
    return names if certificate.provenance.class_scores is not None else list(map(name_key, names)), shares


def shares_by_site(certificate: Certificate) -> dict[str, float] | None:
    """Return the shares of the promised mixture by site; None without a single mixture or without site names."""
    names, shares = certified_shares(certificate)
    if shares is None or len(set(names)) != len(shares):
        return None
    return {name: float(share) for name, share in zip(names, shares, strict=True) if share}
