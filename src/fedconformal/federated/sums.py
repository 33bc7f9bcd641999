"""Masked sums over an engine: the coordinator's part of a session, without access to any site's own counts.

The protocol and its driver are those of `fedconformal.privacy.sums`; the engine carries the messages. A site with an
invalid message is excluded, with the reason. Before the first sum is opened the driver restarts the session with the
others. Later a site that drops out remains in the promise, and the search stops at its current cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import msgspec

from fedconformal._base.registry import build
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer, Question, Record, Sites
from fedconformal.federated.calibration import Calibrated, deviations
from fedconformal.federated.questions import ScoreQuestion, check_classes, check_provenance
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import Reader, certify_session, run_session
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.radix import check_summable
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.scores import DEFAULT, AnyScore
from fedconformal.summaries import Provenance


class AddressableSites(Sites, Protocol):
    """Sites that can be sent individual messages."""

    def ask_each(self, questions: Mapping[int, Question[Any]]) -> list[Answer[Any]]:
        """Ask each of these nodes its own question; the answers may be none."""


class SumsStep(Record, frozen=True, kw_only=True, tag="sums"):
    """One message of a session; the first also holds the question about the scores."""

    message: bytes
    scores: ScoreQuestion | None = None


@dataclass(frozen=True)
class _Sent:
    """A step of a session, with the coordinator's decoder of the answer."""

    stage: ClassVar[str] = "calibrate"

    step: SumsStep
    check: Callable[[bytes, str], Any]

    def to_bytes(self) -> bytes:
        return self.step.to_bytes()

    def read(self, data: bytes, *, site: str) -> Any:
        return self.check(data, site)


def calibrate_by_sums(
    sites: AddressableSites,
    model: Any,
    *,
    alpha: Any = 0.1,
    score: AnyScore | str = DEFAULT,
    guarantee: Guarantee | str = "mixture",
    temperature: float = 1.0,
    classes: Sequence[str] = (),
    min_scores: int = 1,
    **how: Any,
) -> Calibrated:
    """Calibrate from sums over the sites alone: the threshold is rounded up to the edge of a public cell.

    Parameters
    ----------
    sites
        The engine's sites, at least three.
    model, alpha, score, temperature, classes, min_scores
        As in `calibrate`.
    guarantee
        The guarantee; refused if it needs more than one sum.
    **how
        `epsilon`, for differential privacy: one round in which the sites add noise to their counts; `reach`, for
        regression scores, a public bound that the threshold is not expected to exceed.
    """
    promised = check_summable(build(guarantee, Guarantee))
    asked: dict[str, Any] = {"alpha": alpha, "score": score, "guarantee": promised, "temperature": temperature}
    question = ScoreQuestion.about(sites.fingerprint(model), kind="exact", classes=tuple(classes), **asked)
    channel = _Channel(sites, model, question, min_scores)
    state = run_session(partial(invite, promised, alpha, **how), channel)
    return Calibrated(predictor=channel.certify(state))


class _Channel:
    """Channel of a session over an engine, with the node of each site."""

    def __init__(self, sites: AddressableSites, model: Any, question: ScoreQuestion, min_scores: int) -> None:
        self._sites = sites
        self._model = model
        self._question = question
        self._min_scores = min_scores
        self._joined: list[Answer[Any]] = []
        self._answered: list[Answer[Any]] = []

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        """Invite all sites, with the model; or the sites that answered last, which have their scores already."""
        keys: set[bytes] = set()

        def check(data: bytes, site: str) -> Any:
            found: Any = read(data)
            _check_sender(site, found.site)
            stated = Provenance.from_header(found.provenance)
            check_provenance(self._question.provenance, stated)
            check_classes(self._question.classes, stated.classes)
            if keys & {found.signing, found.masking}:
                raise InputError("uses the key of another site")
            keys.update((found.signing, found.masking))
            return found

        if not self._joined:
            first = SumsStep(message=invitation, scores=self._question)
            joined = self._sites.ask(_Sent(first, check), self._model)
            origins = [Provenance.from_header(one.value.provenance) for one in joined]
            self._joined = self._sites.refuse(joined, deviations(origins))
        else:
            again = _Sent(SumsStep(message=invitation), check)
            self._joined = self._sites.ask_each({answer.node: again for answer in self._answered})
            left, least = len(self._joined), self._sites.min_sites
            if left < least:
                lost = "; ".join(f"{one.site}: {one.reason}" for one in self._sites.left_out(self._joined)[-3:])
                raise InputError(f"calibrate: {left} sites are left, at least {least} are needed ({lost})")
        scores = sum(answer.value.size for answer in self._joined)
        if scores < self._min_scores:
            raise InputError(f"calibrate: the sites have {scores} scores, at least {self._min_scores} are needed")
        return [answer.value for answer in self._joined]

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        """Send each of these sites its message, and read the answers."""
        nodes = {answer.name: answer.node for answer in self._joined}
        names = sorted(nodes)  # the roster's order

        def check(data: bytes, site: str) -> Any:
            sent: Any = read(data)
            _check_sender(site, names[sent.site])
            return sent

        steps = {nodes[name]: _Sent(SumsStep(message=message), check) for name, message in outgoing.items()}
        self._answered = self._sites.ask_each(steps)
        return [answer.value for answer in self._answered]

    def certify(self, state: CoordinatorState) -> Predictor:
        """Return the predictor, whose certificate names sites outside the session and reasons of dropouts."""
        predictor = certify_session(state)
        why = {one.site: one.reason for one in self._sites.left_out(())}
        claim = dict(predictor.certificate.privacy or {})
        claim["dropped"] = [{**one, "reason": why.get(one["site"], "was lost")} for one in claim["dropped"]]
        left_out = self._sites.left_out(self._joined) or None
        changed = msgspec.structs.replace(predictor.certificate, privacy=claim, left_out=left_out)
        return replace(predictor, certificate=changed)


def _check_sender(name: str, site: str) -> None:
    if name != site:
        raise InputError(f"is {name} and sent a message of {site}")
