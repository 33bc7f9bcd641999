"""A predictor takes the place of another: the same promise from new rows, and a certificate that names the old one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.calibration.calibrate import kept_terms
from fedconformal.certificates import text
from fedconformal.certificates.certificate import MOST_WHY, PLANNED, RenewalRows, Replacement, site_names
from tests.contracts.tools import altered

THRESHOLDS = np.linspace(0.1, 0.9, 9)


def sites(seed: int, rows: int = 40, **about: Any) -> list[fc.Summary]:
    rng = np.random.default_rng(seed)
    return [fc.Summary.of_scores(rng.random(rows + k), site=f"s{k}", **{"score": fc.LAC(), **about}) for k in range(2)]


def numbers(seed: int, score: fc.RegressionScore) -> list[fc.Summary]:
    rng = np.random.default_rng(seed)
    return [fc.summarize(np.zeros(60), rng.normal(size=60), score=score, site=name) for name in ("s0", "s1")]


def losses(seed: int) -> list[fc.Summary]:
    rng = np.random.default_rng(seed)
    drawn = [rng.random((60, 1)) > THRESHOLDS for _ in range(2)]
    return [fc.LossSummary.of_losses(one, thresholds=THRESHOLDS, site=f"s{k}") for k, one in enumerate(drawn)]


KINDS: dict[str, tuple[Callable[[int], list[fc.Summary]], Callable[[list[fc.Summary]], Any]]] = {
    "sets": (sites, lambda made: fc.calibrate(made, alpha=0.2)),
    "pac": (sites, lambda made: fc.calibrate(made, guarantee=fc.PAC(failure=0.1))),
    "new-site": (sites, lambda made: fc.calibrate(made, alpha=0.5, guarantee=fc.NewSite())),
    "intervals": (
        lambda seed: numbers(seed, fc.Residual()),
        lambda made: fc.calibrate(made, alpha=0.2, guarantee=fc.EverySite()),
    ),
    "two ends": (lambda seed: numbers(seed, fc.Signed()), lambda made: fc.calibrate(made, alpha=0.2)),
    "losses": (losses, lambda made: fc.calibrate(made, risk=0.4)),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Any, list[fc.Summary]]:
    """An old predictor, and new summaries."""
    make, predictor_of = KINDS[request.param]
    return predictor_of(make(1)), make(2)


def test_the_promise_stays_and_the_old_one_is_named(kind: tuple[Any, list[fc.Summary]]) -> None:
    old, fresh = kind
    new = fc.recalibrate(old, fresh, why="alarm at s0", rows="new")
    assert type(new) is type(old)
    assert new.certificate.replaces == Replacement(sha256=old.digest(), why="alarm at s0", rows=RenewalRows.new)
    assert old.digest() == json.loads(old.to_bytes())["sha256"]
    for field in ("alpha", "guarantee", "score", "target", "status"):
        assert getattr(new.certificate, field) == getattr(old.certificate, field), field
    assert new.sentence().endswith("recalibrated on rows that no watch had counted.")
    again = type(new).from_bytes(new.to_bytes())
    assert again.to_bytes() == new.to_bytes()
    assert fc.verify(again, fresh, older=old) == []


def test_from_watched_rows_nothing_is_promised(kind: tuple[Any, list[fc.Summary]]) -> None:
    old, fresh = kind
    new = fc.recalibrate(old, fresh, why="alarm", rows="watched")
    about = new.certificate
    assert about.status == "estimated"
    assert (about.coverage_at_least, about.coverage_at_most) == (0.0, 1.0)
    assert {(one.coverage_at_least, one.coverage_at_most) for one in about.promises} == {(0.0, 1.0)}
    assert "estimated" in text.sentence(about)
    assert "so nothing is promised" in text.sentence(about)
    assert fc.verify(new, fresh, older=old) == []
    forged = altered(new, status="certified")
    assert any(one.startswith("status") for one in fc.verify(forged, fresh, older=old))


def test_a_renewal_needs_word_of_the_rows() -> None:
    old = fc.calibrate(sites(1))
    planned = fc.recalibrate(old, sites(2), rows="new").certificate.replaces
    assert planned is not None
    assert (planned.why, planned.rows) == (PLANNED, RenewalRows.new)
    for rows in (None, "old"):
        with pytest.raises(fc.InputError, match=f"rows is {rows}, expected 'new'"):
            fc.recalibrate(old, sites(2), why="alarm", rows=rows)
    assert fc.recalibrate(old, sites(2), rows="watched").certificate.status == "estimated"  # planned or not
    wrong: list[Any] = ["", "x" * (MOST_WHY + 1), "two\nlines", 3]
    for given in wrong:
        with pytest.raises(fc.InputError, match="expected a line of up to 200 characters"):
            fc.recalibrate(old, sites(2), why=given, rows="new")


@pytest.mark.parametrize(
    "change", [{"sha256": "0" * 63}, {"sha256": "0" * 64 + "\n"}, {"rows": "old"}, {"why": "\x1b[31m"}, {"more": 1}]
)
def test_a_hostile_record_is_refused(change: dict[str, Any]) -> None:
    fields = {"sha256": "0" * 64, "why": "yearly", "rows": "new"}
    assert msgspec.convert(fields, Replacement, strict=True).rows is RenewalRows.new
    with pytest.raises((msgspec.ValidationError, fc.InputError)):
        msgspec.convert({**fields, **change}, Replacement, strict=True)


def test_a_summary_of_the_old_calibration_is_not_new() -> None:
    both = sites(1)
    old = fc.calibrate(both)
    mixed = [both[0], sites(2)[1]]
    with pytest.raises(fc.InputError, match="the summary of site 's0' calibrated the predictor that is replaced"):
        fc.recalibrate(old, mixed, why="alarm at s1", rows="new")
    assert fc.recalibrate(old, mixed, why="alarm at s1", rows="watched").certificate.status == "estimated"


def test_what_is_given_is_other_than_before() -> None:
    old = fc.calibrate(sites(1), alpha=0.2)
    new = fc.recalibrate(old, sites(2), alpha=0.1, guarantee=fc.EverySite(), rows="new")
    assert (new.certificate.alpha, new.certificate.guarantee["name"]) == (0.1, "every-site")
    with pytest.raises(fc.InputError, match="promises coverage, not a limit on losses"):
        fc.recalibrate(old, sites(2), risk=0.1, rows="new")
    rule = fc.calibrate(losses(1), risk=0.4)
    with pytest.raises(fc.InputError, match="give risk, not alpha"):
        fc.recalibrate(rule, losses(2), alpha=0.1, rows="new")
    other = fc.recalibrate(rule, losses(2), risk=0.5, safe="ask", rows="new")
    assert (other.risk.limit, other.risk.safe) == (0.5, "ask")


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_the_strata_of_a_guarantee_are_kept() -> None:
    by_class = [fc.Summary.of_scores(np.arange(60) / 60, site="a", labels=np.arange(60) % 2)]
    assert kept_terms(fc.calibrate(by_class, guarantee=fc.ByClass()))["guarantee"] == fc.ByClass()
    old = fc.calibrate(by_class, guarantee=fc.Prevalence({0: 0.5, 1: 0.5}))  # shares of classes, not of sites
    other = fc.Summary.of_scores(np.arange(60) / 60, site="b", labels=np.arange(60) % 2)
    assert fc.recalibrate(old, [*by_class, other], rows="watched").certificate.guarantee == old.certificate.guarantee


def test_weights_by_place_are_not_kept_for_other_sites() -> None:
    weighted = fc.Mixture(weights=[0.9, 0.1])
    old = fc.calibrate(sites(1), guarantee=weighted)
    assert fc.recalibrate(old, sites(2), rows="new").certificate.guarantee == old.certificate.guarantee
    turned = sites(2)[::-1]
    assert site_names(turned) == ["s1", "s0"]
    with pytest.raises(fc.InputError, match="has values for sites in their order"):
        fc.recalibrate(old, turned, rows="new")
    fc.recalibrate(old, turned, guarantee=fc.Mixture(weights=[0.1, 0.9]), rows="new")
    for guarantee in ("mixture", fc.WorstCase(box=(0.2, 0.8))):  # which have none
        fc.recalibrate(fc.calibrate(sites(1), guarantee=guarantee), turned, rows="new")
    box = fc.calibrate(sites(1), guarantee=fc.WorstCase(box=(0.2, [0.8, 0.7])))
    with pytest.raises(fc.InputError, match="has values for sites in their order"):
        fc.recalibrate(box, turned, rows="new")


def test_one_link_is_verified() -> None:
    first, second, third = sites(1), sites(2), sites(3)
    oldest = fc.calibrate(first)
    older = fc.recalibrate(oldest, second, why="alarm at s1", rows="new")
    newest = fc.recalibrate(older, third, rows="new")
    assert fc.verify(older, second, older=oldest) == []
    (alone,) = fc.verify(older, second)
    assert alone.startswith(f"replaces: not confirmed without the predictor {oldest.digest()}")
    assert fc.verify(older, second, sealed=True) == []
    (wrong,) = fc.verify(older, second, older=newest)
    assert wrong.startswith("replaces: the certificate names the predictor")
    (none,) = fc.verify(oldest, first, older=newest)
    assert none == "replaces: the certificate names no predictor that it replaces"


@pytest.mark.parametrize("fields", [{"why": "yearly"}, {"rows": RenewalRows.watched}])
def test_tampering_with_a_link_is_noticed(fields: dict[str, Any]) -> None:
    oldest, second = fc.calibrate(sites(1)), sites(2)
    older = fc.recalibrate(oldest, second, why="alarm", rows="new")
    assert older.certificate.replaces is not None
    replaced = msgspec.structs.replace(older.certificate.replaces, **fields)
    other = altered(older, replaces=replaced)
    newest = fc.recalibrate(older, sites(3), rows="new")
    assert fc.verify(newest, sites(3), older=other)  # its digest is not the one that is named
    watched = fc.recalibrate(oldest, second, why="alarm", rows="watched")
    forged = altered(watched, replaces=older.certificate.replaces)
    assert any(one.startswith("status") for one in fc.verify(forged, second, older=oldest))


def test_rows_of_the_older_predictor_are_not_new() -> None:
    first = sites(1)
    old = fc.calibrate(first)
    claimed = Replacement(sha256=old.digest(), why="alarm", rows=RenewalRows.new)
    assert fc.verify(replace(old, certificate=old.certificate.replacing(claimed)), first, older=old) == [
        "rows: those of site 's0' calibrated the older predictor as well, so they are not new"
    ]
