"""Verification: recompute a predictor from its summaries and compare."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from fedconformal.calibration.calibrate import calibrate_again, used_again
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate, Rows, SummaryRecord, versions
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.losses.loss import described_loss
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally
from fedconformal.privacy.signatures import check_signatures
from fedconformal.summaries.summary import Summary, digest_of

OF_THE_FILE = {"versions", "left_out"}
"""Differences from the recomputed certificate; see `verify`."""

VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)


def verify(
    predictor: Predictor,
    summaries: Sequence[Summary] | Sequence[NoisyHistogram],
    *,
    trusted: Mapping[str, str] | None = None,
    sealed: bool = False,
    older: Predictor | None = None,
) -> list[str]:
    """Return what does not match or cannot be confirmed, in words; an empty list means that all of it is confirmed.

    Everything in the certificate is recomputed, its sentences too, but for three things. Signatures are checked with
    the sites' public keys, `trusted`. The sites that were left out follow from nothing that is given, nor does the
    score if no summary says which one it holds, nor a safe action in somebody's own words: they are confirmed only if
    the coordinator signed the predictor and that was checked, `sealed`. The versions of the software are what the file
    says, in the form of versions.

    A predictor that replaces another one names it by its digest, which is compared with that of `older`. Why it was
    replaced, and which rows calibrated it, is the word of who calibrated, as it is that the assumption holds.

    A digest detects change, not forgery: who can write both files can make them match. Noisy histograms take the
    place of summaries where sites added noise themselves. What the coordinator added noise to, or saw only the sum
    of, follows from nothing that is kept, so it cannot be confirmed.

    >>> from fedconformal import LAC, Summary, calibrate
    >>> sites = [Summary.of_scores([i / 20 for i in range(20)], site="a", score=LAC())]
    >>> predictor = calibrate(sites, alpha=0.2)
    >>> verify(predictor, sites)
    []
    >>> for problem in verify(predictor, [Summary.of_scores([0.5], site="a")]):
    ...     print(problem)
    the summary of site 'a' is not the one that was certified
    the certified summary of site 'a' was not given
    """
    problems = _recomputed(predictor, summaries, trusted, sealed=sealed)
    return problems + _replacement(predictor.certificate, older, sealed=sealed)


def _replacement(certificate: Certificate, older: Predictor | None, *, sealed: bool) -> list[str]:
    """Check the digest of the predictor that is replaced, and that the rows are others."""
    replaced = certificate.replaces
    if older is None:
        if replaced is None or sealed:
            return []
        return [f"replaces: not confirmed without the predictor {replaced.sha256}; give the one that it replaces"]
    if replaced is None:
        return ["replaces: the certificate names no predictor that it replaces"]
    if replaced.sha256 != older.digest():
        return [f"replaces: the certificate names the predictor {replaced.sha256}, the one given is {older.digest()}"]
    if replaced.rows == Rows.new and (again := used_again(certificate, older.certificate)):
        return [f"rows: those of site {again!r} calibrated the older predictor as well, so they are not new"]
    return []


def _recomputed(
    predictor: Predictor,
    summaries: Sequence[Summary | NoisyHistogram],
    trusted: Mapping[str, str] | None,
    *,
    sealed: bool,
) -> list[str]:
    certificate = predictor.certificate
    if certificate.privacy is not None and any(record.kind != NoisyHistogram.name for record in certificate.summaries):
        return ["a private release cannot be recomputed: what it was made from shows in nothing that was kept"]
    digests = list(map(digest_of, summaries))
    given: dict[str, Summary | NoisyHistogram] = dict(zip(digests, summaries, strict=True))
    wanted = [record.sha256 for record in certificate.summaries]
    spare = Counter(digests)
    spare.subtract(wanted)
    problems = [
        f"the summary of {given[digest]} is given too often"
        if digest in wanted
        else f"the summary of {given[digest]} is not the one that was certified"
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
            expected = _again([given[digest] for digest in wanted], certificate)
        if certificate.replaces is not None:
            expected = replace(expected, certificate=expected.certificate.replacing(certificate.replaces))
    except InputError as error:
        return [f"the certificate cannot be recomputed: {error}"]
    return _differences(predictor, expected) + _not_confirmed(certificate, trusted, sealed=sealed)


def _not_confirmed(certificate: Certificate, trusted: Mapping[str, str] | None, *, sealed: bool) -> list[str]:
    """Name what the summaries cannot confirm and nothing else does."""
    problems = []
    if certificate.score is None and certificate.risk is None and not sealed:
        problems.append("score: not confirmed, as the summaries do not say which score they hold")
    if trusted is not None:
        problems += check_signatures(certificate, trusted)
    elif any(used.signature for used in certificate.summaries) and not sealed:
        problems.append("signatures: not confirmed without the sites' public keys; give them")
    risk = certificate.risk
    if risk is not None and risk.safe is not None and not sealed:
        loss = described_loss(risk.loss)
        if loss is None or loss.safe != risk.safe:
            problems.append("safe: not confirmed, as it is in the words of who calibrated; their signature confirms it")
    if certificate.left_out is not None and not sealed:
        problems.append(
            "left_out: not confirmed, as it does not follow from the summaries; the coordinator's signature confirms it"
        )
    return problems


def _again(given: list[Summary | NoisyHistogram], stated: Certificate) -> Predictor:
    if noisy := [one for one in given if isinstance(one, NoisyHistogram)]:
        return calibrate_locally(noisy, alpha=stated.alpha, guarantee=stated.terms()[0])
    return calibrate_again([one for one in given if isinstance(one, Summary)], stated)


def _who(record: SummaryRecord) -> str:
    return f"site {', '.join(map(repr, record.sites))}" if record.sites else f"sha256 {record.sha256[:12]}..."


def _changed(stated: Any, right: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that differ, with both values."""
    if isinstance(stated, dict) and isinstance(right, dict):
        for key in {**stated, **right}:
            yield from _changed(stated.get(key), right.get(key), f"{field}.{key}".lstrip("."))
    elif isinstance(stated, list) and isinstance(right, list) and len(stated) == len(right):
        for place, (one, other) in enumerate(zip(stated, right, strict=True)):
            yield from _changed(one, other, f"{field}[{place}]")
    elif stated != right:
        yield field, stated, right


def _differences(found: Predictor, expected: Predictor) -> list[str]:
    unsigned = [msgspec.structs.replace(used, signature=None) for used in found.certificate.summaries]
    stated = msgspec.structs.replace(found.certificate, summaries=unsigned).to_dict()
    right = expected.certificate.to_dict()
    problems = [
        f"{field}: the certificate says {said!r:.200}, the summaries give {given!r:.200}"
        for field, said, given in _changed(stated, right)
        if field.partition(".")[0] not in OF_THE_FILE
    ]
    software = found.certificate.versions
    if software.keys() != versions().keys() or not all(map(VERSION.fullmatch, software.values())):
        problems.append(f"versions: the certificate says {software!r:.200}, which are not the versions of software")
    curves, wanted = (one.content()["curves"] for one in (found, expected))
    if curves != wanted:
        problems.append("the promise curve is not the one that the summaries give")
    return problems
