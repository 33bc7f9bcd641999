"""Rendering of all sentences about promises from data: statements, caveats, missing data, warnings and advice.

Names of sites, classes and groups are inserted into sentences, which are never edited afterwards.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, as_alpha, shares_of
from fedconformal._base.names import abbreviate, join_names
from fedconformal.certificates.certificate import Certificate, RenewalRows, Statement
from fedconformal.errors import HeavySiteWarning, InfeasibleWarning
from fedconformal.guarantees.guarantee import Audience, Counts, Guarantee, Shortfall, feasible
from fedconformal.losses.loss import described_loss
from fedconformal.scores import LAC, AnyScore, RegressionScore, Score
from fedconformal.summaries.provenance import number_of

Subset = tuple[str | None, int | None]
"""A group, a class, or a class in a group."""
ClassNames = Sequence[str] | int | None
FIXED = "The promise is for {} fixed beforehand. It says nothing of sites that sent no summary or were left out."
MODEL = "the model was not fitted to the calibration rows"
UNTRAINED_MODEL = "one model, not trained on any of these sites, made all scores"
GROUPS_FIXED = (
    "the groups of a row are read in the same way everywhere, at calibration and later; which groups there are, and "
    "their borders, was fixed before calibration rows were seen"
)
LOSS_CAVEAT = (
    "This is a promise on the mean loss of the rows named above, at this threshold: a single row may lose more, and so "
    "may a class, another group of rows, or a site that is not named by itself."
)
SAFE_ACTION = "which never loses more than that nor than the last one"
RENEWED = {
    RenewalRows.new: "This predictor was recalibrated on rows that no watch had counted.",
    RenewalRows.watched: "This predictor was recalibrated on rows that a watch had counted, so nothing is promised.",
}
MOST_NAMED = 5
BETTER_MODEL = "a better model, or a larger alpha, gives smaller sets"
NO_PROBABILITY = f"the model gives the true label no probability at all in too many calibration rows; {BETTER_MODEL}"
LEAST_LIKELY = (
    "the least likely label of every row has the highest score there is, and in too many calibration rows it is the "
    "true one; lac gives smaller sets on most data (docs/scores.md)"
)
PRIVACY_RAISED = "noise or a public cell moved the threshold above all scores; more rows, or epsilon, lower it"
MORE_FOR_NOISE = "with this epsilon more calibration scores are needed, at any site, or a larger epsilon"
FEW_ALPHAS = "its curve has few alphas; calibrate for this one"
INEXACT_SUMMARIES = "the summaries are too coarse; more calibration scores, or summaries of the kind exact, would help"
ROUNDING = 2.0**-40
"""Rounding error of a row's sum for each probability."""
HALF = 0.5
"""Minimum share of full sets for the advice to improve the model."""
MOST_CLASSES = 10**6


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Words for the outputs of a predictor."""

    plural: str
    truth: str = ""
    counted: str = "scores"
    """Unit of the missing calibration data."""
    uninformative: str = ""
    """Meaning of an infinite threshold."""
    conditions: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Different words for subsets of the rows."""


SETS = Vocabulary(
    plural="sets",
    truth="label",
    uninformative="every label is in every set",
    conditions=FIXED.format("an alpha") + " The upper end holds for distinct scores and sets that may be empty; "
    "forcing the top label in keeps the lower end only.",
)
INTERVALS = Vocabulary(
    plural="intervals",
    truth="value",
    uninformative="every interval is the whole line",
    conditions=FIXED.format("an alpha")
    + " The largest coverage stated holds for distinct scores, but for the rounding of ends outward.",
    parts={"class": "group", "set size": "width"},
)
LOSSES = Vocabulary(
    plural="losses",
    counted="rows",
    conditions=FIXED.format("a limit, a bound and a grid of thresholds that were"),
)


def answers_to(score: AnyScore | None) -> Vocabulary:
    """Return the words for the outputs of a predictor with this score."""
    return INTERVALS if isinstance(score, RegressionScore) else SETS


def statement(guarantee: Guarantee, sites: Sequence[str], answers: Vocabulary, **own: str) -> Statement:
    """Return the promise in words; `own` replaces single fields."""
    words = {
        "promise": promise(guarantee, sites),
        "assumption": assumption(guarantee, sites),
        "caveat": caveat(guarantee, answers),
        "conditions": answers.conditions,
    }
    return Statement(**{**words, **own})


