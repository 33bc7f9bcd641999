"""The report about a predictor: one page of HTML for sets, intervals or a limit on a loss."""

from __future__ import annotations

from html import escape
from typing import Any

from fedconformal._base.names import plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.uninformative import remarks
from fedconformal.report.cards import fine_print
from fedconformal.report.content import CheckedRows
from fedconformal.report.html import board, notes, page
from fedconformal.report.intervals import interval_content
from fedconformal.report.risk import risk_content
from fedconformal.report.sets import set_content
from fedconformal.report.study import Study, study_card


def report_page(
    predictor: Predictor,
    evaluation: Any = None,
    *,
    rows: CheckedRows | None = None,
    study: Study | None = None,
) -> str:
    """Return the whole page as HTML, with nothing to load from anywhere else.

    Parameters
    ----------
    predictor
        The predictor that the report is about.
    evaluation
        Result of `predictor.evaluate` on rows with a known truth.
    rows
        These rows, for sizes at other alphas, reliability and single intervals.
    study
        Title, purpose and people, for the head of the page.
    """
    about = predictor.certificate
    if about.risk is not None:
        content, name, tested = risk_content(predictor, evaluation), str(predictor.loss or ""), None
    else:
        make = interval_content if about.intervals else set_content
        content, name, tested = make(predictor, evaluation, rows), str(predictor.score), evaluation
    sites = plural(about.sites, "site")
    warnings = [*content.notes, *(escape(str(remark)) for remark in remarks(about))]
    told, checked = study or Study(), 0 if evaluation is None else evaluation.overall.rows
    sections = [
        board(content.answers),
        notes(warnings),
        study_card(told, about, checked),
        *content.sections,
        fine_print(about, tested, name),
    ]
    heading = f"{content.title} across {sites}"
    lede = content.lede if told.title is None else f"{heading}. {content.lede}"
    return page(told.title or sites, told.title or heading, sections, lede=lede, script=content.script)
