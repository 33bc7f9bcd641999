"""Verdicts: tests of the promise on rows with known labels (docs/evaluation.md).

The null hypothesis is a miss rate of at most alpha plus an allowance for one calibration, which is exceeded in at most
a share .025 of calibration draws, as is the test's own level; separately promised parts share both (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np

from fedconformal._base.names import join_names
from fedconformal.certificates import text
from fedconformal.certificates.certificate import Certificate
from fedconformal.evaluation.claims import Claim, EvaluatedRows, claims_of
from fedconformal.summaries.provenance import has_expired

FAILURE = 0.025
"""Probability of a calibration worse than the allowance."""
LEVEL = 0.025
TWICE = 2
"""Rows are sufficient if this multiple of the promised miss rate would be detected."""
TOO_FEW: Literal["too few rows to tell"] = "too few rows to tell"
Kind = Literal["no contradiction", "too few rows to tell", "below the promise", "no verdict"]
ASSUMES = "calibration rows and test rows are independent; the test rows come from the sites that were calibrated"
CLUSTERED = "With clusters the test is approximate, and assumes independent calibration rows."


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one site, class or group."""

    name: str
    kind: Kind
    rows: int
    missed: float
    limit: float
    p: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a test of the promise on rows with known labels."""

    kind: Kind
    words: str
    p: float | None = None
    """p-value of the number of misses under the promise."""
    limit: float | None = None
    """Largest allowed miss rate over all parts: alpha plus the allowance for one calibration."""
    parts: list[Part] = []
    """Results for each site, class or group, if these are promised coverage separately."""
    without_rows: list[str] = []
    """Sites, classes and groups that are promised coverage but have no test rows."""
    assumes: str = ASSUMES

    @property
    def below(self) -> bool:
        """Whether the rows contradict the promise."""
        return self.kind == "below the promise"


def verdict_of(
    certificate: Certificate, alpha: Fraction, rows: EvaluatedRows, answers: text.Vocabulary, *, all_full: bool
) -> Verdict:
    """Test a promise at an alpha fixed beforehand; `all_full` if all sets hold all labels, or intervals all numbers."""
    infinite = all(np.isinf(one.limit) for one in certificate.promises)
    if all_full or (answers is text.SETS and infinite and float(alpha) == certificate.alpha):
        return _none(f"{answers.uninformative}, so no row can be missed, and the {answers.plural} say nothing")
    noise = float((certificate.privacy or {}).get("failure", 0))
    if noise >= FAILURE:
        return _none(f"the noise that keeps rows private may lower the threshold in a share {noise:.3g} of releases")
    tested = claims_of(certificate, alpha, rows, FAILURE - noise)
    without, void = list(tested.without_rows), _void(certificate)
    if not tested.claims:
        return _none(tested.why_none or f"there are no rows of {join_names(without)}", without)
    parts = [_part(claim, float(alpha), LEVEL / len(tested.claims)) for claim in tested.claims]
    kind, words = _combine(parts, without, float(alpha), answers.plural)
    notes = list(tested.notes) + [CLUSTERED] * (rows.clusters is not None)
    if void and kind == "below the promise":
        notes.insert(0, f"Also, {void}.")
    elif void:
        kind, words = "no verdict", f"{void}; {words}"
    least = min(part.p for part in parts)
    return Verdict(
        kind=kind,
        words=" ".join([f"{kind[0].upper()}{kind[1:]}: {words}.", *notes]),
        p=min(1.0, least * len(parts)),
        limit=max(part.limit for part in parts),
        parts=parts if tested.claims[0].name is not None else [],
        without_rows=without,
    )


def _part(claim: Claim, alpha: float, level: float) -> Part:
    sample = claim.sample
    p = sample.p_value(claim.limit)
    if p <= level:
        kind: Kind = "below the promise"
    elif sample.complete and sample.p_if(min(1.0, TWICE * alpha), claim.limit) <= level:
        kind = "no contradiction"
    else:
        kind = TOO_FEW
    return Part(name=claim.name or "", kind=kind, rows=sample.rows, missed=sample.missed, limit=claim.limit, p=p)


def _combine(parts: list[Part], without: list[str], alpha: float, answers: str) -> tuple[Kind, str]:
    """Combine the results of all parts: the worst part decides."""
    worst = min(parts, key=lambda part: part.p)
    where = f" of {worst.name}" if worst.name else ""
    chance = f"(p = {min(1.0, worst.p * len(parts)):.2g})"
    seen = f"the {answers} miss {worst.missed:.1%} of {worst.rows:,} rows{where}"
    allowed = f"at most {100 * alpha:.4g}% is promised, and an unlucky calibration explains up to {worst.limit:.1%}"
    if worst.kind == "below the promise":
        below = sum(part.kind == worst.kind for part in parts) - 1
        more = f", and {below} more are below as well" if below else ""
        return worst.kind, f"{seen} {chance}; {allowed}{more}"
    if without:
        return TOO_FEW, f"there are no rows of {join_names(without)}"
    if few := [part for part in parts if part.kind == TOO_FEW]:
        of = f" of {join_names([part.name for part in few])}" if few[0].name else ""
        most = max(part.limit for part in few)
        advice = ", so more calibration rows are needed" if most >= min(1.0, TWICE * alpha) else ""
        return TOO_FEW, (
            f"with these rows{of} even {answers} that miss twice as often as promised would not be detected; "
            f"an unlucky calibration explains a miss rate of up to {most:.1%}{advice}"
        )
    if worst.name:
        return "no contradiction", (
            f"none of {len(parts)} is missed more often than an unlucky calibration explains {chance}"
        )
    return "no contradiction", f"{seen}; {allowed} {chance}"


def _void(certificate: Certificate) -> str | None:
    """Return the reason why a certificate is void, regardless of the rows; None if it is valid."""
    if certificate.status != "certified":
        return f"nothing was certified, as {text.why_estimated(certificate)}"
    if has_expired(certificate.provenance.expires):
        return f"the certificate expired on {certificate.provenance.expires}"
    return None


def _none(why: str, without: Sequence[str] = ()) -> Verdict:
    return Verdict(kind="no verdict", words=f"No verdict: {why}.", without_rows=list(without))


def standing(certificate: Certificate, verdict: Verdict | None = None, noun: str = "rows") -> tuple[str, str]:
    """Return the text of a badge and its level: good (finite, valid and not contradicted), caution or bad."""
    if verdict is not None and verdict.below:
        return "below the promise", "bad"
    own = [one for part in certificate.parts.values() for one in part]
    infinite = np.isinf([one.limit for one in own or certificate.whole])
    lacking = f"not promised to every {certificate.by or 'class'}"
    lacking = "one end is at infinity" if certificate.intervals else lacking
    problems = {
        "estimated": certificate.status != "certified",
        "nothing is promised": bool(np.all(infinite)),
        lacking: bool(np.any(infinite)),
        "expired": has_expired(certificate.provenance.expires),
    }
    if words := next((words for words, holds in problems.items() if holds), None):
        return words, "caution"
    if verdict is None:
        return "certified", "good"
    if verdict.kind == "no contradiction":
        return "certified; no contradiction", "good"
    return f"certified; {f'too few {noun} to tell' if verdict.kind == TOO_FEW else verdict.kind}", "caution"
