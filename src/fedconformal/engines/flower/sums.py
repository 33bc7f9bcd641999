"""Calibration from sums only, over Flower: the server's part of a session, in which it sees no site's own counts.

The protocol and its driver are those of `fedconformal.privacy.sums`; Flower carries the messages. First the sites join
and say how many scores they have, then they leave shares of their secrets with their neighbours, then each round is
three exchanges, and one more if a site is lost in it. A site whose message cannot be used is out, with the
reason. Before the first sum is opened the driver starts the session again with the others. Later a site that drops
out stays in the promise, and the search stops at the cell that it has reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedconformal._base.spec import build
from fedconformal.engines.flower.calibration import STAGE, ask_for
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import ASK, SUMS, check_keys, read_site
from fedconformal.engines.flower.sums_site import FORMAT
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer
from fedconformal.federated.calibration import MAX_BYTES, Calibrated, Question, check_origin, unusual
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.drive import Reader, play
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.radix import IN_STEPS
from fedconformal.privacy.sums.session import stated_origin
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.privacy.sums.wanted import summable
from fedconformal.scores import AnyScore

TYPE = "query.calibrate"


def calibrate_by_sums(
    federation: Federation,
    arrays: ArrayRecord,
    *,
    alpha: Any = 0.1,
    score: AnyScore | str = "lac",
    guarantee: Guarantee | str = "mixture",
    temperature: float = 1.0,
    min_scores: int = 1,
    **how: Any,
) -> Calibrated:
    """Find a threshold from sums over the sites alone: what all scores give, rounded up to the edge of a public cell.

    Args:
        federation: the sites to ask; three at least.
        arrays: the trained model.
        alpha: how often the sets may miss.
        score: by default `scores.DEFAULT`, which is LAC.
        guarantee: what is promised, by default `Mixture()`; one that needs more than one sum is refused.
        temperature: what the sites divide logits by.
        min_scores: with fewer in all there is no calibration.
        **how: `epsilon`, with which there is one round in which the sites add noise to their counts, for differential
            privacy; `reach`, for scores of numbers, a public number that the threshold is not expected to exceed.
    """
    promised = summable(build(guarantee, Guarantee))
    question = ask_for(arrays, alpha=alpha, score=score, temperature=temperature, kind=SUMS)
    channel = _FlowerChannel(federation, question, min_scores)
    state = play(partial(invite, promised, alpha, *IN_STEPS, **how), channel)
    return Calibrated(predictor=channel.certified(state), summaries=())


class _FlowerChannel:
    """Sends the messages of a session to Flower's nodes, and knows which node is which site."""

    def __init__(self, federation: Federation, question: RecordDict, min_scores: int) -> None:
        self._federation = federation
        self._question = question
        self._expected = Question.from_dict(question.config_records[ASK]).origin
        self._min_scores = min_scores
        self._joined: list[Answer[Any]] = []
        self._answered: list[Answer[Any]] = []
        self._nodes: dict[str, int] = {}

    def invite(self, invitation: bytes, read: Reader) -> list[Message]:
        """Ask everybody to join, with the model; or those who answered last, which have their scores already."""
        keys: set[bytes] = set()

        def check(content: RecordDict) -> Any:
            found: Any = read(_data(content))
            _check_sender(content, found.site)
            check_origin(self._expected, stated_origin(found))
            if keys & {found.signing, found.masking}:
                raise InputError("brings a key that another site has")
            keys.update((found.signing, found.masking))
            return found

        if not self._joined:
            content = RecordDict({**self._question, SUMS: ConfigRecord({"data": invitation})})
            joined = self._federation.ask(STAGE, content, TYPE, check)
            self._joined = self._federation.refuse(joined, unusual([stated_origin(one.value) for one in joined]))
        else:
            self._check_enough(self._answered)
            nodes = dict.fromkeys((answer.node for answer in self._answered), _content(invitation))
            self._joined = self._federation.ask_some(STAGE, nodes, TYPE, check)
            self._check_enough(self._joined)
        self._nodes = {answer.name: answer.node for answer in self._joined}
        scores = sum(answer.value.size for answer in self._joined)
        if scores < self._min_scores:
            raise InputError(f"{STAGE}: the sites have {scores} scores, at least {self._min_scores} are needed")
        return [answer.value for answer in self._joined]

    def exchange(self, outgoing: Mapping[str, bytes], read: Reader) -> list[Message]:
        """Send each of these sites its message, and read what they answer."""
        names = sorted(self._nodes)  # the roster's order

        def check(content: RecordDict) -> Any:
            found: Any = read(_data(content))
            _check_sender(content, names[found.site])
            return found

        contents = {message: _content(message) for message in set(outgoing.values())}
        asked = {self._nodes[name]: contents[message] for name, message in outgoing.items()}
        self._answered = self._federation.ask_some(STAGE, asked, TYPE, check)
        return [answer.value for answer in self._answered]

    def certified(self, state: CoordinatorState) -> Any:
        """Name the sites that are not in the session, and say why others dropped out of it."""
        result = certified(state)
        why = {one.site: one.reason for one in self._federation.left_out(())}
        claim = dict(result.certificate.privacy or {})
        claim["dropped"] = [{**one, "reason": why.get(one["site"], "was lost")} for one in claim["dropped"]]
        left_out = self._federation.left_out(self._joined) or None
        changed = msgspec.structs.replace(result.certificate, privacy=claim, left_out=left_out)
        return replace(result, certificate=changed)

    def _check_enough(self, answers: list[Answer[Any]]) -> None:
        if len(answers) < self._federation.min_sites:
            lost = "; ".join(f"{one.site}: {one.reason}" for one in self._federation.left_out(answers)[-3:])
            raise InputError(
                f"{STAGE}: {len(answers)} sites are left, at least {self._federation.min_sites} are needed ({lost})"
            )


def _content(message: bytes) -> RecordDict:
    return RecordDict({ASK: ConfigRecord({"kind": SUMS}), SUMS: ConfigRecord({"data": message})})


def _data(content: RecordDict) -> bytes:
    """Return the message that a reply carries."""
    check_keys(content, SUMS)
    record = content[SUMS]
    if not isinstance(record, ConfigRecord) or set(record) != {"data", "format"} or record["format"] != FORMAT:
        raise InputError(f"sent no message of a sums session in the format {FORMAT}")
    data = record["data"]
    if not isinstance(data, bytes) or len(data) > MAX_BYTES:
        raise InputError(f"sent no message of a sums session as bytes, {MAX_BYTES} at most")
    return data


def _check_sender(content: RecordDict, site: str) -> None:
    name = read_site(content, 0).name
    if name != site:
        raise InputError(f"is {name} and sent a message of {site}")
