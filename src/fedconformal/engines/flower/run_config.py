"""What the config of a run says: read as a whole and checked before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha
from fedconformal._base.names import shown
from fedconformal._base.spec import build, parse
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.release import check_one_end
from fedconformal.privacy.sums.scale import exponent_of
from fedconformal.privacy.sums.wanted import summable
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Summary
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.tct import TCT
from fedconformal.training.trainer import Trainer

STAGES = ("train", "linear", "temperature", "calibrate", "evaluate", "broadcast")
PRIVACY = ("none", "sums")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run's config may hold, in Flower's spelling with hyphens; everything else is the app's own.

    Attributes:
        method: fedavg, fedprox or tct; its settings, such as rounds and rate, stand beside it. Where the score is of
            numbers, a regressor is trained: its loss and quantiles stand beside it too.
        classes: how many classes there are.
        score: a spec string, such as raps:penalty=0.1.
        guarantee: a spec string, such as pac:failure=0.05.
        privacy: none, or sums: the server sees only sums over the sites when it calibrates.
        epsilon: with sums, sites add noise for differential privacy; 0 for none.
        reach: with sums of scores of numbers, a public number that the threshold is not expected to exceed; 0 for 1.
        temperature: whether to fit one.
        min_sites: fewer sites that answer properly in a stage are an error.
        min_scores: with fewer scores in all there is no calibration.
        wait: seconds for the nodes to connect.
        timeout: seconds that sites have for an answer.
        output: the directory for what comes out, where the server app runs.
        from_stage: where to begin.
        saved_model: the weights to begin with.
    """

    method: str = "fedavg"
    classes: int = 10
    alpha: float = 0.1
    score: str = DEFAULT.name
    guarantee: str = "mixture"
    kind: str = "ranks"
    privacy: str = "none"
    epsilon: float = 0.0
    reach: float = 0.0
    temperature: bool = True
    min_sites: int = 2
    min_scores: int = 1
    wait: float = 60.0
    timeout: float = 600.0
    output: str = "fedconformal-run"
    from_stage: str = "train"
    saved_model: str = ""
    trainer: Trainer = field(default_factory=TCT)
    scored: AnyScore = DEFAULT
    promised: Guarantee = field(default_factory=Mixture)

    @property
    def numbers(self) -> bool:
        """Whether numbers are predicted, not classes."""
        return isinstance(self.scored, RegressionScore)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RunConfig:
        """Read the config of a run.

        >>> RunConfig.of({"method": "fedprox", "mu": 0.5, "rounds": 3, "min-sites": 4}).trainer
        FedProx(rounds=3, epochs=1, rate=0.01, momentum=0.9, batch=64, seed=0, weighting='examples', workers=1,
        device='cpu', loss=None, quantiles=(0.05, 0.95), mu=0.5)
        """
        given = {key.replace("-", "_"): value for key, value in config.items()}
        method = registry.find(str(given.get("method", cls.method)), Trainer)
        if method.name == "central":
            raise InputError("method is central, which needs all rows in one place; take fedavg, fedprox or tct")
        own = {one.name: given[one.name] for one in fields(method) if one.name in given}
        if isinstance(own.get("quantiles"), str):  # as a run config has no lists
            own["quantiles"] = _numbers(own["quantiles"], "quantiles")
        made = ("trainer", "scored", "promised")
        mine = {one.name: given[one.name] for one in fields(cls) if one.name in given and one.name not in made}
        for one in fields(cls):
            wanted = (int, float) if isinstance(one.default, float) else (type(one.default),)
            if one.name in mine and type(mine[one.name]) not in wanted:
                name = one.name.replace("_", "-")
                raise InputError(f"{name} is {shown(mine[one.name])}, expected something like {one.default!r}")
        try:
            scored = build(str(given.get("score", cls.score)), AnyScore)
            promised = build(str(given.get("guarantee", cls.guarantee)), Guarantee)
            if isinstance(scored, RegressionScore) and issubclass(method, FedAvg):
                own = {"loss": "squared"} | own
            trainer = method(**own | {"workers": 1, "device": "cpu"})
            found = cls(trainer=trainer, scored=scored, promised=promised, **mine)
            found.check()
        except TypeError as error:
            raise InputError(f"the run config cannot be read: {error}") from None
        return found

    def check(self) -> None:
        """Refuse what there is not, and a stage that has nothing to begin with, before anything is trained."""
        if self.from_stage not in STAGES:
            raise InputError(f"from-stage is {self.from_stage!r}; there are {', '.join(STAGES)}")
        if self.from_stage != "train" and not self.saved_model:
            raise InputError(f"from-stage {self.from_stage} needs a model; name its file, an earlier run's model.npz")
        as_alpha(self.alpha)
        if self.numbers != self.trainer.numbers:
            wanted = "fedavg with the loss squared or pinball" if self.numbers else "a score of numbers, such as cqr"
            raise InputError(
                f"score {self.scored.name} does not go with {self.trainer.name} and its loss; take {wanted}"
            )
        parse(self.kind, Summary, maker="of_scores")
        if self.privacy not in PRIVACY:
            raise InputError(f"privacy is {self.privacy!r}; on Flower there are {' and '.join(PRIVACY)}")
        if self.privacy == "sums":
            summable(self.promised)
            if self.promised.untrained:
                raise InputError(
                    f"{self.promised.name} promises nothing of a model that was trained on these sites, as here; "
                    "take another guarantee"
                )
            check_one_end(self.scored, "the run")
            if self.reach:
                exponent_of(self.reach)
        elif self.epsilon or self.reach:
            name, value = ("epsilon", self.epsilon) if self.epsilon else ("reach", self.reach)
            raise InputError(f"{name} is {value:g}, which goes with privacy sums; set both or neither")


def _numbers(text: str, name: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise InputError(f"{name} is {shown(repr(text))}, expected numbers such as 0.1,0.9", param=name) from None
