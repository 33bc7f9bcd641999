"""Messages of sites, made from misses that are drawn at random."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.monitoring.combine import SiteHistory
from fedconformal.monitoring.messages import Period, Stream, Tally
from fedconformal.monitoring.monitor import log_e

PREDICTOR = bytes(range(32))
START = 20454
"""2026-01-01."""


def messages(
    site: str,
    rates: Sequence[float],
    *,
    seed: int = 0,
    rows: int = 20,
    days: int = 1,
    labels: float = 0.9,
    limit: float = 0.13,
    failure: float = 0.001,
    groups: Mapping[str, float] | None = None,
) -> list[Period]:
    """One message for each of these miss rates; a share of the rows has its outcome at once, the others later."""
    rng = np.random.default_rng([seed, *site.encode()])
    totals = {"": Tally(), **dict.fromkeys(groups or {}, Tally())}
    found = []
    for i, rate in enumerate(rates):
        streams = []
        for group, before in totals.items():
            new = int(rng.poisson(rows * days / (1 if not group else 3)))
            own = rate if not group else min(1.0, rate * (groups or {})[group])
            outcomes = int(rng.binomial(before.waiting, 0.3 if labels else 0)) + int(rng.binomial(new, labels))
            after = Tally(
                known=before.known + outcomes,
                misses=before.misses + int(rng.binomial(outcomes, own)),
                waiting=before.waiting + new - outcomes,
                sizes=before.sizes + int(rng.poisson(1.4 * new)),
            )
            streams.append(Stream(limit, 0.025, failure, before, after, group))
            totals[group] = after
        first = START + i * days
        found.append(Period(PREDICTOR, site, first, first + days - 1, tuple(streams)))
    return found


def history(site: str, known: Floats, misses: Floats, limit: float = 0.13, false_alarm: float = 0.025) -> SiteHistory:
    """The history of a site with these counts at the end of each day, in which no row waits."""
    return SiteHistory(
        site=site,
        group="",
        limit=limit,
        false_alarm=false_alarm,
        failure=1e-5,
        days=START + np.arange(-1, len(known) - 1),
        known=known,
        misses=misses,
        waiting=np.zeros(len(known)),
        sizes=1.5 * known,
        log_e=log_e(misses, known - misses, limit),
        alarm=None,
    )
