"""Train-convexify-train: FedAvg learns features, then a linear model on their gradients is trained to its optimum.

The second problem is convex, so heterogeneous sites agree on one solution. The server solves it by `lbfgs.py`, or by
SCAFFOLD as the authors do: Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: stochastic controlled
averaging for federated learning", 2020. The steps of a site are in `linear_site.py` and `linear_stage.py`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.federated.ask import Ask
from fedconformal.training.clients import ClientData, count_classes, pack
from fedconformal.training.features import GradientFeatures, draw_coordinates, one_output
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.lbfgs import LBFGS
from fedconformal.training.linear_site import ROWS, FeatureStorage, LinearTask
from fedconformal.training.linear_stage import CONSTANT, CURVATURE, Loss, Moments, merge, scale_of
from fedconformal.training.pool import one_thread
from fedconformal.training.step import OnRound, RoundState, Step, Update, average
from fedconformal.training.trainer import Count, NotNegative, Positive, Trainer
from fedconformal.training.weights import weights_of, with_weights

logger = logging.getLogger(__name__)

SAFE = 0.9
"""Maximum step of SCAFFOLD, as a fraction of the largest step at which gradient descent converges."""


class LinearisedModel(nn.Module):
    """Model whose logits are linear in the standardised gradient features of a network.

    Parameters
    ----------
    features
        Gradient features of a network with one output.
    classes
        Number of logits.
    intercept
        Whether the last column of theta is a constant.
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
        """Return the logits of a batch, computed in chunks with one thread; each chunk is too small for more."""
        slopes, constant = self.theta[:, : self.features.count], self.theta[:, self.features.count :]
        with one_thread():
            parts = [self.features(rows).sub_(self.mean).mul_(self.scale) @ slopes.T for rows in x.split(ROWS)]
        return torch.cat(parts) + CONSTANT * constant.sum(dim=1)


