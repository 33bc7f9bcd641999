"""Stages of a run at the server: wait, train, temperature, calibrate, evaluate, broadcast.

After each stage and each round of training, the output directory holds all files needed to continue, so that an aborted
run continues from any stage with the saved model:

    model.npz        weights, and the temperature once fitted
    sites/*.fcs      the summaries, for `fedconformal verify`; none from sums
    predictor.json   score, certificate, promise curve
    result.json      threshold, certificate, coverage by site, participants, bytes
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import Grid
from torch import nn

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_temperature
from fedconformal._base.files import read_npz, write_bytes
from fedconformal._base.registry import build, parse
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.text import explain_uninformative
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import fingerprint
from fedconformal.engines.flower.rounds import ask_rounds, fit_linear, weights_in, with_weights
from fedconformal.engines.flower.training import arrays_of, load_model
from fedconformal.errors import InputError
from fedconformal.federated.calibration import calibrate, fit_temperature
from fedconformal.federated.evaluation import Counts, PredictorQuestion, evaluate
from fedconformal.federated.sums import calibrate_by_sums
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.sums.radix import check_summable
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Summary
from fedconformal.training.config import make
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.outputs import npz
from fedconformal.training.step import RoundState
from fedconformal.training.tct import TCT
from fedconformal.training.trainer import Trainer

logger = logging.getLogger(__name__)
flower_logger = logging.getLogger("flwr")
"""Logger of the output of `flwr run --stream`."""

TEMPERATURE = "fedconformal.temperature"
METHODS = ("fedavg", "fedprox", "tct")
STAGES = ("train", "temperature", "calibrate", "evaluate", "broadcast")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of a run, with hyphens in Flower's config, where those of the method and of the app are keys too."""

    method: str = "fedavg"
    alpha: float = 0.1
    score: str = DEFAULT.name
    guarantee: str = "mixture"
    kind: str = "ranks"
    privacy: Literal["none", "sums"] = "none"
    epsilon: float = 0.0
    temperature: bool = True
    min_sites: int = 2
    min_scores: int = 1
    wait: float = 60.0
    timeout: float = 600.0
    output: str = "fedconformal-run"
    from_stage: Literal["train", "temperature", "calibrate"] = "train"
    saved_model: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> tuple[RunConfig, FedAvg | TCT]:
        """Return the settings of a run and its trainer, validated before training.

        >>> RunConfig.of({"method": "fedprox", "mu": 0.5, "rounds": 3, "min-sites": 4})[1].mu
        0.5
        """
        values = {key.replace("-", "_"): value for key, value in config.items()}
        found = make(cls, values)
        method: Any = registry.find(found.method, Trainer)
        if method.name not in METHODS:
            raise InputError(f"method is {method.name}; on Flower there are fedavg, fedprox and tct", param="method")
        own = {field.name: values[field.name] for field in fields(method) if field.name in values}
        trainer: FedAvg | TCT = make(method, own | {"workers": 1, "device": "cpu"})
        score, guarantee = build(found.score, AnyScore), build(found.guarantee, Guarantee)
        if isinstance(score, RegressionScore):
            raise InputError(f"score {score.name} is for numbers, and a run trains a classifier", param="score")
        if found.from_stage != "train" and not found.saved_model:
            raise InputError(f"from-stage {found.from_stage} needs a model; name its file, an earlier run's model.npz")
        as_alpha(found.alpha)
        parse(found.kind, Summary, maker="build")
        if found.privacy == "sums":
            check_summable(guarantee)
        elif found.epsilon:
            raise InputError(f"epsilon is {found.epsilon:g}, which goes with privacy sums; set both or neither")
        return found, trainer


def run_stages(grid: Grid, config: Mapping[str, Any], model: nn.Module, classes: Sequence[str] = ()) -> None:
    """Run all stages, or those from `from-stage` on, and write the results to the output directory.

    Parameters
    ----------
    grid
        Flower's grid.
    config
        The run config.
    model
        A network with logits as outputs and the initial weights.
    classes
        The names of its classes in order; a site that names others is refused, at calibration also one that names none.
    """
    _Run(grid, *RunConfig.of(config), model, classes).go()


