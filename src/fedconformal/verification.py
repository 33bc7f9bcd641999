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
from fedconformal.certificates.certificate import Certificate, RenewalRows, SummaryRecord, versions
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.losses.loss import described_loss
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally
from fedconformal.privacy.signatures import check_signatures
from fedconformal.summaries.summary import Summary, digest_of

NOT_RECOMPUTED = {"versions", "left_out"}
"""Fields of a certificate that do not follow from the summaries; see `verify`."""
VERSION = re.compile(r"[\w.+-]{1,40}", re.ASCII)


def verify(
    predictor: Predictor,
    summaries: Summary | Sequence[Summary] | Sequence[NoisyHistogram],
    *,
    trusted: Mapping[str, str] | None = None,
    sealed: bool = False,
    older: Predictor | None = None,
) -> list[str]:
    """Recompute a predictor from its summaries and list all differences.

    Every field of the certificate is recomputed, including its sentences, with these exceptions: the versions of the
    software are only checked for their format; left-out sites, a score that no summary names and a custom safe action
    do not follow from the summaries and need the coordinator's signature (`sealed`); the reason for a replacement, its
    rows and the assumptions are statements of the coordinator. A predictor with noise added by the coordinator, or from
    secure sums, cannot be confirmed. Digests detect changes, not forgery by a party that can write both files.

    Parameters
    ----------
    predictor
        The predictor to verify.
    summaries
        The certified summaries, or noisy histograms if the sites added the noise.
    trusted
        Public keys by site, to check the signatures of the summaries.
    sealed
        Whether the coordinator's signature of the predictor has been verified.
    older
        The predictor that is replaced, whose digest is compared.

    Returns
    -------
    list of str
        Each difference or unconfirmed field; empty if everything is confirmed.

    Examples
    --------
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
    """Check the digest of the replaced predictor, and that new rows did not calibrate it."""
    replaced = certificate.replaces
    if older is None:
        if replaced is None or sealed:
            return []
        return [f"replaces: not confirmed without the predictor {replaced.sha256}; give the one that it replaces"]
    if replaced is None:
        return ["replaces: the certificate names no predictor that it replaces"]
    if replaced.sha256 != older.digest():
        return [f"replaces: the certificate names the predictor {replaced.sha256}, the one given is {older.digest()}"]
    if replaced.rows == RenewalRows.new and (again := used_again(certificate, older.certificate)):
        return [f"rows: those of site {again!r} calibrated the older predictor as well, so they are not new"]
    return []


def _recomputed(
    predictor: Predictor,
    summaries: Summary | Sequence[Summary | NoisyHistogram],
    trusted: Mapping[str, str] | None,
    *,
    sealed: bool,
) -> list[str]:
    certificate = predictor.certificate
    if certificate.privacy is not None and any(record.kind != NoisyHistogram.name for record in certificate.summaries):
        return ["a private release cannot be recomputed: its inputs were not kept"]
    summaries = [summaries] if isinstance(summaries, Summary) else summaries
    digests = list(map(digest_of, summaries))
    given: dict[str, Summary | NoisyHistogram] = dict(zip(digests, summaries, strict=True))
    wanted = [record.sha256 for record in certificate.summaries]
    spare = Counter(digests)
    spare.subtract(wanted)
    problems = [
        f"the summary of {given[digest]} is given more than once"
        if digest in wanted
        else f"the summary of {given[digest]} is not the one that was certified"
        for digest, count in spare.items()
        if count > 0
    ]
    problems += [
        f"the certified summary of {_name_of(record)} was not given"
        for record in certificate.summaries
        if spare[record.sha256] < 0
    ]
    if problems:
        return problems
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleWarning)
            expected = _recalibrate([given[digest] for digest in wanted], certificate)
        if certificate.replaces is not None:
            expected = replace(expected, certificate=expected.certificate.replacing(certificate.replaces))
    except InputError as error:
        return [f"the certificate cannot be recomputed: {error}"]
    return _differences(predictor, expected) + _not_confirmed(certificate, trusted, sealed=sealed)


def _not_confirmed(certificate: Certificate, trusted: Mapping[str, str] | None, *, sealed: bool) -> list[str]:
    """List the fields that neither the summaries nor signatures confirm."""
    problems = []
    if certificate.score is None and certificate.risk is None and not sealed:
        problems.append("score: not confirmed, as the summaries do not name their score")
    if trusted is not None:
        problems += check_signatures(certificate, trusted)
    elif any(used.signature for used in certificate.summaries) and not sealed:
        problems.append("signatures: not confirmed without the sites' public keys (--signed)")
    risk = certificate.risk
    if risk is not None and risk.safe is not None and not sealed:
        loss = described_loss(risk.loss)
        if loss is None or loss.safe != risk.safe:
            problems.append("safe: not confirmed, as it is the coordinator's own text; their signature confirms it")
    if certificate.left_out is not None and not sealed:
        problems.append(
            "left_out: not confirmed, as it does not follow from the summaries; the coordinator's signature confirms it"
        )
    return problems


def _recalibrate(inputs: list[Summary | NoisyHistogram], stated: Certificate) -> Predictor:
    if noisy := [histogram for histogram in inputs if isinstance(histogram, NoisyHistogram)]:
        return calibrate_locally(noisy, alpha=stated.alpha, guarantee=stated.terms()[0])
    return calibrate_again([summary for summary in inputs if isinstance(summary, Summary)], stated)


def _name_of(record: SummaryRecord) -> str:
    return f"site {', '.join(map(repr, record.sites))}" if record.sites else f"sha256 {record.sha256[:12]}..."


def _changed_fields(stated: Any, right: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(stated, dict) and isinstance(right, dict):
        for key in {**stated, **right}:
            yield from _changed_fields(stated.get(key), right.get(key), f"{field}.{key}".lstrip("."))
    elif isinstance(stated, list) and isinstance(right, list) and len(stated) == len(right):
        for index, pair in enumerate(zip(stated, right, strict=True)):
            yield from _changed_fields(*pair, f"{field}[{index}]")
    elif stated != right:
        yield field, stated, right


def _differences(predictor: Predictor, expected: Predictor) -> list[str]:
    unsigned = [msgspec.structs.replace(used, signature=None) for used in predictor.certificate.summaries]
    stated = msgspec.structs.replace(predictor.certificate, summaries=unsigned).to_dict()
    right = expected.certificate.to_dict()
    problems = [
        f"{field}: the certificate states {value!r:.200}, the summaries give {recomputed!r:.200}"
        for field, value, recomputed in _changed_fields(stated, right)
        if field.partition(".")[0] not in NOT_RECOMPUTED
    ]
    software = predictor.certificate.versions
    if software.keys() != versions().keys() or not all(map(VERSION.fullmatch, software.values())):
        problems.append(f"versions: the certificate states {software!r:.200}, which are not the versions of software")
    if predictor.content()["curves"] != expected.content()["curves"]:
        problems.append("the promise curve is not the one that the summaries give")
    return problems
