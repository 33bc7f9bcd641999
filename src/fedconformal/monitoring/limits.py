"""Limits on miss rates: of all rows, a site, a group or a class (docs/monitoring.md, docs/proofs.md).

A promise on average over calibration draws does not limit the miss rate of one calibration, nor does the limit of a
mixture hold for a single site. A site without a promise of its own has the limit 1 - m/n + sqrt(ln(1/b) / (2n)), if at
least m of the n scores in its own summary are at most the threshold: Massart, "The tight constant in the
Dvoretzky-Kiefer-Wolfowitz inequality", 1990, holds at all thresholds at once. Each of K sites gets b/K. Two ends get
half of b each, groups and classes a part, and losses, which ranks do not bound, Hoeffding's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fedconformal._base.arrays import as_alpha
from fedconformal._base.groups import ALL
from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.guarantees import PAC, Guarantee
from fedconformal.guarantees.binomial import rounded_up, shares_bound
from fedconformal.guarantees.guarantee import MissRateBound
from fedconformal.summaries.summary import Summary, digest_of

MOST_FAILURE = 0.25
"""Maximum failure probability, up to which the miss rate bounds are proved."""

OF_CLASSES = "it is the largest of all classes' own limits, so it holds whatever their shares are"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on the miss rate of all rows, sites, groups and classes; all hold except with probability `failure`."""

    rate: float
    basis: str
    failure: float
    sites: dict[str, float] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    classes: dict[int, float] = field(default_factory=dict)
    too_few: tuple[str, ...] = ()
    """Sites whose summaries have too few scores for a limit below 1."""


def limits_of(
    predictor: Predictor,
    *,
    failure: float = 0.025,
    site: str | None = None,
    summaries: Sequence[Summary] = (),
    limit: float | None = None,
) -> Limits:
    """Return the limits for monitoring a predictor; raise `InputError` with the reason if there are none.

    Parameters
    ----------
    failure
        Probability that a limit does not hold for this calibration.
    site
        The only site of the rows; by default they come from all sites in the promised mixture.
    summaries
        Summaries of sites for this calibration, for limits of their own.
    limit
        A limit set by the user.

    Examples
    --------
    >>> from fedconformal import LAC, Predictor, Summary, calibrate
    >>> sites = [
    ...     Summary.of_scores([k / n for k in range(n)], site=name, score=LAC()) for name, n in (("a", 400), ("b", 100))
    ... ]
    >>> predictor = calibrate(sites, alpha=0.1, exact=True)
    >>> round(limits_of(predictor).rate, 4), round(limits_of(predictor, site="b", summaries=sites[1:]).rate, 4)
    (0.1275, 0.238)
    """
    about = predictor.certificate
    promises = [promise for promise in about.promises if promise.site is not None] or about.whole
    if promises and all(math.isinf(promise.limit) for promise in promises):
        raise InputError(
            "this predictor gives no limit to watch: every label is in every set, so that nothing can be missed"
        )
    if limit is not None:
        if summaries:
            raise InputError("a limit by hand and a summary are two limits; give one of them")
        if not 0 < limit < 1:
            raise InputError(f"limit is {abbreviate(limit)}, expected a number between 0 and 1")
        return Limits(rate=float(limit), basis="it was stated by hand", failure=0.0)
    if not 0 < failure <= MOST_FAILURE:
        raise InputError(f"failure is {abbreviate(failure)}, expected a number above 0, at most {MOST_FAILURE:g}")
    if about.status != "certified":
        raise _none("it is estimated, not certified")
    if about.privacy is not None and about.privacy.get("mode") != "sums":
        raise _none("it comes from noisy counts, for which no bound on one calibration is known")
    if site is not None:
        return _of_site(predictor, site, summaries, failure)
    return _promised(predictor, failure) if not summaries else _with_sites(predictor, summaries, failure)


def _with_sites(predictor: Predictor, summaries: Sequence[Summary], failure: float) -> Limits:
    """Return limits that include sites with summaries, which share half of the failure."""
    limits, about = _promised(predictor, failure / 2), predictor.certificate
    own = {name_key(name): _from_summary(about, s, failure / 2) for s in summaries for name in s.sites}
    sites = {**{name: rate for name, rate in own.items() if rate < 1}, **limits.sites}
    too_few = tuple(name for name in own if name not in sites)
    return replace(limits, sites=sites, too_few=too_few, failure=failure)


