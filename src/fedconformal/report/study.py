"""Description of a study for the head of a report."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import msgspec

from fedconformal._base.files import read_bytes
from fedconformal._base.names import plural
from fedconformal.certificates.certificate import Certificate
from fedconformal.errors import InputError
from fedconformal.report.html import card

NOT_GIVEN = "not given"


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts that no certificate holds; the report states absent ones as "not given".

    Parameters
    ----------
    title, study
        Title of the report, and name or number of the study.
    model
        Name and version of the model.
    calibration_dates
        Period in which the calibration rows were collected.
    responsible
        Person or body that answers for the report.
    patients
        Number of patients behind the calibration rows.
    intended_use, population
        Purpose of the model, and patients that it is meant for.

    Examples
    --------
    >>> Study(title="Skin lesions", patients=840).patients
    840
    """

    title: str | None = None
    study: str | None = None
    model: str | None = None
    calibration_dates: str | None = None
    responsible: str | None = None
    patients: int | None = None
    intended_use: str | None = None
    population: str | None = None


def read_study(path: Path) -> Study:
    """Read a study from a TOML file."""
    try:
        return msgspec.convert(tomllib.loads(read_bytes(path).decode()), Study)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        fields = ", ".join(Study.__struct_fields__)
        raise InputError(f"cannot be read ({error}); the fields are {fields}", where=path) from None


def study_card(study: Study, about: Certificate, checked: int) -> str:
    """Tabulate the facts of the study, the calibration and the check."""
    patients = NOT_GIVEN if study.patients is None else f"{study.patients:,}"
    people = f"patients {patients}" if study.patients is None else f"{patients} patients"
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
    rows = "".join(f"<dt>{name}</dt><dd>{escape(value or NOT_GIVEN)}</dd>" for name, value in facts.items())
    return card("This document", f'<dl class="study">{rows}</dl>')
