"""The one round that calibration needs: ask every site for a summary, read it strictly, and find the threshold.

Scores stay at the sites. The certificate names the sites that are known of and not in it: the promise is not theirs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedconformal import registry
from fedconformal.calibration import calibrate as calibrate_summaries
from fedconformal.certificate import Certificate, LeftOut
from fedconformal.errors import InputError
from fedconformal.flower.client import FORMAT
from fedconformal.flower.federation import Answer, Federation
from fedconformal.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    METRICS,
    SITE,
    SUMMARY,
    check_keys,
    fingerprint,
    read_examples,
    read_metrics,
)
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.predictor import Predictor
from fedconformal.scores import RAPS, Score
from fedconformal.summaries import Origin, Summary
from fedconformal.validation import as_alpha, as_name, shown

STAGE = "calibrate"
MAX_BYTES = 2**22
"""A summary of ranks has about a kilobyte a site."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """The predictor, whose certificate says what is promised, and the summaries from which it can be checked."""

    predictor: Predictor
    summaries: tuple[Summary, ...]

    @property
    def certificate(self) -> Certificate:
        """What is promised, and to whom it is not."""
        return self.predictor.certificate


def calibrate(
    federation: Federation,
    arrays: ArrayRecord,
    *,
    alpha: Any = 0.1,
    score: Score | None = None,
    guarantee: Guarantee | ByClass | None = None,
    temperature: float = 1.0,
    kind: str = "ranks",
    min_scores: int = 1,
) -> Calibrated:
    """Ask every site for a summary of its scores, and turn them into a predictor and its certificate.

    Args:
        federation: whom to ask.
        arrays: the trained model.
        alpha: how often the sets may miss.
        score: by default RAPS.
        guarantee: what is promised, by default `Mixture()`.
        temperature: what the sites divide logits by.
        kind: of summary.
        min_scores: with fewer in all there is no calibration.
    """
    question = ask_for(
        arrays,
        alpha=alpha,
        score=score,
        temperature=temperature,
        kind=kind,
        by_class=isinstance(guarantee, ByClass),
    )
    answers, left_out = gather(federation, question)
    summaries = [answer.value[0] for answer in answers]
    scores = sum(summary.n for summary in summaries)
    if scores < min_scores:
        raise InputError(f"{STAGE}: the sites sent {scores} scores, at least {min_scores} are needed")
    result = calibrate_summaries(summaries, alpha=as_alpha(alpha), guarantee=guarantee)
    if left_out:
        result = replace(result, certificate=msgspec.structs.replace(result.certificate, left_out=left_out))
    return Calibrated(predictor=Predictor.of(result), summaries=tuple(summaries))


def ask_for(
    arrays: ArrayRecord,
    *,
    alpha: Any,
    score: Score | None = None,
    temperature: float = 1.0,
    kind: str = "ranks",
    by_class: bool = False,
) -> RecordDict:
    """Write the question that `calibrate_reply` answers."""
    config: dict[str, Any] = {
        "alpha": float(as_alpha(alpha)),
        "score": json.dumps((RAPS() if score is None else score).to_dict()),
        "temperature": float(temperature),
        "kind": kind,
        "model": fingerprint(arrays),
        "by-class": by_class,
    }
    return RecordDict({ARRAYS: arrays, ASK: ConfigRecord(config)})


def gather(
    federation: Federation, question: RecordDict
) -> tuple[list[Answer[tuple[Summary, list[LeftOut]]]], list[LeftOut]]:
    """Collect the summaries of all sites, and name those that sent none that can be used.

    An aggregator does the same among its own sites, and forwards them with `pooled_reply`.
    """
    reader = _Reader(question.config_records[ASK])
    answers = federation.ask(STAGE, question, "query.calibrate", reader.read, look_ahead=reader.look_ahead)
    left_out = federation.left_out(answers)
    for answer in answers:
        left_out += answer.value[1]
    return answers, left_out


class _Reader:
    """Reads summaries, and refuses one unless it is what was asked for."""

    def __init__(self, asked: ConfigRecord) -> None:
        score: Score = registry.build(json.loads(str(asked["score"])), Score)
        self._expected = self._found = Origin(
            score=score, model=str(asked["model"]), temperature=float(str(asked["temperature"]))
        )
        self._kind = str(asked["kind"]) + (" by class" if asked["by-class"] else "")
        self._seen: set[str] = set()
        self._decoded: dict[bytes, Summary] = {}

    def look_ahead(self, contents: list[RecordDict]) -> None:
        """Decode all at once, several times faster than one by one; if one of them is bad, each by itself later."""
        records = [content.get(SUMMARY) for content in contents]
        found = [record.get("data") for record in records if isinstance(record, ConfigRecord)]
        messages = [data for data in found if isinstance(data, bytes) and len(data) <= MAX_BYTES]
        with contextlib.suppress(InputError):
            self._decoded = dict(zip(messages, Summary.from_many(messages), strict=True))

    def read(self, content: RecordDict) -> tuple[Summary, list[LeftOut]]:
        """Read one summary."""
        check_keys(content, METRICS, SUMMARY)
        examples = read_examples(read_metrics(content[METRICS], (EXAMPLES,)))
        record = content[SUMMARY]
        said = dict(record.items()) if isinstance(record, ConfigRecord) else {}
        left_out = _read_left_out(said.pop("left-out")) if "left-out" in said else []
        if said.keys() != {"data", "format"}:
            raise InputError("sent no summary")
        summary = self._summary(said["data"], said["format"])
        if summary.origin is not self._found:  # summaries that were decoded together share one
            difference = self._expected.difference(summary.origin)
            if difference:
                raise InputError(f"sent scores of something else: {difference}")
            self._found = summary.origin
        if summary.name != self._kind:
            raise InputError(f"sent a summary of the kind {summary.name}, asked for was {self._kind}")
        if summary.n != examples:
            raise InputError(f"sent a summary of {summary.n} scores and says that it has {examples} rows")
        name = str(content[SITE]["name"]) if SITE in content else "nobody"
        if not summary.sites or (len(summary.sites) == 1 and summary.sites != (name,)):
            raise InputError(f"is {name} and sent a summary of {summary.label}")
        if not self._seen.isdisjoint(summary.sites):
            twice = next(site for site in summary.sites if site in self._seen)
            raise InputError(f"sent a summary of {shown(twice)}, which has been sent before")
        self._seen.update(summary.sites)
        return summary, left_out

    def _summary(self, data: Any, form: Any) -> Summary:
        if form != FORMAT or not isinstance(data, bytes):
            raise InputError(f"sent no summary in the format {FORMAT}, as bytes")
        if len(data) > MAX_BYTES:
            raise InputError(f"sent a summary of {len(data)} bytes, more than {MAX_BYTES}")
        return self._decoded.get(data) or Summary.from_bytes(data)


def _read_left_out(found: Any) -> list[LeftOut]:
    """Read whom an aggregator left out."""
    if not isinstance(found, Sequence) or not all(isinstance(one, str) for one in found):
        raise InputError("does not say properly whom it left out")
    parts = [one.partition("\n") for one in found]
    return [LeftOut(site=as_name(site, "a site left out"), reason=shown(reason)) for site, _, reason in parts]
