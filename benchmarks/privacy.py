"""Sums only, with and without masks, and a private release: seconds, bytes, and a ratio to one np.sort.

Everybody runs in one process, so the seconds (of one core) are those of all sites and the coordinator together. Beside
the bytes is K/e, the order of bits that Huang et al. (2011, Theorem 3, quoted in the paper's appendix) need for an
e-approximate quantile: a bound without its constant, for a randomised sampler. Sums give the exact one, rounded up to a
public cell.
"""

# ruff: noqa: T201

from __future__ import annotations

import math
import sys
import time
from fractions import Fraction

import numpy as np
from common import best, interleaved, save, table

from fedconformal._base.arrays import keys_of
from fedconformal.guarantees import Mixture
from fedconformal.privacy.dp import choose, default_grid, plan_release, utilities
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import InMemory, Reader, run_session
from fedconformal.privacy.sums.messages import Message
from fedconformal.privacy.sums.radix import Search, score_rounds
from fedconformal.privacy.sums.site import new_site
from fedconformal.summaries import Summary

ROWS = 200
ALPHA = Fraction(1, 10)
ERROR = 0.001
"""The e of the bound; exact order statistics have none."""


class Counting(InMemory):
    """A channel that counts the bytes that sites send."""

    sent = 0

    def _exchange(self, place: int, message: bytes, read: Reader) -> Message:
        def counted(data: bytes) -> Message:
            self.sent += len(data)
            return read(data)

        return super()._exchange(place, message, counted)


def plain(sites: list[np.ndarray]) -> tuple[int, int]:
    """Find the threshold from sums without masks; return the rounds, and the bytes that a site sends."""
    rounds, search = score_rounds(Mixture(), ALPHA, [len(site) for site in sites]), Search()
    keys = [keys_of(site) for site in sites]
    sent = 0
    while search.answer is None:
        total = np.zeros(rounds.cells(search.number), dtype=rounds.dtype)
        for part in keys:
            total += rounds.histogram(search, part)
        sent += total.nbytes
        search = rounds.advance(search, total, frozenset(range(len(keys))))
    return search.number, sent


def sums(counts: tuple[int, ...]) -> list[dict[str, object]]:
    """Measure sessions of more and more sites."""
    found: list[dict[str, object]] = []
    rng = np.random.default_rng(0)
    for count in counts:
        sites = [rng.random(ROWS) for _ in range(count)]
        named = {f"site-{k}": site for k, site in enumerate(sites)}
        bound = {"K/e, bytes in all": math.ceil(count / ERROR / 8)}
        start = time.process_time()
        rounds, sent = plain(sites)
        row = {"sites": count, "rounds": rounds, "masks": "no", "seconds": time.process_time() - start}
        found.append({**row, "bytes up a site": sent, **bound})
        for epsilon in (None, 1):
            start = time.process_time()
            channel = Counting(new_site(name, scores) for name, scores in named.items())
            state = run_session(lambda epsilon=epsilon: invite(Mixture(), ALPHA, epsilon=epsilon), channel)
            masks = "yes" if epsilon is None else "and noise"
            row = {"sites": count, "rounds": state.search.number, "masks": masks}
            seconds = {"seconds": time.process_time() - start}
            found.append({**row, **seconds, "bytes up a site": round(channel.sent / count), **bound})
    return found


def private() -> dict[str, float]:
    """Time a private release from a million scores beside one sort of them."""
    scores = np.random.default_rng(1).random(1_000_000)
    summary = Summary.of_scores(scores, kind="exact")
    grid = default_grid()

    def release() -> None:
        planned = plan_release(Mixture(), ALPHA, [len(scores)], Fraction(1), len(grid))
        if planned is not None:
            choose(utilities(summary.bounds(grid)[0], planned.aimed), Fraction(1))

    release()
    return best(interleaved({"np.sort": lambda: np.sort(scores), "release": release}, rounds=5))


def main() -> None:
    """Print both tables and save them; numbers of sites may be given instead of the usual ones."""
    rows = sums(tuple(map(int, sys.argv[1:])) or (10, 1_000, 10_000))
    table(list(rows[0]), [list(row.values()) for row in rows])
    fastest = private()
    print(f"\nprivate release of 1,000,000 scores: {fastest['release'] / fastest['np.sort']:.2f} times one np.sort")
    save("privacy", {"sums": rows, "private": fastest})


if __name__ == "__main__":
    main()
