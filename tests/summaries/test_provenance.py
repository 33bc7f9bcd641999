"""Provenance: every field is read back, and only summaries that agree are combined."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import Provenance
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.provenance import combine_provenances
from fedconformal.summaries.summary import digest_of
from tests.contracts.tools import KINDS, refusal, refused

SCORES = np.linspace(0, 1, 40)
FULL: dict[str, Any] = {
    "score": fc.RAPS(randomized=True, random_state=2**63 - 1, penalty=0.5, free_ranks=3),
    "model": "sha256:" + "f" * 57,
    "temperature": 1.25,
    "classes": ("benign", "malignant"),
    "precision": "float32",
    "estimated": True,
    "calibration": "june",
    "expires": "2999-06-30",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_carries_every_field(kind: str) -> None:
    names = ("clinic-a", "Krankenhaus Köln", "病院" * 32, "🏥", np.str_("b"))
    for about, name in [(FULL, None), *(({key: FULL[key]}, names[i % 5]) for i, key in enumerate(FULL))]:
        summary = fc.Summary.of_scores(SCORES, kind=kind, site=name, alpha=0.1, **about)
        data: Any = summary.to_bytes()
        for kind_of_bytes in (bytes, bytearray, memoryview):
            again = fc.Summary.from_bytes(kind_of_bytes(data))  # type: ignore[arg-type]
            assert (again.provenance, again.to_bytes()) == (summary.provenance, data)
            assert again.sites == (() if name is None else (name,))
        assert {key: getattr(again.provenance, key) for key in about} == about
        assert digest_of(again) == hashlib.sha256(data).hexdigest()
        assert SummaryBatch.from_bytes([data] * 3)[2].provenance == summary.provenance
        assert fc.pool([again]).provenance == summary.provenance


@pytest.mark.parametrize("kind", KINDS)
def test_rows_left_out_are_stated(kind: str) -> None:
    a, b = (fc.Summary.of_scores(SCORES, kind=kind, site=site, skipped=rows) for site, rows in (("a", 3), ("b", 0)))
    assert fc.Summary.from_bytes(a.to_bytes()).skipped == 3
    assert [one.skipped for one in SummaryBatch.from_bytes([b.to_bytes(), a.to_bytes()])] == [0, 3]
    assert fc.pool([a, b]).skipped == 3
    assert fc.summarize([[0.5, 0.5]], [0], skipped=2).skipped == 2
    for bad in (-1, True, 1.0, 2**60):
        with refused(param="skipped"):
            fc.Summary.of_scores([0.5], kind=kind, skipped=bad)  # type: ignore[arg-type]


def site(name: str, **about: Any) -> fc.Summary:
    return fc.Summary.of_scores(SCORES, kind="exact", site=name, **{"score": fc.LAC(), **about})


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        ({"classes": 2}, {"classes": 3}, "classes 2 against 3"),
        ({"classes": ("x", "y")}, {"classes": ("y", "x")}, "classes x, y against y, x"),
        ({"classes": ("x", "y")}, {"classes": 3}, "classes 2 against 3"),
        ({"precision": "float32"}, {}, "precision float32 against None"),
        ({"calibration": "june"}, {"calibration": "july"}, "calibration june against july"),
        ({"calibration": "j", "alpha": 0.1}, {"calibration": "j", "alpha": 0.2}, "alpha 0.1 against 0.2"),
        ({"calibration": "j", "expires": "2999-01-01"}, {"calibration": "j"}, "expires 2999-01-01 against None"),
        ({"calibration": "june"}, {"classes": 2}, "calibration june against None"),
        ({"score": fc.RAPS()}, {"score": fc.RAPS(penalty=0.5)}, "penalty=0.5"),
        ({"model": "m1"}, {}, "model m1 against None"),
        ({"temperature": 1.0}, {"temperature": 1.5}, "temperature 1.0 against 1.5"),
    ],
)
def test_summaries_that_differ_are_refused(mine: dict[str, Any], theirs: dict[str, Any], message: str) -> None:
    sites = [site("a", **mine), site("b", **mine), site("c", **theirs)]
    for combine in (fc.calibrate, fc.pool):
        with refused("site 'a' and site 'c' do not go together: ", message):
            combine(sites)


def test_one_site_twice_is_refused() -> None:
    for sites in ([site("a"), site("b"), site("a")], [fc.pool([site("b"), site("a")]), site("a")]):
        for combine in (fc.calibrate, fc.pool):
            with refused(param="site"):
                combine(sites)


def test_what_differs_only_from_several_together_is_no_difference() -> None:
    """Days of expiry are compared within one calibration only."""
    days = [site("a", classes=2, expires="2998-01-01"), site("b", expires="2999-01-01"), site("c", classes=2)]
    assert fc.calibrate(days).certificate.provenance.expires == "2998-01-01"
    june = {"calibration": "june", "alpha": 0.1}
    with refused("site 'a' and site 'b' do not go together: calibration june against None"):
        fc.calibrate([site("a", **june), site("b", expires="2999-01-01"), site("c", **june)])


def test_a_number_of_classes_goes_with_names_or_none_and_is_not_pooled_with_them() -> None:
    found = fc.calibrate([site("a", classes=2), site("b", classes=("x", "y"))]).certificate
    assert found.class_names == ["x", "y"]
    with refused("only summaries with the same provenance pool"):
        fc.pool([site("a", classes=2), site("b")])


def test_expired_summaries_are_refused_and_still_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [site("a", expires="2020-01-01")]
    with refused("the summary of site 'a' expired on 2020-01-01"):
        fc.calibrate(sites)
    monkeypatch.setattr("fedconformal.summaries.provenance.has_expired", lambda *_: False)
    assert fc.verify(fc.calibrate(sites), sites) == []


def test_an_estimate_promises_nothing() -> None:
    assert combine_provenances([Provenance(estimated=True), Provenance()]).estimated
    found = fc.calibrate([site("a", estimated=True, classes=2), site("b", classes=2)]).certificate
    assert found.status == "estimated"
    assert (found.coverage_at_least, found.coverage_at_most) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("classes", True), ("classes", "ab"), ("precision", "double"), ("estimated", 1), ("expires", "soon")],
)
def test_bad_values_are_refused(field: str, value: Any) -> None:
    refusal(lambda: site("a", **{field: value}))
