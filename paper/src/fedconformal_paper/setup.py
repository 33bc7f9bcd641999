"""What every table and figure is made from: where the logits are, which data sets, and how scores are summarised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedconformal.errors import InputError
from fedconformal_paper.clients import GROUPS
from fedconformal_paper.logits import Answers, Source
from fedconformal_paper.numbers import FULL_RESULTS
from fedconformal_paper.trials import TRIALS, Trial, trials

DATASETS = tuple(FULL_RESULTS)
"""The paper's own, in its order."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A request; `track` shows how far a loop over its items has come."""

    source: Source
    datasets: Sequence[str] = DATASETS
    kind: str = "tdigest"
    count: int = TRIALS
    data: Path | None = None
    """Where data sets are, for figures of their classes."""
    track: Callable[[Sequence[Any]], Iterable[Any]] = iter
    told: dict[str, str] = field(default_factory=dict)
    """What was asked for so far: how it differs from the paper's experiment, or the command that would make it."""

    def __post_init__(self) -> None:
        """Refuse data sets that nobody knows."""
        known = sorted({*DATASETS, *GROUPS})
        for dataset in self.datasets:
            if dataset not in known:
                raise InputError(f"{dataset!r} is no data set here; there are {', '.join(known)}")

    @property
    def data_directory(self) -> Path:
        """Where data sets are: as given, or beside the directory of logits."""
        return self.data or self.source.directory.parent

    def data_file(self, name: str) -> Path:
        """Find a file of a data set."""
        path = self.data_directory / name
        if not path.exists():
            raise InputError(f"{path}: does not exist; set FEDCONFORMAL_DATA to where {name} is")
        return path

    def trials(self, answers: Answers) -> Iterator[Trial]:
        """Cut the rows in two as often as wanted, and show how far it is."""
        for _, trial in zip(self.track(range(self.count)), trials(answers, count=self.count), strict=True):
            yield trial

    def read(self, dataset: str, method: str, *, variant: str = "") -> Answers | None:
        """Read logits, and keep in mind what is to be told of them; None if there are none."""
        answers = self.source.read(dataset, method, variant=variant)
        command = self.source.command(dataset, method, variant=variant)
        self.told[command.path.name] = f"absent; make it with: {command}" if answers is None else answers.differs
        return answers

    def need(self, dataset: str, method: str, *, variant: str = "") -> Answers:
        """Read logits without which there is nothing to show, or say the command that would make them."""
        answers = self.read(dataset, method, variant=variant)
        if answers is None:
            command = self.source.command(dataset, method, variant=variant)
            raise InputError(f"{self.source.directory}: has no {command.path.name}; make it with: {command}")
        return answers

    def remarks(self) -> list[str]:
        """Say of all that was asked for what differs; what is told of several is told once.

        >>> setup = Setup(source=Source(directory=Path("logits")))
        >>> setup.told.update(a="2 rounds", b="absent", c="2 rounds")
        >>> setup.remarks()
        ['a, c: 2 rounds', 'b: absent']
        """
        names: dict[str, list[str]] = {}
        for name, text in self.told.items():
            names.setdefault(text, []).append(name)
        return [f"{', '.join(some)}: {text}" for text, some in names.items()]
