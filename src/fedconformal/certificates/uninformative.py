"""Warnings of a certificate: uninformative answers, their reason and remedy, and sites that outweigh the others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, as_alpha, shares_of
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import HeavySiteWarning, InfeasibleWarning
from fedconformal.guarantees.guarantee import feasible
from fedconformal.scores import LAC, Score
from fedconformal.summaries.provenance import number_of

GRID = 2.0**-40
"""Rounding error of a row's sum for each probability."""
NEAR = 1e-5
"""The distance from the largest score at which a threshold still explains that half of the sets are full, as sums of
float32 are off by as much."""
HALF = 0.5
"""The share of full sets from which a better model is recommended."""
MOST_CLASSES = 10**6


def explain_uninformative(
    certificate: Certificate,
    threshold: float | Floats | tuple[float, float] | None = None,
    *,
    alpha: Any = None,
    score: Score | None = None,
    classes: int | None = None,
    share: float | None = None,
) -> str | None:
    """Return why labels are in every set, or intervals lack an end, and what would help; None if they do not.

    Threshold, alpha, score and number of classes are the certified ones by default. `threshold` is one number, one for
    each class or group, or both ends; `share` is the share of the sets at hand that hold every label.
    """
    level = as_alpha(certificate.alpha if alpha is None else alpha)
    if classes is None and certificate.class_names is not None:
        classes = number_of(certificate.class_names)
    if certificate.intervals:
        return _without_end(certificate, threshold, level)
    if classes == 1 or certificate.risk is not None:
        return None
    limit = np.asarray(certificate.limit if threshold is None else threshold, dtype=np.float64)
    if score is None and certificate.score is not None:
        score = registry.rebuild(certificate.score, Score)
    if limit.ndim:
        found = _by_stratum(certificate, limit.ravel().tolist(), level, score, classes)
    elif limit == math.inf:
        found = _not_promised(certificate, level, text.SETS.uninformative, _shortfall(certificate, level))
    else:
        found = None if score is None else _at_largest(certificate, float(limit), score, classes, share)
    if found is None and share is not None and share >= HALF:
        found = text.weak_model(level)
    return found


def _at_largest(
    certificate: Certificate, limit: float, score: Score, classes: int | None, share: float | None
) -> str | None:
    """Explain a threshold that no label can exceed, or only by rounding."""
    # Above the highest score of any number of labels there is no doubt, also if their number is not known.
    if classes is None and limit <= score.largest(MOST_CLASSES):
        return None
    least = _least_full(score, classes or MOST_CLASSES)
    if limit >= least - (NEAR if share is not None and share >= HALF else 0.0):
        full = text.threshold_above_scores(limit, score.name, classes, rounding=share not in (None, 0.0, 1.0))
        return f"{full}; {_rounded(certificate) or _highest_score(score)}"
    return None


def _least_full(score: Score, classes: int) -> float:
    """Return the least threshold at which every label is in, except for the rounding of sums."""
    return score.largest(classes) - (0.0 if isinstance(score, LAC) else classes * GRID)


def _highest_score(score: Score) -> str:
    return text.NO_PROBABILITY if isinstance(score, LAC) else f"{text.LEAST_LIKELY}; {text.LAC_SMALLER}"


def _rounded(certificate: Certificate) -> str:
    """Explain a threshold that noise or the cells of a private release moved up."""
    claim = certificate.privacy or {}
    if claim.get("epsilon") is not None:
        return text.NOISE_RAISED
    precision = claim.get("precision")
    return "" if precision is None else text.cell_edge(precision["stopped"])


def missing_ends(thresholds: Sequence[float]) -> str | None:
    """Return which end intervals lack, from the lower and the upper threshold, or from one for both."""
    lacking = np.isinf(thresholds)
    if lacking.all():
        return text.INTERVALS.uninformative
    return f"no interval has {'a lower' if lacking[0] else 'an upper'} end" if lacking.any() else None


def _without_end(
    certificate: Certificate, threshold: float | Floats | tuple[float, float] | None, alpha: Fraction
) -> str | None:
    found = np.atleast_1d([one.limit for one in certificate.whole] if threshold is None else threshold)
    so = missing_ends(found.tolist())
    if so is None:
        return None
    share = certificate.lower_share
    levels = [alpha] if share is None else shares_of(alpha, share)
    dearest = min(part for part, end in zip(levels, found, strict=True) if np.isinf(end))
    return _not_promised(certificate, alpha, so, _shortfall(certificate, dearest, one_end=share is not None))