def _none(why: str) -> InputError:
    return InputError(f"this predictor gives no limit to watch: {why}; state a limit by hand", param="limit")


def _promised(predictor: Predictor, failure: float) -> Limits:
    """Return the limits for rows of all sites."""
    about, alpha = predictor.certificate, as_alpha(predictor.certificate.alpha)
    guarantee, _, _ = about.terms()
    if guarantee.inner is not guarantee:
        return _by_stratum(about, alpha, failure)
    bound, names, sizes = about.parties()
    limits = _of_parties(about, bound, alpha, sizes, failure)
    if len(limits) == 1 and limits[0].site is None:
        words = "the sites come in the promised mixture" if limits[0].shares else "the rows of all sites are alike"
        if about.provenance.class_scores is not None:
            words = "the classes come in the promised shares"
        return Limits(rate=_usable(limits[0].rate, alpha), basis=f"it holds if {words}", failure=failure)
    if len(limits) == 1 and len(names) > 1:
        (only,) = limits
        name = names[only.site] if only.site is not None else "?"
        raise InputError(
            f"only site {name} is promised coverage; watch that site by its name, or state a limit by hand",
            param="limit",
        )
    if about.by == "site":  # a site without a threshold misses nothing
        finite = [not all(math.isinf(one.limit) for one in part) for part in about.parts.values()]
        limits = [one for one, own in zip(limits, finite, strict=True) if own]
    rates = {one.site: one.rate for one in limits if one.site is not None and one.rate < 1}
    rate = _usable(max(one.rate for one in limits), alpha)
    if about.provenance.class_scores is not None:
        return Limits(rate=rate, basis=OF_CLASSES, failure=failure, classes=rates)
    sites = {name_key(names[place]): own for place, own in rates.items()}
    words = "it is the largest of all sites' own limits, so it holds for any mixture of them"
    return Limits(rate=rate, basis=words, failure=failure, sites=sites)


def _usable(rate: float, alpha: Fraction) -> float:
    if rate >= 1:
        raise _none("there are too few calibration scores for one below 1")
    return max(rate, float(alpha))


def _of_parties(
    about: Certificate, bound: Guarantee, alpha: Fraction, sizes: Sequence[int], failure: float
) -> list[MissRateBound]:
    limits = about.miss_rate_bounds(bound, alpha, sizes, failure)
    if not limits:
        raise _none(text.why_no_bound(bound))
    if about.risk is None:
        return limits
    if isinstance(bound, PAC):  # its bound holds at its own failure probability only
        if failure < bound.failure:
            raise InputError(
                f"this promise on losses fails for a share of {bound.failure:g} of calibrations, which is more than "
                f"the failure {failure:g}; take {bound.failure:g} or more, or state a limit by hand",
                param="limit",
            )
        return [MissRateBound(float(alpha), limits[0].shares)]
    if about.risk.rising:
        raise _none("its loss may rise along the grid")
    each = failure / len(limits)
    return [one._replace(rate=_of_losses(one, alpha, sizes, each)) for one in limits]


def _of_losses(limit: MissRateBound, alpha: Fraction, sizes: Sequence[int], failure: float) -> float:
    if limit.shares is not None:
        return shares_bound(alpha, sizes, limit.shares, failure)
    size = sum(sizes) if limit.site is None else sizes[limit.site]
    return shares_bound(alpha, [size], [Fraction(1)], failure)


