"""Inputs of tables and figures: location of logits, data sets, and kind of summaries."""

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
    """Settings of a table or figure; `track` shows the progress of a loop over its items."""

    logits: LogitsFolder
    datasets: Sequence[str] = DATASETS
    kind: str = "tdigest"
    count: int = TRIALS
    data: Path | None = None
    """Directory of data sets, for figures of their classes."""
    track: Callable[[Sequence[Any]], Iterable[Any]] = iter
    differences: dict[str, str] = field(default_factory=dict)
    """For each requested file, its deviation from the paper's experiment, or the command that makes it."""
    files: set[str] = field(default_factory=set)
    """Requested files of data sets that exist."""

    def __post_init__(self) -> None:
        """Refuse unknown data sets."""
        known = sorted({*DATASETS, *GROUPS})
        for dataset in self.datasets:
            if dataset not in known:
                raise InputError(f"{dataset!r} is no data set here; there are {', '.join(known)}")

    @property
    def data_directory(self) -> Path:
        """Directory of data sets: as given, or the parent of the directory of logits."""
        return self.data or self.logits.directory.parent

    def data_file(self, name: str) -> Path:
        """Find a file of a data set."""
        path = self.data_directory / name
        if not path.exists():
            raise InputError(f"{path}: does not exist; set FEDCONFORMAL_DATA to where {name} is")
        self.files.add(name)
        return path

    def trials(self, answers: Answers) -> Iterator[RandomHalves]:
        """Yield random halves of the rows, with progress."""
        for _, trial in zip(self.track(range(self.count)), trials(answers, count=self.count), strict=True):
            yield trial

    def read(self, dataset: str, method: str, *, variant: str = "") -> Answers | None:
        """Read logits, and record their deviations from the paper's; None if they are absent."""
        answers = self.logits.read(dataset, method, variant=variant)
        command = self.logits.command(dataset, method, variant=variant)
        self.differences[command.path.name] = command.absent if answers is None else answers.differs
        return answers

    def need(self, dataset: str, method: str, *, variant: str = "") -> Answers:
        """Read required logits; if absent, the error names the command that makes them."""
        answers = self.read(dataset, method, variant=variant)
        if answers is None:
            command = self.logits.command(dataset, method, variant=variant)
            raise InputError(f"{self.logits.directory}: has no {command.path.name}; make it with: {command}")
        return answers

    def remarks(self) -> list[str]:
        """Return the deviations of all requested files, grouped by deviation.

        >>> setup = Setup(logits=LogitsFolder(directory=Path("logits")))
        >>> setup.differences.update(a="2 rounds", b="absent", c="2 rounds")
        >>> setup.remarks()
        ['a, c: 2 rounds', 'b: absent']
        """
        names: dict[str, list[str]] = {}
        for name, text in self.differences.items():
            names.setdefault(text, []).append(name)
        return [f"{', '.join(some)}: {text}" for text, some in names.items()]
