"""What every table and figure is made from: where the logits are, which data sets, and how scores are summarised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedconformal.errors import InputError
from fedconformal_paper.clients import GROUPS
from fedconformal_paper.logits import Answers, LogitsFolder
from fedconformal_paper.numbers import FULL_RESULTS
from fedconformal_paper.trials import TRIALS, RandomHalves, trials

DATASETS = tuple(FULL_RESULTS)
"""The paper's own, in its order."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A request; `track` shows how far a loop over its items has come."""

    logits: LogitsFolder
    datasets: Sequence[str] = DATASETS
    kind: str = "tdigest"
    count: int = TRIALS
    data: Path | None = None
    """Where data sets are, for figures of their classes."""
    track: Callable[[Sequence[Any]], Iterable[Any]] = iter
    differences: dict[str, str] = field(default_factory=dict)
    """For each file that was asked for: how it differs from the paper's experiment, or the command that makes it."""
    files: set[str] = field(default_factory=set)
    """The files of data sets that were asked for and found."""

    def __post_init__(self) -> None:
        """Refuse data sets that are not known."""
        known = sorted({*DATASETS, *GROUPS})
        for dataset in self.datasets:
            if dataset not in known:
                raise InputError(f"{dataset!r} is no data set here; there are {', '.join(known)}")

    @property
    def data_directory(self) -> Path:
        """Where data sets are: as given, or beside the directory of logits."""
        return self.data or self.logits.directory.parent

    def data_file(self, name: str) -> Path:
        """Find a file of a data set."""
        path = self.data_directory / name
        if not path.exists():
            raise InputError(f"{path}: does not exist; set FEDCONFORMAL_DATA to where {name} is")
        self.files.add(name)
        return path

    def trials(self, answers: Answers) -> Iterator[RandomHalves]:
        """Cut the rows in two as often as wanted, and show how far it is."""
        for _, trial in zip(self.track(range(self.count)), trials(answers, count=self.count), strict=True):
            yield trial

    def read(self, dataset: str, method: str, *, variant: str = "") -> Answers | None:
        """Read logits, and note how they differ from the paper's; None if there are none."""
        answers = self.logits.read(dataset, method, variant=variant)
        command = self.logits.command(dataset, method, variant=variant)
        self.differences[command.path.name] = command.absent if answers is None else answers.differs
        return answers

    def need(self, dataset: str, method: str, *, variant: str = "") -> Answers:
        """Read logits without which there is nothing to show, or say which command makes them."""
        answers = self.read(dataset, method, variant=variant)
        if answers is None:
            command = self.logits.command(dataset, method, variant=variant)
            raise InputError(f"{self.logits.directory}: has no {command.path.name}; make it with: {command}")
        return answers

    def remarks(self) -> list[str]:
        """Say what differs in all that was asked for; files with the same difference are listed together.

        >>> setup = Setup(logits=LogitsFolder(directory=Path("logits")))
        >>> setup.differences.update(a="2 rounds", b="absent", c="2 rounds")
        >>> setup.remarks()
        ['a, c: 2 rounds', 'b: absent']
        """
        names: dict[str, list[str]] = {}
        for name, text in self.differences.items():
            names.setdefault(text, []).append(name)
        return [f"{', '.join(some)}: {text}" for text, some in names.items()]