def _by_stratum(about: Certificate, alpha: Fraction, failure: float) -> Limits:
    """Return limits by class or group; all waiting rows count for each class, because their class is unknown."""
    guarantee, sites, sizes = about.terms()
    bound, stratum = guarantee.bind(sites, sizes), about.by or "class"
    if bound.sites_apart or any(len(part) > 1 for part in about.parts.values()):
        raise _none(text.why_no_bound(bound, stratum))
    each, rates, unlimited = failure / len(about.parts), dict[str | int, float](), list[str | int]()
    for key, (promise,) in about.parts.items():
        bounds = bound.miss_rate_bounds(alpha, [promise.scores, *[0] * (len(sizes) - 1)], each)
        if not bounds:
            raise _none(text.why_no_bound(bound))
        if promise.limit < math.inf and bounds[0].rate < 1:
            rates[key] = max(bounds[0].rate, float(alpha))
        elif promise.limit < math.inf:
            unlimited.append(key)
    if about.by == "group":
        if ALL not in rates:
            raise _none("there are too few calibration scores for one below 1")
        words, groups = "it holds if the sites come in the promised mixture", {str(key): q for key, q in rates.items()}
        return Limits(rate=groups.pop(ALL), basis=words, failure=failure, groups=groups)
    if not rates or unlimited:
        named = text.class_called(int(unlimited[0]), about.class_names) if unlimited else "every class"
        raise _none(f"there are too few calibration scores of {named} for one below 1")
    classes = {int(key): rate for key, rate in rates.items()}
    return Limits(rate=max(classes.values()), basis=OF_CLASSES, failure=failure, classes=classes)


def _of_site(predictor: Predictor, site: str, summaries: Sequence[Summary], failure: float) -> Limits:
    """Return the limit of one site, from its summary or its own promise, never from the mixture's."""
    about, alpha, name = predictor.certificate, as_alpha(predictor.certificate.alpha), name_key(site)
    guarantee, names, _ = about.terms()
    keys = list(map(name_key, names))
    if name not in keys:
        there = join_names(names) if names else "none: the summaries carry no names"
        raise InputError(f"no site of this predictor is called {abbreviate(name)}; there are {there}")
    if summaries:
        if [name_key(sent) for summary in summaries for sent in summary.sites] != [name]:
            raise InputError(f"the summary is not that of site {abbreviate(name)} alone; give the one that it sent")
        rate = _from_summary(about, summaries[0], failure)
        if rate >= 1:
            raise InputError(
                f"the summary of {summaries[0]} has too few scores for a limit below 1; state a limit by hand",
                param="limit",
            )
        return Limits(rate=rate, basis="it is from the site's own summary", failure=failure / about.sites)
    if about.sites == 1:
        return _promised(predictor, failure)
    if guarantee.inner is guarantee and about.provenance.class_scores is None:
        bound, _, sizes = about.parties()
        for one in _of_parties(about, bound, alpha, sizes, failure):
            alike = one.site is None and one.shares is None
            if alike or one.site == keys.index(name):
                words = "the site is promised coverage by itself"
                words = "it holds if the rows of all sites are alike" if alike else words
                return Limits(rate=_usable(one.rate, alpha), basis=words, failure=failure)
    raise InputError(
        f"the mixture of all sites is promised coverage, and site {abbreviate(name)} by itself is not; "
        "give the site's own summary, or state a limit by hand",
        param="summary",
    )


def _from_summary(about: Certificate, summary: Summary, failure: float) -> float:
    """Return the limit of one site from its own scores, at a threshold that may depend on them."""
    label = str(summary)
    if len(summary.sizes) != 1 or not any(record.sha256 == digest_of(summary) for record in about.summaries):
        raise InputError(f"the summary of {label} is not one that this predictor was calibrated from; give that one")
    promises = about.whole
    if about.by == "site":  # a larger threshold, without the site, misses no more rows
        digests = [record.sha256 for record in about.summaries]
        promises = list(about.parts.values())[digests.index(digest_of(summary))]
    if len(promises) != 1 or promises[0].limit == math.inf or about.risk is not None:
        raise InputError(
            "a summary gives no limit where there is more than one threshold, or a loss; state a limit by hand",
            param="limit",
        )
    if not summary.certified:
        raise InputError(
            f"the summary of {label} is an estimate, which gives no limit; state a limit by hand", param="limit"
        )
    return summary_limit(summary.count_at_most(promises[0].limit)[0], summary.n, failure / about.sites)


def summary_limit(count: int, size: int, failure: float) -> float:
    """Bound the miss rate, rounded up, at any threshold not below at least `count` of `size` independent scores.

    >>> round(summary_limit(90, 100, 0.05), 10)
    0.2223873415
    """
    return rounded_up(1 - Fraction(count, size) + Fraction(math.sqrt(-math.log(failure) / (2 * size))))
