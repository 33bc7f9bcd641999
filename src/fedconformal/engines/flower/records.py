"""Records of a message, and strict validation of untrusted answers before any computation.

A question is in the record `ask`, with the model in `arrays`; its answer is in `answer`. Replies to training messages
hold `arrays` and `metrics` like those of Flower's own strategies. The record `site` identifies the sender.
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
"""Arrays in a site's state during TCT's second stage."""
EXAMPLES = "num-examples"
MAX_EXAMPLES = 10**8


class Site(NamedTuple):
    """The number of a site's partition, which orders answers, and its name."""

    partition: int
    name: str


def site_of(context: Context, msg: Message | None = None) -> Site:
    """Return the site of this node, named by `site` in its node config, its registered key or its number."""
    partition = context.node_config.get("partition-id", context.node_id)
    if not isinstance(partition, int):
        raise InputError(f"partition-id is {abbreviate(partition)} in the node config, expected a whole number")
    return Site(partition, _stated_name(context, msg) or f"site-{partition}")


def _stated_name(context: Context, msg: Message | None) -> str:
    """Return the name in the node config, or else the name that the server has registered for the node's key."""
    told: Any = msg.content.config_records.get(SITE, {}) if msg is not None else {}
    return str(context.node_config.get("site", told.get("name", "")))


def wrap(msg: Message, context: Context, records: RecordDict) -> Message:
    """Reply with these records and the site; the server replaces an empty name."""
    records[SITE] = ConfigRecord({"partition-id": site_of(context).partition, "name": _stated_name(context, msg)})
    return Message(records, reply_to=msg)


def reply(msg: Message, context: Context, answer: bytes) -> Message:
    """Reply to a question, after training."""
    forget_training(context)
    return wrap(msg, context, RecordDict({ANSWER: ConfigRecord({"data": answer})}))


def forget_training(context: Context) -> None:
    """Remove the stored arrays of TCT's second stage."""
    for name in (NETWORK, FEATURES):
        context.state.pop(name, None)


def content_of(question: ask.Question[Any], model: ArrayRecord | None = None) -> RecordDict:
    """Return the content of a question, with a model if given."""
    asked = RecordDict({ASK: ConfigRecord({"data": question.to_bytes()})})
    return asked if model is None else RecordDict({**asked, ARRAYS: model})


def question_in(msg: Message, kind: Any) -> Any:
    """Decode the question in a message."""
    return ask.decode(msg.content.config_records[ASK].get("data"), kind)


def read_answer(content: RecordDict) -> Any:
    """Return the data of an answer, which must hold nothing else."""
    check_keys(content, ANSWER)
    record = content[ANSWER]
    if not isinstance(record, ConfigRecord) or [*record] != ["data"]:
        raise InputError(f"the record {ANSWER} holds {abbreviate(sorted(record))}, expected data")
    return record["data"]


def read_site(content: RecordDict, known: str | None) -> Site | None:
    """Return the sender of an answer; `known` is the name of the node's key. Other apps may omit the record."""
    if SITE not in content:
        return None
    record: Any = content[SITE] if isinstance(content[SITE], ConfigRecord) else {}
    partition, name = record.get("partition-id"), record.get("name")
    if len(record) != len(Site._fields) or type(partition) is not int or not isinstance(name, str):
        raise InputError("does not identify its sender")
    return Site(partition, as_name(name or known or f"site-{partition}", "the site's name"))


def check_keys(content: RecordDict, *wanted: str) -> None:
    """Refuse an answer with other records than these; the record of the site may be missing."""
    if content.keys() - {SITE} != set(wanted):
        raise InputError(f"holds the records {abbreviate(sorted(content))}, expected {', '.join(sorted(wanted))}")


def is_float(array: Array) -> bool:
    """Return whether an array is averaged: integers, such as a count of batches, are not."""
    return np.issubdtype(np.dtype(array.dtype), np.floating)


def read_arrays(record: Any, like: Mapping[str, Array]) -> dict[str, NDArray[Any]]:
    """Read arrays, which must have these names, shapes and types and be finite."""
    if not isinstance(record, ArrayRecord) or set(record) != set(like):
        names = sorted(record) if isinstance(record, ArrayRecord) else type(record).__name__
        raise InputError(f"weights: are {abbreviate(names)}, expected {abbreviate(sorted(like))}")
    arrays = {}
    for name, expected in like.items():
        shape, dtype = tuple(expected.shape), np.dtype(expected.dtype)
        stated = _header(record[name], f"weights: {abbreviate(name)}")
        if stated != (shape, dtype):
            raise InputError(f"weights: {abbreviate(name)} is {stated[1]} {stated[0]}, expected {dtype} {shape}")
        arrays[name] = record[name].numpy()
        if not np.isfinite(arrays[name]).all():
            raise InputError(f"weights: {name} holds a value that is not finite (NaN or inf)")
    return arrays


def _header(array: Array, what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array, before memory is allocated."""
    try:
        stream = BytesIO(array.data)
        npy.read_magic(stream)  # a later version of the format has a longer header, which then cannot be read
        shape, _, dtype = npy.read_array_header_1_0(stream)
    except Exception:  # noqa: BLE001 (numpy parses the header as Python, with errors of all kinds)
        raise InputError(f"{what} cannot be read") from None
    if math.prod(shape) * dtype.itemsize != len(array.data) - stream.tell():
        raise InputError(f"{what} is shorter or longer than its header states")
    return tuple(shape), dtype


def read_metrics(record: Any, names: Collection[str]) -> dict[str, float]:
    """Read metrics, which must have these names and be finite numbers; the number of rows is an integer."""
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
    """Return the fingerprint of a model; non-finite weights are refused."""
    return ask.fingerprint({name: array.numpy() for name, array in arrays.items()})


def size_of(content: RecordDict) -> int:
    """Return the size of a message in bytes, with eight bytes per number."""
    return sum(
        len(key) + sum(len(name) + _size(value) for name, value in record.items()) for key, record in content.items()
    )


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    data = value.data if isinstance(value, Array) else value
    return len(data) if isinstance(data, (bytes, str)) else 8
