"""Evaluation over an engine: sites count on their own test rows and send only the counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from fedconformal.calibration.membership import needed_groups, own_sites
from fedconformal.calibration.predictor import Predictor, check_coverage
from fedconformal.errors import InputError
from fedconformal.evaluation import evaluate_intervals, full_sets
from fedconformal.federated.ask import Record, Sites, decode
from fedconformal.federated.questions import Outputs
from fedconformal.privacy.policy import EVALUATION, Outgoing, Policy, count_patients
from fedconformal.summaries.rows import read_rows


class Counts(Record, frozen=True, kw_only=True):
    """Counts of a predictor's sets or intervals on the test rows of one site, or of all."""

    rows: int
    covered: int
    size: float
    """Total number of labels in all sets; or total width of the finite intervals."""
    unbounded: int
    """Number of sets with every label; or of infinite intervals."""
    correct: int = 0
    """Number of rows whose most likely label is the true one."""

    @property
    def coverage(self) -> float:
        """Share of rows whose set or interval contains the truth."""
        return self.covered / self.rows

    @property
    def mean_size(self) -> float:
        """Mean number of labels per set; or mean width, meaningful only if no interval is unbounded."""
        return self.size / self.rows

    @property
    def accuracy(self) -> float:
        """Share of rows whose most likely label is the true one."""
        return self.correct / self.rows

    @classmethod
    def of_sets(cls, predictor: Predictor, rows: Outputs, site: str) -> Counts:
        """Count sets on a site's own rows."""
        named = predictor.certificate.class_names
        asked = tuple(named) if isinstance(named, list) else ()
        names, outputs, labels = rows.in_order(asked, predictor.certificate.provenance.temperature or 1.0)
        probs, truth, _ = read_rows(outputs, labels, names)
        own, known = needed_groups(predictor.certificate, rows.groups), own_sites(predictor.certificate, site)
        sets = predictor.predict_set(probs, groups=own, sites=known)
        return cls(
            rows=len(truth),
            covered=int(sets[np.arange(len(truth)), truth].sum()),
            size=float(sets.sum()),
            unbounded=full_sets(sets),
            correct=int((probs.argmax(axis=1) == truth).sum()),
        )

    @classmethod
    def of_intervals(cls, predictor: Predictor, rows: Outputs, site: str) -> Counts:
        """Count intervals on a site's own rows."""
        known = own_sites(predictor.certificate, site)
        ends = predictor.predict_interval(rows.outputs, sites=known)
        covered = evaluate_intervals(ends, rows.truth).overall.coverage
        finite = np.isfinite(ends).all(axis=1)
        width = float(np.diff(ends[finite], axis=1).sum())
        return cls(rows=len(ends), covered=round(covered * len(ends)), size=width, unbounded=int((~finite).sum()))

    @classmethod
    def total(cls, counts: Iterable[Counts]) -> Counts:
        """Return the sum of the counts of several sites."""
        parts = list(counts)
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in cls.__struct_fields__})

    def to_dict(self) -> dict[str, float]:
        """Return counts of sets for JSON, as shares of the rows."""
        shares = {"coverage": self.coverage, "mean_size": self.mean_size, "accuracy": self.accuracy}
        return {"rows": self.rows, **shares, "full_sets": self.unbounded}


class EvaluationQuestion(Record, frozen=True, kw_only=True, tag="evaluation"):
    """A question for counts of a predictor's sets or intervals on a site's test rows."""

    stage: ClassVar[str] = "evaluate"

    predictor: bytes

    def answer(self, rows: Outputs, *, site: str, model: str, policy: Policy) -> bytes:
        """Return the counts on a site's own rows, unless its policy forbids it."""
        predictor = check_coverage(Predictor.from_bytes(self.predictor))
        intervals = predictor.certificate.intervals
        counts = (Counts.of_intervals if intervals else Counts.of_sets)(predictor, rows, site)
        patients = count_patients(rows.ids)
        policy.check(Outgoing(kind=EVALUATION, rows=counts.rows, model=model, patients=patients))
        return counts.to_bytes()

    def read(self, data: bytes, *, site: str) -> Counts:
        """Decode the counts; impossible values are refused."""
        found: Counts = decode(data, Counts, "answer")
        shares = (found.covered, found.unbounded, found.correct)
        if found.rows < 1 or not all(0 <= count <= found.rows for count in shares) or not 0 <= found.size < math.inf:
            raise InputError(f"sent counts that {found.rows} rows cannot have")
        return found


class PredictorQuestion(Record, frozen=True, kw_only=True, tag="predictor"):
    """Sends every site the predictor to store."""

    stage: ClassVar[str] = "broadcast"

    predictor: bytes

    def read(self, data: bytes, *, site: str) -> None:
        """Expect an empty answer."""
        if data:
            raise InputError(f"sent {len(data)} bytes, expected none")


def evaluate(sites: Sites, model: Any, predictor: Predictor) -> dict[str, Counts]:
    """Ask every site for counts on its test rows: coverage, size and accuracy, or width, by site.

    Parameters
    ----------
    sites
        The engine's sites.
    model
        The model in the engine's format.
    predictor
        The result of `calibrate`.
    """
    sites.fingerprint(model)  # refuses a model that is not finite
    answers = sites.ask(EvaluationQuestion(predictor=predictor.to_bytes()), model)
    return {answer.name: answer.value for answer in answers}
