"""The stages of a run at the server: wait, train, linear, temperature, calibrate, evaluate, broadcast.

After each stage, and each round of training, the output directory has what is needed to continue, so a run that broke
continues from any stage with the saved model:

    model.npz        weights, and the temperature once it is known
    sites/*.fcs      the summaries, for `fedconformal verify`; none from sums
    predictor.json   score, certificate, promise curve
    result.json      threshold, certificate, coverage by site, who took part, bytes
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import nn

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_temperature
from fedconformal._base.files import read_npz, write_bytes
from fedconformal._base.names import shown
from fedconformal._base.parameters import from_settings
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.engines.flower.calibration import ask_evaluation, ask_temperature, calibrate, send_predictor
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.learning import arrays_of, load_model
from fedconformal.engines.flower.records import fingerprint
from fedconformal.engines.flower.sums import calibrate_by_sums
from fedconformal.engines.flower.training import ask_linear, ask_rounds, weights_in, with_weights
from fedconformal.errors import InputError
from fedconformal.evaluation import why_full
from fedconformal.federated import temperature
from fedconformal.federated.evaluation import overall, shares_by_site
from fedconformal.federated.fedavg import FedAvg
from fedconformal.federated.logits import npz
from fedconformal.federated.tct import TCT, LinearisedModel
from fedconformal.federated.trainer import RoundState, Trainer, TrainingMonitor
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.sums.communication import quoted_bound
from fedconformal.privacy.sums.radix import summable
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary

logger = logging.getLogger(__name__)
flower_logger = logging.getLogger("flwr")
"""What it logs is what `flwr run --stream` shows."""

STAGES = ("train", "linear", "temperature", "calibrate", "evaluate", "broadcast")
PRIVACY = ("none", "sums")
TEMPERATURE = "fedconformal.temperature"


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run's config may hold, in Flower's spelling with hyphens; everything else is the app's own.

    Attributes:
        method: fedavg, fedprox or tct; its settings, such as rounds and rate, stand beside it.
        classes: how many classes there are.
        score: its name, such as raps; its parameters stand beside it, such as score-penalty.
        guarantee: its name, such as pac; its parameters stand beside it, such as guarantee-failure.
        privacy: none, or sums: the server sees only sums over the sites when it calibrates.
        epsilon: with sums, sites add noise for differential privacy; 0 for none.
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
    temperature: bool = True
    min_sites: int = 2
    min_scores: int = 1
    wait: float = 60.0
    timeout: float = 600.0
    output: str = "fedconformal-run"
    from_stage: str = "train"
    saved_model: str = ""
    trainer: Trainer = field(default_factory=TCT)
    scored: Score = DEFAULT
    promised: Guarantee = field(default_factory=Mixture)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RunConfig:
        """Read the config of a run.

        >>> RunConfig.of({"method": "fedprox", "mu": 0.5, "rounds": 3, "min-sites": 4}).trainer
        FedProx(rounds=3, epochs=1, rate=0.01, momentum=0.9, batch=64, seed=0, weighting='examples', workers=1,
        device='cpu', mu=0.5)
        """
        given = {key.replace("-", "_"): value for key, value in config.items()}
        method = registry.find(str(given.get("method", cls.method)), Trainer)
        if method.name == "central":
            raise InputError("method is central, which needs all rows in one place; take fedavg, fedprox or tct")
        own = {one.name: given[one.name] for one in fields(method) if one.name in given}
        made = ("trainer", "scored", "promised")
        mine = {one.name: given[one.name] for one in fields(cls) if one.name in given and one.name not in made}
        for one in fields(cls):
            wanted = (int, float) if isinstance(one.default, float) else (type(one.default),)
            if one.name in mine and type(mine[one.name]) not in wanted:
                name = one.name.replace("_", "-")
                raise InputError(f"{name} is {shown(mine[one.name])}, expected something like {one.default!r}")
        try:
            scored = from_settings(registry.find(str(given.get("score", cls.score)), Score), config, "score-")
            kept = registry.find(str(given.get("guarantee", cls.guarantee)), Guarantee)
            promised = from_settings(kept, config, "guarantee-")
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
        registry.find(self.kind, Summary)
        if self.privacy not in PRIVACY:
            raise InputError(f"privacy is {self.privacy!r}; on Flower there are {' and '.join(PRIVACY)}")
        if self.privacy == "sums":
            summable(self.promised)
        elif self.epsilon:
            raise InputError(f"epsilon is {self.epsilon:g}, which goes with privacy sums; set both or neither")


def run_stages(grid: Any, config: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """Run all stages, or those from one on, and return the result; it is in the output directory too.

    Args:
        grid: Flower's.
        config: the run's.
        model: a network that gives logits; its weights are where training starts.
    """
    return _Run(grid, RunConfig.of(config), model).go()


class _Run:
    def __init__(self, grid: Any, config: RunConfig, model: nn.Module) -> None:
        self.config = config
        self.model = model
        self.federation = Federation(grid, min_sites=config.min_sites, timeout=config.timeout)
        self.output = Path(config.output).resolve()
        self.arrays, self.temperature = arrays_of(model), 1.0
        self.coverage: dict[str, dict[str, float]] = {}
        self.predictor: Predictor | None = None

    def go(self) -> dict[str, Any]:
        try:
            (self.output / "sites").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.output}: cannot be made ({error.strerror}); choose another output") from None
        flower_logger.info("the model, the predictor and result.json go to %s, on this machine", self.output)
        if self.config.saved_model:
            self.arrays, self.temperature = read_model(Path(self.config.saved_model))
            load_model(self.model, self.arrays)  # says so if they are not this model's
        self.federation.wait(self.config.wait)
        for stage in STAGES[STAGES.index(self.config.from_stage) :]:
            getattr(self, f"_{stage}")()
            write_bytes(self.output / "model.npz", model_bytes(self.arrays, self.temperature))
        found = self._result()
        write_bytes(self.output / "result.json", json.dumps(found, indent=1, allow_nan=False).encode() + b"\n")
        return found

    def _train(self) -> None:
        if not self.config.trainer.rounds:  # TCT from weights that are there
            return
        trainer, start = FedAvg.like(self.config.trainer), self.arrays

        def keep(state: RoundState) -> None:
            self.arrays = with_weights(start, state.tensors)
            write_bytes(self.output / "model.npz", model_bytes(self.arrays, self.temperature))
            flower_logger.info("train: round %d of %d is done", state.round, trainer.rounds)

        trainer.average(ask_rounds(self.federation, start, trainer), weights_in(start), TrainingMonitor(on_round=keep))

    def _linear(self) -> None:
        settings = self.config.trainer
        if isinstance(settings, TCT):
            network = load_model(self.model, self.arrays)
            model = LinearisedModel.of(
                network, classes=self.config.classes, coordinates=settings.coordinates, seed=settings.seed
            )
            settings.fit_linear(ask_linear(self.federation, network, model, settings), model, TrainingMonitor())
            self.arrays = arrays_of(model)

    def _temperature(self) -> None:
        if self.config.temperature:
            self.temperature = temperature.fit(ask_temperature(self.federation, self.arrays))

    def _calibrate(self) -> None:
        config = self.config
        asked: dict[str, Any] = {
            "alpha": config.alpha,
            "score": config.scored,
            "guarantee": config.promised,
            "temperature": self.temperature,
            "min_scores": config.min_scores,
        }
        if config.privacy == "sums":
            result = calibrate_by_sums(self.federation, self.arrays, epsilon=config.epsilon or None, **asked)
        else:
            result = calibrate(self.federation, self.arrays, kind=config.kind, **asked)
        for old in (self.output / "sites").glob("*.fcs"):
            old.unlink()
        for number, summary in enumerate(result.summaries):
            write_bytes(
                self.output / "sites" / f"{number}.fcs", summary.to_bytes(), private=summary.name.startswith("exact")
            )
        self.predictor = result.predictor
        self.predictor.save(self.output / "predictor.json")

    def _evaluate(self) -> None:
        self.coverage = shares_by_site(ask_evaluation(self.federation, self.arrays, self._found()))

    def _broadcast(self) -> None:
        send_predictor(self.federation, self._found())

    def _found(self) -> Predictor:
        """Return this run's predictor, or the one beside the saved model."""
        if self.predictor is None:
            self.predictor = load(Path(self.config.saved_model).parent / "predictor.json")
            if self.predictor.certificate.model != fingerprint(self.arrays):
                raise InputError(f"{self.config.saved_model}: the predictor beside it was made with another model")
        return self.predictor

    def _result(self) -> dict[str, Any]:
        certificate = self._found().certificate
        found = overall(self.coverage)
        rows = sum(one["rows"] for one in self.coverage.values())
        share = found.get("full_sets", 0) / max(1, rows)
        classes = self.config.classes if share >= 0.5 else None  # the app's number counts once half of them are full
        why = why_full(certificate, score=self._found().score, classes=classes, share=share)
        if why is not None:
            logger.warning("evaluate: %s", why)
        return {
            "threshold": certificate.to_dict()["threshold"],
            "alpha": certificate.alpha,
            "temperature": self.temperature,
            "model": fingerprint(self.arrays),
            "certificate": certificate.to_dict(),
            "evaluation": {"overall": found, "by_site": self.coverage, "why_full": why},
            "participants": self.federation.to_list(),
            "bound": quoted_bound(certificate.clients, certificate.scores, as_alpha(certificate.alpha)),
            "output": str(self.output),
        }


def model_bytes(arrays: ArrayRecord, temperature: float) -> bytes:
    """Return the bytes of an .npz file with a model and its temperature."""
    found: dict[str, NDArray[Any]] = {name: array.numpy() for name, array in arrays.items()}
    return npz(found | {TEMPERATURE: np.array(temperature)})


def read_model(path: Path) -> tuple[ArrayRecord, float]:
    """Read what `model_bytes` made."""
    found = read_npz(path)
    if TEMPERATURE not in found:
        raise InputError(f"{path}: is not the model.npz of a run on Flower")
    temperature = as_temperature(float(found.pop(TEMPERATURE)))
    return ArrayRecord({name: Array(array) for name, array in found.items()}), temperature
