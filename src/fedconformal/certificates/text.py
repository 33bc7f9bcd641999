"""Every sentence about a promise, rendered from data: certificates, needs, caveats, warnings and advice.

Names of sites, classes and groups are inserted into sentences, and a sentence is never edited afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from fedconformal._base.names import abbreviate, join_names
from fedconformal.guarantees.guarantee import Audience, Counts, Guarantee, Shortfall
from fedconformal.scores import AnyScore, RegressionScore

Stratum = tuple[str | None, int | None]
"""A group, a class, or a class in a group."""
ClassNames = Sequence[str] | int | None
"""The names of the classes, their number, or neither."""

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
MOST_NAMED = 5
LAC_SMALLER = "lac gives smaller sets on most data (docs/scores.md)"
BETTER_MODEL = "a better model, or a larger alpha, gives smaller sets"
NO_PROBABILITY = f"the model gives the true label no probability at all in too many calibration rows; {BETTER_MODEL}"
LEAST_LIKELY = (
    "the least likely label of every row has the highest score there is, and in too many calibration rows it is the "
    "true one"
)
NOISE_RAISED = "noise moved the threshold above all scores; more rows, or a larger epsilon, give a lower one"
MORE_FOR_NOISE = "with this epsilon more calibration scores are needed, at any site, or a larger epsilon"
FEW_ALPHAS = "its curve has few alphas; calibrate for this one"
INEXACT_SUMMARIES = (
    "the summaries leave too much open; more calibration scores, or summaries of the kind exact, would help"
)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The words for what a predictor answers with."""

    plural: str
    truth: str = ""
    counted: str = "scores"
    """Unit of the missing calibration data."""
    uninformative: str = ""
    """Meaning of an infinite threshold."""
    conditions: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """The words for parts of the rows that are called otherwise."""


SETS = Answers(
    plural="sets",
    truth="label",
    uninformative="every label is in every set",
    conditions=FIXED.format("an alpha") + " The upper end holds for distinct scores and sets that may be empty; "
    "forcing the top label in keeps the lower end only.",
)
INTERVALS = Answers(
    plural="intervals",
    truth="value",
    uninformative="every interval is the whole line",
    conditions=FIXED.format("an alpha")
    + " The largest coverage stated holds for distinct scores, but for the rounding of ends outward.",
    parts={"class": "group", "set size": "width"},
)
LOSSES = Answers(
    plural="losses",
    counted="rows",
    conditions=FIXED.format("a limit, a bound and a grid of thresholds that were"),
)


def answers_to(score: AnyScore | None) -> Answers:
    """Return the words for the answers of a predictor with this score."""
    return INTERVALS if isinstance(score, RegressionScore) else SETS


