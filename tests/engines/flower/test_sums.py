"""Calibration from sums only over Flower: the plain threshold, whoever drops out, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opendp", reason="noise needs OpenDP")

import numpy as np
from flwr.app import ConfigRecord, Context, Message

import fedconformal as fc
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, later_step, sums_reply
from fedconformal.engines.flower import calibrate_by_sums as in_steps
from fedconformal.engines.flower.records import question_in, site_of
from fedconformal.errors import InputError
from fedconformal.federated import calibration
from fedconformal.federated.sums import SumsStep
from fedconformal.privacy.ledger import Ledger, read_ledger, rows_of, write_ledger
from fedconformal.privacy.signatures import new_key, public_key
from fedconformal.privacy.sums.radix import edges
from tests.engines.flower.tools import MODEL, Fault, Moving, calibrating_app, data_of, grid, set_data, site_logits

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
SITES = 8
BAD, WORSE = 2, 4


@pytest.fixture(autouse=True)
def thresholds_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plain calibrations keep their thresholds as they are found, as sums do."""
    monkeypatch.setattr(calibration, "calibrate_summaries", partial(fc.calibrate, exact=True))


def calibrate_by_sums(*asked: Any, **more: Any) -> Any:
    """Split cells of few rows too, so that there are four rounds and the threshold is the plain one rounded up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedconformal.privacy.sums.radix.LEAST", 0)
        return in_steps(*asked, **more)


def rounded(threshold: Any) -> float:
    """Return the upper edge of the cell of a score."""
    return float(edges()[np.searchsorted(edges(), threshold)])


ROUNDS = 4


@pytest.mark.parametrize(
    ("score", "guarantee"),
    [(fc.LAC(), fc.PAC(failure=0.1)), (fc.APS(randomized=True, random_state=3), fc.Mixture())],
    ids=["lac", "aps"],
)
def test_it_is_the_plain_threshold_rounded_up(score: fc.Score, guarantee: fc.Guarantee) -> None:
    asked: dict[str, Any] = {"alpha": 0.3, "score": score, "temperature": 1.5, "guarantee": guarantee}
    federation = Federation(grid(SITES))
    found = calibrate_by_sums(federation, MODEL, **asked).certificate
    plain = calibrate(Federation(grid(SITES)), MODEL, kind="exact", **asked).certificate
    assert found.threshold == rounded(plain.threshold)
    for field in ("coverage_at_least", "target", "status", "provenance"):
        assert getattr(found, field) == getattr(plain, field)
    assert [one.rank for one in found.promises] == [one.rank for one in plain.promises]
    assert found.left_out is None
    assert found.privacy is not None
    assert (found.privacy["mode"], found.privacy["rounds"], found.privacy["dropped"]) == ("sums", ROUNDS, [])
    assert [record.kind for record in found.summaries] == ["sums"] * SITES
    (stage,) = federation.stages
    assert stage.exchanges == 2 + 3 * ROUNDS
    assert set(stage.took_part.values()) == {stage.exchanges}
    assert stage.to_dict()["bytes"]["per_site_received"] < 10_000


def test_too_few_scores() -> None:
    with pytest.raises(InputError, match="the sites have 120 scores, at least 121 are needed"):
        calibrate_by_sums(Federation(grid(3)), MODEL, min_scores=121)


def test_a_second_session_with_other_sites_is_refused(tmp_path: Path) -> None:
    """In one run a site remembers with whom its scores were summed; with a ledger, in all runs."""
    nodes = Moving(calibrating_app(), 4)
    in_steps(Federation(nodes), MODEL)
    in_steps(Federation(nodes), MODEL, temperature=2.0)
    nodes.away = {5}
    for temperature in (2.0, 3.0):  # other scores of the same rows
        with pytest.raises(InputError, match=r"0 sites are left.* has shown a su"):
            in_steps(Federation(nodes), MODEL, temperature=temperature)
    path = tmp_path / "ledger.json"
    path.write_text('{"budget": 1.0}')
    for count, left_out in ((4, []), (4, []), (5, ["site-0"])):
        kept = [{"partition-id": k, **({"ledger": str(path)} if k == 0 else {})} for k in range(count)]
        found = in_steps(Federation(InProcessGrid(calibrating_app(), kept)), MODEL).certificate
        assert [one.site for one in found.left_out or []] == left_out
    assert len(read_ledger(path).sessions) == 2


class From:
    """A fault that begins with the n-th message of a kind, and stays."""

    def __init__(self, letter: str, number: int, fault: Fault) -> None:
        self._left, self._letter, self._fault, self._begun = number, letter, fault, False

    def __call__(self, reply: Message) -> None:
        if data_of(reply)[4:5] == self._letter.encode():
            self._begun |= self._left == 0
            self._left -= 1
        if self._begun:
            self._fault(reply)


def gone(reply: Message) -> None:
    raise OSError("gone")


@cache
def everybody() -> Any:
    return calibrate(Federation(grid(SITES)), MODEL, kind="exact").certificate


def others(*out: int) -> Any:
    nodes = [{"partition-id": k} for k in range(SITES) if k not in out]
    return calibrate(Federation(InProcessGrid(calibrating_app(), nodes)), MODEL, kind="exact").certificate


@pytest.mark.parametrize("letter", ["J", "D", "A"])
def test_a_site_lost_before_the_first_sum_is_left_out(letter: str) -> None:
    federation = Federation(grid(SITES, {BAD: From(letter, 0, gone)}))
    certificate = calibrate_by_sums(federation, MODEL).certificate
    (left_out,) = certificate.left_out or []
    assert left_out.site in {"site-2", "node-4"}
    assert left_out.reason == "failed: OSError: gone"
    expected = others(BAD)
    assert (certificate.threshold, certificate.sites) == (rounded(expected.threshold), SITES - 1)
    assert certificate.privacy is not None
    assert certificate.privacy["dropped"] == []


LAST = ROUNDS - 1


@pytest.mark.parametrize(("letter", "number"), [("A", 1), ("A", LAST), ("V", 0), ("N", 2), ("N", LAST), ("V", LAST)])
def test_a_site_lost_in_a_round_stays_in_the_promise(letter: str, number: int) -> None:
    certificate = calibrate_by_sums(Federation(grid(SITES, {BAD: From(letter, number, gone)})), MODEL).certificate
    check_dropped(certificate, {"site-2": f"{'before' if letter == 'A' else 'after'} its answer in round {number + 1}"})
    if number == LAST and letter != "A":  # it counts in all rounds
        assert certificate.threshold == rounded(everybody().threshold)


def check_dropped(certificate: fc.Certificate, expected: dict[str, str]) -> None:
    plain = everybody()
    assert certificate.limit >= plain.limit
    assert (certificate.sites, certificate.scores) == (SITES, plain.scores)
    assert [one.rank for one in certificate.promises] == [one.rank for one in plain.promises]
    assert certificate.left_out is None
    assert certificate.coverage_at_most == 1.0
    assert certificate.privacy is not None
    dropped = certificate.privacy["dropped"]
    assert {one["site"]: one["when"] for one in dropped} == expected
    assert {one["reason"] for one in dropped} == {"failed: OSError: gone"}
    assert "the promise still includes that site" in certificate.statement.caveat


def test_too_many_lost_sites_end_it_without_a_certificate() -> None:
    faults = {k: From("D", 0, gone) for k in (0, 1, 2)}
    with pytest.raises(InputError, match=r"calibrate: 5 sites are left, at least 6 are needed .*gone"):
        calibrate_by_sums(Federation(grid(SITES, faults), min_sites=6), MODEL)


def altered(reply: Message) -> None:
    data = bytearray(data_of(reply))
    data[10] ^= 1
    set_data(reply, bytes(data))


def as_somebody_else(reply: Message) -> None:
    reply.content["site"] = ConfigRecord({"partition-id": BAD, "name": "somebody"})


HOSTILE: dict[str, tuple[Callable[[], Fault], str]] = {
    "altered reveal": (lambda: From("V", 1, altered), "was altered, or has another sender"),
    "another name": (lambda: From("A", 1, as_somebody_else), "states the name somebody, and stated site-2 before"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_site_is_refused_and_the_certificate_is_right(name: str) -> None:
    made, reason = HOSTILE[name]
    federation = Federation(grid(SITES, {BAD: made()}))
    certificate = calibrate_by_sums(federation, MODEL).certificate
    assert certificate.limit >= everybody().limit
    assert certificate.privacy is not None
    (dropped,) = certificate.privacy["dropped"]
    assert dropped["site"] == "site-2"
    assert reason in dropped["reason"]
    assert "round 2" in dropped["when"]
    (stage,) = federation.stages
    assert [*stage.refused] == [("site-2", dropped["reason"])]


class Copy:
    """Join with the message of another site."""

    seen = b""

    def watch(self, reply: Message) -> None:
        if data_of(reply)[4:5] == b"J":
            self.seen = data_of(reply)

    def use(self, reply: Message) -> None:
        if data_of(reply)[4:5] == b"J":
            set_data(reply, self.seen)


def test_a_site_that_joins_as_another_is_refused() -> None:
    copy = Copy()
    certificate = calibrate_by_sums(Federation(grid(SITES, {1: copy.watch, BAD: copy.use})), MODEL).certificate
    (left_out,) = certificate.left_out or []
    assert "is site-2 and sent a message of site-1" in left_out.reason
    assert certificate.threshold == rounded(others(BAD).threshold)


def test_a_site_with_other_classes_than_most_is_left_out() -> None:
    def other(msg: Message, context: Context) -> Message:
        if not later_step(msg):
            about = question_in(msg, SumsStep).scores.provenance
            classes = 3 if site_of(context).partition == BAD else 2
            scores = np.random.default_rng(site_of(context).partition).random(50)
            summary = fc.Summary.of_scores(scores, kind="exact", site=site_of(context).name)
            return sums_reply(msg, context, replace(summary, provenance=replace(about, classes=classes)))
        return sums_reply(msg, context)

    sites = Federation(InProcessGrid(other, SITES))  # type: ignore[arg-type]
    certificate = calibrate_by_sums(sites, MODEL).certificate
    assert [one.reason for one in certificate.left_out or []] == ["has 3 classes, most others have 2 classes"]
    assert certificate.class_names == 2
    with pytest.raises(InputError, match=r"has 2 classes, the question has the 2 \(no, yes\)"):
        calibrate_by_sums(sites, MODEL, classes=["no", "yes"])


ROWS = 2000
FOUR = 4


def test_a_site_pays_from_its_own_ledger_and_is_out_when_its_budget_is_spent(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    write_ledger(ledger, Ledger(budget=1.5))
    nodes: list[dict[str, Any]] = [{"ledger": str(ledger)} if k == 1 else {} for k in range(FOUR)]
    federation = Federation(InProcessGrid(calibrating_app(ROWS), nodes))
    first = in_steps(federation, MODEL, epsilon=1.0).certificate
    assert (first.sites, federation.stages[0].exchanges <= 5) == (FOUR, True)
    assert first.privacy is not None
    assert (first.privacy["epsilon"], first.privacy["rounds"]) == (1.0, 1)
    logits, labels = site_logits(1, ROWS)
    scores = fc.LAC().evaluate(fc.softmax(logits).astype("float32"), labels)
    (rows,) = rows_of([fc.Summary.of_scores(scores, kind="exact", site="site-1")])
    assert [(entry.site, entry.digest, entry.epsilon) for entry in read_ledger(ledger).entries] == [(*rows, 1.0)]
    again = in_steps(Federation(InProcessGrid(calibrating_app(ROWS), nodes)), MODEL, epsilon=1.0).certificate
    (left_out,) = again.left_out or []
    assert isinstance(left_out, LeftOut)
    assert left_out.reason.endswith("InputError: 'site-1' has spent 1 of 1.5; 1 more is over its budget")
    assert len(read_ledger(ledger).entries) == 1
    without = in_steps(Federation(InProcessGrid(calibrating_app(ROWS), nodes)), MODEL).certificate
    assert without.sites == FOUR  # no noise, nothing spent: its policy says whether that may be


def test_a_session_with_another_key_is_refused_by_all_others(tmp_path: Path) -> None:
    keys = [new_key() for _ in range(4)]
    signed = tmp_path / "keys.json"
    signed.write_text(json.dumps({f"site-{k}": public_key(key) for k, key in enumerate(keys)}))
    for k, key in enumerate([*keys[:3], new_key()]):
        (tmp_path / f"{k}.key").write_bytes(key)
    keyed = [{"key": str(tmp_path / f"{k}.key"), "signed": str(signed)} for k in range(4)]
    with pytest.raises(InputError, match="site-3"):
        in_steps(Federation(InProcessGrid(calibrating_app(), keyed)), MODEL)
