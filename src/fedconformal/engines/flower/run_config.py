"""The run config of an app with all stages, checked as a whole before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha
from fedconformal._base.spec import build, parse
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.release import check_one_end
from fedconformal.privacy.sums.radix import summable
from fedconformal.privacy.sums.scale import exponent_of
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Summary
from fedconformal.training.config import make
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.trainer import Trainer

STAGES = ("train", "linear", "temperature", "calibrate", "evaluate", "broadcast")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run, in Flower's spelling with hyphens; other keys are the app's own.

    The template's pyproject.toml explains each key. The settings of the method, such as rounds and rate, are keys too.
    """

    method: str = "fedavg"
    classes: int = 10
    alpha: float = 0.1
    score: str = DEFAULT.name
    guarantee: str = "mixture"
    kind: str = "ranks"
    privacy: Literal["none", "sums"] = "none"
    epsilon: float = 0.0
    reach: float = 0.0
    temperature: bool = True
    min_sites: int = 2
    min_scores: int = 1
    wait: float = 60.0
    timeout: float = 600.0
    output: str = "fedconformal-run"
    from_stage: Literal["train", "linear", "temperature", "calibrate", "evaluate", "broadcast"] = "train"
    saved_model: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> tuple[RunConfig, Trainer]:
        """Read the config of a run: its own settings and those of its method.

        >>> RunConfig.of({"method": "fedprox", "mu": 0.5, "rounds": 3, "min-sites": 4})[1].mu
        0.5
        """
        given = {key.replace("-", "_"): value for key, value in config.items()}
        found = make(cls, given)
        method = registry.find(found.method, Trainer)
        if method.name == "central":
            raise InputError("method is central, which needs all rows in one place; take fedavg, fedprox or tct")
        own = {one.name: given[one.name] for one in fields(method) if one.name in given}
        if isinstance(own.get("quantiles"), str):  # a run config has no lists
            try:
                own["quantiles"] = [float(part) for part in own["quantiles"].split(",")]
            except ValueError:
                raise InputError(f"quantiles is {own['quantiles']!r}, expected numbers such as 0.05,0.95") from None
        if found.numbers and issubclass(method, FedAvg):
            own = {"loss": "squared"} | own
        trainer = make(method, own | {"workers": 1, "device": "cpu"})
        found._check(trainer)
        return found, trainer

    @property
    def numbers(self) -> bool:
        """Whether numbers are predicted, not classes."""
        return isinstance(build(self.score, AnyScore), RegressionScore)

    def _check(self, trainer: Trainer) -> None:
        score, guarantee = build(self.score, AnyScore), build(self.guarantee, Guarantee)
        if self.from_stage != "train" and not self.saved_model:
            raise InputError(f"from-stage {self.from_stage} needs a model; name its file, an earlier run's model.npz")
        as_alpha(self.alpha)
        if self.numbers != trainer.numbers:
            wanted = "fedavg with the loss squared or pinball" if self.numbers else "a score of numbers, such as cqr"
            raise InputError(f"score {score.name} does not go with {trainer.name} and its loss; take {wanted}")
        parse(self.kind, Summary, maker="build")
        if self.privacy == "sums":
            summable(guarantee)
            check_one_end(score, "the run")
            if self.reach:
                exponent_of(self.reach)
        elif self.epsilon or self.reach:
            name, value = ("epsilon", self.epsilon) if self.epsilon else ("reach", self.reach)
            raise InputError(f"{name} is {value:g}, which goes with privacy sums; set both or neither")
