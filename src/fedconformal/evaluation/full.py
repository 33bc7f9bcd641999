"""Sets that hold every label, and intervals without an end, say nothing: why there are any, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import scores
from fedconformal._base import registry
from fedconformal._base.arrays import Booleans, Floats, as_alpha, as_array, shares_of
from fedconformal._base.names import listed, shown
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.guarantees.guarantee import feasible
from fedconformal.scores import LAC, Score
from fedconformal.summaries.provenance import number_of

GRID = 2.0**-40
"""What one probability can add to the rounding of a row's sum."""
NEAR = 1e-5
"""How far below the largest score a threshold may be to be the reason, where half of the sets are full: sums of
float32 are off by as much."""
ROUNDING = 2.0**-22
"""How far the sum of a row of float32 may be from one: a few units in the last place."""
HALF = 0.5
"""From this share of full sets on there is something to say, even if there is no one reason for all of them."""
MOST_SITES = 5
MOST = 10**6
"""More classes than anybody has."""
WHOLE_LINE = "every interval is the whole line"


def full_sets(sets: ArrayLike) -> int:
    """Count the sets that hold every label; where there is only one label, that is no loss and none counts.

    >>> full_sets([[True, True], [True, False]]), full_sets([[True]])
    (1, 0)
    """
    member: Booleans = as_array(sets, "sets")
    return int(np.count_nonzero(member.all(axis=1))) if member.shape[1] > 1 else 0


def full_words(full: int, rows: int) -> str:
    """Say how many sets hold every label.

    >>> full_words(3, 200)
    '3 of 200 sets hold every label'
    """
    return f"{full} of {rows} sets hold every label"


def why_full(
    certificate: Certificate,
    threshold: float | Floats | tuple[float, float] | None = None,
    *,
    alpha: Any = None,
    score: Score | None = None,
    classes: int | None = None,
    share: float | None = None,
) -> str | None:
    """Say why every label, or every label of some classes, is in every set, and what would help; None if they are not.

    Of intervals it says why they have no end. For those, `threshold` is one number, or the lower and the upper one.
    What would help may be another score, as measured; none is named where the reason is that scores are too few.

    Args:
        certificate: what is promised, from which scores.
        threshold: at which sets are made, by default the certified one; one, or one for each class.
        alpha: what the threshold is for, by default the certified one.
        score: of what, by default what the certificate says.
        classes: how many labels there are, by default what the certificate says; if that is not known, only a
            threshold of +inf is a reason.
        share: the share of the sets at hand that hold every label; None if no sets were made yet.
    """
    wanted = as_alpha(certificate.alpha if alpha is None else alpha)
    if classes is None and certificate.class_names is not None:
        classes = number_of(certificate.class_names)
    if classes == 1 or certificate.intervals or certificate.risk is not None:
        return _no_end(certificate, threshold, wanted) if certificate.intervals else None
    limit = np.asarray(certificate.limit if threshold is None else threshold, dtype=np.float64)
    if score is None and certificate.score is not None:
        score = registry.build(certificate.score, Score)
    if limit.ndim:
        by_group = certificate.by == "group"
        named = (
            _by_group(certificate, limit, wanted) if by_group else _by_class(certificate, limit, wanted, score, classes)
        )
        return named or _model_helps(wanted, score, classes, share)
    if limit == np.inf:
        start = _cannot(certificate, wanted, "every label is in every set")
        return f"{start}; {_shortfall(certificate, wanted)}{_lost(certificate)}"
    # Above the highest score of any number of labels there is no doubt, also if their number is not known.
    if score is not None and (classes is not None or limit > score.largest(MOST)):
        known, classes = classes, classes or MOST
        least = _least_full(score, classes)
        if limit >= least - (NEAR if share is not None and share >= HALF else 0.0):
            labels = "" if known is None else f", {known} labels"
            most = f"no label can score more than the threshold {limit:.6g} ({score.name}{labels})"
            every = "every label is in every set"
            held = every if share in (None, 0.0, 1.0) else f"but for rounding {every}"
            return f"{most}, so {held}; {_rounded(certificate) or _score_helps(score, classes)}"
        near = limit >= least - ROUNDING and known and share != 0.0
        if near and isinstance(score, scores.APS) and not score.randomized:
            return (
                f"the least likely label of every row scores the threshold {limit:.6g} but for rounding "
                f"({score.name}, {classes} labels), so rounding decides which sets hold every label"
                f"{_advice(score, classes)}"
            )
    return _model_helps(wanted, score, classes, share)


