"""Train, convexify, train: FedAvg finds features, then a linear model on their gradients is trained to its optimum.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. The second problem is convex, so sites that differ a lot still agree on one solution. Its mathematics are in
`linear_stage.py`, what a site does in `linear_site.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask, Step, Update
from fedconformal.federated.clients import ClientData
from fedconformal.federated.features import GradientFeatures, draw_coordinates, one_output
from fedconformal.federated.fedavg import FedAvg
from fedconformal.federated.linear_site import linear_task
from fedconformal.federated.linear_stage import CURVATURE, Loss, Moments, merge, scale_of
from fedconformal.federated.local import weights_of, with_weights
from fedconformal.federated.trainer import RoundState, Trainer, TrainingMonitor, find_device

logger = logging.getLogger(__name__)

STAGE = "tct"
SAFE = 0.9
"""The largest step, as a share of the one at which gradient descent starts to oscillate for ever."""
ROWS = 256
PREPARING = 2
"""Questions before the first round of the second stage: features, then inner products."""

OnLinearRound = Callable[[int, Tensor, Tensor, dict[str, float]], object]


class LinearisedModel(nn.Module):
    """Logits that are linear in standardised gradient features; takes the inputs that the network takes.

    Args:
        features: of a network with one output.
        classes: how many logits there are.
    """

    mean: Tensor
    scale: Tensor
    theta: Tensor

    def __init__(self, features: GradientFeatures, classes: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("mean", torch.zeros(features.count))
        self.register_buffer("scale", torch.ones(features.count))
        self.register_buffer("theta", torch.zeros(classes, features.count))

    @classmethod
    def of(cls, network: nn.Module, *, classes: int, coordinates: int, seed: int) -> LinearisedModel:
        """Linearise a network; the seed draws its one output and the coordinates."""
        output = one_output(network, seed)
        return cls(GradientFeatures(output, draw_coordinates(output, coordinates, seed)), classes)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Turn a batch of inputs into logits, some rows at a time."""
        parts = [self.features(rows).sub_(self.mean).mul_(self.scale) @ self.theta.T for rows in x.split(ROWS)]
        return torch.cat(parts)


