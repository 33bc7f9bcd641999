"""The first screen for a board: what is promised, does it hold, what does it cost, what to do.

Four short answers in common words. A set is a list of answers here, a row is a case, and coverage is how often the list
holds the right answer. Exact words, tests and assumptions are in the fine print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fedconformal._base.names import join_names, name_key
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.evaluation import AnyEvaluation
from fedconformal.evaluation.coverage import ROWS
from fedconformal.evaluation.verdict import standing
from fedconformal.report.html import Answer
from fedconformal.summaries.provenance import has_expired

APART = 0.01
"""Coverage of the rows and of the promised mixture are both shown if they are this far apart."""

FOUND = {
    "no contradiction": "Nothing here speaks against the promise.",
    "too few rows to tell": "These cases are too few to tell whether the promise holds.",
    "below the promise": "That is less than promised, and more than bad luck explains.",
    "no verdict": "This cannot show whether the promise holds; the fine print says why.",
}


class Wording(NamedTuple):
    """The words for the answers of a model: lists, or intervals."""

    one: str
    many: str
    endless: str
    aim: str
    promise: str
    known: str
    inside: str
    use: str


LISTS = Wording(
    one="a list",
    many="lists",
    endless="list names every answer",
    aim="hold the right answer",
    promise="The list of answers holds the right one",
    known="answers",
    inside="the right answer on their list",
    use="Use the lists. A long one means that the model is not sure: let a person decide.",
)
INTERVALS = Wording(
    one="an interval",
    many="intervals",
    endless="interval is the whole line",
    aim="hold the true value",
    promise="The interval holds the true value",
    known="values",
    inside="the true value in their interval",
    use="Use the intervals. A wide one means that the model is not sure: let a person decide.",
)


def promised(about: Certificate, words: Wording, *, endless: bool, more: Sequence[str] = ()) -> Answer:
    """Answer what is promised; `endless` if every set is full, `more` are exceptions."""
    wanted = f"{100 * (1 - about.alpha):.10g}%"
    if endless:
        few = f"There are not enough calibration cases to promise {wanted}, so every {words.endless}."
        return Answer("What is promised", "Nothing", [few, f"Such {words.one} is always right and says nothing."])
    if about.status != "certified":
        aim = f"The {words.many} aim to {words.aim} in {wanted} of new cases. {_why_estimated(about)}"
        return Answer("What is promised", "Nothing", [aim])
    guarantee, sites, _ = about.terms()
    texts = [f"{words.promise} in at least {wanted} of {text.lay_description(guarantee, sites)}.", *more]
    texts += [f"The promise ended on {about.provenance.expires}."] * has_expired(about.provenance.expires)
    return Answer("What is promised", wanted, texts)


def holds(about: Certificate, evaluation: AnyEvaluation | None, words: Wording, *, endless: bool = False) -> Answer:
    """Answer whether it holds; the badge is green only where nothing is against it."""
    found = standing(about, None if evaluation is None else evaluation.verdict, noun="cases")
    badge, level = found.words, found.level
    if evaluation is None:
        unchecked = [f"No cases with known {words.known} were given to check it on."]
        return Answer("Does it hold?", "Not checked", unchecked, badge=badge, level=level)
    overall, verdict = evaluation.overall, evaluation.verdict
    if endless:
        empty = f"Each of the {overall.rows:,} lists names every answer, so none can miss the right one."
        return Answer("Does it hold?", "No test", [f"{empty} {FOUND['no verdict']}"], badge=badge, level=level)
    texts = [f"of {overall.rows:,} checked cases have {words.inside} ({_interval(evaluation)})."]
    mixed, whose = evaluation.reweighted, "sites" if about.provenance.class_scores is None else "answers"
    if mixed is not None and mixed.coverage is not None and abs(mixed.coverage - overall.coverage) >= APART:
        texts.append(f"With the {whose} counted as promised it is {mixed.coverage:.1%}.")
    if verdict is not None:
        worst = sorted((part for part in verdict.parts if part.kind == verdict.kind), key=lambda part: part.p)
        below = [f"{part.name} ({1 - part.missed:.1%})" for part in worst] if verdict.below else []
        luck = f"Below the promise: {join_names(below)}. Bad luck does not explain it."
        texts.append(luck if below else FOUND[verdict.kind])
    if lacking := sites_without_rows(about, evaluation):
        texts.append(f"No checked case is from {join_names(lacking)}.")
    return Answer("Does it hold?", f"{overall.coverage:.1%}", texts, badge=badge, level=level)


def _interval(evaluation: AnyEvaluation) -> str:
    low, high = evaluation.overall.low, evaluation.overall.high
    if low is None or high is None:
        return "no interval: all cases are of one cluster"
    assumed = "cases are independent" if evaluation.interval_assumes == ROWS else evaluation.interval_assumes
    return f"95% interval {low:.1%} to {high:.1%}, if {assumed}"


def sites_without_rows(about: Certificate, evaluation: AnyEvaluation) -> list[str]:
    """Name every certified site that no row is from; none if rows have no sites."""
    seen = {group.name for group in evaluation.by_site}
    return [site for used in about.summaries for site in used.sites if seen and name_key(site) not in seen]


def to_do(
    about: Certificate,
    evaluation: AnyEvaluation | None,
    words: Wording,
    *,
    endless: bool = False,
    collect: Sequence[str] = (),
    long: bool = False,
) -> Answer:
    """List what to do next, the most urgent first; `collect` are cases that are missing."""
    verdict = None if evaluation is None else evaluation.verdict
    steps = []
    if verdict is not None and verdict.below:
        steps = [
            f"Do not rely on the {words.many} until the cause is found: other patients, other devices, another model?",
            "Then calibrate again with recent cases.",
        ]
    if endless:
        use = f"Do not use the {words.many} yet. Collect more calibration cases: the note below says how many."
        return Answer("What to do", steps=[*steps, use])
    steps += collect
    if about.status != "certified":
        steps.append(to_certify(about))
    if has_expired(about.provenance.expires):
        steps.append("Calibrate again: the promise has ended.")
    if long:
        steps.append("Most lists name every answer. The note below says what makes them shorter.")
    return Answer("What to do", steps=[*steps, *_next_check(about, evaluation, words.use if not steps else "")])


def _next_check(about: Certificate, evaluation: AnyEvaluation | None, use: str) -> list[str]:
    if evaluation is None:
        return ["Check the promise on cases with known answers before anyone relies on it."]
    steps, verdict = [], evaluation.verdict
    if lacking := sites_without_rows(about, evaluation):
        steps.append(f"Check cases of {join_names(lacking)} too.")
    if not evaluation.by_site and about.sites > 1:
        steps.append("Record which site each checked case is from, so that sites can be compared.")
    if verdict is not None and verdict.kind == "too few rows to tell":
        steps.append("Collect more cases with known answers and check again.")
    if verdict is not None and verdict.kind == "no verdict":
        steps.append("Ask a statistician to read the fine print: these cases do not test the promise.")
    if use and (verdict is None or verdict.kind == "no contradiction"):
        steps += [use, "Check again with new cases at fixed times: patients, devices and models change."]
    return steps


def _why_estimated(about: Certificate) -> str:
    if about.watched:
        return (
            "It was calibrated on cases that a watch had counted. New cases are not like them, so there is no promise."
        )
    if about.provenance.trained:
        return "The model was trained at the very sites that calibrated it, so there is no promise to a new site."
    return "The sites sent estimates, which can be off either way, so there is no promise."


def to_certify(about: Certificate) -> str:
    """Say what to do for a promise."""
    if about.watched:
        return "Collect new cases at every site, and calibrate again with these alone."
    if about.provenance.trained:
        return "Train a model at other sites, or calibrate for the sites that trained it."
    return "Ask the sites for summaries that allow a promise (of the kind ranks or exact)."