def lacks_ends(thresholds: Sequence[float]) -> str | None:
    """Say which end intervals lack, from the lower and the upper threshold, or from one for both.

    >>> lacks_ends([float("inf")]), lacks_ends([float("-inf"), 2.0]), lacks_ends([-2.0, 2.0])
    ('every interval is the whole line', 'no interval has a lower end', None)
    """
    lacking = np.isinf(thresholds)
    if lacking.all():
        return WHOLE_LINE
    return f"no interval has {'a lower' if lacking[0] else 'an upper'} end" if lacking.any() else None


def _no_end(
    certificate: Certificate, threshold: float | Floats | tuple[float, float] | None, alpha: Fraction
) -> str | None:
    """Say why intervals lack an end."""
    found = np.atleast_1d([one.limit for one in certificate.whole] if threshold is None else threshold)
    so = lacks_ends(found.tolist())
    if so is None:
        return None
    share = certificate.lower_share
    missed = [alpha] if share is None else shares_of(alpha, share)
    dearest = min(part for part, end in zip(missed, found, strict=True) if np.isinf(end))
    needed = _shortfall(certificate, dearest, one_end=share is not None)
    return f"{_cannot(certificate, alpha, so)}; {needed}{_lost(certificate)}"


def _cannot(certificate: Certificate, alpha: Fraction, so: str) -> str:
    """Say that alpha cannot be promised; where each site has a threshold of its own, only to some of them."""
    if certificate.by != "site":
        return f"alpha={float(alpha):g} cannot be promised from these scores, so {so}"
    return f"alpha={float(alpha):g} cannot be promised to every site, so {so} there and where the site is not given"


def _model_helps(alpha: Fraction, score: Score | None, classes: int | None, share: float | None) -> str | None:
    if share is None or share < HALF:
        return None
    return (
        f"the model does not tell the labels of these rows apart well enough for alpha={float(alpha):g}; "
        f"a better model, or a larger alpha, gives smaller sets{_advice(score, classes)}"
    )


def _least_full(score: Score, classes: int) -> float:
    """Return the least threshold at which every label is in, but for the rounding of sums."""
    return score.largest(classes) - (0.0 if isinstance(score, LAC) else classes * GRID)


def _rounded(certificate: Certificate) -> str:
    """Say so if the threshold is the edge of a cell, or noise moved it up, and it would be lower without."""
    if (certificate.privacy or {}).get("epsilon") is not None:
        return "noise moved the threshold above all scores; more rows, or a larger epsilon, give a lower one"
    precision = (certificate.privacy or {}).get("precision")
    if precision is None or precision["exact"]:
        return ""
    return (
        f"the threshold is the edge of a cell, rounded up since {precision['stopped']}; more rows, or sums to the last "
        "bit, may give a lower one"
    )


def _score_helps(score: Score, classes: int) -> str:
    if isinstance(score, LAC):
        return (
            "the model gives the true label no probability at all in too many calibration rows; "
            f"a better model, or a larger alpha, gives smaller sets{_advice(score, classes)}"
        )
    return (
        "the least likely label of every row has the highest score there is, and in too many calibration rows it is "
        f"the true one{_advice(score, classes)}"
    )


def _advice(score: Score | None, classes: int | None) -> str:
    from fedconformal.scores.advice import smaller_sets  # which knows more scores than a calibration needs

    advice = "" if score is None else smaller_sets(score, classes)
    return f"; {advice}" if advice else ""


