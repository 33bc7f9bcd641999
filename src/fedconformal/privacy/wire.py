"""How a message says what a site's scores were made from: the score, the model and the temperature, in three fields."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fedconformal.summaries import Origin
from fedconformal.summaries.summary import described_score, score_from
from fedconformal.summaries.wire import Name, Parameter

ScoreField = tuple[Name, Annotated[tuple[Parameter, ...], msgspec.Meta(max_length=16)]]
"""The name of a score, and its parameters in order."""


def origin_fields(origin: Origin | None) -> dict[str, Any]:
    """Return the three fields.

    >>> origin_fields(Origin(model="m"))
    {'score': None, 'model': 'm', 'temperature': None}
    """
    made = origin or Origin()
    score = None if made.score is None else described_score(made.score)
    return {"score": score, "model": made.model, "temperature": made.temperature}


def origin_of(message: Any) -> Origin:
    """Read the three fields of a message, which may be hostile."""
    score = None if message.score is None else score_from(*message.score)
    return Origin(score=score, model=message.model, temperature=message.temperature)
