"""The one exchange that calibration over a network needs, whatever engine carries it: a question, and summaries.

The coordinator says which model, score, temperature and kind of summary it wants; every site answers with a summary of
its scores, which stay with it; the coordinator reads the answers strictly and finds the threshold. An engine only puts
these into messages: `fedconformal.engines.flower`, `fedconformal.engines.nvflare`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_temperature, softmax
from fedconformal._base.groups import Groups
from fedconformal._base.names import name_key, shown
from fedconformal._base.spec import build
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.certificate import Certificate, LeftOut
from fedconformal.calibration.temperature import check_temperature
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer
from fedconformal.federated.outputs import for_score
from fedconformal.guarantees import Guarantee
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.predictions import summarize_predictions
from fedconformal.summaries.rows import summarize_rows

FORMAT = "fcs1"
MAX_BYTES = 2**22
"""A summary of ranks has about a kilobyte a site."""
MAX_REASON = 1000
"""Characters; whole errors of torch fit, and a site cannot fill a certificate."""
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError, MemoryError, RecursionError)
"""What reading an answer from outside can raise; all of it is the site's fault."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What every site is asked for.

    >>> question = Question(model="m", alpha=0.1, kind="exact")
    >>> Question.from_dict(question.to_dict()) == question
    True
    >>> question.answer([[2.0, 0.0], [0.0, 1.0]], [0, 0], site="clinic-a").n
    2

    Attributes:
        model: the fingerprint of the model whose outputs are scored.
        alpha: where precision matters most.
        score: how badly a label, or a number, fits.
        temperature: what the sites divide logits by.
        kind: of summary.
        by_class: whether the summary tells the classes apart.
        by_group: whether it tells groups apart, which the site's rows must then have.
        guarantee: the name of what is to be promised, for the policies of sites; an older coordinator does not say.
        trained: whether the model was trained on the sites that are asked; recorded.
    """

    model: str
    alpha: float = 0.1
    score: AnyScore = DEFAULT
    temperature: float = 1.0
    kind: str = "ranks"
    by_class: bool = False
    by_group: bool = False
    guarantee: str | None = None
    trained: bool = False

    def __post_init__(self) -> None:
        check_temperature(as_temperature(self.temperature))

    @classmethod
    def about(
        cls, model: str, *, score: AnyScore | str = DEFAULT, guarantee: Guarantee | str | None = None, **others: Any
    ) -> Question:
        """Ask for what a guarantee needs."""
        named: dict[str, Any] = {}
        if guarantee is not None:
            found = build(guarantee, Guarantee)
            named = {"guarantee": found.name, "by_class": found.by_class, "by_group": found.by_group}
        return cls(model=model, score=build(score, AnyScore), **named, **others)

    def to_dict(self) -> dict[str, Any]:
        """Describe in plain values, as every engine's messages can hold them."""
        named: dict[str, Any] = {} if self.guarantee is None else {"guarantee": self.guarantee}
        grouped = {"by-group": True} if self.by_group else {}  # which a site of an earlier release does not know
        return {
            **named,
            **grouped,
            **({"trained": True} if self.trained else {}),
            "alpha": float(as_alpha(self.alpha)),
            "score": json.dumps(self.score.to_dict()),
            "temperature": float(self.temperature),
            "kind": self.kind,
            "model": self.model,
            "by-class": self.by_class,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Question:
        """Read what `to_dict` made."""
        score = registry.build(json.loads(str(found["score"])), AnyScore)
        return cls(
            alpha=found["alpha"],
            score=score,
            temperature=found["temperature"],
            kind=str(found["kind"]),
            model=str(found["model"]),
            by_class=bool(found["by-class"]),
            by_group=bool(found.get("by-group", False)),
            guarantee=found.get("guarantee"),
            trained=bool(found.get("trained", False)),
        )

    @property
    def sent(self) -> str:
        """The kind of summary that is to be sent."""
        return self.kind + " by class" * self.by_class + " by group" * self.by_group

    @property
    def origin(self) -> Provenance:
        """What the scores are to be made from."""
        numbers = isinstance(self.score, RegressionScore)
        at = None if numbers else self.temperature
        return Provenance(score=self.score, model=self.model, temperature=at, trained=self.trained)

    def answer(self, logits: ArrayLike, labels: ArrayLike, *, site: str, groups: Groups | None = None) -> Summary:
        """Score a site's rows, and summarise the scores; for numbers, `logits` are what the regressor predicts."""
        about: dict[str, Any] = {"alpha": self.alpha, "model": self.model, "site": site, "trained": self.trained}
        if self.by_group:
            if not groups:
                raise InputError("asked is by group, and this site gives no groups; pass groups with logits and labels")
            about["groups"] = groups
        if isinstance(self.score, RegressionScore):
            return summarize_predictions(for_score(logits, self.score), labels, self.kind, score=self.score, **about)
        if not isinstance(self.score, Score):
            raise InputError(f"asked is for {shown(self.score.name)}, which is neither for labels nor for numbers")
        about |= {"by_class": self.by_class, "temperature": self.temperature}
        probs = softmax(np.asarray(logits, dtype=np.float64), temperature=self.temperature)
        return summarize_rows(probs, labels, self.kind, score=self.score, **about)


class Asked(Protocol):
    """What an answer is compared with."""

    @property
    def origin(self) -> Provenance:
        """What the scores are to be made from."""

    @property
    def sent(self) -> str:
        """The kind of summary that is to be sent."""


class Reader:
    """Reads the answers of all sites, and refuses one unless it is what was asked for."""

    def __init__(self, question: Asked) -> None:
        self._expected = self._found = question.origin
        self._kind = question.sent
        self._decoded: dict[bytes, Summary] = {}

    def look_ahead(self, found: Iterable[Any]) -> None:
        """Decode all at once, several times faster than one by one; if one of them is bad, each by itself later."""
        messages = [data for data in found if isinstance(data, bytes) and len(data) <= MAX_BYTES]
        with contextlib.suppress(InputError):
            self._decoded = dict(zip(messages, SummaryBatch.from_bytes(messages), strict=True))

    def read(self, data: Any, form: Any, *, rows: Any, site: str | None, pooled: bool = False) -> Summary:
        """Read the summary of a site, or of those that it has pooled, which may be one; it says how many rows."""
        summary = self._summary(data, form)
        if summary.origin is not self._found:  # summaries that were decoded together share one
            check_origin(self._expected, summary.origin)
            self._found = summary.origin
        if summary.name != self._kind:
            raise InputError(f"sent a summary of the kind {summary.name}, asked for was {self._kind}")
        if summary.n != rows:
            raise InputError(f"sent a summary of {summary.n} scores and says that it has {shown(rows)} rows")
        alone = len(summary.sites) == 1 and not pooled
        if not summary.sites or (alone and name_key(summary.sites[0]) != name_key(site or "")):
            raise InputError(f"is {site or 'nobody'} and sent a summary of {summary}")
        return summary

    def _summary(self, data: Any, form: Any) -> Summary:
        if form != FORMAT or not isinstance(data, bytes):
            raise InputError(f"sent no summary in the format {FORMAT}, as bytes")
        if len(data) > MAX_BYTES:
            raise InputError(f"sent a summary of {len(data)} bytes, more than {MAX_BYTES}")
        return self._decoded.get(data) or Summary.from_bytes(data)


def check_origin(expected: Provenance, found: Provenance) -> None:
    """Refuse scores that are of something else than was asked for, or for something else."""
    stated = replace(found, classes=None, precision=None)  # which are nobody's to ask for, and compared later
    if difference := expected.difference(stated):
        raise InputError(f"sent scores of something else: {difference}")
    if stated != expected:
        raise InputError("sent a summary for a calibration of its own, or one that is marked as estimated")


def unusual(origins: Sequence[Provenance]) -> list[str | None]:
    """Say why a site's classes cannot be used, or the precision of its numbers, or None: one cannot stop the others.

    >>> unusual([Provenance(classes=classes) for classes in (3, 3, None, 2)])
    [None, None, None, 'has 2 classes, most others have 3']
    >>> from fedconformal import Residual
    >>> unusual([Provenance(score=Residual(), precision=one) for one in ("float32", None, "float32")])
    [None, 'has predictions in float64, most others have float32', None]
    """
    if origins and all(isinstance(origin.score, RegressionScore) for origin in origins):
        rounded = [origin.precision or "float64" for origin in origins]
        most = Counter(rounded).most_common(1)[0][0]
        return [None if one == most else f"has predictions in {one}, most others have {most}" for one in rounded]
    found = [origin.classes for origin in origins]
    stated = Counter(classes for classes in found if classes is not None)
    if len(stated) < 2:
        return [None] * len(found)
    usual = stated.most_common(1)[0][0]
    return [
        None if classes in (None, usual) else f"has {_text(classes)} classes, most others have {_text(usual)}"
        for classes in found
    ]


def reasons_to_refuse(found: Sequence[tuple[str, Summary]]) -> list[str | None]:
    """Say for every sender's summary why it cannot be used, or None: each site counts in one summary only.

    A pool cannot answer for a site that answers for itself, so no sender can push another one out. Nor can a site with
    another number of classes than most stop the calibration of the others.

    >>> from fedconformal import pool, summarize
    >>> a, b, c = (summarize([0.5], site=site) for site in "abc")
    >>> reasons_to_refuse([("a", pool([a, b])), ("b", b), ("c", c)])
    ['sent a summary of b, which answers for itself', None, None]
    """
    compared = [(name_key(sender), tuple(map(name_key, summary.sites))) for sender, summary in found]
    themselves = {sender for sender, sites in compared if sender in sites}
    seen: set[str] = set()
    reasons: list[str | None] = []
    for (sender, sites), odd in zip(compared, unusual([summary.origin for _, summary in found]), strict=True):
        if odd is not None:
            reasons.append(odd)
            continue
        if sites == (sender,) and sender not in seen:  # as nearly all are
            seen.add(sender)
            reasons.append(None)
            continue
        other = next((one for one in sites if one != sender and one in themselves), None)
        twice = next((one for one in sites if one in seen), None)
        if other is not None:
            reasons.append(f"sent a summary of {shown(other)}, which answers for itself")
        elif twice is not None:
            reasons.append(f"sent a summary of {shown(twice)}, which has been sent before")
        else:
            seen.update(sites)
            reasons.append(None)
    return reasons


def _text(classes: Any) -> str:
    return shown(classes) if isinstance(classes, int) else f"the {len(classes)} ({shown(', '.join(classes))})"


def reason(error: Exception) -> str:
    """Say why an answer was refused."""
    return str(error) if isinstance(error, InputError) else f"cannot be read ({type(error).__name__})"


def failure(text: str | None) -> str:
    r"""Return what a site said when it failed, in one line: the whole message of the error, without the traceback.

    >>> failure('Traceback:\n  File "task.py", line 1\n    load()\nValueError: Missing:\n  w')
    'ValueError: Missing: w'
    """
    lines = (text or "").splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    rest = lines[frames[-1] + 1 :] if frames else lines
    said = list(dropwhile(lambda line: bool(frames) and line.startswith("    "), rest))
    return shown(" ".join(said), MAX_REASON) or "no reason given"


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """The predictor, whose certificate says what is promised, and the summaries from which it can be checked."""

    predictor: Any
    summaries: tuple[Summary, ...]

    @property
    def certificate(self) -> Certificate:
        """What is promised, and to whom it is not."""
        found: Certificate = self.predictor.certificate
        return found


class SiteSummary(NamedTuple):
    """What a site answers: a summary, and, from an aggregator, whom it left out."""

    summary: Summary
    left_out: Sequence[LeftOut] = ()


Summaries = Sequence[Answer[SiteSummary]]


class SiteRegister(Protocol):
    """What an engine keeps: who is refused, and why."""

    def refuse(self, answers: Summaries, reasons: Sequence[str | None], /) -> Summaries:
        """Refuse the answers that have a reason, and return the others; too few of them are an error."""

    def left_out(self, answers: Summaries, /) -> list[LeftOut]:
        """Name the known sites that are not among these, with the reason."""


def gather(sites: SiteRegister, answers: Summaries) -> tuple[Summaries, list[LeftOut]]:
    """Keep the answers whose summaries can be used, and name the sites without one."""
    answers = sites.refuse(answers, reasons_to_refuse([(answer.name, answer.value.summary) for answer in answers]))
    left_out = sites.left_out(answers)
    covered = {site for answer in answers for site in answer.value.summary.sites}
    for answer in answers:
        # Under the aggregator's name, as its sites may have names, or numbers, that others have.
        found = [one for one in answer.value.left_out if one.site not in covered]
        left_out += [LeftOut(site=f"{answer.name}/{one.site}", reason=one.reason) for one in found]
    return answers, left_out


def calibrate_summaries(
    summaries: Sequence[Summary],
    left_out: Sequence[LeftOut],
    *,
    guarantee: Guarantee | str = "mixture",
    min_scores: int = 1,
    **wanted: Any,
) -> Calibrated:
    """Turn summaries into a predictor; its certificate names the known sites that are not in it.

    Wanted is an alpha; or, of losses, a risk, and what the safe action is.
    """
    scores = sum(summary.n for summary in summaries)
    if scores < min_scores:
        raise InputError(f"calibrate: the sites sent {scores} scores, at least {min_scores} are needed")
    result = calibrate(summaries, guarantee=guarantee, **wanted)
    if left_out:
        result = replace(result, certificate=msgspec.structs.replace(result.certificate, left_out=list(left_out)))
    return Calibrated(predictor=result, summaries=tuple(summaries))


def fingerprint(arrays: Iterable[tuple[str, str, tuple[int, ...], bytes]]) -> str:
    """Return a SHA-256 of names, types, shapes and .npy bytes: what says which model scores are from."""
    found = hashlib.sha256()
    for name, dtype, shape, data in arrays:
        found.update(repr((name, dtype, shape, len(data))).encode())
        found.update(data)
    return found.hexdigest()