def _shortfall(certificate: Certificate, alpha: Fraction, *, one_end: bool = False) -> str:
    """Say how many scores are missing, or what else keeps the threshold from being finite."""
    bound, names, sizes = certificate.parties()
    bound = bound.bind(names, sizes, "end") if one_end else bound
    if not feasible(bound, alpha, sizes):
        return text.shortfall(
            bound, alpha, sizes, names, owner="site" if certificate.provenance.class_scores is None else "class"
        )
    if dropped := (certificate.privacy or {}).get("dropped"):
        size = dict(zip(names, sizes, strict=True))
        lost = [f"{shown(one['site'])} ({size[one['site']] / sum(sizes):.3g} of the rows)" for one in dropped]
        return f"{', '.join(lost)} dropped out, and its rows count as too large; start another session without it"
    if certificate.privacy is not None and "epsilon" in certificate.privacy:
        return "with this epsilon more calibration scores are needed, at any site, or a larger epsilon"
    if not certificate.exact and certificate.privacy is None and alpha < as_alpha(certificate.alpha):
        return "its curve has few alphas; calibrate for this one"
    return "the summaries leave too much open; more calibration scores, or summaries of the kind exact, would help"


def _class_shortfall(certificate: Certificate, alpha: Fraction, label: int) -> str:
    guarantee, names, sizes = certificate.terms()
    bound = guarantee.bind(names, sizes)
    called = text.class_called(label, certificate.class_names)
    seen = sum(one.scores for one in certificate.parts.get(label, ()))
    of_class = [seen, *[0] * (len(sizes) - 1)]  # how many each site has is not on record
    if not seen or bound.sites_apart or feasible(bound, alpha, of_class):
        return f"class {called} has {seen} calibration scores, and more are needed"
    return f"class {called}: {text.shortfall(bound, alpha, of_class, names, stratum='class')}"


def _by_group(certificate: Certificate, limit: Floats, alpha: Fraction) -> str | None:
    """Name the groups with too few scores, and what the first of them needs."""
    few = [str(group) for group, own in zip(certificate.parts, limit, strict=True) if np.isinf(own).any()]
    if not few:
        return None
    first, scores = few[0], sum(one.scores for one in certificate.parts[few[0]])
    guarantee, names, sizes = certificate.terms()
    every = "some classes are" if guarantee.by_class else "every label is"
    bound, of_group = guarantee.bind(names, sizes), [scores, *[0] * (len(sizes) - 1)]
    needed = f"{first} has {scores} calibration scores, and more are needed"
    if not (guarantee.by_class or bound.sites_apart or feasible(bound, alpha, of_group)):
        needed = f"{first}: {text.shortfall(bound, alpha, of_group, names, stratum='group')}"
    said = f"cannot be promised to {listed(few)}, where {every} in every set; {needed}"
    return f"alpha={float(alpha):g} {said}{_lost(certificate)}"


def _lost(certificate: Certificate) -> str:
    left_out = certificate.left_out or []
    if not left_out:
        return ""
    named = [f"{shown(one.site)} ({shown(one.reason)})" for one in left_out[:MOST_SITES]]
    rest = f" and {len(left_out) - MOST_SITES} more" if len(left_out) > MOST_SITES else ""
    return f"; the scores of these sites are missing: {', '.join(named)}{rest}"


def _by_class(
    certificate: Certificate, limit: Floats, alpha: Fraction, score: Score | None, classes: int | None
) -> str | None:
    """Name the classes that are in every set, those with too few scores first."""
    limit = np.append(limit, np.full(max(0, (classes or 0) - len(limit)), np.inf))
    parts = []
    if few := np.flatnonzero(np.isinf(limit)).tolist():
        parts.append(
            f"alpha={float(alpha):g} cannot be promised {text.in_every_set(few, certificate.class_names)}; "
            f"{_class_shortfall(certificate, alpha, few[0])}{_lost(certificate)}"
        )
    if score is not None and classes is not None:
        full = np.flatnonzero(np.isfinite(limit) & (limit >= _least_full(score, classes))).tolist()
        if full:
            named = f"{text.the_classes(full, certificate.class_names)} {'is' if len(full) == 1 else 'are'}"
            most = f"as no label can score more than its threshold ({score.name}, {classes} labels)"
            parts.append(f"{named} in every set, {most}; {_score_helps(score, classes)}")
    return "; ".join(parts) or None
