"""Calibration from sums only, over Flower: the server's part of a session, in which it sees no site's own counts.

The protocol is that of `fedconformal.privacy`; Flower carries its messages. First the sites join and say how many
scores they have, then they leave with some neighbours what it takes to do without them, then each round is two
exchanges, and three if a site vanished in it after its answer. A site whose message cannot be used is out, with the
reason. If that is before the first sum is opened, nothing has been seen yet: the session starts again with the others,
so that the promise is theirs and the threshold no higher than it has to be. Later the roster is frozen: a site that
drops out stays in the promise, and its scores count as if they were too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.predictor import Predictor
from fedconformal.engines.flower.calibration import STAGE, ask_for
from fedconformal.engines.flower.federation import Answer, Federation
from fedconformal.engines.flower.records import ASK, SUMS, check_keys, read_site
from fedconformal.engines.flower.sums_site import FORMAT
from fedconformal.errors import InputError
from fedconformal.federated.calibration import MAX_BYTES, Calibrated, Question
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.sums import coordinator as middle
from fedconformal.privacy.sums.drive import certified
from fedconformal.privacy.sums.messages import Join
from fedconformal.privacy.sums.radix import BYTES
from fedconformal.privacy.sums.reading import (
    Coordinator,
    origin_of,
    read_answer,
    read_deposit,
    read_join,
    read_reveal,
    read_shares,
    seated,
)
from fedconformal.privacy.sums.weights import summable
from fedconformal.scores import Score

TYPE = "query.calibrate"

Reader = Callable[[Coordinator, bytes], Any]


def calibrate_by_sums(
    federation: Federation,
    arrays: ArrayRecord,
    *,
    alpha: Any = 0.1,
    score: Score | None = None,
    guarantee: Guarantee | None = None,
    temperature: float = 1.0,
    min_scores: int = 1,
) -> Calibrated:
    """Find the threshold that all scores together give, from sums over the sites alone.

    Args:
        federation: whom to ask; three sites at least.
        arrays: the trained model.
        alpha: how often the sets may miss.
        score: by default `scores.DEFAULT`, which is LAC.
        guarantee: what is promised, by default `Mixture()`; one that needs more than one sum is refused.
        temperature: what the sites divide logits by.
        min_scores: with fewer in all there is no calibration.
    """
    promised = summable(Mixture() if guarantee is None else guarantee)
    question = ask_for(arrays, alpha=alpha, score=score, temperature=temperature, kind=SUMS)
    nodes: set[int] | None = None
    while True:
        session = _Session(federation, promised, alpha)
        left = session.open(question, nodes, min_scores)
        if left is None:
            return Calibrated(predictor=Predictor.of(session.finish()), summaries=())
        nodes = left


class _Session:
    """One session: the coordinator's state, and which node is which site."""

    def __init__(self, federation: Federation, guarantee: Guarantee, alpha: Any) -> None:
        self._federation = federation
        self._coordinator, self._invitation = middle.invite(guarantee, alpha, BYTES)
        self._joined: list[Answer[bytes]] = []
        self._nodes: dict[str, int] = {}
        self._answers: list[bytes] = []

    def open(self, question: RecordDict, nodes: set[int] | None, min_scores: int) -> set[int] | None:
        """Go on to the answers of the first round; if somebody is lost before they are open, return who is left."""
        self._join(question, nodes)
        coordinator, roster = middle.seat(self._coordinator, [answer.value for answer in self._joined])
        self._coordinator = coordinator
        scores = sum(seated(coordinator).sizes)
        if scores < min_scores:
            raise InputError(f"{STAGE}: the sites have {scores} scores, at least {min_scores} are needed")
        entered = self._ask(self._to_all(roster), read_deposit)
        if len(entered) < len(self._joined):
            return self._left(entered)
        self._coordinator = middle.admit(self._coordinator, [answer.value for answer in entered])
        answered = self._ask(self._to_all(middle.ask(self._coordinator)), read_answer)
        if len(answered) < len(self._joined):
            return self._left(answered)
        self._answers = [answer.value for answer in answered]
        return None

    def finish(self) -> Calibration:
        """Play all rounds, and write the certificate."""
        present: Iterable[Answer[bytes]] = self._joined
        while True:
            self._coordinator, request = middle.collect(self._coordinator, self._answers)
            present = self._ask(self._to_some(self._coordinator.answers, request), read_reveal)
            self._coordinator, requests = middle.finish(self._coordinator, [answer.value for answer in present])
            if requests:
                contents = {self._nodes[name]: _content(message) for name, message in requests.items()}
                shares = self._ask(contents, read_shares)
                self._coordinator = middle.recover(self._coordinator, [answer.value for answer in shares])
            if self._coordinator.search.answer is not None:
                return self._certified(present)
            question = self._to_some(self._coordinator.present, middle.ask(self._coordinator))
            self._answers = [answer.value for answer in self._ask(question, read_answer)]

    def _join(self, question: RecordDict, nodes: set[int] | None) -> None:
        """Ask everybody to join, with the model; or these again, which have their scores already."""
        read = _Joins(self._coordinator, question.config_records[ASK]).read
        if nodes is None:
            content = RecordDict({**question, SUMS: ConfigRecord({"data": self._invitation})})
            self._joined = self._federation.ask(STAGE, content, TYPE, read)
        else:
            content = _content(self._invitation)
            self._joined = self._federation.ask_some(STAGE, dict.fromkeys(nodes, content), TYPE, read)
            self._left(self._joined)
        self._nodes = {answer.site.name: answer.node for answer in self._joined}

    def _ask(self, contents: Mapping[int, RecordDict], reader: Reader) -> list[Answer[bytes]]:
        def read(content: RecordDict) -> bytes:
            data = _read(content)
            found = reader(self._coordinator, data)
            _check_sender(content, seated(self._coordinator).names[found.site])
            return data

        return self._federation.ask_some(STAGE, contents, TYPE, read)

    def _to_all(self, message: bytes) -> dict[int, RecordDict]:
        return dict.fromkeys(self._nodes.values(), _content(message))

    def _to_some(self, sites: Iterable[int], message: bytes) -> dict[int, RecordDict]:
        names = seated(self._coordinator).names
        return dict.fromkeys((self._nodes[names[k]] for k in sites), _content(message))

    def _left(self, answers: list[Answer[bytes]]) -> set[int]:
        """Return whom to start again with; if they are too few, the run ends."""
        if len(answers) < self._federation.min_sites:
            lost = "; ".join(f"{one.site}: {one.reason}" for one in self._federation.left_out(answers)[-3:])
            raise InputError(
                f"{STAGE}: {len(answers)} sites are left, at least {self._federation.min_sites} are needed ({lost})"
            )
        return {answer.node for answer in answers}

    def _certified(self, present: Iterable[Answer[bytes]]) -> Calibration:
        """Name those who are not in the session, and say why others dropped out of it."""
        result = certified(self._coordinator)
        why = {one.site: one.reason for one in self._federation.left_out(present)}
        claim = dict(result.certificate.privacy or {})
        claim["dropped"] = [{**one, "reason": why.get(one["site"], "was lost")} for one in claim["dropped"]]
        left_out = self._federation.left_out(self._joined) or None
        changed = msgspec.structs.replace(result.certificate, privacy=claim, left_out=left_out)
        return replace(result, certificate=changed)


class _Joins:
    """Reads who joins, and refuses a site whose scores are not what was asked for."""

    def __init__(self, coordinator: Coordinator, asked: ConfigRecord) -> None:
        self._expected = Question.from_dict(asked).origin
        self._coordinator = coordinator
        self._keys: set[bytes] = set()

    def read(self, content: RecordDict) -> bytes:
        """Read one."""
        data = _read(content)
        found: Join = read_join(self._coordinator, data)
        _check_sender(content, found.site)
        difference = self._expected.difference(origin_of(found))
        if difference:
            raise InputError(f"has scores of something else: {difference}")
        keys = {found.signing, found.masking}
        if keys & self._keys:
            raise InputError("brings a key that another site has")
        self._keys |= keys
        return data


def _content(message: bytes) -> RecordDict:
    return RecordDict({ASK: ConfigRecord({"kind": SUMS}), SUMS: ConfigRecord({"data": message})})


def _read(content: RecordDict) -> bytes:
    """Read the message that a reply carries."""
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
