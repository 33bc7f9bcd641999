"""The stages of a run at the server: wait, train, linear, temperature, calibrate, evaluate, broadcast.

After each stage, and each round of training, what is needed to go on lies in the output directory, so a run that broke
goes on from any stage with the saved model:

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
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray
from torch import nn

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_temperature
from fedconformal._base.files import read_npz, write_bytes
from fedconformal._base.names import shown
from fedconformal._base.parameters import from_settings
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.calibration.temperature import LEAST, MOST, minimise
from fedconformal.engines.flower.calibration import calibrate
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.learning import arrays_of, load_model
from fedconformal.engines.flower.linear import LinearStage
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    FULL,
    METRICS,
    check_keys,
    fingerprint,
    read_examples,
    read_metrics,
)
from fedconformal.engines.flower.strategy import CheckedFedAvg
from fedconformal.engines.flower.sums import calibrate_by_sums
from fedconformal.errors import InputError
from fedconformal.evaluation import why_full
from fedconformal.federated.fedprox import FedProx
from fedconformal.federated.logits import npz
from fedconformal.federated.tct import TCT
from fedconformal.federated.trainer import Trainer
from fedconformal.guarantees import Guarantee, Mixture
from fedconformal.privacy.sums.communication import quoted_bound
from fedconformal.privacy.sums.weights import summable
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary

logger = logging.getLogger(__name__)

STAGES = ("train", "linear", "temperature", "calibrate", "evaluate", "broadcast")
PRIVACY = ("none", "sums")
STARTS = tuple(np.geomspace(1 / MOST, 1 / LEAST, 33).tolist())
"""Where the search for a temperature may begin: asked for in one message, as a deployment takes seconds for each."""
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
        temperature: whether to fit one.
        min_sites: with fewer sites that answer properly a stage ends in an error.
        min_scores: with fewer scores in all there is no calibration.
        wait: seconds for the nodes to connect.
        timeout: seconds that sites have for an answer.
        output: the directory for what comes out.
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


def run_stages(grid: Any, config: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """Run all stages, or those from one on, and return what came out; it lies in the output directory too.

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
        self.output = Path(config.output)
        self.arrays, self.temperature = arrays_of(model), 1.0
        self.coverage: dict[str, dict[str, float]] = {}
        self.predictor: Predictor | None = None

    def go(self) -> dict[str, Any]:
        try:
            (self.output / "sites").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.output}: cannot be made ({error.strerror}); choose another output") from None
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
        trainer = self.config.trainer
        if not trainer.rounds:  # TCT from weights that are there
            return
        train = ConfigRecord({name: getattr(trainer, name) for name in ("epochs", "rate", "momentum", "batch", "seed")})
        if isinstance(trainer, FedProx):
            train["proximal-mu"] = trainer.mu

        def keep(number: int, arrays: ArrayRecord) -> None:
            if number:
                write_bytes(self.output / "model.npz", model_bytes(arrays, self.temperature))

        result = CheckedFedAvg(self.federation, metrics=("train-loss",)).start(
            self.federation.grid,
            self.arrays,
            num_rounds=trainer.rounds,
            timeout=self.config.timeout,
            train_config=train,
            evaluate_fn=keep,
        )
        self.arrays = result.arrays

    def _linear(self) -> None:
        trainer = self.config.trainer
        if isinstance(trainer, TCT):
            network = load_model(self.model, self.arrays)
            stage = LinearStage(
                federation=self.federation, network=network, classes=self.config.classes, settings=trainer
            )
            self.arrays = stage.run()

    def _temperature(self) -> None:
        if not self.config.temperature:
            return
        known = dict(zip(STARTS, self._sums(*STARTS), strict=True))

        def ask(b: float) -> tuple[float, float, float]:
            return known.get(b) or self._sums(b)[0]

        self.temperature = minimise(ask, min(STARTS, key=lambda b: abs(known[b][1])))

    def _sums(self, *points: float) -> list[tuple[float, float, float]]:
        """Add up what the sites say of these inverse temperatures."""
        names = ("loss", "slope", "curvature")

        def read(content: RecordDict) -> list[Any]:
            check_keys(content, METRICS)
            record: dict[str, Any] = dict(content.metric_records[METRICS])
            read_examples(record)
            columns: list[Any] = [record.get(name) for name in names]
            whole = [isinstance(column, list) and len(column) == len(points) for column in columns]
            if len(record) != 1 + len(names) or not all(whole):
                raise InputError("metrics: expected num-examples, and loss, slope and curvature at every point")
            if not np.isfinite(columns).all() or min(columns[2]) < 0:
                raise InputError("metrics: a sum is not finite, or a curvature negative")
            return columns

        content = RecordDict({ARRAYS: self.arrays, ASK: ConfigRecord({"points": list(points)})})
        answers = self.federation.ask("temperature", content, "query.temperature", read)
        total = np.array([answer.value for answer in answers], dtype=np.float64).sum(axis=0)
        return [(float(loss), float(slope), float(curvature)) for loss, slope, curvature in total.T]

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
            result = calibrate_by_sums(self.federation, self.arrays, **asked)
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
        content = RecordDict({ARRAYS: self.arrays, ASK: ConfigRecord({"predictor": self._found().to_bytes()})})
        names = [EXAMPLES, "covered", "labels", "correct"]

        def read(reply: RecordDict) -> dict[str, float]:
            check_keys(reply, METRICS)
            sent = reply[METRICS]
            full = [FULL] if FULL in sent else []  # an older site does not say how many sets hold every label
            values = read_metrics(sent, names + full)
            rows = read_examples(values)
            shares = [values[name] for name in ("covered", "correct", *full)]
            if not (all(0 <= count <= rows for count in shares) and values["labels"] >= 0):
                raise InputError(f"metrics: cannot be counts of {rows} rows")
            found = {
                "rows": rows,
                "coverage": values["covered"] / rows,
                "mean_size": values["labels"] / rows,
                "accuracy": values["correct"] / rows,
            }
            return found | ({"full_sets": int(values[FULL])} if full else {})

        answers = self.federation.ask("evaluate", content, "evaluate", read)
        self.coverage = {answer.site.name: answer.value for answer in answers}

    def _broadcast(self) -> None:
        content = RecordDict({ASK: ConfigRecord({"predictor": self._found().to_bytes()})})
        self.federation.ask("broadcast", content, "query.predictor", lambda reply: check_keys(reply, METRICS))

    def _found(self) -> Predictor:
        """Return this run's predictor, or the one beside the saved model."""
        if self.predictor is None:
            self.predictor = load(Path(self.config.saved_model).parent / "predictor.json")
            if self.predictor.certificate.model != fingerprint(self.arrays):
                raise InputError(f"{self.config.saved_model}: the predictor beside it was made with another model")
        return self.predictor

    def _result(self) -> dict[str, Any]:
        certificate = self._found().certificate
        rows = sum(one["rows"] for one in self.coverage.values())
        overall: dict[str, float] = {
            name: sum(one["rows"] * one[name] for one in self.coverage.values()) / rows
            for name in ("coverage", "mean_size", "accuracy")
            if rows
        }
        if rows and all("full_sets" in one for one in self.coverage.values()):
            overall["full_sets"] = sum(one["full_sets"] for one in self.coverage.values())
        why = self._why_full(overall.get("full_sets", 0) / max(1, rows))
        return {
            "threshold": certificate.to_dict()["threshold"],
            "alpha": certificate.alpha,
            "temperature": self.temperature,
            "model": fingerprint(self.arrays),
            "certificate": certificate.to_dict(),
            "evaluation": {"overall": overall, "by_site": self.coverage, "why_full": why},
            "participants": self.federation.to_list(),
            "bound": quoted_bound(certificate.clients, certificate.scores, as_alpha(certificate.alpha)),
            "output": str(self.output),
        }

    def _why_full(self, share: float) -> str | None:
        """Say and log why sets hold every label; the app's number of classes counts once half of the sets do."""
        predictor = self._found()
        classes = self.config.classes if share >= 0.5 else None
        why = why_full(predictor.certificate, score=predictor.score, classes=classes, share=share)
        if why is not None:
            logger.warning("evaluate: %s", why)
        return why


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
