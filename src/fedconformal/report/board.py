"""The first screen of a report, for a board.

Four short answers in plain language. Here a set is called a list of answers, a row a case, and coverage the share of
lists with the right answer. Exact statements, tests and assumptions are in the fine print.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedconformal._base.names import join_names, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.evaluation import AnyEvaluation, Evaluation
from fedconformal.evaluation.coverage import ROWS
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.evaluation.regression import infinite_words
from fedconformal.evaluation.verdict import standing
from fedconformal.guarantees import PAC
from fedconformal.report.html import Answer
from fedconformal.summaries.provenance import has_expired

APART = 0.01
"""Minimum difference between coverage of the rows and of the promised mixture for both to be shown."""
PROMISED, HOLDS, COSTS, TO_DO = "What is promised", "Does it hold?", "What it costs", "What to do"
COLLECT = "Collect more calibration cases: the note below says how many."
AGAIN = "Check again with new cases at fixed times: patients, devices and models change."
FOUND = {
    "no contradiction": "Nothing here speaks against the promise.",
    "too few rows to tell": "These cases are too few to tell whether the promise holds.",
    "below the promise": "That is less than promised, and chance does not explain it.",
    "no verdict": "This cannot show whether the promise holds; the fine print says why.",
}


class Wording(NamedTuple):
    """Wording for the predictions of a model: lists, or intervals."""

    one: str
    many: str
    hold: str
    endless: str
    known: str
    size: str


LISTS = Wording("list", "lists", "hold the right answer", "list names every answer", "answers", "long")
INTERVALS = Wording("interval", "intervals", "hold the true value", "interval is the whole line", "values", "wide")


def coverage_answers(about: Certificate, evaluation: AnyEvaluation | None) -> Iterator[Answer]:
    """Yield the answers to the four questions about sets or intervals."""
    words = INTERVALS if about.intervals else LISTS
    promises = about.promises if about.by == "site" else about.whole or about.promises
    endless = all(math.isinf(promise.limit) for promise in promises)
    lacking = [name for name, limit in about.thresholds.items() if np.isinf(limit).any()]
    yield _promised(about, words, lacking, endless=endless)
    yield _holds(about, evaluation, words)
    yield _costs(evaluation, words)
    yield Answer(TO_DO, steps=list(_to_do(about, evaluation, words, endless=endless, few=bool(lacking))))


def _promised(about: Certificate, words: Wording, lacking: Sequence[str], *, endless: bool) -> Answer:
    wanted = f"{100 * (1 - about.alpha):.10g}%"
    if endless:
        few = f"There are not enough calibration cases to promise {wanted}, so every {words.endless}."
        return Answer(PROMISED, "Nothing", [few, f"Such {words.many} are always right and say nothing."])
    if about.status != "certified":
        aim = f"The {words.many} aim to {words.hold} in {wanted} of new cases."
        return Answer(PROMISED, "Nothing", [aim, "There is no promise: the fine print says why."])
    guarantee, sites, _ = about.terms()
    whom = text.lay_description(guarantee, sites)
    texts = [f"The {words.many} {words.hold} in at least {wanted} of {whom}."]
    if lacking:
        of = "end" if about.intervals else "answer" if about.by == "class" else about.by
        few = "there are too few calibration cases"
        texts.append(f"Nothing is promised for the {of} {join_names(lacking)}: {few}.")
    if has_expired(about.provenance.expires):
        texts.append(f"The promise ended on {about.provenance.expires}.")
    return Answer(PROMISED, wanted, texts)


def _holds(about: Certificate, evaluation: AnyEvaluation | None, words: Wording) -> Answer:
    """Return the answer on validity; the badge is green only without contradicting evidence."""
    badge, level = standing(about, None if evaluation is None else evaluation.verdict, noun="cases")
    if evaluation is None:
        unchecked = [f"No cases with known {words.known} were given to check it on."]
        return Answer(HOLDS, "Not checked", unchecked, badge=badge, level=level)
    overall, verdict = evaluation.overall, evaluation.verdict
    if isinstance(evaluation, Evaluation) and evaluation.full_sets == overall.rows:
        empty = f"Each of the {overall.rows:,} lists names every answer, so none can miss the right one."
        return Answer(HOLDS, "No test", [f"{empty} {FOUND['no verdict']}"], badge=badge, level=level)
    assumed = "cases are independent" if evaluation.interval_assumes == ROWS else evaluation.interval_assumes
    interval = f"95% interval {overall.low:.1%} to {overall.high:.1%}, if {assumed}"
    texts = [f"of the {words.many} of {overall.rows:,} checked cases {words.hold} ({interval})."]
    mixed, whose = evaluation.reweighted, "sites" if about.provenance.class_scores is None else "answers"
    if mixed is not None and mixed.coverage is not None and abs(mixed.coverage - overall.coverage) >= APART:
        texts.append(f"With the {whose} counted as promised it is {mixed.coverage:.1%}.")
    if verdict is not None:
        worst = sorted((part for part in verdict.parts if part.kind == verdict.kind), key=lambda part: part.p)
        below = [f"{part.name} ({1 - part.missed:.1%})" for part in worst] if verdict.below else []
        worse = f"Below the promise: {join_names(below)}. Chance does not explain it."
        texts.append(worse if below else FOUND[verdict.kind])
    if lacking := sites_without_rows(about, evaluation):
        texts.append(f"No checked case is from {join_names(lacking)}.")
    return Answer(HOLDS, f"{overall.coverage:.1%}", texts, badge=badge, level=level)


def sites_without_rows(about: Certificate, evaluation: AnyEvaluation) -> list[str]:
    """Return the certified sites without rows; empty if rows have no sites."""
    seen = {group.name for group in evaluation.by_site}
    return [site for used in about.summaries for site in used.sites if seen and name_key(site) not in seen]


def _costs(evaluation: AnyEvaluation | None, words: Wording) -> Answer:
    if evaluation is None:
        unknown = f"How {words.size} the {words.many} are is known once there are cases to check."
        return Answer(COSTS, "Not known", [unknown])
    if isinstance(evaluation, Evaluation):
        sizes, rows, full = evaluation.size_histogram, evaluation.overall.rows, evaluation.full_sets
        some = f"{full:,} of {rows:,} name every answer and so say nothing" if full else "none names every answer"
        mean = f"answers are on a list on average, of {len(sizes) - 1} that there are."
        one = f"{sizes[1] / rows:.0%} of the lists name one answer; {some}."
        return Answer(COSTS, f"{evaluation.mean_size:.2f}", [mean, one])
    overall = evaluation.overall
    texts = ["is the mean width of an interval, in the units of the value."]
    if overall.infinite:
        texts.append(f"{infinite_words(overall.infinite, overall.rows)}, and so say little.")
    return Answer(COSTS, overall.width_text, texts)


def _to_do(
    about: Certificate, evaluation: AnyEvaluation | None, words: Wording, *, endless: bool, few: bool
) -> Iterator[str]:
    """Yield the recommended next steps, the most urgent first."""
    verdict = None if evaluation is None else evaluation.verdict
    if verdict is not None and verdict.below:
        yield f"Do not rely on the {words.many} until the cause is found: other patients, other devices, another model?"
        yield "Then calibrate again with recent cases."
    if endless:
        yield f"Do not use the {words.many} yet. {COLLECT}"
        return
    mended = [COLLECT] * few + list(_to_mend(about))
    if isinstance(evaluation, Evaluation) and 2 * evaluation.full_sets >= evaluation.overall.rows:
        mended.append("Most lists name every answer. The note below says what makes them shorter.")
    yield from mended
    if evaluation is None:
        yield "Check the promise on cases with known answers before anyone relies on it."
        return
    if not evaluation.by_site and about.sites > 1:
        yield "Record which site each checked case is from, so that sites can be compared."
    kind = "no contradiction" if verdict is None else verdict.kind
    if kind == "too few rows to tell":
        yield "Collect more cases with known answers and check again."
    if kind == "no verdict":
        yield "Ask a statistician to read the fine print: these cases do not test the promise."
    if kind == "no contradiction" and not mended:
        yield f"Use the {words.many}. A {words.size} {words.one} means that the model is not sure: let a person decide."
        yield AGAIN


def _to_mend(about: Certificate) -> Iterator[str]:
    if about.status != "certified":
        yield "Calibrate again with new cases: the fine print says why there is no promise."
    if has_expired(about.provenance.expires):
        yield "Calibrate again: the promise has ended."


def risk_answers(rule: Predictor, evaluation: LossEvaluation | None) -> Iterator[Answer]:
    """Yield the answers to three questions about a limit on a loss."""
    about, limit, chosen = rule.risk, f"{rule.risk.limit:.4g}", rule.certificate.limit
    if chosen == math.inf:
        safe = f"The safe action is left: {about.safe or 'there is none, so nothing is promised'}."
        yield Answer(PROMISED, "Nothing", [f"No threshold of the grid keeps the limit {limit}.", safe])
    else:
        sure = rule.certificate.status == "certified"
        what = rule.loss.means.removesuffix(",") if rule.loss else "The expected loss"
        guarantee, names, _ = rule.certificate.terms()
        whom = text.lay_description(guarantee, names)
        words = f"{what} is {'' if sure else 'estimated to be '}at most {limit}, over {whom}."
        yield Answer(PROMISED, f"at most {limit}" if sure else "Nothing", [words, f"The threshold is {chosen:.6g}."])
    yield _risk_holds(rule, evaluation)
    steps: Sequence[str] = ["Use this threshold, with the same model and the same loss.", AGAIN]
    if chosen == math.inf:
        steps = ["Take the safe action, or collect more calibration cases, or allow a larger risk."]
    elif evaluation is None:
        steps = ["Check the promise on cases with a known truth before anyone relies on it."]
    elif evaluation.judged.low > about.limit:
        steps = ["Find out why these cases lose more, and calibrate again with recent cases."]
    yield Answer(TO_DO, steps=[*_to_mend(rule.certificate), *steps])


def _risk_holds(rule: Predictor, evaluation: LossEvaluation | None) -> Answer:
    if evaluation is None or not evaluation.judged.rows:
        absent = "No cases with a known truth were given to check it on."
        return Answer(HOLDS, "Not checked", [absent if evaluation is None else evaluation.note])
    found, limit = evaluation.judged, rule.risk.limit
    interval = f"95% interval {found.low:.3f} to {found.high:.3f}, if cases are independent"
    weighed = "" if evaluation.mixture is None else ", each site with its promised share"
    texts = [f"is lost on average by {found.rows:,} checked cases{weighed} ({interval}).", evaluation.note]
    if found.low > limit:
        chance = "" if isinstance(rule.certificate.terms()[0], PAC) else " or this calibration is off by chance,"
        texts.append(f"That is above the limit: these cases differ from the calibration cases,{chance} or a site lies.")
    elif found.high <= limit:
        texts.append("All of that is at or below the limit.")
    else:
        texts.append("The limit is inside this interval, so these cases are too few to tell.")
    return Answer(HOLDS, f"{found.mean_loss:.3f}", list(filter(None, texts)))
