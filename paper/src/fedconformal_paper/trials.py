"""Random halves of the held-out rows for calibration and testing, ten times, as in the paper.

In each trial the temperature is fitted on the calibration rows, as in the paper; the scores of these rows are then
not exactly exchangeable with those of the test rows. In practice use separate rows, as `fedconformal train` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers, Probabilities, as_alpha
from fedconformal.calibration.search import Search
from fedconformal.guarantees import FCP, Guarantee
from fedconformal.scores import Score
from fedconformal.summaries import Summary, pool
from fedconformal_paper.logits import Answers
from fedconformal_paper.temperature import Temperatures, probabilities, shifted

TRIALS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Half:
    """Half of the rows: their indices, probabilities, labels and clients."""

    index: Integers
    probs: Probabilities
    labels: Integers
    clients: Integers

    def scores(self, score: Score) -> Floats:
        """Return the scores of the labels."""
        return score.evaluate(self.probs, self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomHalves:
    """One trial: the calibration half and the test half, at the fitted temperature."""

    calibration: Half
    test: Half
    temperature: float

    def summaries(self, score: Score, kind: str, alpha: Fraction) -> list[Summary]:
        """Return the summaries of each client's calibration scores."""
        scores, owners = self.calibration.scores(score), self.calibration.clients
        held = np.flatnonzero(np.bincount(owners))
        return [Summary.of_scores(scores[owners == k], kind=kind, alpha=alpha, site=f"client-{k}") for k in held]

    def thresholds(
        self, score: Score, alphas: Sequence[float], *, kind: str = "tdigest", guarantee: Guarantee | None = None
    ) -> list[float]:
        """Return the threshold at each alpha from the clients' summaries; by default for the mixture of Theorem 1."""
        wanted = [as_alpha(alpha) for alpha in alphas]
        summaries = self.summaries(score, kind, wanted[0])
        sizes = [summary.n for summary in summaries]
        bound = (guarantee or FCP()).bind([site for s in summaries for site in s.sites], sizes)
        ranks = [bound.band(alpha, sizes).rank for alpha in wanted]
        if kind == "tdigest" and all(ranks):  # the paper's server merges the digests and reads the merged one
            merged = pool(summaries)
            points = merged.points
            found = np.searchsorted(merged.bounds(points)[0], [rank for rank in ranks if rank])
            return [float(point) for point in np.append(points, np.inf)[found]]
        search = Search(summaries, bound, sizes)
        return [search.smallest(alpha) for alpha in wanted]

    def sets(self, score: Score, threshold: float) -> Booleans:
        """Return the sets of the test rows, which always include the top label, as in the paper."""
        return score.predict_set(self.test.probs, threshold)

    def covered(self, sets: Booleans) -> Booleans:
        """Return which test rows have their label in their set."""
        found: Booleans = sets[np.arange(len(sets)), self.test.labels]
        return found


def trials(answers: Answers, *, count: int = TRIALS, seed: int = 0) -> Iterator[RandomHalves]:
    """Yield `count` random splits of the rows into halves, determined by the seed."""
    labels, clients = answers.labels, answers.clients
    fitted = np.zeros_like(clients) if answers.central else clients
    logits = shifted(answers.logits)
    temperatures = Temperatures.of(logits, labels, fitted)
    rng = np.random.default_rng(seed)
    half = len(labels) // 2
    for _ in range(count):
        order = rng.permutation(len(labels))
        calibration, test = np.sort(order[:half]), np.sort(order[half:])
        held = logits[calibration]
        temperature = temperatures.mean(held, calibration)
        first, second = (
            Half(index=index, probs=probabilities(part, temperature), labels=labels[index], clients=clients[index])
            for index, part in ((calibration, held), (test, logits[test]))
        )
        yield RandomHalves(calibration=first, test=second, temperature=temperature)
