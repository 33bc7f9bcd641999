"""The sites of a run, as the server sees them: it asks, waits a limited time, and refuses a site, not the run.

Participants of each stage, refused sites with reasons, and bytes are recorded. Answers are in the order of the sites'
partition numbers, not of their arrival, so that sums are the same every time.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower.internals import EXPIRED, NODE_GONE
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    SITE,
    Site,
    fingerprint,
    is_float,
    read_answer,
    read_site,
    size_of,
)
from fedconformal.engines.flower.roster import GONE, Roster, Stage
from fedconformal.errors import InputError
from fedconformal.federated.ask import MALFORMED, Answer, Question, failure, refusal

logger = logging.getLogger(__name__)

T = TypeVar("T")

Check = Callable[[RecordDict, str], T]
"""Reads a reply of the site with this name."""

POLL_SECONDS = 0.5


class Federation:
    """The sites that a grid reaches.

    Parameters
    ----------
    grid
        Flower's.
    min_sites
        Fewer that answer properly in a stage are an error.
    timeout
        Seconds that sites have for an answer; their messages live as long.
    """

    def __init__(self, grid: Grid, *, min_sites: int = 2, timeout: float = 600.0) -> None:
        if min_sites < 1 or not timeout > 0:
            raise InputError(f"min_sites is {min_sites} and timeout {timeout:g}, expected at least 1 and more than 0")
        self.grid = grid
        self.min_sites = min_sites
        self.timeout = timeout
        self.stages: list[Stage] = []
        self._roster = Roster(grid)

    def wait(self, seconds: float) -> None:
        """Wait until as many nodes are connected as are needed, but no longer than this."""
        end = time.monotonic() + seconds
        while len(nodes := list(self.grid.get_node_ids())) < self.min_sites:
            if time.monotonic() >= end:
                raise InputError(
                    f"{len(nodes)} nodes are connected after {seconds:g} s, at least {self.min_sites} are needed; "
                    "start more, or lower min-sites"
                )
            time.sleep(POLL_SECONDS)

    def fingerprint(self, model: ArrayRecord) -> str:
        """Return the fingerprint of a model; refuse weights that are not finite, which no site could use."""
        for name, array in model.items():
            if is_float(array) and not np.isfinite(array.numpy()).all():
                raise InputError(f"model: {name} holds a value that is not finite (NaN or inf); look at the training")
        return fingerprint(model)

    def ask(self, question: Question[T], model: ArrayRecord | None = None) -> list[Answer[T]]:
        """Ask every node, and return the answers in the order of the sites."""
        content = _content(question, model)
        contents = dict.fromkeys(self.grid.get_node_ids(), content)
        return self._ask(question, contents, least=self.min_sites)

    def ask_each(self, questions: Mapping[int, Question[T]]) -> list[Answer[T]]:
        """Ask each of these nodes its own question; the answers may be none."""
        contents = {question: _content(question) for question in set(questions.values())}
        there = questions.keys() & self.grid.get_node_ids()
        asked, gone = {node: contents[questions[node]] for node in there}, sorted(questions.keys() - there)
        return self._ask(next(iter(questions.values())), asked, gone=gone) if questions else []

    def _ask(self, question: Question[T], contents: Mapping[int, RecordDict], **how: Any) -> list[Answer[T]]:
        def read(content: RecordDict, site: str) -> T:
            return question.read(read_answer(content), site=site)

        return self.exchange(question.stage, contents, f"query.{question.stage}", read, **how)

    def exchange(
        self, stage: str, contents: Mapping[int, RecordDict], message_type: str, check: Check[T], **how: Any
    ) -> list[Answer[T]]:
        """Send each of these nodes its content, and return what `check` reads from the replies."""
        messages = [
            Message(self._addressed(node, contents[node]), node, message_type, ttl=self.timeout)
            for node in sorted(contents)
        ]
        numbers = list(filter(None, self.grid.push_messages(messages)))
        return self.read_replies(stage, messages, self._replies(numbers), check, **how)

    def _addressed(self, node: int, content: RecordDict) -> RecordDict:
        """Tell a node the name under which its key is registered."""
        name = self._roster.registered(node)
        return content if name is None else RecordDict({**content, SITE: ConfigRecord({"name": name})})

    def _replies(self, numbers: list[str]) -> Iterator[Message]:
        """Yield the replies to messages with these numbers as they come."""
        end = time.monotonic() + self.timeout
        while numbers:
            replies = list(self.grid.pull_messages(numbers))
            yield from replies
            if len(replies) >= len(numbers) or time.monotonic() >= end:
                return
            there = {reply.metadata.reply_to_message_id for reply in replies}
            numbers = [number for number in numbers if number not in there]
            time.sleep(POLL_SECONDS)

    def read_replies(
        self,
        stage: str,
        messages: Sequence[Message],
        replies: Iterable[Message],
        check: Check[T],
        *,
        gone: Sequence[int] | None = None,
        least: int = 0,
    ) -> list[Answer[T]]:
        """Read the replies to these messages; one that cannot be read is refused, and the stage goes on.

        `gone` are the nodes that could not be asked, by default all that were there before; fewer good answers than
        `least` are an error.
        """
        record = self._stage(stage, messages)
        asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        unsent = {message.metadata.dst_node_id: message for message in messages if not message.metadata.message_id}
        waiting, twice = {*asked.values()} - unsent.keys(), list[int]()
        answers: dict[tuple[int, int], Answer[T]] = {}
        for reply in replies:
            # A node that is gone is reported by the link, so what was asked says who it is.
            node = asked.get(reply.metadata.reply_to_message_id)
            if node is None:
                self._refuse(record, reply.metadata.src_node_id, "answers what it was not asked")
            elif node not in waiting:
                twice.append(node)
            else:
                waiting.discard(node)
                try:
                    partition, answer = self._read(record, node, reply, check)
                    answers[partition, node] = answer
                except MALFORMED as error:
                    self._refuse(record, node, refusal(error))
        for node in sorted(waiting):
            self._refuse(record, node, self._late)
        for node, message in unsent.items():
            size = size_of(message.content)
            self._refuse(record, node, f"the message of {size} bytes could not be sent; see the log of the SuperLink")
        for node in self._roster.gone if gone is None else gone:
            self._refuse(record, node, GONE)
        kept = self._each_once(record, [answers[place] for place in sorted(answers)])
        for answer in kept:
            record.took_part[answer.name] = record.took_part.get(answer.name, 0) + 1
        for node in twice:
            self._refuse(record, node, "answered twice; its first answer counts")
        _check_enough(record, kept, least)
        return kept

    def refuse(self, answers: Sequence[Answer[T]], reasons: Sequence[str | None]) -> list[Answer[T]]:
        """Refuse those of the last answers that there is a reason against, and return the others."""
        stage, kept = self.stages[-1], []
        for answer, reason in zip(answers, reasons, strict=True):
            if reason is None:
                kept.append(answer)
            else:
                del stage.took_part[answer.name]
                self._refuse(stage, answer.node, reason)
        _check_enough(stage, kept, self.min_sites)
        return kept

    def left_out(self, covered: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Name the nodes that are known of and not among these, with the reason."""
        return self._roster.left_out(answer.node for answer in covered)

    def to_list(self) -> list[dict[str, Any]]:
        """Describe the stages for JSON."""
        return [stage.to_dict() for stage in self.stages]

    @property
    def _late(self) -> str:
        return f"timeout: gave no answer within {self.timeout:g} s"

    def _read(self, stage: Stage, node: int, reply: Message, check: Check[T]) -> tuple[int, Answer[T]]:
        if reply.has_error():
            known = {NODE_GONE: GONE} | dict.fromkeys(EXPIRED, self._late)
            raise InputError(known.get(reply.error.code) or f"failed: {failure(reply.error.reason)}")
        content = reply.content
        stage.received += size_of(content)
        site = read_site(content, self._roster.registered(node))
        if site is None:
            site = Site(node, self._roster.name(node))
        else:
            self._roster.check(node, site.name)
        return site.partition, Answer(site.name, check(content, site.name), node)

    def _each_once(self, stage: Stage, answers: list[Answer[T]]) -> list[Answer[T]]:
        kept: dict[str, Answer[T]] = {}
        for answer in answers:
            if name_key(answer.name) in kept:
                self._refuse(stage, answer.node, f"{answer.name} has answered from another node")
            else:
                kept[name_key(answer.name)] = answer
                self._roster.keep(answer.node, answer.name)
        return list(kept.values())

    def _stage(self, name: str, messages: Sequence[Message]) -> Stage:
        if not self.stages or self.stages[-1].name != name:
            self.stages.append(Stage(name=name))
        stage = self.stages[-1]
        stage.exchanges += 1
        stage.messages += len(messages)
        contents = Counter(id(message.content) for message in messages)  # mostly one content for all
        distinct = {id(message.content): message.content for message in messages}
        stage.sent += sum(count * size_of(distinct[key]) for key, count in contents.items())
        return stage

    def _refuse(self, stage: Stage, node: int, reason: str) -> None:
        self._roster.refuse(node, reason)
        entry = (self._roster.name(node), reason)
        if entry not in stage.refused:
            stage.refused[entry] = None
            logger.warning("%s: %s %s", stage.name, *entry)


def _content(question: Question[Any], model: ArrayRecord | None = None) -> RecordDict:
    asked = RecordDict({ASK: ConfigRecord(question.to_dict())})
    return asked if model is None else RecordDict({**asked, ARRAYS: model})


def _check_enough(stage: Stage, answers: Sequence[Answer[Any]], least: int) -> None:
    if len(answers) < least:
        refused = [f"{site}: {reason}" for site, reason in stage.refused]
        whys = "; ".join(refused[:5]) or "none"
        raise InputError(f"{stage.name}: {len(answers)} sites answered properly, at least {least} are needed ({whys})")
