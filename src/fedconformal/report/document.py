"""Report on a predictor: one HTML page for sets, intervals or a limit on a loss."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fedconformal._base.files import read_bytes
from fedconformal._base.names import join_names, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import explain_uninformative, full_set_count, remarks
from fedconformal.errors import InputError
from fedconformal.evaluation import AnyEvaluation, Evaluation
from fedconformal.evaluation.regression import infinite_words
from fedconformal.report.board import coverage_answers, risk_answers
from fedconformal.report.cards import coverage_cards, exact_words, risk_cards
from fedconformal.report.html import board, card, grid, notes, page


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts for a report that are not in a certificate; missing ones appear as "not given".

    Parameters
    ----------
    title, study
        Title of the report, and name or number of the study.
    model
        Name and version of the model.
    calibration_dates
        Period in which the calibration rows were collected.
    responsible
        Person or body responsible for the report.
    patients
        Number of patients behind the calibration rows.
    intended_use, population
        Purpose of the model, and its target population.
    """

    title: str | None = None
    study: str | None = None
    model: str | None = None
    calibration_dates: str | None = None
    responsible: str | None = None
    patients: Annotated[int, msgspec.Meta(ge=1)] | None = None
    intended_use: str | None = None
    population: str | None = None


def read_study(path: Path) -> Study:
    """Read a study from a TOML file."""
    try:
        return msgspec.convert(tomllib.loads(read_bytes(path).decode()), Study)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        fields = ", ".join(Study.__struct_fields__)
        raise InputError(f"cannot be read ({error}); the fields are {fields}", where=path) from None


def report_page(predictor: Predictor, evaluation: Any = None, *, study: Study | None = None) -> str:
    """Return a self-contained HTML page.

    Parameters
    ----------
    predictor
        The predictor of the report.
    evaluation
        Result of `predictor.evaluate` on rows with a known truth.
    study
        Title, purpose and people, for the header of the page.
    """
    about, facts = predictor.certificate, study or Study()
    warnings = [escape(str(remark)) for remark in remarks(about)]
    if about.risk is not None:
        title, lede = "A limit on the risk", "For each case the model gives scores, and one threshold decides on them."
        answers, cards = risk_answers(predictor, evaluation), risk_cards(predictor, evaluation)
    else:
        title, lede = "Prediction sets", "For each case the model gives a list of possible answers, a prediction set,"
        if about.intervals:
            title, lede = "Prediction intervals", "For each case the model gives a range of values, an interval,"
        lede += f" instead of a single {'number' if about.intervals else 'guess'}."
        lede += f" The answers are {join_names(about.class_names)}." if isinstance(about.class_names, list) else ""
        answers, cards = coverage_answers(about, evaluation), coverage_cards(predictor, evaluation)
        warnings = [*_uninformative(predictor, evaluation), *warnings]
    sections = [
        board(answers),
        notes(warnings),
        _study_card(facts, about, 0 if evaluation is None else evaluation.overall.rows),
        grid(cards),
        exact_words(predictor, evaluation),
    ]
    sites = plural(about.sites, "site")
    heading = f"{title} across {sites}"
    lede = lede if facts.title is None else f"{heading}. {lede}"
    return page(facts.title or sites, facts.title or heading, sections, lede=lede)


def _uninformative(predictor: Predictor, evaluation: AnyEvaluation | None) -> Iterator[str]:
    """Yield an explanation of full sets or infinite intervals, if any."""
    counted, classes, share = "", None, None
    if isinstance(evaluation, Evaluation):
        full, rows = evaluation.full_sets, evaluation.overall.rows
        classes, share = len(evaluation.size_histogram) - 1, full / rows
        counted = full_set_count(full, rows) if full else ""
    elif evaluation is not None and evaluation.overall.infinite:
        counted = infinite_words(evaluation.overall.infinite, evaluation.overall.rows)
    if why := explain_uninformative(predictor.certificate, classes=classes, share=share):
        yield (f"<b>{counted}</b>: " if counted else "") + escape(why)


def _study_card(study: Study, about: Certificate, checked: int) -> str:
    people = "patients not given" if study.patients is None else f"{study.patients:,} patients"
    facts = {
        "study": study.study,
        "model": study.model or about.provenance.model,
        "intended use": study.intended_use,
        "population": study.population,
        "responsible": study.responsible,
        "calibration": f"{people}, {about.scores:,} rows, {plural(about.sites, 'site')}",
        "calibration dates": study.calibration_dates,
        "check": f"{checked:,} rows" if checked else "no rows",
        "valid until": about.provenance.expires,
        "date of this page": datetime.now(UTC).date().isoformat(),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value or 'not given')}</dd>" for name, value in facts.items())
    return card("This document", f'<dl class="study">{rows}</dl>')
