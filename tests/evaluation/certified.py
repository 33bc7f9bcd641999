"""Certificates and evaluations for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.evaluation import Evaluation, evaluate_sets
from fedconformal.evaluation.coverage import CoverageEvaluation
from fedconformal.evaluation.verdict import Verdict
from tests.contracts.tools import maybe_infeasible


def certified(guarantee: Any, sizes: Mapping[str, int], *, alpha: float = 0.1, named: bool = True) -> fc.Certificate:
    """Calibrate sites of these sizes, with evenly spread scores and two classes."""
    by_class = isinstance(guarantee, fc.ByClass)
    summaries = [
        fc.Summary.of_scores(
            np.linspace(0, 1, n),
            kind="exact",
            site=site if named else None,
            score=fc.LAC(),
            labels=np.arange(n) % 2 if by_class else None,
        )
        for site, n in sizes.items()
    ]
    with maybe_infeasible():
        return fc.calibrate(summaries, alpha=alpha, guarantee=guarantee).certificate


def evaluated(covered: Any, *, others: Any = True, **more: Any) -> Evaluation:
    """Evaluate sets of two labels, of which the first is the true one of every row."""
    covered = np.asarray(covered)
    sets = np.stack([covered, np.broadcast_to(others, covered.shape)], axis=1)
    return evaluate_sets(sets, np.zeros(len(covered), dtype=int), **more)


def said(evaluation: CoverageEvaluation[Any]) -> Verdict:
    """Return the verdict of an evaluation that has one."""
    assert evaluation.verdict is not None
    return evaluation.verdict
