"""Train, convexify, train: FedAvg finds features, then a linear model on their gradients is trained to its optimum.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. The second problem is convex, so clients that differ a lot still agree on one solution; see `linear_stage.py`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.clients import ClientData, pack
from fedconformal.federated.features import GradientFeatures, draw_coordinates, one_output
from fedconformal.federated.fedavg import FedAvg
from fedconformal.federated.linear_stage import CURVATURE, LinearTask, Loss, Moments, merge, scale_of
from fedconformal.federated.local import weights_of, with_weights
from fedconformal.federated.matrices import Room
from fedconformal.federated.trainer import Course, RoundState, Trainer, find_device
from fedconformal.federated.workers import Crew, available_workers

logger = logging.getLogger(__name__)

STAGE = "tct"
SAFE = 0.9
"""The largest step, as a share of the one at which gradient descent starts to oscillate for ever."""
ROWS = 256


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
        linear_rounds: of the linear model. Clients count alike in it, whatever `weighting` says of FedAvg.
        coordinates: how many features, that is weights of the network; all where it has no more.
        steps: of gradient descent in a round, on all rows of a client.
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
        for what in ("linear_rounds", "coordinates", "steps"):
            if getattr(self, what) < 1:
                raise InputError(f"{what} is {getattr(self, what)}, expected at least 1")
        for what in ("step", "memory"):
            if not 0 < getattr(self, what) < math.inf:
                raise InputError(f"{what} is {getattr(self, what)}, expected a positive number")
        if self.scratch and not Path(self.scratch).is_dir():
            raise InputError(f"scratch is {self.scratch}, which is no folder; make it, or leave scratch empty")
        if self.loss not in CURVATURE:
            raise InputError(f"loss is {self.loss!r}; there are {' and '.join(CURVATURE)}")

    @property
    def total_rounds(self) -> int:
        """How many rounds there are in both stages."""
        return self.rounds + self.linear_rounds

    def _train(self, model: nn.Module, sites: list[ClientData], course: Course) -> nn.Module:
        """Train both stages and return the linear model as a module that takes the same inputs."""
        resume = course.resume
        if resume is not None and resume.stage == STAGE and resume.round >= self.rounds:
            network = with_weights(model, _found(resume, "weights", weights_of(model).shape))
        else:
            network = self._first_stage(model, sites, course)
            course = replace(course, resume=None)
        return self._second_stage(network, sites, course)

    def _first_stage(self, model: nn.Module, sites: list[ClientData], course: Course) -> nn.Module:
        if self.rounds == 0:
            return with_weights(model, weights_of(model))
        first = FedAvg(**{field.name: getattr(self, field.name) for field in fields(FedAvg)})
        told = _Told(self, len(sites), course)
        return first.fit(model, sites, progress=told.first_stage, on_round=course.on_round, resume=course.resume)

    def _second_stage(self, network: nn.Module, sites: list[ClientData], course: Course) -> nn.Module:
        classes = _classes(network, sites)
        output = one_output(network, self.seed)
        features = GradientFeatures(output, draw_coordinates(output, self.coordinates, self.seed))
        result = LinearisedModel(features, classes)
        theta, control = torch.zeros_like(result.theta), torch.zeros_like(result.theta)
        residuals, start = torch.zeros(classes, sum(site.n for site in sites)), 0
        resume, told = course.resume, _Told(self, len(sites), course)
        if resume is not None:
            theta, control = (_found(resume, name, theta.shape) for name in ("theta", "control"))
            residuals, start = _found(resume, "residuals", residuals.shape), resume.round - self.rounds
        with self._crew(features, sites, residuals) as crew:
            result.mean, result.scale = self._standardise(crew, sites, told, features.count, theta.numel())
            step = self._stable_step(crew, told, torch.cat([result.mean, result.scale]), theta.numel())
            for number in range(start, self.linear_rounds):
                control, metrics = self._round(crew, sites, told, torch.cat([theta, control]), (number, step))
                control = control.view_as(theta)
                theta = theta - step * self.steps * control
                state = {"weights": weights_of(network), "theta": theta, "control": control, "residuals": residuals}
                course.hand_out(self.rounds + number + 1, STAGE, state, metrics)
        result.theta = theta
        return result.cpu().eval()

    @contextlib.contextmanager
    def _crew(self, features: GradientFeatures, sites: list[ClientData], residuals: Tensor) -> Iterator[Crew]:
        device = find_device(self.device)
        workers = self.workers if device.type == "cpu" else 1
        sizes, classes, count = [site.n for site in sites], len(residuals), features.count
        with _scratch(self.scratch) as folder:
            room = Room.make(
                sizes,
                count,
                memory=self.memory,
                folder=Path(folder),
                device=device,
                shared=available_workers(workers, len(sites)) > 1,
            )
            task = LinearTask(
                features=features.to(device),
                clients=pack(sites),
                classes=classes,
                steps=self.steps,
                loss=self.loss,
                room=room,
                residuals=residuals,
                device=device,
            )
            names, vector, out = [site.name for site in sites], 2 * classes * count, max(classes, 2) * count
            with Crew(task, names, vector=vector, out=out, workers=workers, costs=sizes) as crew:
                yield crew

    def _standardise(
        self, crew: Crew, sites: list[ClientData], told: _Told, count: int, size: int
    ) -> tuple[Tensor, Tensor]:
        """Merge the clients' moments to the mean and the scale that all of them use."""
        parts = []
        for done in crew.round(torch.zeros(2 * size), ("measure", 0.0)):
            rows, finite = done.info
            if not finite:
                name = sites[done.client].name
                raise InputError(f"{name}: the network's gradients are not finite on its rows; try a smaller rate")
            mean, variance = done.out[: 2 * count].clone().split(count)
            parts.append(Moments(int(rows), mean, variance))
            told.second_stage(done.client, "features")
        moments = merge(parts)
        return moments.mean.float(), scale_of(moments)

    def _stable_step(self, crew: Crew, told: _Told, standard: Tensor, size: int) -> float:
        """Compare the step with the largest eigenvalue of any client's problem."""
        vector = torch.zeros(2 * size)
        vector[: len(standard)] = standard
        largest = 0.0
        for done in crew.round(vector, ("prepare", 0.0)):
            largest = max(largest, done.info[0])
            told.second_stage(len(crew.clients) + done.client, "inner products")
        limit = SAFE * 2 / (CURVATURE[self.loss] * largest) if largest > 0 else math.inf
        if self.step > limit:
            logger.warning("the step %g is not stable on these features; taking %.3g", self.step, limit)
        return min(self.step, limit)

    def _round(
        self, crew: Crew, sites: list[ClientData], told: _Told, vector: Tensor, now: tuple[int, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the plain mean of the clients' mean gradients, and what was measured."""
        number, step = now
        total, losses = torch.zeros(vector.numel() // 2, dtype=torch.float64), []
        for done in crew.round(vector, ("round", step)):
            loss, finite = done.info
            if finite:
                total += done.out[: len(total)]
                losses.append(loss)
            else:
                name = sites[done.client].name
                logger.warning(
                    "round %d: the update of %s is not finite; the round goes on without it", number + 1, name
                )
            place = (2 + number) * len(sites) + done.client
            told.second_stage(place, f"round {number + 1} of {self.linear_rounds}")
        if not losses:
            raise InputError(f"round {number + 1}: no client's update is finite; try a smaller step")
        metrics = {"loss": sum(losses) / len(losses), "refused": float(len(sites) - len(losses)), "step": step}
        return (total / len(losses)).float(), metrics


class _Told:
    """Progress over both stages, counted in clients; features and inner products count as a round each."""

    def __init__(self, tct: TCT, clients: int, course: Course) -> None:
        self._tell = course.tell
        self._before = tct.rounds * clients
        self._total = (tct.total_rounds + 2) * clients

    def first_stage(self, done: int, total: int, text: str) -> None:
        self._tell(done, self._total, f"{STAGE}, first stage: {text.partition(': ')[2]}")

    def second_stage(self, place: int, text: str) -> None:
        self._tell(self._before + place + 1, self._total, f"{STAGE}, second stage: {text}")


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


def _scratch(folder: str) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="fedconformal-", dir=folder or None)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); choose another place in scratch") from None
