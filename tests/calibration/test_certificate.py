"""The certificate: what it states."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.certificates import text
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import altered


def two_sites(**about: Any) -> list[fc.Summary]:
    return [
        fc.Summary.of_scores(np.arange(20) / 20, kind="exact", site="a", **about),
        fc.Summary.of_scores([0.5, 0.7, 0.9], kind="ranks", site="b", **about),
    ]


def test_everything_is_stated() -> None:
    score = fc.RAPS(randomized=True, random_state=7)
    sites = two_sites(score=score, model="m-1", temperature=1.5)
    about = fc.calibrate(sites, alpha=0.2, exact=True).certificate
    stated = about.to_dict()
    score_fields = {"name": "raps", "randomized": True, "random_state": 7, "penalty": 0.001, "free_ranks": 1}
    band = {"coverage_at_least": 19 / 23, "coverage_at_most": 20 / 23}
    assert stated | {"statement": {}} == {
        "status": "certified",
        "statement": {},
        "alpha": 0.2,
        "target": "19/23",
        "guarantee": {"name": "mixture", "weights": "rows"},
        "promises": [{"scores": 23, "threshold": 0.85, "rank": 20, "rank_out_of": 23, "slack": 0.0, **band}],
        **band,
        "exact": True,
        "provenance": {"score": score_fields, "model": "m-1", "temperature": 1.5},
        "summaries": [
            {"sites": ["a"], "sizes": [20], "kind": "exact", "sha256": digest_of(sites[0])},
            {"sites": ["b"], "sizes": [3], "kind": "ranks", "sha256": digest_of(sites[1])},
        ],
        "versions": {"fedconformal": fc.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    assert about.statement.assumption == text.assumption(fc.Mixture(), [])
    assert "alpha fixed beforehand" in about.statement.conditions


def test_it_says_the_promise_in_a_sentence() -> None:
    about = fc.calibrate(two_sites(), alpha=0.2).certificate
    assert text.sentence(about) == (
        "The sets hold the true label with probability at least 0.8 for a test row from the mixture of the sites, "
        "in proportion to n_k, on average over calibration draws."
    )
    one = fc.calibrate(two_sites(), alpha=0.3, guarantee=fc.OneSite(site=1)).certificate
    assert "at least 0.7 for a test row of site 'b'" in text.sentence(one)
    given = fc.calibrate(two_sites(), alpha=0.3, guarantee=fc.Mixture(weights=(0.25, 0.75))).certificate
    assert "with weights [0.25, 0.75]" in text.sentence(given)


def test_the_target_is_stated_and_not_what_came_out() -> None:
    tied = fc.Summary.of_scores([0.5] * 99, kind="exact")
    about = fc.calibrate([tied], alpha=0.3).certificate
    assert (about.target, about.promises[0].rank, about.coverage_at_least) == ("7/10", 70, 0.7)


def test_a_model_that_was_trained_on_the_sites_promises_nothing_to_a_new_one() -> None:
    rng = np.random.default_rng(0)
    about: dict[str, Any] = {"score": fc.LAC(), "classes": 2}
    sites = [fc.Summary.of_scores(rng.random(20), site=f"s{k}", trained=k == 3, **about) for k in range(12)]
    sites = [fc.Summary.from_bytes(site.to_bytes()) for site in sites]
    found = fc.calibrate(sites, guarantee=fc.NewSite())
    stated = found.certificate
    assert (stated.status, stated.provenance.trained) == ("estimated", True)
    assert (stated.coverage_at_least, stated.coverage_at_most) == (0.0, 1.0)
    assert "trained on the sites" in text.why_estimated(stated)
    assert fc.verify(found, sites) == []
    assert fc.verify(altered(found, status="certified"), sites)
    mixture = fc.calibrate(sites).certificate
    assert (mixture.status, mixture.provenance.trained) == ("certified", False)
    others = [site for k, site in enumerate(sites) if k != 3]
    assert fc.calibrate(others, guarantee=fc.NewSite()).certificate.status == "certified"
