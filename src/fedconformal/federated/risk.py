"""The same exchange for a limit on losses: the coordinator names a loss and a grid, sites send sums of their losses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.groups import Groups
from fedconformal._base.spec import build
from fedconformal.errors import InputError
from fedconformal.federated.calibration import Question
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.losses.loss import as_grid
from fedconformal.summaries import LossSummary, Provenance, summarize_losses

MOST_POINTS = 2**16
"""Thresholds of a grid; more than any use has, and few enough for one message."""


@dataclass(frozen=True, kw_only=True)
class LossQuestion:
    """What every site is asked for: the sums of a loss over its rows, at each threshold of a grid.

    >>> from fedconformal import FalseNegativeRate
    >>> question = LossQuestion.about("m", FalseNegativeRate(), [0.0, 0.5, 1.0])
    >>> LossQuestion.from_dict(question.to_dict()) == question
    True
    >>> question.answer([[0.75, 0.25]], [[True, True]], site="clinic-a").mean_losses
    array([1. , 0.5, 0. ])
    """

    model: str
    loss: Loss
    thresholds: tuple[float, ...]
    guarantee: str | None = None

    @classmethod
    def about(
        cls,
        model: str,
        loss: Loss | str,
        thresholds: ArrayLike | None = None,
        guarantee: Guarantee | str | None = None,
    ) -> LossQuestion:
        """Ask for a loss on a grid, by default 0, 0.001, ..., 1."""
        grid = as_grid(thresholds)
        if len(grid) > MOST_POINTS:
            raise InputError(f"thresholds: has {len(grid)} points, at most {MOST_POINTS} fit into a question")
        name = None if guarantee is None else build(guarantee, Guarantee).name
        return cls(model=model, loss=build(loss, Loss), thresholds=tuple(grid.tolist()), guarantee=name)

    def to_dict(self) -> dict[str, Any]:
        """Describe in plain values, as every engine's messages can hold them."""
        named = {} if self.guarantee is None else {"guarantee": self.guarantee}
        described = json.dumps(self.loss.to_dict())
        return {**named, "model": self.model, "loss": described, "thresholds": list(self.thresholds)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LossQuestion:
        """Read what `to_dict` made."""
        loss = registry.build(json.loads(str(found["loss"])), Loss)
        asked = cls.about(str(found["model"]), loss, found["thresholds"])
        return cls(model=asked.model, loss=loss, thresholds=asked.thresholds, guarantee=found.get("guarantee"))

    @property
    def sent(self) -> str:
        """The kind of summary that is to be sent."""
        return LossSummary.name

    @property
    def origin(self) -> Provenance:
        """What the losses are to be made from."""
        return self._summary([[0.0] * len(self.thresholds)], site="any").origin

    def answer(self, scores: Any, truth: Any, *, site: str, groups: Groups | None = None) -> LossSummary:
        """Work out the losses of a site's rows, and add them up."""
        if groups is not None:
            raise InputError("groups: losses are added up over all rows; leave them out")
        return self._summary(self.loss.evaluate(scores, truth, thresholds=self.thresholds), site=site)

    def _summary(self, losses: ArrayLike, *, site: str) -> LossSummary:
        about: dict[str, Any] = {"thresholds": self.thresholds, "loss": self.loss, "rising": not self.loss.monotone}
        return summarize_losses(losses, site=site, model=self.model, **about)


AnyQuestion = Question | LossQuestion


def read_question(found: Mapping[str, Any]) -> AnyQuestion:
    """Read what either kind of question wrote."""
    return LossQuestion.from_dict(found) if "loss" in found else Question.from_dict(found)
