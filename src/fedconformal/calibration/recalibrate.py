"""From a predictor and new summaries to the next predictor, whose certificate names the one that it replaces.

What is promised stays as it was, unless something else is given: the score, alpha or the limit on losses, and the
guarantee. What the certificate says of the new rows is in `certificates/replacement.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict, Unpack

from fedconformal._base import registry
from fedconformal._base.names import name_key
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate, site_names
from fedconformal.certificates.replacement import Replacement, Rows
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.scores import AnyScore
from fedconformal.summaries.summary import Summary


class Terms(NamedTuple):
    """What is promised: the miss rate, or the limit on losses and the safe action; and by which guarantee."""

    guarantee: Guarantee
    alpha: Any = None
    risk: Any = None
    safe: str | None = None


class Other(TypedDict, total=False):
    """What is promised now, where it is not what the old predictor promises."""

    alpha: Any
    guarantee: Guarantee | str | None
    risk: Any
    safe: str | None


def recalibrate(
    predictor: Predictor,
    summaries: Sequence[Summary],
    *,
    why: str | None = None,
    rows: str | None = None,
    score: AnyScore | str | None = None,
    exact: bool = False,
    **other: Unpack[Other],
) -> Predictor:
    """Calibrate anew from new rows; the certificate names the predictor that is replaced, and why.

    It promises what the old one does; `alpha`, `guarantee`, and of losses `risk` and `safe`, say what else, and a new
    `score` is named, too. Without a reason the renewal is a planned one. `rows` says which rows calibrate: "new" ones,
    that no watch has counted, or "watched" ones. From these nothing is promised, and the status is "estimated".
    `exact` is as
    in `calibrate`.

    >>> from fedconformal import LAC, Summary, calibrate
    >>> old = calibrate([Summary.of_scores([i / 20 for i in range(20)], site="a", score=LAC())], alpha=0.2)
    >>> fresh = [Summary.of_scores([i / 30 for i in range(30)], site="a", score=LAC())]
    >>> recalibrate(old, fresh, why="alarm at site a", rows="new")
    Predictor(LAC(), alpha=0.2, threshold=0.8125, certified: mixture of 1 site)
    >>> recalibrate(old, fresh, why="alarm at site a", rows="watched").certificate.status
    'estimated'
    """
    replaced = Replacement.of(predictor.digest(), why=why, rows=rows)
    terms = kept_terms(predictor, **other)
    summaries = [summaries] if isinstance(summaries, Summary) else list(summaries)
    if other.get("guarantee") is None:
        check_sites(predictor.certificate, site_names(summaries))
    given: dict[str, Any] = {key: value for key, value in terms._asdict().items() if value is not None}
    result = calibrate(summaries, **given, exact=exact)
    return successor(predictor, result, replaced, score)


def kept_terms(
    predictor: Predictor,
    *,
    alpha: Any = None,
    guarantee: Guarantee | str | None = None,
    risk: Any = None,
    safe: str | None = None,
) -> Terms:
    """Return what is promised: as before, but for what is given."""
    about = predictor.certificate
    wanted = about.terms()[0] if guarantee is None else build(guarantee, Guarantee)
    if about.risk is None:
        if risk is not None or safe is not None:
            raise InputError(
                "the predictor that is replaced promises coverage, not a limit on losses; leave out risk", param="risk"
            )
        return Terms(wanted, alpha=about.alpha if alpha is None else alpha)
    if alpha is not None:
        raise InputError("the predictor that is replaced limits losses; give risk, not alpha", param="risk")
    limit = about.risk.limit if risk is None else risk
    return Terms(wanted, risk=limit, safe=about.risk.safe if safe is None else safe)


def check_sites(old: Certificate, sites: Sequence[str]) -> None:
    """Refuse to keep a guarantee that speaks of sites by their place, such as weights, if these are other sites now."""
    before = list(map(name_key, site_names(old.summaries)))
    if before != list(map(name_key, sites)) and _by_place(old.guarantee):
        raise InputError(
            f"the guarantee {old.guarantee['name']} has values for sites in their order, and these are other sites, or "
            "in another order; give the guarantee anew",
            param="guarantee",
        )


def _by_place(value: Any) -> bool:
    """Whether parameters of a guarantee have a list in them, or the number of a site."""
    if isinstance(value, dict):
        return any(_by_place(one) or (key == "site" and isinstance(one, int)) for key, one in value.items())
    return isinstance(value, list | tuple)


def successor(
    old: Predictor, result: Predictor, replaced: Replacement, score: AnyScore | str | None = None
) -> Predictor:
    """Make the predictor that takes the place of the old one, of the same kind and, unless another is given, score."""
    certificate = result.certificate
    if replaced.rows is Rows.new and (again := used_again(certificate, old.certificate)):
        raise InputError(
            f"the summary of site {again!r} calibrated the predictor that is replaced, so its rows are not new; "
            "summarise new rows there"
        )
    result = replace(result, certificate=certificate.replacing(replaced))
    if (old.certificate.risk is None) != (certificate.risk is None):
        raise InputError(
            "the predictor that is replaced promises coverage and the new one limits losses, or vice versa"
        )
    if certificate.score is None or (score is None and old.certificate.score is None):
        return result
    wanted: Any = old.score if score is None else build(score, AnyScore)
    if certificate.score != wanted.to_dict():
        held = registry.build(certificate.score or {}, AnyScore)
        raise InputError(
            f"the summaries hold scores of {held}, and {wanted} is expected, as before; summarise with that, or name "
            "the new score"
            if score is None
            else f"the summaries hold scores of {held}, not of {wanted}",
            param="score",
        )
    return result


def used_again(newer: Certificate, older: Certificate) -> str | None:
    """Return the name of a site whose summary calibrated both."""
    before = {record.sha256 for record in older.summaries}
    found = next((record for record in newer.summaries if record.sha256 in before), None)
    return None if found is None else ", ".join(found.sites) or found.sha256
