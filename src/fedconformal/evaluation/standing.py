"""Where a certificate stands, in a word or two: what a badge says, and whether it may be green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fedconformal.evaluation.verdict import Verdict
from fedconformal.summaries.origin import has_expired

if TYPE_CHECKING:
    from fedconformal.calibration.certificate import Certificate


class Standing(NamedTuple):
    """Words for a badge, and how good the news is."""

    words: str
    level: Literal["good", "caution", "bad"]


def standing(certificate: Certificate, verdict: Verdict | None = None) -> Standing:
    """Say where a certificate stands; it is good only if all of it is finite, certified, valid and not contradicted.

    Once it was put to the test, it is good only if the rows were enough and show no contradiction.
    """
    if verdict is not None and verdict.below:
        return Standing("below the promise", "bad")
    infinite = np.isinf(certificate.limit)
    against = {
        "estimated": certificate.status != "certified",
        "nothing is promised": bool(np.all(infinite)),
        "not promised to every class": bool(np.any(infinite)),
        "expired": has_expired(certificate.expires),
    }
    if found := [words for words, holds in against.items() if holds]:
        return Standing(found[0], "caution")
    if verdict is None:
        return Standing("certified", "good")
    return Standing(f"certified; {verdict.kind}", "good" if verdict.kind == "no contradiction" else "caution")
