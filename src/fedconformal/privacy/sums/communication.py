"""What the paper says of communication, to stand beside the bytes that were measured.

Its appendix quotes Huang, Wang, Yi and Liu, "Sampling based algorithms for quantile computation in sensor networks",
2011, Theorem 3: an e-approximate quantile of K sites' scores takes O(K/e) bits in all. That is for a randomised sampler
and without its constant, so it is an order of magnitude, and at the paper's own e = ((N + K) alpha - 1) / N the promise
that is left is 1 - 2 alpha. An e of 1/N asks for the exact order statistic, which is what sums give.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any


def quoted_bound(clients: int, scores: int, alpha: Fraction) -> dict[str, Any]:
    """Return K/e in bits at the paper's e, if it has one, and at 1/N.

    >>> quoted_bound(10, 2000, Fraction(1, 10))
    {'epsilon': 0.1, 'bits': 100, 'bits_if_exact': 20000}
    """
    error = (alpha * (scores + clients) - 1) / scores
    possible = error > 0
    return {
        "epsilon": float(error) if possible else None,
        "bits": math.ceil(clients / error) if possible else None,
        "bits_if_exact": clients * scores,
    }


def bound_in_words(bound: dict[str, Any]) -> str:
    """Say the bound in one sentence.

    >>> print(bound_in_words(quoted_bound(10, 2000, Fraction(1, 10))))
    The paper quotes O(K/e) bits in all, for a randomised sampler: 100 at its e = 0.1, 20,000 at e = 1/N, if exact.
    """
    own = "" if bound["bits"] is None else f"{bound['bits']:,} at its e = {bound['epsilon']:.3g}, "
    start = "The paper quotes O(K/e) bits in all, for a randomised sampler"
    return f"{start}: {own}{bound['bits_if_exact']:,} at e = 1/N, if exact."
