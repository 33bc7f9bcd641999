"""Who knows a row's score, and sees all sums, can hardly tell that the row is in there.

If one round counted all cells at once, the sums would give many rows away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy.sums import radix
from fedconformal.privacy.sums.radix import LEAST, Rounds, Search
from tests.privacy.attack import alone, decided, of_digits, watching
from tests.privacy.sums_play import SCORES, calibrate_by_sums

pytestmark = pytest.mark.long

SITES = 10
MEMBERS = 650


@pytest.mark.parametrize("score", [fc.LAC(), fc.APS()], ids=repr)
def test_hardly_a_member_is_decided(score: fc.Score, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="the attack is on scikit-learn's digits")
    draw = of_digits(score, MEMBERS)
    shares: dict[int, list[float]] = {3: [], 12: []}
    for seed in range(3):
        members, others, labels = draw(seed)
        exact = np.sort(members)[9 * MEMBERS // 10]  # the next rank after nine tenths
        for width, found in shares.items():
            monkeypatch.setattr(radix, "WIDTH", width)
            with watching() as seen:
                threshold = calibrate_by_sums({f"site-{k}": members[k::SITES] for k in range(SITES)}).threshold
            found.append(decided(seen, members, others) / MEMBERS)
            assert exact <= threshold
            assert (labels <= threshold).mean() <= 1.1 * (labels <= exact).mean()  # what it costs in labels
    assert max(shares[3]) <= 0.01
    assert min(shares[12]) >= 0.015  # or the attack would be too weak to show anything
    assert sum(shares[12]) >= 5 * sum(shares[3])


def test_hardly_a_row_is_seen_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).beta(10, 0.5, 10_000)  # a weak model for many classes
    for width, fewest, most in ((12, 50, 10_000), (3, 0, 2)):
        monkeypatch.setattr(radix, "WIDTH", width)
        with watching() as seen:
            calibrate_by_sums({f"site-{k}": scores[k::SITES] for k in range(SITES)})
        assert fewest <= alone(seen) <= most


def test_the_certificate_says_how_precise_it_is() -> None:
    found = calibrate_by_sums(SCORES).certificate
    assert found.privacy is not None
    precision = found.privacy["precision"]
    plain = np.sort(np.concatenate(list(SCORES.values())))[126]  # rank 0.9 * 140 + 1
    assert precision["above"] < plain <= found.limit
    assert (precision["least"], precision["stopped"]) == (LEAST, "its cell has fewer than 50 rows")
    assert (found.status, found.coverage_at_least, found.coverage_at_most) == ("certified", 0.9, 1.0)
    assert "the upper edge of a public cell" in found.statement.caveat


def test_one_site_of_one_row_moves_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing bounds the counts of a site by its rows: the certificate says that sites have to follow the protocol."""
    sites = {f"site-{k}": np.random.default_rng(k).random(100) for k in range(9)} | {"liar": np.array([0.5])}
    honest = calibrate_by_sums(sites).threshold
    histogram = Rounds.histogram

    def lying(rounds: Rounds, search: Search, keys: Any) -> Any:
        counts = histogram(rounds, search, keys)
        if len(keys) == 1 and search.number == 0:  # 400 rows too many up to 1/32, as many too few up to 31/32
            return counts + np.array([0, 0, 400, 0, 2**32 - 400, 0, 0, 0], dtype=np.uint32)
        return counts

    monkeypatch.setattr(Rounds, "histogram", lying)
    found = calibrate_by_sums(sites)
    assert float(found.threshold) < 0.6
    assert float(honest) > 0.9
    assert found.certificate.status == "certified"
    assert "every site follows the protocol" in found.certificate.statement.caveat