def promise(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return the scope of the promise, to follow "... with probability at least 0.9 "."""
    audience = guarantee.audience(sites)
    given = {"class": "given the true label, whichever it is, ", "group": "given any group that the row is in, "}
    condition = "".join(given[stratum] for stratum in audience.strata)
    return f"{condition}for a test row {audience.population}, {_draws(audience)}"


def _draws(audience: Audience) -> str:
    if audience.failure is None:
        return f"on average over {audience.averaged_over}"
    apart = f", each {audience.strata[-1]} apart" if audience.strata else ""
    return f"for each calibration draw but for a share of {audience.failure:g} of the draws{apart}"


def lay_description(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return the scope of the promise in plain language, to follow "... in at least 90% of "."""
    audience = guarantee.audience(sites)
    of = {"class": "each right answer", "group": "each group"}
    strata = "".join(f"the cases of {of[stratum]} by itself, among " for stratum in audience.strata)
    return strata + audience.lay_population


def assumption(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return the assumptions of a promise, to follow "Provided that "."""
    inner, audience = guarantee.inner, guarantee.audience(sites)
    model = UNTRAINED_MODEL if inner.untrained else MODEL
    groups = GROUPS_FIXED if "group" in audience.strata else ""
    return "; ".join(filter(None, (inner.assumption, audience.sampling, model, groups, inner.patients)))


def caveat(guarantee: Guarantee, answers: Vocabulary = SETS) -> str:
    """Return the limits of a promise that are easily overlooked."""
    if answers is LOSSES:
        return LOSS_CAVEAT
    if guarantee.by_group or guarantee.inner is not guarantee:
        return _stratified_caveat("group" if guarantee.by_group else "class")
    parts = [answers.parts.get(part, part) for part in guarantee.excluded]
    single = " or ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    not_to = f"This is not a promise to a single {single}: one that falls below is not a violation." if parts else ""
    return " ".join(filter(None, (not_to, guarantee.caveat)))


def _stratified_caveat(stratum: str) -> str:
    absent = "Nothing is promised to a group that no calibration row is in. " if stratum == "group" else ""
    return (
        f"Each {stratum} is promised by itself, on average over calibration draws: one that falls below on some test "
        f"rows is not a violation. {absent}It is not a promise to a set size, nor to a single site's rows of a "
        f"{stratum} unless that is stated. The summaries show how many calibration rows of each {stratum} a site has."
    )


def sentence(certificate: Certificate) -> str:
    """Return the promise in one sentence, with a second sentence on the rows for a predictor that replaces another."""
    certified, promised, risk = certificate.status == "certified", certificate.statement.promise, certificate.risk
    if risk is None:
        answers, verb = INTERVALS if certificate.intervals else SETS, "hold" if certified else "are estimated to hold"
        level = f"with probability at least {1 - certificate.alpha:.10g}"
        words = f"The {answers.plural} {verb} the true {answers.truth} {level} {promised}."
    elif certificate.threshold < math.inf:
        means = loss.means if (loss := described_loss(risk.loss)) else "The expected loss"
        words = f"{means} {'is' if certified else 'is estimated to be'} at most {risk.limit:.10g} {promised}."
    else:
        then = f"so take the safe action: {risk.safe}" if risk.safe else "so nothing is promised without a safe action"
        words = f"No threshold of the grid keeps the expected loss at or below {risk.limit:.10g} {promised}, {then}."
    return words if certificate.replaces is None else f"{words} {RENEWED[certificate.replaces.rows]}"


def why_estimated(certificate: Certificate) -> str:
    """Return the reason why a certificate is only estimated."""
    if certificate.watched:
        return "rows counted by a watch are not exchangeable with later rows"
    if certificate.provenance.trained:
        return "the model was trained on the sites that calibrated it, and a new site is not like them"
    return "a summary without bounds, such as tdigest, or an estimate may err in either direction"


def no_threshold(limit: Fraction, reason: str, safe: str | None) -> str:
    """Return the warning that no threshold of a grid keeps a limit on losses."""
    then = f"take the safe action: {safe}" if safe else f"without a safe action, {SAFE_ACTION}, nothing is promised"
    return f"risk={float(limit):g} cannot be promised at any threshold of the grid ({reason}); {then}"


def shortfall(
    bound: Guarantee,
    alpha: Fraction,
    sizes: Counts,
    names: Sequence[str],
    *,
    stratum: str | None = None,
    owner: Literal["site", "class"] = "site",
    answers: Vocabulary = SETS,
) -> str:
    """Return the missing calibration data for a finite threshold; `owner` is the noun of the sizes, site or class."""
    missing = bound.missing(alpha, sizes)
    if missing.sites:
        return f"sites needed: {missing.sites} more, from the same population"
    if missing.parameter:
        name, value, least = missing.parameter
        return f"{name} is {value}, needed: {least} or more"
    if missing.anywhere:
        total = f" ({sum(sizes) + missing.anywhere} of each {stratum})" if stratum else ""
        return f"calibration {answers.counted} needed: {missing.anywhere} more in all, at any site{total}"
    return f"calibration {answers.counted} needed: {_scores_by_site(missing, names, owner)}"


def _scores_by_site(missing: Shortfall, names: Sequence[str], owner: str) -> str:
    place, plural = ("at site", "at {} more sites") if owner == "site" else ("of class", "of {} more classes")
    called = {k: repr(names[k]) if names else f"number {k + 1}" for k in missing.scores}
    parts = [f"{extra} more {place} {called[k]}" for k, extra in list(missing.scores.items())[:MOST_NAMED]]
    if len(missing.scores) > len(parts):
        parts.append(f"and likewise {plural.format(len(missing.scores) - len(parts))}")
    return ", ".join(parts)


def stratum_called(group: str | None, label: int | None, names: ClassNames = None) -> str:
    """Return the name of a stratum, such as "class malignant in sex=F"."""
    called = None if label is None else f"class {class_called(label, names)}"
    return " in ".join(filter(None, (called, group)))


def without_promise(strata: Sequence[Subset], names: ClassNames = None, so: str | None = None) -> str:
    """Name the strata without a promise, and the consequence, which `so` replaces."""
    labels = [label for group, label in strata if group is None and label is not None]
    if labels:
        return f"to {the_classes(labels, names)}, which {'is' if len(labels) == 1 else 'are'} in every set"
    effect = "which are in every set there" if strata[0][1] is not None else f"where {so or SETS.uninformative}"
    return f"to {join_names([stratum_called(*stratum, names) for stratum in strata])}, {effect}"


def not_promised_to(alpha: Fraction, strata: Sequence[Subset], names: ClassNames = None, so: str | None = None) -> str:
    """Return the warning that some strata have no finite threshold."""
    return f"alpha={float(alpha):g} cannot be promised {without_promise(strata, names, so)}"


def why_no_bound(bound: Guarantee, stratum: str | None = None) -> str:
    """Return the reason why no bound on the miss rate of one calibration is known."""
    if bound.why_no_bound is not None:
        return bound.why_no_bound
    if stratum is not None:
        return f"the certificate does not record how many calibration rows of each {stratum} a site has"
    return "no bound on the miss rate of one calibration is known under this guarantee"


def class_called(label: int, names: ClassNames = None) -> str:
    """Return the name of a class, or its number."""
    known = names if isinstance(names, Sequence) and label < len(names) else None
    return str(label) if known is None else abbreviate(known[label])


def the_classes(labels: Sequence[int], names: ClassNames = None) -> str:
    """Return the names of classes, the first ten by label."""
    called = [class_called(label, names) for label in labels[:10]]
    if len(labels) == 1:
        return f"class {called[0]}"
    return f"the classes {', '.join(called)}" + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")


def guarantee_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of a described guarantee, the innermost first: "mixture by class"."""
    name = str(parameters["name"])
    inner = [value for value in parameters.values() if isinstance(value, Mapping)]
    return f"{guarantee_name(inner[0])} {' '.join(name.split('-'))}" if inner else name


def full_set_count(full: int, rows: int) -> str:
    """Return the number of sets with all labels, in words."""
    return f"{full:,} of {rows:,} sets hold every label"


def explain_uninformative(
    certificate: Certificate,
    threshold: float | Floats | tuple[float, float] | None = None,
    *,
    alpha: Any = None,
    classes: int | None = None,
    share: float | None = None,
) -> str | None:
    """Explain uninformative sets or intervals, with advice; None if they are informative.

    Threshold, alpha and number of classes are the certified ones by default. `threshold` is a number, one per class or
    group, or both ends; `share` is the observed share of sets with all labels.
    """
    level = as_alpha(certificate.alpha if alpha is None else alpha)
    if classes is None and certificate.class_names is not None:
        classes = number_of(certificate.class_names)
    if certificate.intervals:
        return _without_end(certificate, threshold, level)
    if classes == 1 or certificate.risk is not None:
        return None
    limit = np.asarray(certificate.limit if threshold is None else threshold, dtype=np.float64)
    score = None if certificate.score is None else registry.rebuild(certificate.score, Score)
    if limit.ndim:
        words = _by_stratum(certificate, limit.ravel().tolist(), level, score, classes)
    elif limit == math.inf:
        words = _not_promised(certificate, level, SETS.uninformative, _lacking(certificate, level))
    else:
        words = None if score is None else _at_largest(certificate, float(limit), score, classes)
    if words is None and share is not None and share >= HALF:
        words = f"the model does not tell the labels of these rows apart well enough for alpha={float(level):g}"
        return f"{words}; {BETTER_MODEL}"
    return words


def _at_largest(certificate: Certificate, limit: float, score: Score, classes: int | None) -> str | None:
    """Explain a threshold that no label can exceed."""
    # If the number of labels is unknown, the threshold must exceed the highest score for any number of labels.
    if limit <= score.largest(MOST_CLASSES) if classes is None else limit < _least_full(score, classes):
        return None
    labels = "" if classes is None else f", {classes} labels"
    why = PRIVACY_RAISED if certificate.privacy is not None else _highest_score(score)
    return (
        f"no label can score more than the threshold {limit:.6g} ({score.name}{labels}), so {SETS.uninformative}; {why}"
    )


def _least_full(score: Score, classes: int) -> float:
    """Return the smallest threshold at which sets hold all labels, up to the rounding of sums."""
    return score.largest(classes) - (0.0 if isinstance(score, LAC) else classes * ROUNDING)


def _highest_score(score: Score) -> str:
    return NO_PROBABILITY if isinstance(score, LAC) else LEAST_LIKELY


def missing_ends(thresholds: Sequence[float]) -> str | None:
    """Name the missing ends of intervals, given the lower and the upper threshold, or one for both."""
    lacking = np.isinf(thresholds)
    if lacking.all():
        return INTERVALS.uninformative
    return f"no interval has {'a lower' if lacking[0] else 'an upper'} end" if lacking.any() else None


def _without_end(
    certificate: Certificate, threshold: float | Floats | tuple[float, float] | None, alpha: Fraction
) -> str | None:
    limits = np.atleast_1d([one.limit for one in certificate.whole] if threshold is None else threshold)
    so = missing_ends(limits.tolist())
    if so is None:
        return None
    share = certificate.lower_share
    levels = [alpha] if share is None else shares_of(alpha, share)
    smallest = min(part for part, end in zip(levels, limits, strict=True) if np.isinf(end))
    return _not_promised(certificate, alpha, so, _lacking(certificate, alpha, None if share is None else smallest))


def _not_promised(certificate: Certificate, alpha: Fraction, so: str, needed: str) -> str:
    start, end = f"alpha={float(alpha):g} cannot be promised", f"{needed}{_missing_sites(certificate)}"
    if certificate.by == "site":
        return f"{start} to every site, so {so} there and where the site is not given; {end}"
    return f"{start} from these scores, so {so}; {end}"


def _missing_sites(certificate: Certificate) -> str:
    named = [f"{abbreviate(one.site)} ({abbreviate(one.reason)})" for one in certificate.left_out or ()]
    return f"; the scores of these sites are missing: {join_names(named)}" if named else ""


def _lacking(certificate: Certificate, alpha: Fraction, end: Fraction | None = None) -> str:
    """Return the missing data, or another reason for an infinite threshold; `end` is the share of alpha of one end."""
    bound, names, sizes = certificate.parties()
    bound, level = (bound, alpha) if end is None else (bound.bind(names, sizes, "end"), end)
    claim = certificate.privacy or {}
    if not feasible(bound, level, sizes):
        over_classes = certificate.provenance.class_scores is not None
        return shortfall(bound, level, sizes, names, owner="class" if over_classes else "site")
    if dropped := claim.get("dropped"):
        share = {name: n / sum(sizes) for name, n in zip(names, sizes, strict=True)}
        lost = [f"{abbreviate(one['site'])} ({share[one['site']]:.3g} of the rows)" for one in dropped]
        return f"{', '.join(lost)} dropped out, and its rows count as too large; start another session without it"
    if "epsilon" in claim:
        return MORE_FOR_NOISE
    if not certificate.exact and not claim and alpha != as_alpha(certificate.alpha):
        return FEW_ALPHAS
    return INEXACT_SUMMARIES


def _by_stratum(
    certificate: Certificate, limits: list[float], alpha: Fraction, score: Score | None, classes: int | None
) -> str | None:
    """Name the classes or groups with too few scores, and the classes whose threshold no label can exceed."""
    strata = [(one.group, one.class_index) for one in certificate.promises]
    if certificate.by == "class":  # additional classes without scores
        strata += [(None, label) for label in range(len(limits), classes or 0)]
    finite = dict(zip(strata, limits, strict=False))
    names, parts = certificate.class_names, []
    if few := [stratum for stratum in strata if finite.get(stratum, math.inf) == math.inf]:
        needed = "; ".join(_stratum_shortfall(certificate, alpha, one) for one in few[:MOST_NAMED])
        parts.append(f"{not_promised_to(alpha, few, names)}; {needed}{_missing_sites(certificate)}")
    if certificate.by == "class" and score is not None and classes is not None:
        least = _least_full(score, classes)
        if full := [label or 0 for (_, label), own in finite.items() if least <= own < math.inf]:
            which = f"{the_classes(full, names)} {'is' if len(full) == 1 else 'are'} in every set"
            bounded = f"as no label can score more than its threshold ({score.name}, {classes} labels)"
            parts.append(f"{which}, {bounded}; {_highest_score(score)}")
    return "; ".join(parts) or None


def _stratum_shortfall(certificate: Certificate, alpha: Fraction, stratum: Subset) -> str:
    guarantee, names, sizes = certificate.terms()
    bound = guarantee.bind(names, sizes)
    called = stratum_called(*stratum, certificate.class_names)
    seen = sum(one.scores for one in certificate.promises if (one.group, one.class_index) == stratum)
    held = [seen, *[0] * (len(sizes) - 1)]  # the certificate does not contain the counts per site
    if not seen or (bound.sites_apart and len(sizes) > 1) or feasible(bound, alpha, held):
        return f"{called} has {seen} calibration scores, and more are needed"
    nouns = [noun for noun, part in zip(("class", "group"), reversed(stratum), strict=True) if part is not None]
    return f"{called}: {shortfall(bound, alpha, held, names, stratum=' in each '.join(nouns))}"


def describe_band(certificate: Certificate) -> str:
    """Return the range of the coverage in words; uninformative predictions have coverage 1."""
    limits = [one.limit for one in certificate.whole]
    full = missing_ends(limits) == INTERVALS.uninformative if limits and certificate.intervals else False
    if full or (not certificate.intervals and certificate.by is None and explain_uninformative(certificate)):
        return f"{(INTERVALS if certificate.intervals else SETS).uninformative}, so the coverage is 1"
    least, most = certificate.coverage_at_least, certificate.coverage_at_most
    return f"coverage between {least:.4f} and, for distinct scores, {most:.4f}{before_rounding(certificate)}"


def before_rounding(certificate: Certificate) -> str:
    """Return the qualification of `coverage_at_most` if thresholds are rounded up."""
    unrounded = certificate.exact or certificate.privacy is not None or certificate.coverage_at_most == 1
    return "" if unrounded else ", before thresholds are rounded up"


def privacy_claim(claim: Mapping[str, Any]) -> str:
    """Return the claim of a private release in words."""
    if not isinstance(claim.get("epsilon"), int | float):
        return str(claim.get("claim"))
    return f"epsilon {claim['epsilon']:g} for {claim.get('unit')}; outside the claim: {claim.get('outside')}"


def warn_of_sites(certificate: Certificate) -> None:
    """Issue all remarks as warnings."""
    for remark in remarks(certificate):
        warnings.warn(remark, stacklevel=3)


def remarks(certificate: Certificate) -> list[UserWarning]:
    """Return warnings for dominating sites, and for secure sums without a finite threshold."""
    warned: list[UserWarning] = [
        HeavySiteWarning(
            f"site {site!r} has {share:.0%} of all calibration rows, by its own claim, so the promise is mostly to "
            "that site; if this is not intended, limit the rows that count for a site, or give the sites weights"
        )
        for site, share in certificate.heavy_sites.items()
    ]
    claim = certificate.privacy or {}
    noiseless_sums = claim.get("mode") == "sums" and "epsilon" not in claim and certificate.risk is None
    if noiseless_sums and (why := explain_uninformative(certificate)):
        warned.append(InfeasibleWarning(why))
    return warned
