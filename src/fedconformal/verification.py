"""Does a predictor follow from these summaries? Recompute everything and compare."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from fedconformal._version import __version__
from fedconformal.calibration import Calibration, calibrate
from fedconformal.certificate import Certificate, SummaryRecord
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.guarantees.by_class import described
from fedconformal.predictor import Predictor
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally
from fedconformal.summaries.base import Summary

WORDING = ("promise", "assumption", "caveat", "conditions")
"""What another release may say in other words."""


def verify(predictor: Predictor, summaries: Sequence[Summary] | Sequence[NoisyHistogram]) -> list[str]:
    """Return what does not match, in words; an empty list means that the certificate is confirmed.

    A digest detects change, not forgery: whoever can write both files can make them match. Noisy histograms take the
    place of summaries where sites added noise themselves. What the coordinator added noise to, or saw only the sum
    of, follows from nothing that is kept, so it cannot be confirmed.

    >>> from fedconformal import LAC, calibrate, summarize
    >>> sites = [summarize([i / 20 for i in range(20)], site="a", score=LAC())]
    >>> predictor = Predictor.of(calibrate(sites, alpha=0.2))
    >>> verify(predictor, sites)
    []
    >>> for problem in verify(predictor, [sites[0].extend([0.5])]):
    ...     print(problem)
    the summary of site 'a' is not the one that was certified
    the certified summary of site 'a' was not given
    """
    certificate = predictor.certificate
    if certificate.privacy is not None and any(record.kind != NoisyHistogram.name for record in certificate.summaries):
        return ["a private release cannot be recomputed: what it was made from shows in nothing that was kept"]
    given = {summary.digest(): summary for summary in summaries}
    wanted = [record.sha256 for record in certificate.summaries]
    spare = Counter(summary.digest() for summary in summaries)
    spare.subtract(wanted)
    problems = [
        f"the summary of {given[digest].label} is given too often"
        if digest in wanted
        else f"the summary of {given[digest].label} is not the one that was certified"
        for digest, count in spare.items()
        if count > 0
    ]
    problems += [
        f"the certified summary of {_who(record)} was not given"
        for record in certificate.summaries
        if spare[record.sha256] < 0
    ]
    if problems:
        return problems
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleWarning)
            again = _again([given[digest] for digest in wanted], certificate)
        expected = Predictor.of(again, score=predictor.score)
    except InputError as error:
        return [f"the certificate cannot be recomputed: {error}"]
    return _differences(predictor, expected)


def _again(given: list[Summary | NoisyHistogram], certificate: Certificate) -> Calibration:
    guarantee = described(certificate.guarantee)
    noisy = [one for one in given if isinstance(one, NoisyHistogram)]
    if noisy:
        return calibrate_locally(noisy, alpha=certificate.alpha, guarantee=guarantee)
    return calibrate([one for one in given if isinstance(one, Summary)], alpha=certificate.alpha, guarantee=guarantee)


def _who(record: SummaryRecord) -> str:
    return f"site {', '.join(map(repr, record.sites))}" if record.sites else f"sha256 {record.sha256[:12]}..."


def _differences(found: Predictor, expected: Predictor) -> list[str]:
    stated, right = found.certificate.to_dict(), expected.certificate.to_dict()
    # Whom an engine left out cannot be told from the summaries that it took; signatures are checked against keys.
    may_differ = {"versions", "left_out", "signatures"}
    if stated["versions"].get("fedconformal") != __version__:
        may_differ |= set(WORDING)
    problems = [
        f"{field}: the certificate says {stated.get(field)!r:.200}, the summaries give {right.get(field)!r:.200}"
        for field in {**stated, **right}
        if field not in may_differ and stated.get(field) != right.get(field)
    ]
    if found.curve.to_dict() != expected.curve.to_dict():
        problems.append("the promise curve is not the one that the summaries give")
    return problems
