"""The certificate: what it states, and that it is plain JSON."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.certificates import text
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import changed, guarantee_examples, maybe_infeasible


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


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
@pytest.mark.parametrize("alpha", [0.2, 0.001, 1 / 3])
def test_it_is_plain_json(guarantee: fc.Guarantee, alpha: float) -> None:
    sites = [
        fc.Summary.of_scores(np.arange(n), site=site, score=fc.RAPS()) for site, n in (("a", 9), ("b", 20), ("c", 30))
    ]
    with maybe_infeasible():
        result = fc.calibrate(sites, alpha=alpha, guarantee=guarantee)
    stated = result.certificate.to_dict()
    assert json.loads(json.dumps(stated, allow_nan=False)) == stated
    whole = stated["promises"][0]
    assert whole["threshold"] == ("inf" if result.threshold == math.inf else result.threshold)
    assert stated["coverage_at_least"] <= stated["coverage_at_most"]
    assert stated["coverage_at_least"] >= 1 - alpha


def test_a_rough_summary_is_only_estimated() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False, repr=False)
    class Rough(ExactSummary):
        name = "rough"
        certified = False

        values: Floats

    rough = Rough.build(np.arange(1.0, 40.0), sites=("r",))
    certified = fc.Summary.of_scores(np.arange(20.0), kind="exact", site="a")
    about = fc.calibrate([certified, rough], alpha=0.1).certificate
    assert about.status == "estimated"
    assert (about.coverage_at_least, about.coverage_at_most) == (0.0, 1.0)  # nothing is promised
    assert text.sentence(about).startswith("The sets are estimated to hold")
    assert fc.calibrate([certified], alpha=0.1).certificate.status == "certified"


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
    forged = changed(stated, status="certified")
    assert fc.verify(replace(found, certificate=forged), sites)
    mixture = fc.calibrate(sites).certificate
    assert (mixture.status, mixture.provenance.trained) == ("certified", False)
    others = [site for k, site in enumerate(sites) if k != 3]
    assert fc.calibrate(others, guarantee=fc.NewSite()).certificate.status == "certified"


def test_scores_that_no_theorem_covers_are_never_certified() -> None:
    """Such as those of models that left out each site in turn."""
    about: dict[str, Any] = {"score": "lac", "site": "a", "estimated": True}
    made = [fc.summarize([[0.75, 0.25]] * 30, [0] * 30, **about)]
    for summaries in (made, [fc.Summary.from_bytes(made[0].to_bytes())]):
        certificate = fc.calibrate(summaries).certificate
        assert (certificate.status, certificate.coverage_at_least, certificate.coverage_at_most) == ("estimated", 0, 1)
        assert "are estimated to hold" in text.sentence(certificate)
