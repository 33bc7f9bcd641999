"""The messages of a watch over Flower: one more query, which a site answers from its own file or watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedconformal.calibration.document import Document
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import ASK, SITE, check_keys, reply, site_of
from fedconformal.engines.flower.sums_site import site_policy
from fedconformal.errors import InputError
from fedconformal.federated.watching import Source, Watched, WatchQuestion
from fedconformal.monitoring.messages import Period

STAGE = "watch"
WATCH = "watch"


def watch_reply(msg: Message, context: Context, source: Source | None = None) -> Message:
    """Answer `query.watch`: send the counts of the site's watch, nothing about a row.

    Args:
        msg: the server's; it says which predictor.
        context: says who this site is.
        source: a .fcw file, or a function that returns the messages sent so far, such as `Watch.sent`; by default the
            file that `watch` in the node config names.
    """
    named: Any = context.node_config.get(WATCH) if source is None else source
    if named is None:
        raise InputError("this site names no watch: pass a source, or give it watch='FILE.fcw' in the node config")
    asked = WatchQuestion.from_dict(dict(msg.content.config_records[ASK]))
    answer = asked.answer(named, site=site_of(context).name, policy=site_policy(context))
    return reply(msg, context, {WATCH: ConfigRecord(answer)})


def watch(
    federation: Federation,
    predictor: Document | str,
    *,
    earlier: Sequence[Period] = (),
) -> Watched:
    """Ask every site what its watch counted; one that cannot be used is refused, and named on the page.

    Args:
        federation: whom to ask.
        predictor: what is watched, or its SHA-256.
        earlier: messages that came before, which new ones must not contradict.
    """
    question = WatchQuestion.about(predictor)

    def read(content: RecordDict) -> list[Period]:
        check_keys(content, WATCH)
        record = content[WATCH]
        said = dict(record.items()) if isinstance(record, ConfigRecord) else {}
        site: Any = content[SITE]["name"] if SITE in content else ""
        return question.read(said, site=site, earlier=earlier)

    content = RecordDict({ASK: ConfigRecord(question.to_dict())})
    answers = federation.ask(STAGE, content, f"query.{WATCH}", read)
    return Watched.of([answer.value for answer in answers], federation.left_out(answers), earlier)
