"""A chain of certificates: each names the digest of the predictor that it replaces, back to the first one.

A digest names one content only, so a chain has one order, whichever way its files are given, and no circle. What is
checked here follows from the predictors alone; `verification.py` recomputes each from its summaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedconformal._base.names import abbreviate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.replacement import Rows
from fedconformal.certificates.text import guarantee_name

OTHER = {"classes": "other", "sites": "other"}
SHORT = 12
"""Digits of a digest that are shown."""


def in_chain(newest: Predictor, older: Sequence[Predictor]) -> tuple[list[Predictor], list[Predictor], str | None]:
    """Return the chain, newest first, as far as it is given; those that are no link of it; and what is missing."""
    known = {one.digest(): one for one in older}
    chain = [newest]
    while (replaced := chain[-1].certificate.replaces) is not None and replaced.sha256 in known:
        chain.append(known.pop(replaced.sha256))
    spare = list(known.values())
    if replaced is not None and replaced.sha256 in [one.digest() for one in chain]:
        return chain, spare, "the chain goes in a circle: a predictor replaces one that came after it"
    if replaced is not None:
        return chain, spare, f"the chain has a gap: the predictor with the sha256 {replaced.sha256} is not given"
    return chain, spare, None


def check_link(newer: Certificate, older: Predictor) -> list[str]:
    """Say what is wrong with a predictor that is said to take the place of an older one."""
    replaced = newer.replaces
    if replaced is None:
        return ["replaces: the certificate names no predictor that it replaces"]
    if replaced.sha256 != older.digest():
        named, given = replaced.sha256[:SHORT], older.digest()[:SHORT]
        return [
            f"replaces: the certificate names the predictor with the sha256 {named}..., the one given has {given}..."
        ]
    return check_rows(newer, [older])


def check_rows(newer: Certificate, older: Sequence[Predictor]) -> list[str]:
    """Say which site's rows are no new ones, as an older predictor was calibrated from them as well."""
    if newer.replaces is None or newer.replaces.rows is not Rows.new:
        return []
    again = dict.fromkeys(filter(None, (used_again(newer, one.certificate) for one in older)))
    return [
        f"rows: those of site {site!r} calibrated an older predictor as well, so they are not new" for site in again
    ]


def used_again(newer: Certificate, older: Certificate) -> str | None:
    """Name a site whose summary calibrated both."""
    before = {record.sha256 for record in older.summaries}
    found = next((record for record in newer.summaries if record.sha256 in before), None)
    return None if found is None else ", ".join(found.sites) or found.sha256[:SHORT]


def changes(older: Certificate, newer: Certificate) -> str:
    """Say in words what stays and what is other: score, classes, model, guarantee, how often the truth may be missed.

    >>> from fedconformal import LAC, Predictor, Summary, calibrate, recalibrate
    >>> old = calibrate([Summary.of_scores([i / 20 for i in range(20)], site="a", score=LAC())], alpha=0.2)
    >>> new = recalibrate(
    ...     old, [Summary.of_scores([i / 30 for i in range(30)], site="a", score=LAC())], alpha=0.1, rows="new"
    ... )
    >>> changes(old.certificate, new.certificate)
    'same score, classes, model, guarantee and sites; another alpha: 0.1 instead of 0.2'
    """
    before, now = _facts(older), _facts(newer)
    same = [name for name in now if name in before and before[name] == now[name]]
    other = [
        f"{OTHER.get(name, 'another')} {name}: {abbreviate(_text(now[name]))} instead of "
        f"{abbreviate(_text(before.get(name)))}"
        for name in now
        if name not in same
    ]
    kept = f"{', '.join(same[:-1])} and {same[-1]}" if len(same) > 1 else "".join(same)
    return "; ".join([*([f"same {kept}"] if same else []), *other])


def _facts(about: Certificate) -> dict[str, Any]:
    risk = about.risk
    if risk is None:
        promised: dict[str, Any] = {"score": about.score and {**about.score}, "classes": about.class_names}
    else:
        promised = {"loss": None if risk.loss is None else f"{risk.loss[0]}{risk.loss[1] or ''}"}
    return {
        **promised,
        "model": about.provenance.model,
        "guarantee": about.guarantee,
        **({"alpha": f"{about.alpha:g}"} if risk is None else {"limit": f"{risk.limit:g}"}),
        "sites": [site for record in about.summaries for site in record.sites],
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        more = [f"{key}={one}" for key, one in value.items() if key != "name" and one is not None]
        plain = guarantee_name(value) if "guarantee" in value else str(value["name"])
        return f"{plain} ({', '.join(more)})" if more and plain == value["name"] else plain
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "unnamed"
    return "not recorded" if value is None else str(value)
