"""What calibrate says about sites that may lie: how many it allows for, and which sites are far from the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fedconformal._base.arrays import as_alpha
from fedconformal.guarantees import Guarantee, QuantileOfQuantiles, Robust
from fedconformal.privacy.screening import screen
from fedconformal.summaries.summary import Summary


def robustness(guarantee: Guarantee, summaries: Sequence[Summary], alpha: Any) -> Iterator[str]:
    """Say it line by line; nothing of a guarantee that expects no liars."""
    if not isinstance(guarantee, Robust | QuantileOfQuantiles):
        return
    sizes = [n for summary in summaries for n in summary.sizes]
    most = guarantee.withstands(as_alpha(alpha), sizes)
    about = " (about K alpha / (1 + alpha))" if isinstance(guarantee, Robust) else ""
    yield (
        f"Huge scores from up to {most} of these {len(sizes)} sites leave the threshold finite{about}; "
        "from more, they can put every label into every set."
    )
    if isinstance(guarantee, QuantileOfQuantiles) and (few := guarantee.too_small(sizes)):
        yield f"Of these sites {few} have fewer than {guarantee.least_scores} scores; they count as if all were huge."
    if len(summaries) < 3:
        return
    far = [found for found in screen(summaries) if found.flagged]
    for found in far:
        yield (
            f"site {found.site!r} is far from the rest (distance {found.distance:.2f}, noise {found.noise:.2f}); ask "
            "why: it was used like the others, and leaving it out because of its scores voids the promise"
        )
    if not far:
        yield "No site's scores are far from the rest."
