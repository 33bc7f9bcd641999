"""What the scores of a sums session were made from, and what for: all sites have to say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.drive import InMemory, run_session
from fedconformal.privacy.sums.radix import BYTES
from fedconformal.privacy.sums.state import CoordinatorState, SiteState, decode_state, encode_state
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused

NAMED = ("benign", "malignant")


def session(*provenances: Provenance, alpha: float = 0.3, **noise: Any) -> CoordinatorState:
    sites = [
        at_site.new_site(f"site-{k}", np.random.default_rng(k).random(40), provenance)
        for k, provenance in enumerate(provenances)
    ]
    kept = [decode_state(encode_state(one), SiteState) for one in sites]
    return run_session(lambda: invite(fc.Mixture(), alpha, BYTES, **noise), InMemory(kept))


def test_a_predictor_from_sums_knows_its_classes_and_its_calibration() -> None:
    purpose: dict[str, Any] = {"calibration": "spring", "alpha": "0.3", "expires": "2999-01-01"}
    named = Provenance(score=fc.LAC(), classes=NAMED, precision="float32", **purpose)
    state = session(Provenance(score=fc.LAC(), classes=2, precision="float32", **purpose), named, named)
    certificate = certified(decode_state(encode_state(state), CoordinatorState)).certificate
    assert certificate.class_names == list(NAMED)
    assert (certificate.provenance.calibration, certificate.provenance.expires) == ("spring", "2999-01-01")
    assert certificate.provenance.precision == "float32"
    predictor = certified(state)
    with refused("3 columns"):
        predictor.predict_set([[0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    ("provenances", "why"),
    [
        (
            (Provenance(classes=2), Provenance(classes=2), Provenance(classes=3)),
            "'site-0' and site 'site-2'.*: classes 2 against",
        ),
        (
            (Provenance(), Provenance(classes=2), Provenance(classes=3)),
            "'site-1' and site 'site-2'.*: classes 2 against 3",
        ),
        (
            (Provenance(classes=NAMED), Provenance(classes=NAMED[::-1]), Provenance()),
            "benign, malignant against malignant, benign",
        ),
        (
            (Provenance(calibration="a"), Provenance(calibration="a"), Provenance(calibration="b")),
            "calibration a against b",
        ),
        ((Provenance(model="a"), Provenance(model="a"), Provenance()), "model a against None"),
    ],
)
def test_sites_that_say_different_things_are_refused_by_name(provenances: tuple[Provenance, ...], why: str) -> None:
    with pytest.raises(fc.InputError, match=why):
        session(*provenances)


def test_a_site_joins_only_for_the_alpha_and_the_days_of_its_summary() -> None:
    with refused("site 'site-0' was summarised for a calibration at alpha 0.1, not at 0.3"):
        session(*[Provenance(calibration="a", alpha="0.1")] * 3)
    with refused("the summary of site 'site-0' expired on 2001-01-01"):
        session(*[Provenance(calibration="a", expires="2001-01-01")] * 3)


def test_what_no_theorem_covers_is_estimated_from_sums_too() -> None:
    certificate = certified(session(Provenance(), Provenance(estimated=True), Provenance())).certificate
    assert (certificate.status, certificate.coverage_at_least) == ("estimated", 0.0)
