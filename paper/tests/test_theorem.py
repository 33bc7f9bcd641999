"""The unified theorem: it contains Theorem 4.3, and its bound holds in simulation."""

import json
from fractions import Fraction

import numpy as np
import pytest
from fedconformal_paper.theorem import UnifiedTheorem

from fedconformal.errors import InputError
from fedconformal.guarantees import FCP
from tests.cli.command import Command


@pytest.mark.parametrize("sizes", [[9], [40, 5, 12], [100] * 20, [5] * 10])
def test_without_delta_and_epsilon_it_is_the_papers_rank(sizes: list[int]) -> None:
    found = FCP().rank(Fraction(1, 10), sizes)
    assert UnifiedTheorem(sizes=sizes).rank(0.1) == (found[0] if found and found[0] <= sum(sizes) else None)


def test_a_rank_promises_what_it_is_chosen_for_and_one_less_does_not() -> None:
    theorem = UnifiedTheorem(sizes=[60, 300, 90], delta=0.02, epsilon=0.01)
    rank = theorem.rank(0.1)
    assert rank is not None
    assert theorem.coverage(rank) >= Fraction(9, 10) > theorem.coverage(rank - 1)
    assert UnifiedTheorem(sizes=[20, 20], epsilon=0.1).rank(0.1) is None


def test_the_bound_holds_for_a_quantile_that_errs_by_epsilon() -> None:
    sizes, epsilon, alpha = [50, 20, 30], 0.05, 0.2
    theorem = UnifiedTheorem(sizes=sizes, epsilon=epsilon)
    rank = theorem.rank(alpha)
    assert rank is not None
    rng, centres = np.random.default_rng(0), (0.0, 1.0, 2.0)
    hits = []
    for _ in range(4000):
        scores = np.sort(np.concatenate([rng.normal(c, size=n) for c, n in zip(centres, sizes, strict=True)]))
        threshold = scores[rank - 1 - int(epsilon * sum(sizes))]
        site = rng.choice(3, p=(np.array(sizes) + 1) / (sum(sizes) + 3))
        hits.append(rng.normal(centres[site]) <= threshold)
    assert np.mean(hits) >= 1 - alpha - 3 * np.sqrt(alpha * (1 - alpha) / 4000)


def test_the_command_takes_epsilon(command: Command) -> None:
    done = command("paper", "theorem", "--sizes", "100,100", "--epsilon", "0.02", "--delta", "0.03", "--json")
    assert json.loads(done.out)["rank"] == UnifiedTheorem(sizes=[100, 100], delta=0.03, epsilon=0.02).rank(0.1)
    assert command("paper", "theorem", "--sizes", "a").code == 2
    with pytest.raises(InputError, match="epsilon is 1"):
        UnifiedTheorem(sizes=[10], epsilon=1)