class _Run:
    def __init__(
        self, grid: Grid, config: RunConfig, trainer: FedAvg | TCT, model: nn.Module, classes: Sequence[str]
    ) -> None:
        self.config, self.trainer, self.model, self.classes = config, trainer, model, classes
        self.federation = Federation(grid, min_sites=config.min_sites, timeout=config.timeout)
        self.output = Path(config.output).resolve()
        self.arrays, self.temperature = arrays_of(model), 1.0
        self.coverage: dict[str, Counts]
        self.predictor: Predictor

    def go(self) -> None:
        try:
            (self.output / "sites").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.output}: cannot be created ({error.strerror}); choose another output") from None
        flower_logger.info("the model, the predictor and result.json go to %s, on this machine", self.output)
        if self.config.saved_model:
            self.arrays, self.temperature = read_model(Path(self.config.saved_model))
            load_model(self.model, self.arrays)  # raises if they are not those of this model
        self.federation.wait(self.config.wait)
        for stage in STAGES[STAGES.index(self.config.from_stage) :]:
            getattr(self, f"_{stage}")()
            self._save_model()
        self._write_result()

    def _save_model(self) -> None:
        found: Any = {name: array.numpy() for name, array in self.arrays.items()}
        write_bytes(self.output / "model.npz", npz(found | {TEMPERATURE: np.array(self.temperature)}))

    def _train(self) -> None:
        start, trainer = self.arrays, self.trainer

        def keep(state: RoundState) -> None:
            self.arrays = with_weights(start, state.tensors)
            self._save_model()
            flower_logger.info("train: round %d of %d is done", state.round, trainer.rounds)

        self.federation.fingerprint(start)  # refuses a model that is not finite
        if first := trainer if isinstance(trainer, FedAvg) else trainer.first_stage:
            first.run(ask_rounds(self.federation, start, first), weights_in(start), keep)
        if isinstance(trainer, TCT):
            self.arrays = arrays_of(fit_linear(self.federation, load_model(self.model, self.arrays), trainer))

    def _temperature(self) -> None:
        if self.config.temperature:
            self.temperature = fit_temperature(self.federation, self.arrays, self.classes)

    def _calibrate(self) -> None:
        config = self.config
        asked: Any = {name: getattr(config, name) for name in ("alpha", "score", "guarantee", "min_scores")}
        asked |= {"temperature": self.temperature, "classes": self.classes}
        if config.privacy == "sums":
            result = calibrate_by_sums(self.federation, self.arrays, epsilon=config.epsilon or None, **asked)
        else:
            result = calibrate(self.federation, self.arrays, kind=config.kind, trained=True, **asked)
        folder = self.output / "sites"
        for old in folder.glob("*.fcs"):
            old.unlink()
        for number, summary in enumerate(result.summaries):
            write_bytes(folder / f"{number}.fcs", summary.to_bytes(), private=summary.name.startswith("exact"))
        self.predictor = result.predictor
        self.predictor.save(self.output / "predictor.json")

    def _evaluate(self) -> None:
        self.coverage = evaluate(self.federation, self.arrays, self.predictor)

    def _broadcast(self) -> None:
        self.federation.ask(PredictorQuestion(predictor=self.predictor.to_bytes()))

    def _write_result(self) -> None:
        certificate = self.predictor.certificate
        total = Counts.total(self.coverage.values())
        if why := explain_uninformative(certificate, share=total.unbounded / total.rows):
            logger.warning("evaluate: %s", why)
        found = {
            "threshold": threshold_json(certificate.limit),
            "alpha": certificate.alpha,
            "temperature": self.temperature,
            "model": fingerprint(self.arrays),
            "certificate": certificate.to_dict(),
            "evaluation": {
                "overall": total.to_dict(),
                "by_site": {site: one.to_dict() for site, one in self.coverage.items()},
                "why_uninformative": why,
            },
            "participants": [stage.to_dict() for stage in self.federation.stages],
            "output": str(self.output),
        }
        write_bytes(self.output / "result.json", json.dumps(found, indent=1, allow_nan=False).encode() + b"\n")
        flower_logger.info("%s", self.predictor.sentence())
        flower_logger.info("threshold %s; all of it is in %s", found["threshold"], self.output / "result.json")


def read_model(path: Path) -> tuple[ArrayRecord, float]:
    """Read model.npz of a run, with the temperature."""
    arrays = read_npz(path)
    if TEMPERATURE not in arrays:
        raise InputError(f"{path}: is not the model.npz of a run on Flower")
    temperature = as_temperature(float(arrays.pop(TEMPERATURE)))
    return ArrayRecord({name: Array(array) for name, array in arrays.items()}), temperature
