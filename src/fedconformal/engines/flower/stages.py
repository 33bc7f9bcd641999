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
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import nn

from fedconformal._base.arrays import as_temperature
from fedconformal._base.files import read_npz, write_bytes
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.certificates.certificate import threshold_json
from fedconformal.certificates.uninformative import explain_uninformative
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import fingerprint
from fedconformal.engines.flower.run_config import STAGES, RunConfig
from fedconformal.engines.flower.server_training import ask_linear, ask_rounds, weights_in, with_weights
from fedconformal.engines.flower.site_training import arrays_of, load_model
from fedconformal.errors import InputError
from fedconformal.federated.calibration import calibrate
from fedconformal.federated.evaluation import PredictorQuestion, evaluate, overall
from fedconformal.federated.sums import calibrate_by_sums
from fedconformal.federated.temperature import fit_temperature
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.outputs import npz
from fedconformal.training.tct import TCT, LinearisedModel
from fedconformal.training.trainer import RoundState, Trainer, TrainingMonitor

logger = logging.getLogger(__name__)
flower_logger = logging.getLogger("flwr")
"""What it logs is what `flwr run --stream` shows."""

TEMPERATURE = "fedconformal.temperature"


def run_stages(grid: Any, config: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """Run all stages, or those from one on, and return the result; it is in the output directory too.

    Args:
        grid: Flower's.
        config: the run's.
        model: a network that gives logits, or a `models.Regressor`; its weights are where training starts.
    """
    return _Run(grid, *RunConfig.of(config), model).go()


class _Run:
    def __init__(self, grid: Any, config: RunConfig, trainer: Trainer, model: nn.Module) -> None:
        self.config = config
        self.trainer = trainer
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
        flower_logger.info("%s", self._found().certificate.sentence())
        flower_logger.info("threshold %s; all of it is in %s", found["threshold"], self.output / "result.json")
        return found

    def _train(self) -> None:
        if not self.trainer.rounds:  # TCT from weights that are there
            return
        trainer, start = FedAvg.like(self.trainer), self.arrays

        def keep(state: RoundState) -> None:
            self.arrays = with_weights(start, state.tensors)
            write_bytes(self.output / "model.npz", model_bytes(self.arrays, self.temperature))
            flower_logger.info("train: round %d of %d is done", state.round, trainer.rounds)

        trainer.average(ask_rounds(self.federation, start, trainer), weights_in(start), TrainingMonitor(on_round=keep))

    def _linear(self) -> None:
        settings = self.trainer
        if isinstance(settings, TCT):
            network = load_model(self.model, self.arrays)
            model = LinearisedModel.of(
                network,
                classes=self.config.classes,
                coordinates=settings.coordinates,
                seed=settings.seed,
                intercept=settings.intercept,
            )
            settings.fit_linear(ask_linear(self.federation, network, model, settings), model, TrainingMonitor())
            self.arrays = arrays_of(model)

    def _temperature(self) -> None:
        if self.config.temperature and not self.config.numbers:
            self.temperature = fit_temperature(self.federation, self.arrays)

    def _calibrate(self) -> None:
        config = self.config
        asked: dict[str, Any] = {
            "alpha": config.alpha,
            "score": config.score,
            "guarantee": config.guarantee,
            "temperature": self.temperature,
            "min_scores": config.min_scores,
        }
        if config.privacy == "sums":
            noise, reach = config.epsilon or None, config.reach or None
            result = calibrate_by_sums(self.federation, self.arrays, epsilon=noise, reach=reach, **asked)
        else:
            result = calibrate(self.federation, self.arrays, kind=config.kind, trained=True, **asked)
        for old in (self.output / "sites").glob("*.fcs"):
            old.unlink()
        for number, summary in enumerate(result.summaries):
            write_bytes(
                self.output / "sites" / f"{number}.fcs", summary.to_bytes(), private=summary.name.startswith("exact")
            )
        self.predictor = result.predictor
        self.predictor.save(self.output / "predictor.json")

    def _evaluate(self) -> None:
        self.coverage = evaluate(self.federation, self.arrays, self._found())

    def _broadcast(self) -> None:
        self.federation.ask(PredictorQuestion(self._found()))

    def _found(self) -> Predictor:
        """Return this run's predictor, or the one beside the saved model."""
        if self.predictor is None:
            self.predictor = found = load(Path(self.config.saved_model).parent / "predictor.json")
            if found.certificate.provenance.model != fingerprint(self.arrays):
                raise InputError(f"{self.config.saved_model}: the predictor beside it was made with another model")
        return self.predictor

    def _result(self) -> dict[str, Any]:
        predictor = self._found()
        certificate = predictor.certificate
        score = None if certificate.intervals else predictor.score
        found = overall(self.coverage)
        rows = sum(one["rows"] for one in self.coverage.values())
        share = found.get("full_sets", 0) / max(1, rows)
        classes = self.config.classes if share >= 0.5 else None  # the app's number counts once half of them are full
        why = explain_uninformative(certificate, score=score, classes=classes, share=share)
        if why is not None:
            logger.warning("evaluate: %s", why)
        return {
            "threshold": threshold_json(certificate.limit),
            "alpha": certificate.alpha,
            "temperature": self.temperature,
            "model": fingerprint(self.arrays),
            "certificate": certificate.to_dict(),
            "evaluation": {"overall": found, "by_site": self.coverage, "why_full": why},
            "participants": self.federation.to_list(),
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
