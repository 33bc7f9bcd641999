"""The first screen, for a board: what is promised, does it hold, what does it cost, what to do.

Four short answers in common words. A set is a list of answers here, a row is a case, and coverage is how often the list
holds the right answer. Exact words, tests and assumptions are in the fine print.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from fedconformal._base.names import name_key
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.replaced import is_watched
from fedconformal.certificates import text
from fedconformal.evaluation import AnyEvaluation, Evaluation, Verdict
from fedconformal.evaluation.mixture import listed
from fedconformal.evaluation.verdict import standing
from fedconformal.report.html import answer, name_of_label
from fedconformal.summaries.provenance import has_expired

APART = 0.01
"""Coverage of the rows and of the promised mixture are both shown if they are this far apart."""

USE = "Use the lists. A long one means that the model is not sure: let a person decide."

FOUND = {
    "no contradiction": "Nothing here speaks against the promise.",
    "too few rows to tell": "These cases are too few to tell whether the promise holds.",
    "below the promise": "That is less than promised, and more than bad luck explains.",
    "no verdict": "This cannot show whether the promise holds; the fine print says why.",
}


def board(about: Certificate, evaluation: Evaluation | None, names: Sequence[str]) -> str:
    """Write the four answers."""
    level = "" if evaluation is None else standing(about, evaluation.verdict).level
    big, holds = _holds(about, evaluation)
    actions = "".join(f"<li>{escape(text)}</li>" for text in to_do(about, evaluation))
    answers = (
        answer("What is promised", *_promised(about, names)),
        answer(
            "Does it hold?",
            big,
            holds,
            mark=badge(about, None if evaluation is None else evaluation.verdict),
            kind=level,
        ),
        answer("What it costs", *_costs(evaluation)),
        f'<section class="card answer"><h2>What to do</h2><ul>{actions}</ul></section>',
    )
    return f'<div class="board">{"".join(answers)}</div>'


def badge(certificate: Certificate, verdict: Verdict | None) -> str:
    """Return the badge; it is green only where `standing` finds nothing against it. A board calls rows cases."""
    found = standing(certificate, verdict)
    return f'<span class="badge {found.level}">{escape(found.words.replace("rows", "cases"))}</span>'


def why_estimated(about: Certificate) -> str:
    """Say why there is no promise."""
    if is_watched(about):
        return (
            "It was calibrated on cases that a watch had counted. New cases are not like them, so there is no promise."
        )
    if about.trained:
        return "The model was trained at the very sites that calibrated it, so there is no promise to a new site."
    return "The sites sent estimates, which can be off either way, so there is no promise."


def to_promise(about: Certificate) -> str:
    """Say what to do for a promise."""
    if is_watched(about):
        return "Collect new cases at every site, and calibrate again with these alone."
    if about.trained:
        return "Train a model at other sites, or calibrate for the sites that trained it."
    return "Ask the sites for summaries that allow a promise (of the kind ranks or exact)."


def _promised(about: Certificate, names: Sequence[str]) -> tuple[str, list[str]]:
    wanted = f"{100 * (1 - about.alpha):.10g}%"
    infinite = np.isinf(about.limit)
    if np.all(infinite):
        few = f"There are not enough calibration cases to promise {wanted}, so every list names every answer."
        return "Nothing", [few, "Such a list is always right and says nothing."]
    if about.status != "certified":
        return "Nothing", [f"The lists aim to hold the right answer in {wanted} of new cases. {why_estimated(about)}"]
    guarantee, sites, _ = about.terms()
    whom = text.lay_description(guarantee, sites)
    texts = [f"The list of answers holds the right one in at least {wanted} of {whom}."]
    if about.groups is not None:
        left = [one.group for one, own in zip(about.groups, infinite, strict=True) if np.any(own)]
        which = "every answer" if infinite.ndim == 1 else "some answers always"
        texts += [f"These groups have too few cases, so their lists name {which}: {listed(left)}."] if left else []
    elif left := [name_of_label(label, names) for label in np.flatnonzero(infinite).tolist()]:
        texts.append(f"Nothing is promised for the answers {listed(left)}: every list names them.")
    if has_expired(about.expires):
        texts.append(f"The promise ended on {about.expires}.")
    return wanted, texts


def _holds(about: Certificate, evaluation: Evaluation | None) -> tuple[str, list[str]]:
    if evaluation is None:
        return "Not checked", ["No cases with known answers were given to check it on."]
    overall, verdict = evaluation.overall, evaluation.verdict
    if evaluation.full_sets == overall.rows:
        empty = f"Each of the {overall.rows:,} lists names every answer, so none can miss the right one."
        return "No test", [f"{empty} {FOUND['no verdict']}"]
    texts = [f"of {overall.rows:,} checked cases have the right answer on their list ({checked_interval(evaluation)})."]
    mixed, whose = evaluation.reweighted, "sites" if about.class_scores is None else "answers"
    if mixed is not None and mixed.coverage is not None and abs(mixed.coverage - overall.coverage) >= APART:
        texts.append(f"With the {whose} counted as promised it is {mixed.coverage:.1%}.")
    if verdict is not None:
        worst = sorted((part for part in verdict.parts if part.kind == verdict.kind), key=lambda part: part.p)
        if verdict.below and worst:
            below = [f"{part.name} ({1 - part.missed:.1%})" for part in worst]
            texts.append(f"Below the promise: {listed(below)}. Bad luck does not explain it.")
        else:
            texts.append(FOUND[verdict.kind])
    if evaluation.by_site and (lacking := sites_without_rows(about, evaluation)):
        texts.append(f"No checked case is from {listed(lacking)}.")
    return f"{overall.coverage:.1%}", texts


def checked_interval(evaluation: AnyEvaluation) -> str:
    """Say from where to where the coverage is, and what that assumes."""
    low, high = evaluation.overall.low, evaluation.overall.high
    if low is None or high is None:
        return "no interval: all cases are of one cluster"
    return f"95% interval {low:.1%} to {high:.1%}, if {evaluation.interval_assumes.replace('rows', 'cases')}"


def sites_without_rows(about: Certificate, evaluation: AnyEvaluation) -> list[str]:
    """Name every certified site that no row is from."""
    seen = {group.name for group in evaluation.by_site}
    return [site for used in about.summaries for site in used.sites if name_key(site) not in seen]


def _costs(evaluation: Evaluation | None) -> tuple[str, list[str]]:
    if evaluation is None:
        return "Not known", ["How long the lists are is known once there are cases to check."]
    sizes, rows = evaluation.size_histogram, evaluation.overall.rows
    texts = [
        f"answers are on a list on average, of {len(sizes) - 1} that there are.",
        f"{sizes[1] / rows:.0%} of the lists name one answer; {_full(evaluation.full_sets, rows)}.",
    ]
    return f"{evaluation.mean_size:.2f}", texts


def _full(full: int, rows: int) -> str:
    return f"{full:,} of {rows:,} name every answer and so say nothing" if full else "none names every answer"


def to_do(about: Certificate, evaluation: Evaluation | None) -> list[str]:
    """List what follows from all this, the most urgent first."""
    verdict = None if evaluation is None else evaluation.verdict
    infinite = np.isinf(about.limit)
    steps = []
    if verdict is not None and verdict.below:
        steps.append("Do not rely on the lists until the cause is found: other patients, other devices, another model?")
        steps.append("Then calibrate again with recent cases.")
    if np.all(infinite):
        steps.append("Do not use the lists yet. Collect more calibration cases: the note below says how many.")
        return steps
    if np.any(infinite):
        of = "answers without a promise" if about.groups is None else "groups with too few"
        steps.append(f"Collect more calibration cases of the {of}.")
    if about.status != "certified":
        steps.append(to_promise(about))
    if has_expired(about.expires):
        steps.append("Calibrate again: the promise has ended.")
    if evaluation is not None and 2 * evaluation.full_sets >= evaluation.overall.rows:
        steps.append("Most lists name every answer. The note below says what makes them shorter.")
    return steps + next_check(about, evaluation, usable=not steps)


def next_check(about: Certificate, evaluation: AnyEvaluation | None, *, usable: bool, use: str = USE) -> list[str]:
    """List what to check next; where nothing is against it, that the answers can be used."""
    if evaluation is None:
        return ["Check the promise on cases with known answers before anyone relies on it."]
    steps, verdict = [], evaluation.verdict
    if lacking := sites_without_rows(about, evaluation) if evaluation.by_site else []:
        steps.append(f"Check cases of {listed(lacking)} too.")
    if not evaluation.by_site and about.sites > 1:
        steps.append("Record which site each checked case is from, so that sites can be compared.")
    if verdict is not None and verdict.kind == "too few rows to tell":
        steps.append("Collect more cases with known answers and check again.")
    if verdict is not None and verdict.kind == "no verdict":
        steps.append("Ask a statistician to read the fine print: these cases do not test the promise.")
    if usable and (verdict is None or verdict.kind == "no contradiction"):
        steps.append(use)
        steps.append("Check again with new cases at fixed times: patients, devices and models change.")
    return steps
