"""Version 2 of the format: what is added is read back, nothing else passes, and version 1 stays what it was."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import Origin
from fedconformal.summaries.origin import all_joined
from fedconformal.summaries.wire import MAX_CLASSES
from tests.contracts.tools import KINDS, refusal, refused

SCORES = np.linspace(0, 1, 40)
FULL: dict[str, Any] = {
    "classes": ("benign", "malignant"),
    "precision": "float32",
    "estimated": True,
    "calibration": "june",
    "expires": "2999-06-30",
}


def seal(body: bytes, start: bytes = b"FCS2E") -> bytes:
    return start + zlib.crc32(start + body).to_bytes(4, "little") + body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [None, *FULL])
def test_every_kind_carries_every_field(kind: str, name: str | None) -> None:
    about = FULL if name is None else {name: FULL[name]}
    summary = fc.summarize(SCORES, kind, site="a", score=fc.LAC(), alpha=0.1, **about)
    data = summary.to_bytes()
    assert data[:4] == b"FCS2"
    again = fc.Summary.from_bytes(data)
    assert again.origin == summary.origin
    assert again.to_bytes() == data
    assert fc.Summary.from_many([data] * 3)[2].origin == summary.origin
    assert again.extend([0.5]).origin == summary.origin
    assert fc.pool([again]).origin == summary.origin


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_by_class_too() -> None:
    about: dict[str, Any] = {"labels": [0, 1] * 20, "by_class": True, "alpha": 0.1}
    summary = fc.summarize(SCORES, site="a", **about, **FULL)
    again = fc.Summary.from_bytes(summary.to_bytes())
    assert again.origin == summary.origin
    assert again.to_bytes() == summary.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_what_needs_nothing_new_is_version_1(kind: str) -> None:
    assert fc.summarize(SCORES, kind, site="a", score=fc.LAC(), alpha=0.1, model="m").to_bytes()[:4] == b"FCS1"


def test_version_1_bytes_in_a_version_2_envelope_are_refused() -> None:
    plain = fc.summarize(SCORES, "exact", site="a").to_bytes()
    fields = msgspec.msgpack.decode(plain[9:])
    assert "cannot be decoded" in refusal(lambda: fc.Summary.from_bytes(seal(plain[9:])))
    empty = seal(msgspec.msgpack.encode([{}, fields]))
    assert "canonical" in refusal(lambda: fc.Summary.from_bytes(empty))


@pytest.mark.parametrize(
    "about",
    [
        {"groups": 1},
        {"classes": 0},
        {"classes": MAX_CLASSES + 1},
        {"classes": []},
        {"classes": ["a", "a"]},
        {"classes": ["a", "ａ"]},  # the same letter in another width  # noqa: RUF001
        {"classes": ["a", ""]},
        {"classes": ["a", "b\x1b[31m"]},
        {"classes": 2.0},
        {"precision": "float64"},
        {"precision": None},
        {"estimated": False},
        {"estimated": 1},
        {"calibration": ""},
        {"calibration": "x" * 65},
        {"calibration": "a", "alpha": "0.10"},
        {"calibration": "a", "alpha": "2"},
        {"expires": "2999-02-30"},
        {"expires": "29990228"},
        {"expires": 5},
        {"precision": "float32", "classes": 2},  # the other order
    ],
    ids=str,
)
def test_anything_else_is_refused(about: dict[str, Any]) -> None:
    plain = fc.summarize(SCORES, "exact", site="a").to_bytes()
    made = seal(msgspec.msgpack.encode([about, msgspec.msgpack.decode(plain[9:])]))
    message = refusal(lambda: fc.Summary.from_bytes(made))
    assert len(message.splitlines()) == 1
    sound = seal(msgspec.msgpack.encode([{"classes": 2}, msgspec.msgpack.decode(plain[9:])]))
    assert fc.Summary.from_bytes(sound).origin.classes == 2


def site(name: str, **about: Any) -> fc.Summary:
    return fc.summarize(SCORES, "exact", site=name, score=fc.LAC(), **about)


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        ({"classes": 2}, {"classes": 3}, "site 'a' and site 'b' do not go together: classes 2 against 3"),
        ({"classes": ("x", "y")}, {"classes": ("y", "x")}, "classes x, y against y, x"),
        ({"classes": ("x", "y")}, {"classes": 3}, "classes x, y against 3"),
        ({"calibration": "june"}, {"calibration": "july"}, "calibration june against july"),
        ({"calibration": "j", "alpha": 0.1}, {"calibration": "j", "alpha": 0.2}, "alpha 0.1 against 0.2"),
        ({"calibration": "j", "expires": "2999-01-01"}, {"calibration": "j"}, "expires 2999-01-01 against None"),
        ({"calibration": "june"}, {"classes": 2}, "calibration june against None"),
    ],
)
def test_summaries_that_differ_are_refused(mine: dict[str, Any], theirs: dict[str, Any], message: str) -> None:
    with refused(message):
        fc.calibrate([site("a", **mine), site("b", **theirs)])
    with refused(message):  # also where a silent one comes first
        fc.calibrate([site("z"), site("a", **mine), site("b", **theirs)])


def test_a_number_of_classes_goes_with_as_many_names() -> None:
    found = fc.calibrate([site("a", classes=2), site("b", classes=("x", "y"))]).certificate
    assert found.labels == ["x", "y"]
    assert found.version_1_sites is None


def test_version_1_beside_version_2_is_accepted_with_one_warning_and_listed() -> None:
    mixed = [site("a", classes=2, precision="float32"), site("b"), site("c", classes=2, precision="float32"), site("d")]
    with pytest.warns(fc.VersionWarning, match="the summaries of 'b', 'd' are of version 1") as caught:
        result = fc.calibrate(mixed)
    assert len(caught) == 1
    assert result.certificate.version_1_sites == ["b", "d"]
    assert (result.certificate.labels, result.certificate.format) == (2, 2)
    assert fc.verify(result, mixed) == []


def test_what_differs_only_from_several_together_is_no_difference() -> None:
    """Days of expiry are compared within one calibration only; a silent site, or one without an id, changes nothing."""
    days = [site("a", classes=2, expires="2998-01-01"), site("b", expires="2999-01-01"), site("c", classes=2)]
    assert fc.calibrate(days).certificate.expires == "2998-01-01"
    june = {"calibration": "june", "alpha": 0.1}
    with refused("site 'a' and site 'b' do not go together: calibration june against None"):
        fc.calibrate([site("a", **june), site("b", expires="2999-01-01"), site("c", **june)])


def test_all_of_version_1_is_no_reason_to_warn() -> None:
    found = fc.calibrate([site("a"), site("b")]).certificate
    assert (found.format, found.version_1_sites) == (1, None)
    assert "format" in found.to_dict()
    assert not {"edition", "labels", "precision", "calibration", "expires", "heavy_sites"} & set(found.to_dict())


def test_only_summaries_that_say_the_same_pool() -> None:
    with refused("only summaries that say the same of their scores pool"):
        fc.pool([site("a", classes=2), site("b")])


def test_expired_summaries_are_refused_and_still_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [site("a", expires="2020-01-01")]
    with refused("the summary of site 'a' expired on 2020-01-01"):
        fc.calibrate(sites)
    monkeypatch.setattr("fedconformal.summaries.origin.has_expired", lambda *_: False)
    assert fc.verify(fc.calibrate(sites), sites) == []


def test_an_estimate_promises_nothing() -> None:
    assert all_joined([Origin(estimated=True), Origin()]).estimated
    found = fc.calibrate([site("a", estimated=True, classes=2), site("b", classes=2)]).certificate
    assert found.status == "estimated"
    assert (found.coverage_at_least, found.coverage_at_most) == (0.0, 1.0)


BAD: list[dict[str, Any]] = [
    {"classes": True},
    {"classes": "ab"},
    {"precision": "double"},
    {"estimated": 1},
    {"expires": "soon"},
]


@pytest.mark.parametrize("about", BAD, ids=str)
def test_bad_values_are_refused(about: dict[str, Any]) -> None:
    assert len(refusal(lambda: site("a", **about)).splitlines()) == 1
