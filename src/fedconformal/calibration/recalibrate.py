"""Recalibration: a predictor from new summaries, whose certificate names the predictor that it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedconformal._base.names import name_key
from fedconformal._base.registry import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate, Replacement, Rows, site_names
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.summaries.summary import Summary


def recalibrate(
    predictor: Predictor,
    summaries: Sequence[Summary],
    *,
    why: str | None = None,
    rows: str | None = None,
    exact: bool = False,
    **terms: Any,
) -> Predictor:
    """Calibrate from new rows; the certificate names the predictor that is replaced.

    Parameters
    ----------
    predictor
        The predictor that is replaced; its promise is kept where no other one is given.
    summaries
        The summaries of new rows.
    why
        The reason, by default a planned renewal.
    rows
        "new" for rows that no watch has counted. From "watched" rows nothing is promised: the status is "estimated".
    exact, alpha, guarantee, risk, safe
        As in `calibrate`.

    Examples
    --------
    >>> from fedconformal import LAC, Summary, calibrate
    >>> old = calibrate([Summary.of_scores([i / 20 for i in range(20)], site="a", score=LAC())], alpha=0.2)
    >>> fresh = [Summary.of_scores([i / 30 for i in range(30)], site="a", score=LAC())]
    >>> recalibrate(old, fresh, why="alarm at site a", rows="new")
    Predictor(LAC(), alpha=0.2, threshold=0.8125, certified: mixture of 1 site)
    >>> recalibrate(old, fresh, why="alarm at site a", rows="watched").certificate.status
    'estimated'
    """
    replaced = Replacement.of(predictor.digest(), why=why, rows=rows)
    kept = kept_terms(predictor, **terms)
    summaries = [summaries] if isinstance(summaries, Summary) else list(summaries)
    if terms.get("guarantee") is None:
        check_sites(predictor.certificate, site_names(summaries))
    return successor(predictor, calibrate(summaries, exact=exact, **kept), replaced)


def kept_terms(old: Predictor, *, guarantee: Any = None, alpha: Any = None, risk: Any = None, safe: Any = None) -> Any:
    """Return the terms of a predictor, except for those that are given, as keywords of `calibrate`."""
    about = old.certificate
    wanted = about.terms()[0] if guarantee is None else build(guarantee, Guarantee)
    if about.risk is None:
        if risk is not None or safe is not None:
            raise InputError(
                "the predictor that is replaced promises coverage, not a limit on losses; leave out risk", param="risk"
            )
        return {"guarantee": wanted, "alpha": about.alpha if alpha is None else alpha}
    if alpha is not None:
        raise InputError("the predictor that is replaced limits losses; give risk, not alpha", param="risk")
    limit = about.risk.limit if risk is None else risk
    return {"guarantee": wanted, "risk": limit, "safe": about.risk.safe if safe is None else safe}


def check_sites(old: Certificate, sites: Sequence[str]) -> None:
    """Refuse to keep a guarantee that has values by the position of sites, such as weights, for other sites."""
    before = list(map(name_key, site_names(old.summaries)))
    if before != list(map(name_key, sites)) and _by_position(old.guarantee):
        raise InputError(
            f"the guarantee {old.guarantee['name']} has values for sites in their order, and these are other sites, or "
            "in another order; give the guarantee anew",
            param="guarantee",
        )


def _by_position(value: Any) -> bool:
    """Return whether the parameters of a guarantee hold a list, or the position of a site."""
    if isinstance(value, dict):
        return any(_by_position(one) or (key == "site" and isinstance(one, int)) for key, one in value.items())
    return isinstance(value, list | tuple)


def successor(old: Predictor, new: Predictor, replaced: Replacement) -> Predictor:
    """Return the new predictor with a certificate that names the old one."""
    if replaced.rows is Rows.new and (again := used_again(new.certificate, old.certificate)):
        raise InputError(
            f"the summary of site {again!r} calibrated the predictor that is replaced, so its rows are not new; "
            "summarise new rows there"
        )
    return replace(new, certificate=new.certificate.replacing(replaced))


def used_again(newer: Certificate, older: Certificate) -> str | None:
    """Return the name of a site whose summary calibrated both."""
    before = {record.sha256 for record in older.summaries}
    found = next((record for record in newer.summaries if record.sha256 in before), None)
    return None if found is None else ", ".join(found.sites) or found.sha256