@dataclass(frozen=True, kw_only=True)
class TCT(Trainer):
    """FedAvg first, then a linear model on the gradients of the network that it found.

    Attributes:
        rounds: of FedAvg; 0 takes the model's weights as they are.
        linear_rounds: of the linear model. Sites count alike in it, whatever `weighting` says of FedAvg.
        coordinates: how many features, that is weights of the network; all where it has no more.
        steps: of gradient descent in a round, on all rows of a site.
        step: their size, on features divided by the square root of their number. Lowered where it would not be stable.
        loss: of the linear model; with squared loss the sets are larger (the paper's ablation).
        memory: GB for features; above it they are kept on disk in half precision.
        scratch: a folder for that; the system's for temporary files if empty.

    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> tct = TCT(rounds=1, linear_rounds=2, coordinates=8, steps=20, workers=1)
    >>> model = tct.fit(nn.Linear(1, 2), [(x[y == k], y[y == k]) for k in (0, 1)])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])
    """

    name: ClassVar[str] = "tct"
    counts = (*Trainer.counts, "linear_rounds", "coordinates", "steps")
    positive = (*Trainer.positive, "step", "memory")

    linear_rounds: int = 10
    coordinates: int = 10_000
    steps: int = 500
    step: float = 10.0
    loss: Loss = "cross-entropy"
    memory: float = 8.0
    scratch: str = ""

    def __post_init__(self) -> None:
        if self.rounds == 0:  # check everything else
            replace(self, rounds=1)
            return
        super().__post_init__()
        if self.scratch and not Path(self.scratch).is_dir():
            raise InputError(f"scratch is {self.scratch}, which is no folder; make it, or leave scratch empty")
        if self.loss not in CURVATURE:
            raise InputError(f"loss is {self.loss!r}; there are {' and '.join(CURVATURE)}")

    @property
    def total_rounds(self) -> int:
        return self.rounds + self.linear_rounds

    def fit_linear(
        self,
        ask: Ask[Step, Update],
        model: LinearisedModel,
        monitor: TrainingMonitor,
        on_round: OnLinearRound | None = None,
        start: tuple[int, Tensor, Tensor] | None = None,
    ) -> None:
        """Run the second stage, and set the model's mean, scale and theta.

        Args:
            ask: asks the sites.
            model: the linear model.
            monitor: gets the progress.
            on_round: called after every round, with its number, theta, the control variate and metrics.
            start: the number of rounds that are done, with theta and the control variate after them.
        """
        model.mean, model.scale = self._standardise(ask, monitor)
        standard = {"mean": model.mean, "scale": model.scale}
        step = self._stable_step(ask, monitor, standard)
        done, theta, control = start or (0, torch.zeros_like(model.theta), torch.zeros_like(model.theta))
        for number in range(done, self.linear_rounds):
            sent = {**standard, "theta": theta, "control": control}
            control, metrics = self._linear_round(ask, monitor, Step("round", sent, {"step": step}), number)
            theta = theta - step * self.steps * control
            if on_round is not None:
                on_round(number + 1, theta, control, metrics)
        model.theta = theta

    def _standardise(self, ask: Ask[Step, Update], monitor: TrainingMonitor) -> tuple[Tensor, Tensor]:
        """Merge the sites' moments to the mean and the scale that all of them use."""
        parts = []
        for answer in ask(Step("measure")):
            if not answer.value.finite:
                raise InputError(
                    f"{answer.name}: the network's gradients are not finite on its rows; try a smaller rate"
                )
            mean, variance = (answer.value.tensors[name].clone() for name in ("mean", "variance"))
            parts.append(Moments(answer.value.rows, mean, variance))
            self._linear_progress(monitor, 0, len(parts), "features")
        moments = merge(parts)
        return moments.mean.float(), scale_of(moments)

    def _stable_step(self, ask: Ask[Step, Update], monitor: TrainingMonitor, standard: dict[str, Tensor]) -> float:
        """Compare the step with the largest eigenvalue of any site's problem."""
        largest = 0.0
        for place, answer in enumerate(ask(Step("prepare", standard)), 1):
            largest = max(largest, answer.value.numbers["eigenvalue"])
            self._linear_progress(monitor, 1, place, "inner products")
        limit = SAFE * 2 / (CURVATURE[self.loss] * largest) if largest > 0 else math.inf
        if self.step > limit:
            logger.warning("the step %g is not stable on these features; taking %.3g", self.step, limit)
        return min(self.step, limit)

    def _linear_round(
        self, ask: Ask[Step, Update], monitor: TrainingMonitor, step: Step, number: int
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the plain mean of the sites' mean gradients, and what was measured."""
        total, losses, asked = torch.zeros_like(step.tensors["control"], dtype=torch.float64), [], 0
        for answer in ask(step):
            asked += 1
            if answer.value.finite:
                total += answer.value.tensors["control"]
                losses.append(answer.value.numbers["loss"])
            else:
                logger.warning(
                    "round %d: the update of %s is not finite; the round goes on without it", number + 1, answer.name
                )
            self._linear_progress(monitor, PREPARING + number, asked, f"round {number + 1} of {self.linear_rounds}")
        if not losses:
            raise InputError(f"round {number + 1}: no client's update is finite; try a smaller step")
        metrics = {"loss": sum(losses) / len(losses), "refused": float(asked - len(losses)), **step.numbers}
        return (total / len(losses)).float(), metrics

    def _linear_progress(self, monitor: TrainingMonitor, asked: int, sites: int, text: str) -> None:
        """Report progress over both stages; features and inner products count as a round each."""
        total = self.total_rounds + PREPARING
        monitor.progressed(self.rounds + asked, sites, total, f"{STAGE}, second stage: {text}")

    def _train(self, model: nn.Module, sites: list[ClientData], monitor: TrainingMonitor) -> nn.Module:
        """Train both stages on this machine; return the linear model as a module that takes the same inputs."""
        resume, monitor = monitor.resume, replace(monitor, sites=len(sites))
        if resume is not None and resume.stage == STAGE and resume.round >= self.rounds:
            network = with_weights(model, _found(resume, "weights", weights_of(model).shape))
            return self._train_linear(network, sites, monitor)
        if self.rounds == 0:
            return self._train_linear(with_weights(model, weights_of(model)), sites, replace(monitor, resume=None))

        def first_stage(done: int, _total: int, text: str) -> None:
            total = self.total_rounds + PREPARING
            monitor.progressed(0, done, total, f"{STAGE}, first stage: {text.partition(': ')[2]}")

        network = FedAvg.like(self)._train(model, sites, replace(monitor, progress=first_stage))
        return self._train_linear(network, sites, replace(monitor, resume=None))

    def _train_linear(self, network: nn.Module, sites: list[ClientData], monitor: TrainingMonitor) -> nn.Module:
        classes, device = _classes(network, sites), find_device(self.device)
        result = LinearisedModel.of(network, classes=classes, coordinates=self.coordinates, seed=self.seed)
        resume, start = monitor.resume, None
        residuals = torch.zeros(classes, sum(site.n for site in sites))
        if resume is not None:
            theta, control = (_found(resume, name, result.theta.shape) for name in ("theta", "control"))
            residuals = _found(resume, "residuals", residuals.shape)
            start = resume.round - self.rounds, theta, control

        def on_round(number: int, theta: Tensor, control: Tensor, metrics: dict[str, float]) -> None:
            state = {"weights": weights_of(network), "theta": theta, "control": control, "residuals": residuals}
            monitor.finished_round(self.rounds + number, STAGE, state, metrics)

        count, parallel = result.features.count, self._in_parallel(sites, device)
        sent, received = 2 * (classes + 1) * count, max(classes, 2) * count
        with (
            linear_task(self, result.features, sites, residuals, device, shared=parallel) as task,
            self._pool(task, sites, device, sent=sent, received=received) as pool,
        ):
            self.fit_linear(pool.ask, result, monitor, on_round, start)
        return result.cpu().eval()


def _classes(network: nn.Module, sites: list[ClientData]) -> int:
    """Ask the network how many logits it gives, and check the labels."""
    with torch.no_grad():
        classes = int(network(sites[0].inputs(slice(0, 1))).shape[1])
    for site in sites:
        if int(site.y.max()) >= classes:
            raise InputError(f"{site.name}: has the class {int(site.y.max())}, but the model gives {classes} logits")
    return classes


def _found(state: RoundState, name: str, shape: torch.Size) -> Tensor:
    found = state.tensors.get(name)
    if found is None or found.shape != shape:
        raise InputError("resume: the state is not from this model, these clients and these settings")
    return found.to(torch.float32, copy=True)
