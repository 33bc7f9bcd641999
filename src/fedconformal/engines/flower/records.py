"""Records of a message, and strict reading of an answer from outside before anything is computed from it.

A question is in the record `ask`, with the model in `arrays`; its answer is in `answer`. Replies to training messages
hold `arrays` and `metrics` as Flower's own strategies have them. The record `site` says whose reply it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedconformal._base.names import abbreviate, as_name
from fedconformal.errors import InputError
from fedconformal.federated import ask

ANSWER, ARRAYS, ASK, METRICS, SITE = "answer", "arrays", "ask", "metrics", "site"
NETWORK, FEATURES = "fedconformal.network", "fedconformal.features"
"""Arrays that a site keeps in its state during TCT's second stage."""
EXAMPLES = "num-examples"
MAX_EXAMPLES = 10**8
"""No site trains on more rows than this."""


class Site(NamedTuple):
    """The number of a site's partition, by which answers are sorted, and its name."""

    partition: int
    name: str


def site_of(context: Context, msg: Message | None = None) -> Site:
    """Return the site of this node: `site` in its node config, or the name of its registered key, or its number."""
    partition = context.node_config.get("partition-id", context.node_id)
    if not isinstance(partition, int):
        raise InputError(f"partition-id is {abbreviate(partition)} in the node config, expected a whole number")
    return Site(partition, _stated_name(context, msg) or f"site-{partition}")


def _stated_name(context: Context, msg: Message | None) -> str:
    """Return the name in the node config, or else the one that the server knows from the node's key."""
    told: Any = msg.content.config_records.get(SITE, {}) if msg is not None else {}
    return str(context.node_config.get("site", told.get("name", "")))


def wrap(msg: Message, context: Context, records: RecordDict) -> Message:
    """Reply with these records, and state the site; an empty name leaves it to the server."""
    records[SITE] = ConfigRecord({"partition-id": site_of(context).partition, "name": _stated_name(context, msg)})
    return Message(records, reply_to=msg)


def reply(msg: Message, context: Context, answer: bytes) -> Message:
    """Reply to a question; training is over."""
    forget_training(context)
    return wrap(msg, context, RecordDict({ANSWER: ConfigRecord({"data": answer})}))


def forget_training(context: Context) -> None:
    """Remove all that a site keeps for TCT's second stage."""
    for name in (NETWORK, FEATURES):
        context.state.pop(name, None)


def content_of(question: ask.Question[Any], model: ArrayRecord | None = None) -> RecordDict:
    """Return the content of a message that asks, with a model if there is one."""
    asked = RecordDict({ASK: ConfigRecord({"data": question.to_bytes()})})
    return asked if model is None else RecordDict({**asked, ARRAYS: model})


def question_in(msg: Message, kind: Any) -> Any:
    """Read the question of a message."""
    return ask.decode(msg.content.config_records[ASK].get("data"), kind)


def read_answer(content: RecordDict) -> Any:
    """Return the data of an answer, which is nothing else."""
    check_keys(content, ANSWER)
    record = content[ANSWER]
    if not isinstance(record, ConfigRecord) or [*record] != ["data"]:
        raise InputError(f"the record {ANSWER} holds {abbreviate(sorted(record))}, expected data")
    return record["data"]


def read_site(content: RecordDict, known: str | None) -> Site | None:
    """Read whose answer it is; `known` is the name of the node's key. An app of another kind may not say so."""
    if SITE not in content:
        return None
    record: Any = content[SITE] if isinstance(content[SITE], ConfigRecord) else {}
    partition, name = record.get("partition-id"), record.get("name")
    if len(record) != len(Site._fields) or type(partition) is not int or not isinstance(name, str):
        raise InputError("does not say properly whose answer it is")
    return Site(partition, as_name(name or known or f"site-{partition}", "the site's name"))


def check_keys(content: RecordDict, *wanted: str) -> None:
    """Refuse an answer that has other records than these; whose it is may be missing."""
    if content.keys() - {SITE} != set(wanted):
        raise InputError(f"holds the records {abbreviate(sorted(content))}, expected {', '.join(sorted(wanted))}")


def is_float(array: Array) -> bool:
    """Whether an array is averaged: whole numbers, such as a count of batches, are not."""
    return np.issubdtype(np.dtype(array.dtype), np.floating)


def read_arrays(record: Any, like: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """Read arrays that have to have these names, shapes and types, and be finite."""
    if not isinstance(record, ArrayRecord) or set(record) != set(like):
        names = sorted(record) if isinstance(record, ArrayRecord) else type(record).__name__
        raise InputError(f"weights: are {abbreviate(names)}, expected {abbreviate(sorted(like))}")
    found = {}
    for name, expected in like.items():
        shape, dtype = tuple(expected.shape), np.dtype(expected.dtype)
        stated = _header(record[name], f"weights: {abbreviate(name)}")
        if stated != (shape, dtype):
            raise InputError(f"weights: {abbreviate(name)} is {stated[1]} {stated[0]}, expected {dtype} {shape}")
        found[name] = record[name].numpy()
        if not np.isfinite(found[name]).all():
            raise InputError(f"weights: {name} holds a value that is not finite (NaN or inf)")
    return found


def _header(array: Array, what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read what an array says it is, before memory is taken for it."""
    try:
        stream = BytesIO(array.data)
        npy.read_magic(stream)  # a later version of the format has a longer header, which then cannot be read
        shape, _, dtype = npy.read_array_header_1_0(stream)
    except Exception:  # noqa: BLE001 (numpy reads it as Python, whose parser has errors of all kinds)
        raise InputError(f"{what} cannot be read") from None
    if math.prod(shape) * dtype.itemsize != len(array.data) - stream.tell():
        raise InputError(f"{what} is shorter or longer than it says")
    return tuple(shape), dtype


def read_metrics(record: Any, names: Collection[str]) -> dict[str, float]:
    """Read metrics that have to have these names and be finite numbers; rows are a whole number."""
    if not isinstance(record, MetricRecord) or record.keys() != {EXAMPLES, *names}:
        found = sorted(record) if isinstance(record, MetricRecord) else type(record).__name__
        raise InputError(f"metrics: are {abbreviate(found)}, expected {', '.join(sorted({EXAMPLES, *names}))}")
    values = {}
    for name, value in record.items():
        if isinstance(value, list) or not math.isfinite(value):
            raise InputError(f"metrics: {name} is {abbreviate(value)}, expected a finite number")
        values[name] = value
    if values[EXAMPLES] != int(values[EXAMPLES]) or not 1 <= values[EXAMPLES] <= MAX_EXAMPLES:
        raise InputError(f"{EXAMPLES} is {values[EXAMPLES]!r:.40}, expected a whole number from 1 to {MAX_EXAMPLES}")
    return values


def fingerprint(arrays: ArrayRecord) -> str:
    """Return the fingerprint of a model; refuse weights that are not finite."""
    return ask.fingerprint({name: array.numpy() for name, array in arrays.items()})


def size_of(content: RecordDict) -> int:
    """Count the bytes of a message: names, numbers of eight bytes, and whatever else is in it."""
    return sum(
        len(key) + sum(len(name) + _size(one) for name, one in record.items()) for key, record in content.items()
    )


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    data = value.data if isinstance(value, Array) else value
    return len(data) if isinstance(data, (bytes, str)) else 8
