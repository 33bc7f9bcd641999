"""What a client gets back: the set and the p-values of each row, and the sentence of the certificate."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal.serving.bodies import ARROW, JSON

_JSON = msgspec.json.Encoder()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Sets and p-values of rows, (n, J); `classes` are the names of the columns, or their numbers.

    `scores` are for a store, and are not sent back.
    """

    ids: Sequence[str]
    classes: Sequence[str] | Sequence[int]
    sets: Booleans
    p_values: Floats
    scores: Floats
    about: dict[str, Any]

    def encoded(self, content: str) -> bytes:
        """Write as JSON, or as an Arrow stream."""
        return self._arrow() if content == ARROW else self._json()

    def labels(self) -> list[list[str | int]]:
        """Return the sets by the names of their labels."""
        classes: Sequence[Any] = self.classes
        return [[classes[label] for label in np.flatnonzero(row).tolist()] for row in self.sets]

    def _json(self) -> bytes:
        rows = {"classes": self.classes, "ids": self.ids, "sets": self.labels(), "p_values": self.p_values.tolist()}
        return _JSON.encode({**self.about, **rows})

    def _arrow(self) -> bytes:
        import pyarrow as pa

        width = self.sets.shape[1]
        columns = {
            "id": pa.array(self.ids, pa.string()),
            "set": pa.FixedSizeListArray.from_arrays(pa.array(self.sets.ravel()), width),
            "p_values": pa.FixedSizeListArray.from_arrays(pa.array(self.p_values.ravel()), width),
        }
        about = {key: json.dumps(value) for key, value in {**self.about, "classes": list(self.classes)}.items()}
        table = pa.table(columns).replace_schema_metadata(about)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found: bytes = sink.getvalue().to_pybytes()
        return found


def wanted(accept: str, sent: str) -> str:
    """Return the kind of answer that a client asks for; by default that of its body.

    >>> wanted("application/json", ARROW), wanted("*/*", ARROW) == ARROW
    ('application/json', True)
    """
    return next((kind for kind in (JSON, ARROW) if kind in accept), sent)


def new_ids(count: int) -> list[str]:
    """Make ids for rows that came without: 96 random bits each."""
    drawn = secrets.token_hex(12 * count)
    return [drawn[start : start + 24] for start in range(0, 24 * count, 24)]
