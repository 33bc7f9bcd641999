"""Train-convexify-train: FedAvg finds features, then a linear model on their gradients is trained to its optimum.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. The second problem is convex, so heterogeneous sites agree on one solution. Server: `lbfgs.py`, or the authors'
`scaffold.py`. Site: `linear_site.py` and `linear_stage.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, count_classes
from fedconformal.training.features import GradientFeatures, draw_coordinates, one_output
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.flat_model import weights_of, with_weights
from fedconformal.training.lbfgs import LBFGS
from fedconformal.training.linear_site import linear_task
from fedconformal.training.linear_stage import CONSTANT, CURVATURE, Loss, Moments, merge, scale_of
from fedconformal.training.pool import one_thread
from fedconformal.training.scaffold import Scaffold, stable_step
from fedconformal.training.step import Step, Update, WeightedMean
from fedconformal.training.trainer import RoundState, Trainer, TrainingMonitor, find_device

logger = logging.getLogger(__name__)

STAGE = "tct"
ROWS = 256
PREPARING = 2
"""Questions before the first round of the second stage: features, then their mean and scale."""

Solver = Literal["lbfgs", "scaffold"]
OnLinearRound = Callable[[int, Mapping[str, Tensor], dict[str, float]], object]


class LinearisedModel(nn.Module):
    """Logits that are linear in standardised gradient features; takes the inputs that the network takes.

    Args:
        features: of a network with one output.
        classes: how many logits there are.
        intercept: whether theta has a last column for a constant.
    """

    mean: Tensor
    scale: Tensor
    theta: Tensor

    def __init__(self, features: GradientFeatures, classes: int, *, intercept: bool = True) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("mean", torch.zeros(features.count))
        self.register_buffer("scale", torch.ones(features.count))
        self.register_buffer("theta", torch.zeros(classes, features.count + intercept))

    @classmethod
    def of(
        cls, network: nn.Module, *, classes: int, coordinates: int, seed: int, intercept: bool = True
    ) -> LinearisedModel:
        """Linearise a network; the seed draws its one output and the coordinates."""
        output = one_output(network, seed)
        features = GradientFeatures(output, draw_coordinates(output, coordinates, seed))
        return cls(features, classes, intercept=intercept)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Turn a batch of inputs into logits, some rows at a time, with one thread: each step is too small for more."""
        slopes, constant = self.theta[:, : self.features.count], self.theta[:, self.features.count :]
        with one_thread():
            parts = [self.features(rows).sub_(self.mean).mul_(self.scale) @ slopes.T for rows in x.split(ROWS)]
        return torch.cat(parts) + CONSTANT * constant.sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class TCT(Trainer):
    """FedAvg, then a linear model on the gradient features of the trained network.

    Attributes:
        rounds: rounds of FedAvg; 0 uses the model's weights as they are.
        linear_rounds: maximum number of rounds of the linear model; L-BFGS stops at the optimum.
        coordinates: number of features, that is of weights of the network; at most all.
        solver: "lbfgs" asks for one gradient a round; "scaffold", the authors' own, for many local steps.
        intercept: whether logits have a constant. The authors have none, which suits classes of equal size.
        ridge: lbfgs: half of it times the squared norm of theta is added to the sum of all rows' losses.
        steps: scaffold: local steps of full gradient descent in a round.
        step: scaffold: step size on features divided by the square root of their number; lowered if unstable.
        loss: loss of the linear model; with squared loss the sets are larger (the paper's ablation).
        memory: GB for features; above it they are kept on disk in half precision.
        scratch: folder for these files; empty for the system's temporary folder.

    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> tct = TCT(rounds=1, linear_rounds=5, coordinates=8, workers=1)
    >>> model = tct.fit(nn.Linear(1, 2), [(x[y == k], y[y == k]) for k in (0, 1)])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])
    """

    name: ClassVar[str] = "tct"
    counts = (*Trainer.counts, "linear_rounds", "coordinates", "steps")
    positive = (*Trainer.positive, "step", "ridge", "memory")

    linear_rounds: int = 20
    coordinates: int = 10_000
    solver: Solver = "lbfgs"
    intercept: bool = True
    ridge: float = 0.3
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

    @property
    def total_rounds(self) -> int:
        return self.rounds + self.linear_rounds

    def fit_linear(
        self,
        ask: Ask[Step, Update],
        model: LinearisedModel,
        monitor: TrainingMonitor,
        on_round: OnLinearRound | None = None,
        start: tuple[int, Mapping[str, Tensor]] | None = None,
    ) -> None:
        """Run the second stage, and set the model's mean, scale and theta.

        Args:
            ask: engine that asks the sites.
            model: the linear model.
            monitor: receives the progress.
            on_round: called after every round with its number, the solver's state and metrics.
            start: number of rounds done, with the solver's state after them.
        """
        moments = self._measure(ask, monitor)
        model.mean, model.scale = moments.mean.float(), scale_of(moments)
        standard = {"mean": model.mean, "scale": model.scale}
        solver = self._solver(model, moments.rows, self._prepare(ask, monitor, standard))
        done = 0
        if start is not None:
            done, state = start
            solver.resume(state)
        for number in range(done, self.linear_rounds):
            if solver.done:
                self._linear_progress(monitor, PREPARING + self.linear_rounds - 1, monitor.sites, "at the optimum")
                break
            question = solver.question()
            question = replace(question, tensors={**standard, **question.tensors})
            metrics = self._linear_round(ask, monitor, question, solver, number)
            if on_round is not None:
                on_round(number + 1, solver.state(), metrics)
        model.theta = solver.theta

    def _solver(self, model: LinearisedModel, rows: int, eigenvalue: float) -> LBFGS | Scaffold:
        if self.solver == "lbfgs":
            penalty = torch.full_like(model.theta[0], self.ridge / rows)
            penalty[model.features.count :] = 0.0
            return LBFGS(theta=torch.zeros_like(model.theta), penalty=penalty)
        step = stable_step(self.step, CURVATURE[self.loss], eigenvalue)
        return Scaffold(theta=torch.zeros_like(model.theta), step=step, steps=self.steps)

    def _measure(self, ask: Ask[Step, Update], monitor: TrainingMonitor) -> Moments:
        """Merge the sites' moments to those of all rows."""
        parts = []
        for answer in ask(Step("measure")):
            if not answer.value.finite:
                raise InputError(
                    f"{answer.name}: the network's gradients are not finite on its rows; try a smaller rate"
                )
            mean, variance = (answer.value.tensors[name].clone() for name in ("mean", "variance"))
            parts.append(Moments(answer.value.rows, mean, variance))
            self._linear_progress(monitor, 0, len(parts), "features")
        return merge(parts)

    def _prepare(self, ask: Ask[Step, Update], monitor: TrainingMonitor, standard: dict[str, Tensor]) -> float:
        """Let the sites standardise; return the largest eigenvalue over sites, if they compute it."""
        largest = 0.0
        for place, answer in enumerate(ask(Step("prepare", standard)), 1):
            largest = max(largest, answer.value.numbers.get("eigenvalue", 0.0))
            self._linear_progress(monitor, 1, place, "mean and scale")
        return largest

    def _linear_round(
        self, ask: Ask[Step, Update], monitor: TrainingMonitor, question: Step, solver: LBFGS | Scaffold, number: int
    ) -> dict[str, float]:
        """Give the solver the mean of the sites' answers, and return the metrics."""
        mean, asked, rows = WeightedMean(), 0, 0
        for answer in ask(question):
            update, asked = answer.value, asked + 1
            if update.finite:
                mean.add(
                    self.share(update.rows), {solver.answer: update.tensors[solver.answer].numpy()}, update.numbers
                )
                rows += update.rows
            else:
                logger.warning(
                    "round %d: the update of %s is not finite; the round goes on without it", number + 1, answer.name
                )
            self._linear_progress(monitor, PREPARING + number, asked, f"round {number + 1} of {self.linear_rounds}")
        if not mean.sites:
            advice = "a larger ridge" if self.solver == "lbfgs" else "a smaller step"
            raise InputError(f"round {number + 1}: no client's update is finite; try {advice}")
        found = mean.arrays({solver.answer: solver.theta.numpy()})[solver.answer]
        loss = mean.numbers()["loss"]
        solver.learn(torch.from_numpy(found), loss, rows=rows)
        return {"loss": loss, "refused": float(asked - mean.sites), **question.numbers}

    def _linear_progress(self, monitor: TrainingMonitor, asked: int, sites: int, text: str) -> None:
        """Report progress over both stages; the questions that prepare count as a round each."""
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
        classes, device = count_classes(network, sites), find_device(self.device)
        result = LinearisedModel.of(
            network, classes=classes, coordinates=self.coordinates, seed=self.seed, intercept=self.intercept
        )
        resume, start = monitor.resume, None
        residuals = torch.zeros(classes, sum(site.n for site in sites) if self.solver == "scaffold" else 0)
        if resume is not None:
            if residuals.numel():
                residuals = _found(resume, "residuals", residuals.shape)
            start = resume.round - self.rounds, resume.tensors

        def on_round(number: int, state: Mapping[str, Tensor], metrics: dict[str, float]) -> None:
            kept = {"weights": weights_of(network), **state, **({"residuals": residuals} if residuals.numel() else {})}
            monitor.finished_round(self.rounds + number, STAGE, kept, metrics)

        columns = result.theta.shape[1]
        sent, received = 2 * (classes + 1) * columns, max(classes, 2) * columns
        with (
            linear_task(self, result.features, sites, residuals, device) as task,
            self._pool(task, sites, device, sent=sent, received=received) as pool,
        ):
            self.fit_linear(pool.ask, result, monitor, on_round, start)
        return result.cpu().eval()


def _found(state: RoundState, name: str, shape: torch.Size) -> Tensor:
    found = state.tensors.get(name)
    if found is None or found.shape != shape:
        raise InputError("resume: the state is not from this model, these clients and these settings", param="resume")
    return found.to(torch.float32, copy=True)
