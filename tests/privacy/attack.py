"""Membership in a sum. The attacker knows the scores of all members, of as many others, and sees all sums.

It calls those members that are in a cell with no more candidates than rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats, keys_of
from fedconformal.privacy.sums.radix import Rounds, Search

Seen = list[tuple[Rounds, Search, Any]]
"""Sums that the coordinator sees."""


@contextmanager
def watching() -> Iterator[Seen]:
    """See all sums of the sessions in here."""
    found: Seen = []
    advance = Rounds.advance

    def watched(rounds: Rounds, search: Search, total: Any, present: frozenset[int]) -> Search:
        found.append((rounds, search, total))
        return advance(rounds, search, total, present)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, "advance", watched)
        yield found


def decided(seen: Seen, members: Floats, others: Floats) -> int:
    """Count the members that are in a cell with no more candidates than rows."""
    known = np.zeros(len(members), dtype=bool)
    for rounds, search, total in seen:
        candidates = rounds.histogram(search, keys_of(np.concatenate([members, others])))
        path = np.searchsorted(rounds.edges, members) >> rounds.bits - sum(rounds.widths[: search.number + 1])
        inside = path >> rounds.widths[search.number] == search.prefix
        digits = path[inside] & len(total) - 1
        known[inside] |= candidates[digits] == total[digits]
    return int(known.sum())


Draw = Callable[[int], tuple[Floats, Floats, Floats]]
"""From a seed to scores of members, of as many others, and of all labels of the others."""


def of_digits(score: fc.Score, count: int) -> Draw:
    """Scores of scikit-learn's digits, by a model that was fitted to further rows."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rows, labels = load_digits(return_X_y=True)

    def draw(seed: int) -> tuple[Floats, Floats, Floats]:
        order = np.random.default_rng(seed).permutation(len(rows))
        train, members, others, _ = np.split(order, [497, 497 + count, 497 + 2 * count])
        model = LogisticRegression(max_iter=200).fit(rows[train] / 16, labels[train])
        probs = model.predict_proba(rows / 16)
        found = score.evaluate(probs, labels)
        return found[members], found[others], score.evaluate_all(probs[others])

    return draw
