"""The sites of a run at the server: questions with a timeout, and refusals of single sites instead of the run.

Participants of each stage, refused sites with reasons, and bytes are recorded. Answers are in the order of the sites'
partition numbers, not of their arrival, so that sums are reproducible. A name belongs to the first node that answered
under it, for the whole run. It is bound to a node's key if the operator registers the key with it:
`flwr supernode register node-0.pub LINK --name clinic-a`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower.records import SITE, Site, content_of, fingerprint, read_answer, read_site, size_of
from fedconformal.errors import InputError
from fedconformal.federated import ask
from fedconformal.federated.ask import MALFORMED, Answer, Question, check_enough, failure, refusal

logger = logging.getLogger(__name__)

T = TypeVar("T")
Contents = RecordDict | Mapping[int, RecordDict]
"""One content for all nodes, or one per node."""

POLL_SECONDS = 0.5
EXPIRED, NODE_GONE = (3, 4), 5
"""Flower's error codes for an expired message or reply, and for a missing node."""
GONE = "is not connected any more"
UNSENT = "the message could not be sent; see the log of the SuperLink"


@dataclass(kw_only=True)
class Stage:
    """Record of a stage: participants, refusals with reasons, and bytes sent."""

    name: str
    exchanges: int = 0
    took_part: dict[str, int] = field(default_factory=dict)
    refused: dict[tuple[str, str], None] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    messages: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON."""
        return {
            "stage": self.name,
            "exchanges": self.exchanges,
            "took_part": self.took_part,
            "refused": [{"site": site, "reason": reason} for site, reason in self.refused],
            "bytes": {
                "sent": self.sent,
                "received": self.received,
                "per_site_sent": round(self.sent / max(1, self.messages) * self.exchanges),
                "per_site_received": round(self.received / max(1, self.messages) * self.exchanges),
            },
        }


class Roster:
    """The nodes that a grid has listed so far, with their site names."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.why: dict[int, str] = {}
        """Reason why a node is left out of the result."""
        self._names: dict[int, str] = {}
        self._owners: dict[str, int] = {}
        self._registered: set[int] = set()

    def see(self, grid: Grid) -> set[int]:
        """Return the connected nodes, and record the registered names of new ones."""
        connected = {*grid.get_node_ids()}
        new = connected - self.seen
        self.seen |= new
        for node in new:  # a node without a stated name is named by its number
            self._owners.setdefault(name_key(self.name(node)), node)
        for info in grid.get_nodes() if new else ():
            if info.node_id in new and info.name:
                self.keep(int(info.node_id), str(info.name))
                self._registered.add(int(info.node_id))
        return connected

    def name(self, node: int) -> str:
        """Return the site's name, or the node's number if unknown so far."""
        return self._names.get(node) or f"node-{node}"

    def registered(self, node: int) -> str | None:
        """Return the name under which the operator has registered the node's key."""
        return self._names[node] if node in self._registered else None

    def check(self, node: int, name: str) -> None:
        """Refuse a name of another node, or a change of name."""
        own = self._names.get(node, name)
        if own != name and node in self._registered:
            raise InputError(f"states the name {name}, and its key is registered as {own}; give it site={own!r}")
        if own != name:
            raise InputError(f"states the name {name}, and stated {own} before")
        if self._owners.get(name_key(name), node) != node:
            raise InputError(f"states the name {name}, which another node has")

    def keep(self, node: int, name: str) -> None:
        """Record the name of a node, unless it is its number."""
        if name != self.name(node):
            self._names[node] = name
            self._owners.setdefault(name_key(name), node)

    def left_out(self, inside: Iterable[int]) -> list[LeftOut]:
        """Return the known nodes that are not among these, with the reason."""
        outside = sorted((self.name(node), node) for node in self.seen.difference(inside))
        return [LeftOut(site=name, reason=self.why.get(node, "was not asked")) for name, node in outside]


