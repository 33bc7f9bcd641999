"""What is inside a message, and how an answer from outside is read: strictly, before anything is computed from it.

A reply holds `arrays` and `metrics` as Flower's own strategies have them, and `site`, which says whose it is.
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

from fedconformal._base.names import as_name, shown
from fedconformal.errors import InputError
from fedconformal.federated import calibration as exchange
from fedconformal.summaries.format import MAX_SIZE

ARRAYS, ASK, METRICS, SITE, SUMMARY, SUMS = "arrays", "ask", "metrics", "site", "summary", "sums"
LINEAR, RESIDUALS = "linear", "residuals"
EXAMPLES, FULL = "num-examples", "full"
METRIC_OF = {"loss": "train-loss", "eigenvalue": "eigenvalue"}
"""What the numbers of an update are called in a message."""
NUMBER_BYTES = 8
NUMBERS = (int, float)
C_ORDER = b"'fortran_order': False"


class Site(NamedTuple):
    """Whose answer it is: the number of its partition, by which answers are sorted, and its name."""

    partition: int
    name: str


def site_of(context: Context) -> Site:
    """Tell who this node is: `site` in its node config is its name, `partition-id` its number.

    >>> from flwr.app import RecordDict
    >>> site_of(Context(run_id=1, node_id=7, node_config={"partition-id": 2}, state=RecordDict(), run_config={}))
    Site(partition=2, name='site-2')
    """
    partition = context.node_config.get("partition-id", context.node_id)
    if not isinstance(partition, int):
        raise InputError(f"partition-id is {shown(partition)} in the node config, expected a whole number")
    return Site(partition, str(context.node_config.get("site", f"site-{partition}")))


def check_model(msg: Message, asked: str | None) -> None:
    """Refuse a model that does not have the fingerprint which it is asked about by."""
    if fingerprint(msg.content.array_records[ARRAYS]) != asked:
        raise InputError("the model in the message is not the one that is asked about")


def reply(msg: Message, context: Context, records: Mapping[str, Any]) -> Message:
    """Answer with these records, and say whose answer it is."""
    site = site_of(context)
    said = ConfigRecord({"partition-id": site.partition, "name": site.name})
    return Message(RecordDict({**records, SITE: said}), reply_to=msg)


def read_site(content: RecordDict, node: int) -> Site:
    """Read whose answer it is; an app that is not ours may not say so."""
    record = content.get(SITE)
    if record is None:
        return Site(node, f"node-{node}")
    values: Any = record.items() if isinstance(record, ConfigRecord) else ()
    said = dict(values)
    partition, name = said.get("partition-id"), said.get("name")
    if len(said) != len(Site._fields) or type(partition) is not int or not isinstance(name, str):
        raise InputError("does not say properly whose answer it is")
    return Site(partition, as_name(name, "the site's name"))


def check_keys(content: RecordDict, *wanted: str) -> None:
    """Refuse an answer that has other records than these; whose it is may be missing."""
    if content.keys() - {SITE} != set(wanted):
        raise InputError(f"holds the records {shown(sorted(content))}, expected {', '.join(sorted(wanted))}")


def is_float(array: Array) -> bool:
    """Whether an array is averaged: whole numbers, such as a count of batches, are not."""
    return np.issubdtype(np.dtype(array.dtype), np.floating)


def read_arrays(record: Any, like: Mapping[str, Array], what: str = "weights") -> dict[str, NDArray[Any]]:
    """Read arrays that have to have these names, shapes and types, and be finite.

    >>> sent = ArrayRecord({"w": Array(np.array([1.0, np.nan]))})
    >>> read_arrays(sent, ArrayRecord({"w": Array(np.zeros(2))}))
    Traceback (most recent call last):
    fedconformal.errors.InputError: weights: w holds a value that is not finite (NaN or inf)
    """
    if not isinstance(record, ArrayRecord) or set(record) != set(like):
        names = sorted(record) if isinstance(record, ArrayRecord) else type(record).__name__
        raise InputError(f"{what}: are {shown(names)}, expected {shown(sorted(like))}")
    found = {}
    for name, expected in like.items():
        array = _numbers(record[name], expected, f"{what}: {shown(name)}")
        if not np.isfinite(array).all():
            raise InputError(f"{what}: {name} holds a value that is not finite (NaN or inf)")
        found[name] = array
    return found


def _numbers(array: Array, like: Array, what: str) -> NDArray[Any]:
    """Read an array that has to have this shape and type; where it begins like the other, no header is parsed."""
    shape, dtype = tuple(like.shape), np.dtype(like.dtype)
    start = len(like.data) - math.prod(shape) * dtype.itemsize
    if len(array.data) == len(like.data) and array.data[:start] == like.data[:start] and C_ORDER in like.data[:start]:
        return np.frombuffer(array.data, dtype, offset=start).reshape(shape)
    said = _header(array, what)
    if said != (shape, dtype):
        raise InputError(f"{what} is {said[1]} {said[0]}, expected {dtype} {shape}")
    found: NDArray[Any] = array.numpy()
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
    """Read metrics that have to have these names and be finite numbers."""
    values: dict[str, Any] = dict(record.items()) if isinstance(record, MetricRecord) else {}
    if values.keys() != set(names):
        found = sorted(values) if isinstance(record, MetricRecord) else type(record).__name__
        raise InputError(f"metrics: are {shown(found)}, expected {', '.join(sorted(names))}")
    for name, value in values.items():
        if isinstance(value, list) or not math.isfinite(value):
            raise InputError(f"metrics: {name} is {shown(value)}, expected a finite number")
    return values


def read_examples(values: Mapping[str, float], most: int = MAX_SIZE, key: str = EXAMPLES) -> int:
    """Read how many rows an answer counts for.

    >>> read_examples({"num-examples": -1e9})
    Traceback (most recent call last):
    fedconformal.errors.InputError: num-examples is -1000000000.0, expected a whole number from 1 to 4294967296
    """
    count = values[key]
    if count != int(count) or not 1 <= count <= most:
        raise InputError(f"{key} is {count!r:.40}, expected a whole number from 1 to {most}")
    return int(count)


def read_update(
    content: RecordDict,
    like: Mapping[str, Array],
    metrics: Collection[str],
    *,
    what: str = "weights",
    most: int = MAX_SIZE,
) -> tuple[dict[str, NDArray[Any]], int, dict[str, float]]:
    """Read arrays like these, how many rows they count for, and these metrics."""
    check_keys(content, ARRAYS, METRICS)
    values = read_metrics(content[METRICS], {EXAMPLES, *metrics})
    return read_arrays(content[ARRAYS], like, what), read_examples(values, most), values


def fingerprint(arrays: ArrayRecord) -> str:
    """Return a SHA-256 of names, types, shapes and numbers: what says which model scores are from."""
    return exchange.fingerprint((name, array.dtype, tuple(array.shape), array.data) for name, array in arrays.items())


def size_of(content: RecordDict) -> int:
    """Count the bytes of a message: names, numbers of eight bytes, and whatever else is in it.

    >>> size_of(RecordDict({"metrics": MetricRecord({"loss": 0.5})}))
    19
    """
    total = 0
    for key, record in content.items():
        total += len(key)
        for name, value in record.items():
            total += len(name) + (NUMBER_BYTES if type(value) in NUMBERS else _size(value))
    return total


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    data = value.data if isinstance(value, Array) else value
    return len(data) if isinstance(data, (bytes, str)) else NUMBER_BYTES