def promise(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return who is promised coverage, to follow "... with probability at least 0.9 "."""
    found = guarantee.audience(sites)
    given = {"class": "given the true label, whichever it is, ", "group": "given any group that the row is in, "}
    return "".join(given[stratum] for stratum in found.strata) + f"for a test row {found.population}, {_draws(found)}"


def _draws(audience: Audience) -> str:
    if audience.failure is None:
        return f"on average over {audience.averaged_over}"
    apart = f", each {audience.strata[-1]} apart" if audience.strata else ""
    return f"for each calibration draw but for a share of {audience.failure:g} of the draws{apart}"


def lay_description(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return who is promised coverage in words for a board, to follow "... in at least 90% of "."""
    found = guarantee.audience(sites)
    of = {"class": "each right answer", "group": "each group"}
    return "".join(f"the cases of {of[stratum]} by itself: " for stratum in found.strata) + found.lay_population


def assumption(guarantee: Guarantee, sites: Sequence[str]) -> str:
    """Return what a promise rests on, to follow "Provided that "."""
    inner, found = guarantee.inner, guarantee.audience(sites)
    model = UNTRAINED_MODEL if inner.untrained else MODEL
    groups = GROUPS_FIXED if "group" in found.strata else ""
    return "; ".join(filter(None, (inner.assumption, found.sampling, model, groups, inner.patients)))


def caveat(guarantee: Guarantee, answers: Answers = SETS) -> str:
    """Return what a promise is easily mistaken for."""
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


def sentence(promised: str, alpha: float, answers: Answers, *, certified: bool) -> str:
    """Return the promise on coverage in one sentence."""
    verb = "hold" if certified else "are estimated to hold"
    return (
        f"The {answers.plural} {verb} the true {answers.truth} with probability at least {1 - alpha:.10g} {promised}."
    )


def loss_sentence(promised: str, limit: float, means: str, safe: str | None, *, finite: bool, certified: bool) -> str:
    """Return the promise on a mean loss in one sentence; `means` says of which loss."""
    if finite:
        return f"{means} {'is' if certified else 'is estimated to be'} at most {limit:.10g} {promised}."
    then = f"so take the safe action: {safe}" if safe else "so nothing is promised without a safe action"
    return f"No threshold of the grid keeps the expected loss at or below {limit:.10g} {promised}, {then}."


def no_threshold(limit: Fraction, reason: str, safe: str | None) -> str:
    """Return the warning that no threshold of a grid keeps a limit on losses."""
    then = f"take the safe action: {safe}" if safe else f"without a safe action, {SAFE_ACTION}, nothing is promised"
    return f"risk={float(limit):g} cannot be promised at any threshold of the grid ({reason}); {then}"


def too_few(alpha: Fraction, needed: str, so: str | None = SETS.uninformative, *, every_site: bool = False) -> str:
    """Return the warning that no finite threshold promises enough, or not to every site."""
    start = f"alpha={float(alpha):g} cannot be promised"
    if every_site:
        return f"{start} to every site, so {so} there and where the site is not given; {needed}"
    return f"{start} from these scores, so {so}; {needed}"


def shortfall(
    bound: Guarantee,
    alpha: Fraction,
    sizes: Counts,
    names: Sequence[str],
    *,
    stratum: str | None = None,
    owner: Literal["site", "class"] = "site",
    answers: Answers = SETS,
) -> str:
    """Return what is missing for a finite threshold, given the sizes of sites, or of classes if these are the owners.

    `stratum` is the noun of the stratum that the sizes are of, if they are not of all rows.
    """
    found = bound.missing(alpha, sizes)
    if found.unseen:
        return f"sites needed: some that hold the {stratum}"
    if found.sites:
        return f"sites needed: {found.sites} more, from the same population"
    if found.parameter:
        name, value, least = found.parameter
        return f"{name} is {value}, needed: {least} or more"
    if found.anywhere:
        total = f" ({sum(sizes) + found.anywhere} of each {stratum})" if stratum else ""
        return f"calibration {answers.counted} needed: {found.anywhere} more in all, at any site{total}"
    return f"calibration {answers.counted} needed: {_scores_by_site(found, names, owner)}"


def _scores_by_site(found: Shortfall, names: Sequence[str], owner: str) -> str:
    place, plural = ("at site", "at {} more sites") if owner == "site" else ("of class", "of {} more classes")
    called = {k: repr(names[k]) if names else f"number {k + 1}" for k in found.scores}
    parts = [f"{extra} more {place} {called[k]}" for k, extra in list(found.scores.items())[:MOST_NAMED]]
    if len(found.scores) > len(parts):
        parts.append(f"and likewise {plural.format(len(found.scores) - len(parts))}")
    return ", ".join(parts)


def stratum_called(group: str | None, label: int | None, names: ClassNames = None) -> str:
    """Return the name of a stratum, such as "class malignant in sex=F"."""
    called = None if label is None else f"class {class_called(label, names)}"
    return " in ".join(filter(None, (called, group)))


def without_promise(strata: Sequence[Stratum], names: ClassNames = None, so: str | None = None) -> str:
    """Return which strata nothing is promised to, and what that means, unless `so` says it."""
    labels = [label for group, label in strata if group is None and label is not None]
    if labels:
        return f"to {the_classes(labels, names)}, which {'is' if len(labels) == 1 else 'are'} in every set"
    there = "which are in every set there" if strata[0][1] is not None else f"where {so or SETS.uninformative}"
    return f"to {join_names([stratum_called(*one, names) for one in strata])}, {there}"


def not_promised_to(alpha: Fraction, strata: Sequence[Stratum], names: ClassNames = None, so: str | None = None) -> str:
    """Return the warning that some strata have no finite threshold."""
    return f"alpha={float(alpha):g} cannot be promised {without_promise(strata, names, so)}"


def classes_above_scores(labels: Sequence[int], names: ClassNames, score: str, classes: int) -> str:
    """Return that no label can score more than the thresholds of these classes."""
    verb = "is" if len(labels) == 1 else "are"
    bounded = f"as no label can score more than its threshold ({score}, {classes} labels)"
    return f"{the_classes(labels, names)} {verb} in every set, {bounded}"


def threshold_above_scores(threshold: float, score: str, classes: int | None, *, rounding: bool) -> str:
    """Return that no label can score more than the threshold."""
    labels = "" if classes is None else f", {classes} labels"
    so = f"{'but for rounding ' if rounding else ''}{SETS.uninformative}"
    return f"no label can score more than the threshold {threshold:.6g} ({score}{labels}), so {so}"


def weak_model(alpha: Fraction) -> str:
    """Return that the model is the reason for large sets."""
    return (
        f"the model does not tell the labels of these rows apart well enough for alpha={float(alpha):g}; {BETTER_MODEL}"
    )


def cell_edge(stopped: str) -> str:
    """Return that a threshold from sums is rounded up to the edge of a cell."""
    return f"the threshold is the edge of a cell, rounded up since {stopped}; more rows may give a lower one"


def dropped_out(sites: Sequence[tuple[str, float]]) -> str:
    """Return that sites dropped out of a session, given the share of the rows of each."""
    lost = [f"{abbreviate(site)} ({share:.3g} of the rows)" for site, share in sites]
    return f"{', '.join(lost)} dropped out, and its rows count as too large; start another session without it"


def missing_sites(sites: Sequence[tuple[str, str]]) -> str:
    """Return which sites are missing and why, to follow a reason; empty if none is."""
    named = [f"{abbreviate(site)} ({abbreviate(reason)})" for site, reason in sites]
    return f"; the scores of these sites are missing: {join_names(named)}" if named else ""


def why_no_bound(bound: Guarantee, stratum: str | None = None) -> str:
    """Return why there is no bound on the miss rate of one calibration."""
    if bound.why_no_bound is not None:
        return bound.why_no_bound
    if stratum is not None:
        return f"the certificate does not keep how many calibration rows of each {stratum} a site has"
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
    """Return how many sets hold every label."""
    return f"{full} of {rows} sets hold every label"


def heavy_site(site: str, share: float) -> str:
    """Return the warning that a site outweighs the others."""
    return (
        f"site {site!r} has {share:.0%} of all calibration rows, by its own claim, so the promise is mostly to "
        "that site; if this is not intended, limit the rows that each site counts with, or give the sites weights"
    )
