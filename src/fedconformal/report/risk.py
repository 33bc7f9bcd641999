"""The report about a limit on a loss: the promise, the chosen threshold, and the risk at each site."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates import text
from fedconformal.evaluation.losses import LossEvaluation, LossGroup
from fedconformal.guarantees import PAC
from fedconformal.report.board import to_certify
from fedconformal.report.cards import promised_to
from fedconformal.report.charts import MAX_GROUPS, Dot, Plot, dots_chart
from fedconformal.report.content import Content
from fedconformal.report.html import Answer, card, columns, soft, table
from fedconformal.summaries.provenance import has_expired


def risk_content(rule: Predictor, evaluation: LossEvaluation | None) -> Content:
    """Return the parts of a report about a limit on a loss."""
    promises = card("What each threshold promises", _promises(rule))
    return Content(
        title="A limit on the risk",
        lede=rule.certificate.sentence(),
        answers=_answers(rule, evaluation),
        notes=(),
        sections=[columns([promises, *_by_site(rule, evaluation)])],
    )


def _answers(rule: Predictor, evaluation: LossEvaluation | None) -> Iterable[Answer]:
    about, limit = rule.risk, f"{rule.risk.limit:.4g}"
    chosen = rule.certificate.limit
    what = rule.loss.means.removesuffix(",") if rule.loss else "The expected loss"
    guarantee, names, _ = rule.certificate.terms()
    whom = text.lay_description(guarantee, names)
    if chosen == math.inf:
        yield Answer("What is promised", "Nothing", [f"No threshold of the grid keeps the limit {limit}."])
        safe = about.safe or "there is none, so nothing is promised"
        yield Answer("Which threshold", "None", [f"The safe action is left: {safe}."])
    else:
        sure = rule.certificate.status == "certified"
        words = f"{what} is {'' if sure else 'estimated to be '}at most {limit}, over {whom}."
        yield Answer("What is promised", f"at most {limit}" if sure else "Nothing", [words])
        loss = f"The loss is {rule.loss}." if rule.loss else "The certificate does not name the loss."
        yield Answer("Which threshold", f"{chosen:.6g}", [f"The smallest that promises enough. {loss}"])
    yield _holds(rule, evaluation)
    yield Answer("What to do", steps=list(_to_do(rule, evaluation)))


def _to_do(rule: Predictor, evaluation: LossEvaluation | None) -> Iterable[str]:
    if has_expired(rule.certificate.provenance.expires):
        yield "Calibrate again: the promise has ended."
    if rule.certificate.watched:
        yield to_certify(rule.certificate)
    if rule.certificate.limit == math.inf:
        yield "Take the safe action, or collect more calibration cases, or allow a larger risk."
        return
    if evaluation is None:
        yield "Check the promise on cases with a known truth before anyone relies on it."
    elif evaluation.judged.low > rule.risk.limit:
        yield "Find out why these cases lose more, and calibrate again with recent cases."
    else:
        yield "Use this threshold, with the same model and the same loss."
        yield "Check again with new cases at fixed times: patients, devices and models change."


def _holds(rule: Predictor, evaluation: LossEvaluation | None) -> Answer:
    about = rule.risk
    if evaluation is None:
        return Answer("Does it hold?", "Not checked", ["No cases with a known truth were given to check it on."])
    found = evaluation.judged
    if not found.rows:
        return Answer("Does it hold?", "Not checked", [evaluation.note])
    interval = f"95% interval {found.low:.3f} to {found.high:.3f}, if cases are independent"
    weighed = "" if evaluation.mixture is None else ", each site with its promised share"
    texts = [f"is lost on average by {found.rows:,} checked cases{weighed} ({interval}).", evaluation.note]
    if found.low > about.limit:
        luck = "" if isinstance(rule.certificate.terms()[0], PAC) else " or this calibration has had bad luck"
        texts.append(f"That is above the limit: these cases differ from those that calibrated,{luck} or a site lies.")
    elif found.high <= about.limit:
        texts.append("All of that is at or below the limit.")
    else:
        texts.append("The limit is inside this interval, so these cases are too few to tell.")
    return Answer("Does it hold?", f"{found.mean_loss:.3f}", [text for text in texts if text])


def _promises(rule: Predictor) -> str:
    """Draw the promised risk against the threshold, the limit, and the chosen point."""
    curve, about = rule.curve, rule.risk
    low, high = float(curve.thresholds[0]), float(curve.thresholds[-1])
    plot = Plot(
        title="Promised risk against the threshold",
        x=(low, high if high > low else low + 1.0),
        y=(0.0, about.bound),
        x_label="threshold",
        y_label="promised risk",
    )
    points = [
        (float(threshold), min(about.bound, risk / ALPHA_UNIT))
        for threshold, risk in zip(curve.thresholds, curve.risks, strict=True)
    ]
    plot.line(points, "promised", step=True)
    plot.target(about.limit, "limit")
    chosen = rule.certificate.limit
    if chosen < math.inf:
        plot.dots([one for one in points if one[0] == chosen], "chosen")
    text = "An upper bound, rounded up. Valid for a limit fixed beforehand."
    if about.rising:
        text += " The loss may rise with the threshold, so each walk along the grid is tested from its safest end."
    return soft(text) + plot.svg()


def _by_site(rule: Predictor, evaluation: LossEvaluation | None) -> Iterable[str]:
    if evaluation is None:
        return
    groups: list[LossGroup] = evaluation.by_site or [evaluation.overall]
    drawn = sorted(groups, key=lambda group: -group.mean_loss)[:MAX_GROUPS] if len(groups) > MAX_GROUPS else groups
    dots = [
        Dot(
            group.name,
            group.mean_loss,
            group.low,
            group.high,
            f"{group.name}: {group.mean_loss:.4f} ({group.low:.4f} to {group.high:.4f}), {group.rows} rows",
        )
        for group in drawn
    ]
    most = min(rule.risk.bound, max(2 * rule.risk.limit, *(group.high for group in drawn)))
    title = f"Mean loss of {len(groups)} groups against the limit {rule.risk.limit:g}"
    chart = dots_chart(dots, rule.risk.limit, (0.0, most), "mean loss", title, "{:.4g}".format)
    text = "Dots: mean loss on the checked rows; lines: 95% intervals if rows are independent; dashed: the limit. "
    text = soft(text + promised_to(rule.certificate, "site"))
    yield card("Risk by site", text + chart, table(("site", *evaluation.columns), (group.cells for group in groups)))