def _not_promised(certificate: Certificate, alpha: Fraction, so: str, needed: str) -> str:
    return text.too_few(alpha, needed, so, every_site=certificate.by == "site") + _missing_sites(certificate)


def _missing_sites(certificate: Certificate) -> str:
    return text.missing_sites([(one.site, one.reason) for one in certificate.left_out or ()])


def _shortfall(certificate: Certificate, alpha: Fraction, *, one_end: bool = False) -> str:
    """Return what is missing, or what else keeps the threshold from being finite."""
    bound, names, sizes = certificate.parties()
    bound = bound.bind(names, sizes, "end") if one_end else bound
    claim = certificate.privacy
    if not feasible(bound, alpha, sizes):
        over_classes = certificate.provenance.class_scores is not None
        return text.shortfall(bound, alpha, sizes, names, owner="class" if over_classes else "site")
    if dropped := (claim or {}).get("dropped"):
        size = dict(zip(names, sizes, strict=True))
        return text.dropped_out([(one["site"], size[one["site"]] / sum(sizes)) for one in dropped])
    if claim is not None and "epsilon" in claim:
        return text.MORE_FOR_NOISE
    if not certificate.exact and claim is None and alpha < as_alpha(certificate.alpha):
        return text.FEW_ALPHAS
    return text.INEXACT_SUMMARIES


def _by_stratum(
    certificate: Certificate, limits: list[float], alpha: Fraction, score: Score | None, classes: int | None
) -> str | None:
    """Name the classes or groups with too few scores, and the classes whose threshold no label can exceed."""
    strata = [(one.group, one.class_index) for one in certificate.promises]
    if certificate.by == "class":  # further classes have no scores
        strata += [(None, label) for label in range(len(limits), classes or 0)]
    finite = dict(zip(strata, limits, strict=False))
    names, parts = certificate.class_names, []
    if few := [stratum for stratum in strata if finite.get(stratum, math.inf) == math.inf]:
        needed = "; ".join(_stratum_shortfall(certificate, alpha, one) for one in few[: text.MOST_NAMED])
        parts.append(f"{text.not_promised_to(alpha, few, names)}; {needed}{_missing_sites(certificate)}")
    if certificate.by == "class" and score is not None and classes is not None:
        least = _least_full(score, classes)
        if full := [label or 0 for (_, label), own in finite.items() if least <= own < math.inf]:
            parts.append(f"{text.classes_above_scores(full, names, score.name, classes)}; {_highest_score(score)}")
    return "; ".join(parts) or None


def _stratum_shortfall(certificate: Certificate, alpha: Fraction, stratum: text.Stratum) -> str:
    guarantee, names, sizes = certificate.terms()
    bound = guarantee.bind(names, sizes)
    called = text.stratum_called(*stratum, certificate.class_names)
    seen = sum(one.scores for one in certificate.promises if (one.group, one.class_index) == stratum)
    held = [seen, *[0] * (len(sizes) - 1)]  # the certificate does not keep how many each site has
    if not seen or (bound.sites_apart and len(sizes) > 1) or feasible(bound, alpha, held):
        return f"{called} has {seen} calibration scores, and more are needed"
    noun = "class" if stratum[0] is None else "group"
    return f"{called}: {text.shortfall(bound, alpha, held, names, stratum=noun)}"


def describe_band(certificate: Certificate) -> str:
    """Return the range of the coverage in words; answers that say nothing have none."""
    limits = [one.limit for one in certificate.whole]
    full = missing_ends(limits) == text.INTERVALS.uninformative if limits and certificate.intervals else False
    if full or (not certificate.intervals and certificate.by is None and explain_uninformative(certificate)):
        answers = text.INTERVALS if certificate.intervals else text.SETS
        return f"{answers.uninformative}, so the coverage is 1"
    least, most = certificate.coverage_at_least, certificate.coverage_at_most
    return f"coverage between {least:.4f} and, for distinct scores, {most:.4f}{certificate.before_rounding}"


def warn_of_sites(certificate: Certificate) -> None:
    """Issue the remarks as warnings."""
    for remark in remarks(certificate):
        warnings.warn(remark, stacklevel=3)


def remarks(certificate: Certificate) -> list[UserWarning]:
    """Return warnings of sites that outweigh the others, and of sums without a finite threshold."""
    found: list[UserWarning] = [HeavySiteWarning(text.heavy_site(*heavy)) for heavy in certificate.heavy_sites.items()]
    claim = certificate.privacy or {}
    plain = claim.get("mode") == "sums" and "epsilon" not in claim and certificate.risk is None
    if plain and (why := explain_uninformative(certificate)):
        found.append(InfeasibleWarning(why))
    return found
