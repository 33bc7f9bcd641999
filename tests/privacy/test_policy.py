"""A site's policy: every key against a plain restatement of it, and files that cannot be understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.privacy import noisy_histogram
from fedconformal.privacy.policy import (
    EXAMPLE,
    VARIABLE,
    WORDS,
    Outgoing,
    Policy,
    known_kinds,
    policy_of,
    read_policy,
)
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.site import join, new_site
from tests.contracts.tools import refused
from tests.privacy.sums_play import opened


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


EDGE: dict[str, Any] = {"kind": "sums", "rows": 3, "sites": 3, "patients": 3, "sessions": 1, "epsilon": 0.3}
EDGE |= {"model": "resnet", "ledger": True}


@pytest.mark.parametrize(
    ("key", "value", "refusals", "allowed"),
    [
        ("sums_only", True, [{"kind": "exact"}, {"kind": "noisy"}], {}),
        ("kinds", ("sums", "exact"), [{"kind": "noisy"}, {"kind": "exact by class"}], {"kind": "exact"}),
        ("least_sites", 3, [{"sites": 2}], {"sites": None}),
        ("least_rows", 3, [{"rows": 2}], {}),
        ("least_patients", 3, [{"patients": 2}, {"patients": None}], {}),
        ("most_sessions", 1, [{"sessions": 2}], {}),
        ("largest_epsilon", 0.3, [{"epsilon": 0.4}, {"epsilon": None}], {"epsilon": 0.1}),
        (
            "models",
            ("resnet",),
            [{"model": None}, {"kind": "exact", "model": "other"}],
            {"kind": "watch", "model": None},
        ),
        ("ledger", "mandatory", [{"ledger": False, "epsilon": None}, {"ledger": False, "kind": "noisy"}], {}),
    ],
)
def test_each_key_at_its_edge(key: str, value: Any, refusals: list[dict[str, Any]], allowed: dict[str, Any]) -> None:
    found = Policy(**{key: value})
    for passing in ({}, allowed):
        found.check(Outgoing(**EDGE | passing))
    for change in refusals:
        assert [name for name, _ in found.violations(Outgoing(**EDGE | change))] == [key]


def test_a_refusal_names_the_key_and_its_value() -> None:
    with refused('the site\'s policy: kinds = ["sums", "ranks"], and this is of the kind exact'):
        Policy(least_rows=3, kinds=("sums", "ranks")).check(Outgoing(**EDGE | {"kind": "exact"}))
    words = Policy(least_rows=3, kinds=("sums", "ranks")).in_words()
    assert words == ["Nothing leaves if this site has fewer than 3 rows.", "Only these kinds leave: sums, ranks."]


def test_the_example_shows_every_key(tmp_path: Path) -> None:
    assert read_policy(written(tmp_path / "p.toml", EXAMPLE)) == Policy(sums_only=True, least_sites=5, least_rows=50)
    found = read_policy(written(tmp_path / "p.toml", EXAMPLE.replace("\n# ", "\n")))
    assert msgspec.to_builtins(found).keys() == WORDS.keys() == set(Policy.__struct_fields__)


def test_what_is_not_said_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert policy_of() == Policy() == read_policy(written(tmp_path / "p.toml", "# nothing\n"))
    assert Policy().in_words() == ["All kinds may leave."]
    for kind in known_kinds():
        Policy().check(Outgoing(kind=kind, rows=1))


@pytest.mark.parametrize("variable", ["", None])
def test_an_empty_name_opens_no_door(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    with refused(f"the name of the policy is empty; name a file, or unset {VARIABLE}"):
        policy_of(None if variable == "" else "")


@pytest.mark.parametrize(
    "text",
    [
        "sums_onyl = true",
        '"two\\nlines" = true',
        *(f"sums_only = {bad}" for bad in ("1", '"true"', "yes")),
        *(f"least_rows = {bad}" for bad in ("0", "3.0", "true", '"3"')),
        *(f"largest_epsilon = {bad}" for bad in ("0", "nan", "true")),
        *(f"ledger = {bad}" for bad in ('"ledger.json"', "true")),
        *(f"kinds = {bad}" for bad in ('"sums"', "[]", "[1]", '["sum"]')),
        'models = ["\\u0007"]',
        "[policy]\nsums_only = true",
        "sums_only.really = true",
        "sums_only = true\nsums_only = false",
        "least_rows = " + "9" * 5000,
        b"sums_only = \xff",
        "kinds = " + "[" * 5000,
    ],
)
def test_a_file_that_cannot_be_understood(text: str | bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "policy.toml", text)
    with refused(f"{path}: is not a policy: "):
        read_policy(path)


def test_where_the_policy_is_stays_at_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "policy.toml"))
    with pytest.raises(InputError, match=r"^policy\.toml: cannot be read"):
        policy_of()
    written(tmp_path / "policy.toml", "least_rows = 3")
    assert policy_of() == Policy(least_rows=3)
    assert policy_of(written(tmp_path / "other.toml", "least_rows = 4")) == Policy(least_rows=4)


def test_summaries_and_noisy_counts_say_what_they_are() -> None:
    one, two = fc.Summary.of_scores([0.1, 0.2], site="a"), fc.Summary.of_scores([0.1, 0.2, 0.3], site="b")
    assert Outgoing.of(one) == Outgoing(kind="ranks", rows=2)
    pooled = fc.pool([one, two])
    assert Outgoing.of(pooled, patients=4) == Outgoing(kind=pooled.name, rows=2, sites=2, patients=4)
    pytest.importorskip("opendp", reason="noise needs opendp")
    noisy = noisy_histogram([0.1, 0.2], epsilon="0.3", site="a")
    assert Outgoing.of(noisy, ledger=True) == Outgoing(kind="noisy", rows=2, epsilon=0.3, ledger=True)
    Policy(largest_epsilon=0.3).check(Outgoing.of(noisy))
    with refused("largest_epsilon = 0.29, and this spends 0.3"):
        Policy(largest_epsilon=0.29).check(Outgoing.of(noisy))


def test_who_is_left_counts_in_every_round() -> None:
    """The roster is not known when a site joins; from then on those who are left are what it hides among."""
    alone = new_site("a", [0.1, 0.2])
    with refused("site 'a' has not joined a session"):
        Outgoing.of_sums(alone)
    joined, _ = join(alone, invite(fc.Mixture(), 0.1, epsilon=2)[1])
    assert Outgoing.of_sums(joined) == Outgoing(kind="sums", rows=2, sites=None, epsilon=2.0)
    _, _, sites = opened({name: np.linspace(0, 1, 9) for name in "abcd"})
    entered = sites["a"]
    assert Outgoing.of_sums(entered) == Outgoing(kind="sums", rows=9, sites=4, sessions=1)
    assert Outgoing.of_sums(msgspec.structs.replace(entered, ledger="ledger.json")).ledger
    later = msgspec.structs.replace(entered, present=frozenset([0, 1, 2]))
    Policy(least_sites=3).check(Outgoing.of_sums(later))
    with refused("least_sites = 4, and this is over 3"):
        Policy(least_sites=4).check(Outgoing.of_sums(later))


ROWS, CLASSES, STEP = 90, 3, 4e-7


def test_a_model_made_for_it_writes_features_into_scores() -> None:
    """Of an ordinary summary of 90 rows, age, laboratory value and label of each are read back."""
    rng = np.random.default_rng(1)
    age, value, label = rng.integers(20, 99, ROWS), rng.integers(0, 100, ROWS), rng.integers(0, CLASSES, ROWS)
    codes = ((age * 100 + value) * CLASSES)[:, None] + np.arange(CLASSES)  # the model sees no label, and needs none
    probs = 0.2 + STEP * codes
    probs = np.column_stack([probs, 1 - probs.sum(axis=1)]).astype(np.float32)
    sent = fc.summarize(probs, label, score=fc.LAC(), site="clinic-a", model="made for it")
    found = np.rint((0.8 - np.asarray(sent.points, dtype=np.float64)) / STEP).astype(int)
    read = {(code // CLASSES // 100, code // CLASSES % 100, code % CLASSES) for code in found.tolist()}
    truth = set(zip(age.tolist(), value.tolist(), label.tolist(), strict=True))
    assert len(truth) == ROWS
    assert len(read & truth) == ROWS
    with pytest.raises(InputError, match="this is of the model made for it"):
        Policy(models=("agreed",)).check(Outgoing.of(sent))