class Federation:
    """The sites that a grid reaches.

    Parameters
    ----------
    grid
        Flower's grid.
    min_sites
        Minimum number of sites with valid answers in a stage.
    timeout
        Timeout of an answer in seconds, also the lifetime of messages.
    """

    fingerprint = staticmethod(fingerprint)

    def __init__(self, grid: Grid, *, min_sites: int = 2, timeout: float = 600.0) -> None:
        if min_sites < 1 or not timeout > 0:
            raise InputError(f"min_sites is {min_sites} and timeout {timeout:g}, expected at least 1 and more than 0")
        self.grid = grid
        self.min_sites = min_sites
        self.timeout = timeout
        self.stages: list[Stage] = []
        self._late = f"timeout: gave no answer within {timeout:g} s"
        self._roster = Roster()
        self._roster.see(grid)

    def wait(self, seconds: float) -> None:
        """Wait until enough nodes are connected, but no longer than `seconds`."""
        end = time.monotonic() + seconds
        while len(nodes := self._roster.see(self.grid)) < self.min_sites:
            if time.monotonic() >= end:
                raise InputError(
                    f"{len(nodes)} nodes are connected after {seconds:g} s, at least {self.min_sites} are needed; "
                    "start more, or lower min-sites"
                )
            time.sleep(POLL_SECONDS)

    def ask(self, question: Question[T], model: ArrayRecord | None = None) -> list[Answer[T]]:
        """Ask every node, and return the answers in the order of the sites."""
        return self._ask(question, content_of(question, model), least=self.min_sites)

    def ask_each(self, questions: Mapping[int, Question[T]]) -> list[Answer[T]]:
        """Ask each of these nodes its own question; there may be no answers."""
        contents = {node: content_of(question) for node, question in questions.items()}
        return self._ask(next(iter(questions.values())), contents) if questions else []

    def _ask(self, question: Question[T], content: Contents, **how: Any) -> list[Answer[T]]:
        def read(reply: RecordDict, site: str) -> T:
            return ask.read_answer(question, read_answer(reply), site)

        return self.exchange(question.stage, content, f"query.{question.stage}", read, **how)

    def exchange(
        self,
        stage: str,
        content: Contents,
        message_type: str,
        read: Callable[[RecordDict, str], T],
        *,
        least: int = 0,
    ) -> list[Answer[T]]:
        """Send the content to every node, or each its own, and `read` replies; fewer than `least` are an error."""
        record, connected = self._stage(stage), self._roster.see(self.grid)
        contents = dict.fromkeys(self._roster.seen, content) if isinstance(content, RecordDict) else content
        messages = [
            Message(self._addressed(node, contents[node]), node, message_type, ttl=self.timeout)
            for node in sorted(contents.keys() & connected)
        ]
        record.messages += len(messages)
        record.sent += sum(size_of(message.content) for message in messages)
        numbers = zip(self.grid.push_messages(messages), messages, strict=False)  # no numbers if they are too large
        asked = {number: message.metadata.dst_node_id for number, message in numbers if number}
        missing = dict.fromkeys(contents, UNSENT) | dict.fromkeys(asked.values(), self._late)
        missing |= dict.fromkeys(contents.keys() - connected, GONE)
        answers: dict[tuple[int, int], Answer[T]] = {}
        for reply in self._replies(list(asked)):
            # The link reports lost nodes, so the question identifies the node, not the reply.
            node = asked.get(reply.metadata.reply_to_message_id)
            if node is not None and missing.pop(node, ""):  # the first answer counts
                try:
                    site = self._site_of(record, node, reply)
                    answers[site.partition, node] = Answer(site.name, read(reply.content, site.name), node)
                except MALFORMED as error:
                    self._refuse(record, node, refusal(error))
        for node in sorted(missing):
            self._refuse(record, node, missing[node])
        valid = self._each_once(record, [answers[place] for place in sorted(answers)])
        check_enough(stage, len(valid), least, record.refused)
        return valid

    def refuse(self, answers: Sequence[Answer[T]], reasons: Sequence[str | None]) -> list[Answer[T]]:
        """Refuse those of the last answers with a reason, and return the others."""
        stage, valid = self.stages[-1], []
        for answer, reason in zip(answers, reasons, strict=True):
            if reason is None:
                valid.append(answer)
            else:
                del stage.took_part[answer.name]
                self._refuse(stage, answer.node, reason)
        check_enough(stage.name, len(valid), self.min_sites, stage.refused)
        return valid

    def left_out(self, covered: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Return the known nodes that are not among these, with the reason."""
        return self._roster.left_out(answer.node for answer in covered)

    def _addressed(self, node: int, content: RecordDict) -> RecordDict:
        """Return the content for a node, with the registered name of its key if any."""
        name = self._roster.registered(node)
        return content if name is None else RecordDict({**content, SITE: ConfigRecord({"name": name})})

    def _replies(self, numbers: list[str]) -> Iterator[Message]:
        """Yield the replies to messages with these numbers in order of arrival."""
        end = time.monotonic() + self.timeout
        while numbers:
            replies = list(self.grid.pull_messages(numbers))
            yield from replies
            if len(replies) >= len(numbers) or time.monotonic() >= end:
                return
            arrived = {reply.metadata.reply_to_message_id for reply in replies}
            numbers = [number for number in numbers if number not in arrived]
            time.sleep(POLL_SECONDS)

    def _site_of(self, stage: Stage, node: int, reply: Message) -> Site:
        """Return the site of a reply; errors and names of other sites are refused."""
        if reply.has_error():
            known = {NODE_GONE: GONE} | dict.fromkeys(EXPIRED, self._late)
            raise InputError(known.get(reply.error.code) or f"failed: {failure(reply.error.reason)}")
        stage.received += size_of(reply.content)
        site = read_site(reply.content, self._roster.registered(node))
        if site is None:
            return Site(node, self._roster.name(node))
        self._roster.check(node, site.name)
        return site

    def _each_once(self, stage: Stage, answers: list[Answer[T]]) -> list[Answer[T]]:
        by_name: dict[str, Answer[T]] = {}
        for answer in answers:
            if name_key(answer.name) in by_name:
                self._refuse(stage, answer.node, f"{answer.name} has answered from another node")
            else:
                by_name[name_key(answer.name)] = answer
                self._roster.keep(answer.node, answer.name)
                stage.took_part[answer.name] = stage.took_part.get(answer.name, 0) + 1
        return list(by_name.values())

    def _stage(self, name: str) -> Stage:
        if not self.stages or self.stages[-1].name != name:
            self.stages.append(Stage(name=name))
        self.stages[-1].exchanges += 1
        return self.stages[-1]

    def _refuse(self, stage: Stage, node: int, reason: str) -> None:
        self._roster.why[node] = reason
        entry = (self._roster.name(node), reason)
        if entry not in stage.refused:
            stage.refused[entry] = None
            logger.warning("%s: %s %s", stage.name, *entry)