@dataclass(eq=False, kw_only=True)
class Scaffold:
    """State of the server in SCAFFOLD; `control` is the mean gradient over sites and steps of the last round."""

    answer: ClassVar[str] = "control"
    """Name of the tensor in a site's answer."""
    done: ClassVar[bool] = False

    theta: Tensor
    step: float
    steps: int

    def __post_init__(self) -> None:
        self.control = torch.zeros_like(self.theta)

    def question(self) -> Step:
        """Return the step that requests the mean gradient over local steps from theta."""
        return Step("round", {"theta": self.theta, "control": self.control}, {"step": self.step})

    def learn(self, control: Tensor, _loss: float, *, rows: int) -> None:
        """Move theta by the mean local update of the sites; their corrections cancel."""
        self.control = control
        self.theta = self.theta - self.step * self.steps * control

    def state(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint."""
        return {"theta": self.theta, "control": self.control}

    def resume(self, state: RoundState) -> None:
        """Restore the tensors of a checkpoint."""
        self.theta, self.control = (state.tensor(name, self.theta.shape) for name in ("theta", "control"))


@dataclass(frozen=True, kw_only=True)
class TCT(Trainer):
    """FedAvg, then a linear model on the gradient features of the trained network.

    The other parameters are those of `Trainer`.

    Parameters
    ----------
    rounds, linear_rounds
        Rounds of FedAvg, or 0 to keep the weights; maximum rounds of the linear model (L-BFGS stops at the optimum).
    coordinates
        Number of features, one per sampled weight of the network; at most all.
    solver
        "lbfgs" asks for one gradient a round; "scaffold", as in the authors' code, takes many local steps.
    intercept
        Whether logits have a constant. The authors have none, which suits classes of equal size.
    ridge
        For L-BFGS: ridge / 2 times the squared norm of theta is added to the sum of all rows' losses.
    steps, step
        For SCAFFOLD: local steps of full gradient descent in a round, and their size on features divided by the square
        root of their number, lowered if unstable.
    loss
        Loss of the linear model; with squared loss the sets are larger (the paper's ablation).
    memory
        GB for features; above it they are stored in the temporary folder, in half precision.

    Examples
    --------
    >>> x, y = torch.tensor([[-1.0], [1.0]]).repeat(20, 1), torch.tensor([0, 1]).repeat(20)
    >>> tct = TCT(rounds=1, linear_rounds=5, coordinates=8, workers=1)
    >>> model = tct.fit(nn.Linear(1, 2), [(x[y == k], y[y == k]) for k in (0, 1)])
    >>> model(torch.tensor([[-1.0], [1.0]])).argmax(dim=1)
    tensor([0, 1])

    References
    ----------
    Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent
    kernels", 2022.
    """

    name: ClassVar[str] = "tct"

    rounds: NotNegative = 20
    linear_rounds: Count = 20
    coordinates: Count = 10_000
    solver: Literal["lbfgs", "scaffold"] = "lbfgs"
    intercept: bool = True
    ridge: Positive = 0.3
    steps: Count = 500
    step: Positive = 10.0
    loss: Loss = "cross-entropy"
    memory: Positive = 8.0

    @property
    def total_rounds(self) -> int:
        return self.rounds + self.linear_rounds

    @property
    def first_stage(self) -> FedAvg | None:
        """The first stage; None with zero rounds, when the second one starts from the given weights."""
        common = {setting.name: getattr(self, setting.name) for setting in fields(Trainer)}
        return FedAvg(**common) if self.rounds else None

    def fit_linear(
        self,
        ask: Ask[Step, Update],
        model: LinearisedModel,
        on_round: OnRound = lambda _state: None,
        resume: RoundState | None = None,
    ) -> None:
        """Run the second stage, and set the model's mean, scale and theta."""
        moments = self._measure(ask)
        model.mean, model.scale = moments.mean.float(), scale_of(moments)
        standard = {"mean": model.mean, "scale": model.scale}
        answers = ask(Step("prepare", standard))  # sites compute an eigenvalue for SCAFFOLD only
        eigenvalue = max([0.0, *(answer.value.numbers.get("eigenvalue", 0.0) for answer in answers)])
        solver, done = self._solver(model, moments.rows, eigenvalue), self.rounds
        if resume is not None:
            done = resume.round
            solver.resume(resume)
        advice = "a larger ridge" if self.solver == "lbfgs" else "a smaller step"
        while done < self.total_rounds and not solver.done:
            done += 1
            question = solver.question()
            answers = ask(replace(question, tensors={**standard, **question.tensors}))
            like = {solver.answer: solver.theta}
            mean = average(answers, like, self.share, number=done - self.rounds, advice=advice)
            solver.learn(mean.tensors[solver.answer], mean.numbers["loss"], rows=mean.rows)
            metrics = {**mean.numbers, **question.numbers}
            on_round(RoundState(round=done, stage=self.name, tensors=solver.state(), metrics=metrics))
        model.theta = solver.theta

    def _measure(self, ask: Ask[Step, Update]) -> Moments:
        """Merge the sites' moments into those of all rows."""
        parts = []
        for site, update, _ in ask(Step("measure")):
            if not update.finite:
                raise InputError(f"{site}: the network's gradients are not finite on its rows; try a smaller rate")
            parts.append(Moments(update.rows, update.tensors["mean"], update.tensors["variance"]))
        return merge(parts)

    def _solver(self, model: LinearisedModel, rows: int, eigenvalue: float) -> LBFGS | Scaffold:
        if self.solver == "lbfgs":
            penalty = torch.full_like(model.theta[0], self.ridge / rows)
            penalty[model.features.count :] = 0.0
            return LBFGS(theta=torch.zeros_like(model.theta), penalty=penalty)
        limit = SAFE * 2 / (CURVATURE[self.loss] * eigenvalue) if eigenvalue > 0 else math.inf
        if self.step > limit:
            logger.warning("the step %g is not stable on these features; taking %.3g", self.step, limit)
        return Scaffold(theta=torch.zeros_like(model.theta), step=min(self.step, limit), steps=self.steps)

    def _train(
        self, model: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None
    ) -> nn.Module:
        """Train both stages on this machine; return the linear model as a module that takes the same inputs."""
        if resume is not None and resume.stage == self.name and resume.round >= self.rounds:
            network = with_weights(model, resume.tensor("weights", weights_of(model).shape))
            return self._train_linear(network, sites, on_round, resume)
        if self.first_stage:
            model = self.first_stage._train(model, sites, on_round, resume)
        return self._train_linear(with_weights(model, weights_of(model)), sites, on_round)

    def _train_linear(
        self, network: nn.Module, sites: list[ClientData], on_round: OnRound, resume: RoundState | None = None
    ) -> nn.Module:
        classes = count_classes(network, sites)
        result = LinearisedModel.of(
            network, classes=classes, coordinates=self.coordinates, seed=self.seed, intercept=self.intercept
        )
        residuals = torch.zeros(classes, sum(site.n for site in sites) if self.solver == "scaffold" else 0)
        if resume is not None and residuals.numel():
            residuals = resume.tensor("residuals", residuals.shape)

        def with_network(state: RoundState) -> None:
            kept = {"weights": weights_of(network), **state.tensors}
            if residuals.numel():
                kept["residuals"] = residuals.clone()
            on_round(replace(state, tensors=kept))

        with linear_task(self, result.features, sites, residuals) as task, self._engine(task, sites) as ask:
            self.fit_linear(ask, result, with_network, resume)
        return result.cpu().eval()


@contextlib.contextmanager
def linear_task(
    settings: TCT, features: GradientFeatures, sites: list[ClientData], residuals: Tensor
) -> Iterator[LinearTask]:
    """Create the task of these sites; features on disk exist within the context."""
    with tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        storage = FeatureStorage(
            [site.n for site in sites],
            features.count + settings.intercept,
            memory=settings.memory,
            folder=Path(folder),
            device=settings.torch_device,
            inner=settings.solver == "scaffold",
        )
        yield LinearTask(
            features=features.to(storage.device),
            clients=pack(sites),
            settings=settings,
            storage=storage,
            residuals=residuals,
        )
