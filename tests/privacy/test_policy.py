"""A site's policy: every key against a plain restatement of it, and files that cannot be understood."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from itertools import cycle, product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies

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

KINDS = ["sums", "noisy", "ranks", "exact", "exact by class", "watch", "evaluation", "weights"]
MODELS = ["onnx:0123", "resnet"]
GUARANTEES = ["mixture", "pac", "by-class"]
EPSILONS = [0.1, 0.3, 0.4, 1.0, 2.5]

requests = strategies.builds(
    Outgoing,
    kind=strategies.sampled_from(KINDS),
    rows=strategies.integers(1, 6),
    patients=strategies.none() | strategies.integers(1, 6),
    model=strategies.none() | strategies.sampled_from(MODELS),
    sites=strategies.none() | strategies.integers(1, 6),
    epsilon=strategies.none() | strategies.sampled_from(EPSILONS),
    guarantee=strategies.none() | strategies.sampled_from(GUARANTEES),
    ledger=strategies.booleans(),
)
policies = strategies.fixed_dictionaries(
    {},
    optional={
        "sums_only": strategies.booleans(),
        "least_sites": strategies.integers(1, 6),
        "least_rows": strategies.integers(1, 6),
        "least_patients": strategies.integers(1, 6),
        "models": strategies.lists(strategies.sampled_from(MODELS), min_size=1, unique=True),
        "most_sessions": strategies.integers(1, 3),
        "largest_epsilon": strategies.sampled_from(EPSILONS),
        "ledger": strategies.just("mandatory"),
        "kinds": strategies.lists(strategies.sampled_from(KINDS), min_size=1, unique=True),
        "guarantees": strategies.lists(strategies.sampled_from(GUARANTEES), min_size=1, unique=True),
    },
)


def may_leave(said: dict[str, Any], asked: Outgoing) -> bool:
    """Say again, key by key, what a policy allows."""
    allowed: dict[str, Callable[[Any], bool]] = {
        "sums_only": lambda only: asked.kind == "sums" or not only,
        "least_sites": lambda least: asked.sites is None or asked.sites >= least,
        "least_rows": lambda least: asked.rows >= least,
        "least_patients": lambda least: least == 1 or (asked.patients is not None and asked.patients >= least),
        "models": lambda models: asked.kind in ("watch", "weights") or asked.model in models,
        "most_sessions": lambda most: asked.sessions <= most,
        "largest_epsilon": lambda largest: asked.epsilon is not None and asked.epsilon <= largest,
        "ledger": lambda _: asked.ledger or (asked.epsilon is None and asked.kind != "sums"),
        "kinds": lambda kinds: asked.kind in kinds,
        "guarantees": lambda guarantees: asked.kind == "weights" or asked.guarantee in guarantees,
    }
    return all(allowed[key](value) for key, value in said.items())


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sums_only", True),
        ("sums_only", False),
        ("least_sites", 3),
        ("least_rows", 2),
        ("largest_epsilon", 0.3),
        ("ledger", "mandatory"),
        ("kinds", ("exact",)),
        ("guarantees", ("pac",)),
        ("least_patients", 2),
        ("models", ("resnet",)),
    ],
)
def test_each_key_by_itself(key: str, value: Any) -> None:
    """Every request there is, of a few values each."""
    found, passed = Policy(**{key: value}), set()
    requests = product(KINDS, (1, 2, 3), (None, 1, 2, 3, 4), (None, *EPSILONS), (None, *GUARANTEES), (False, True))
    rows_of = product((None, 1, 2, 3), (None, *MODELS))
    for (kind, rows, sites, epsilon, guarantee, ledger), (patients, model) in zip(
        requests, cycle(rows_of), strict=False
    ):
        said: dict[str, Any] = {"guarantee": guarantee, "ledger": ledger, "patients": patients, "model": model}
        asked = Outgoing(kind=kind, rows=rows, sites=sites, epsilon=epsilon, **said)
        keys = [name for name, _ in found.violations(asked)]
        assert keys == ([] if may_leave({key: value}, asked) else [key])
        passed.add(not keys)
    assert passed == ({True} if value is False else {False, True})


@given(said=policies, asked=requests)
def test_a_policy_allows_what_its_lines_allow(
    said: dict[str, Any], asked: Outgoing, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A refusal names a line of the file that says what stands there; everything else passes."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items()]
    path = written(tmp_path_factory.getbasetemp() / "policy.toml", "\n".join(["# ours", *lines]))
    try:
        read_policy(path).check(asked)
    except InputError as error:
        assert not may_leave(said, asked)
        place, _, rest = str(error).partition(": ")
        file, _, number = place.partition(", line ")
        assert file == "policy.toml"
        line, _, why = rest.partition(", and ")
        assert line == lines[int(number) - 2]
        assert why
        key = line.partition(" ")[0]
        assert not may_leave({key: said[key]}, asked)
    else:
        assert may_leave(said, asked)


@given(said=policies)
def test_what_is_said_to_leave_can_leave(said: dict[str, Any]) -> None:
    """Of the kinds that `policy check` names each can pass somehow, and no other can."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}
    found = Policy(**values)
    for kind in known_kinds():
        noise = kind in ("sums", "noisy")
        best = [
            Outgoing(
                kind=kind,
                rows=10**6,
                patients=10**6,
                model=model,
                sites=10**6 if kind == "sums" else 1,
                epsilon=epsilon,
                guarantee=guarantee,
                ledger=True,
            )
            for epsilon in ([None, 0.001] if noise else [None])
            for guarantee in GUARANTEES
            for model in MODELS
        ]
        assert (kind in found.may_leave) == any(may_leave(said, one) for one in best)
    words = found.in_words()
    assert words[-1].startswith(("All kinds", "These kinds", "So nothing"))
    assert len(words) == len(found.to_dict()) + 1


def test_every_key_has_words_and_a_reader() -> None:
    assert {one.name for one in fields(Policy)} == {*WORDS, "file", "lines"}
    known = dict.fromkeys(WORDS, "")
    for line in EXAMPLE.splitlines()[1:]:
        key, _, value = line.removeprefix("# ").partition("#")[0].partition(" = ")
        known[key] = value
    assert "" not in known.values()  # the example shows every key, also those that are commented out


def test_the_example(tmp_path: Path) -> None:
    assert read_policy(written(tmp_path / "p.toml", EXAMPLE)) == Policy(sums_only=True, least_sites=5, least_rows=50)
    everything = EXAMPLE.replace("\n# ", "\n")
    found = read_policy(written(tmp_path / "p.toml", everything))
    assert found.to_dict().keys() == WORDS.keys()
    assert found.may_leave == ["sums"]


def test_what_is_not_said_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert policy_of() == Policy() == read_policy(written(tmp_path / "p.toml", "# nothing\n"))
    assert Policy().may_leave == known_kinds()
    assert Policy().in_words() == ["All kinds may leave."]
    for kind in known_kinds():
        Policy().check(Outgoing(kind=kind, rows=1))


def test_an_empty_variable_opens_no_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with refused(f"{VARIABLE} is empty; name a policy, or unset it"):
        policy_of()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\nsums_onyl = true", "line 2: sums_onyl: is no key of a policy; there are sums_only, least_sites,"),
        *((f"#\nsums_only = {bad}", "line 2: sums_only: ") for bad in ("1", '"true"', "[]")),
        *((f"least_rows = {bad}", "line 1: least_rows: ") for bad in ("0", "3.0", "true", '"3"')),
        *((f"largest_epsilon = {bad}", "line 1: largest_epsilon: ") for bad in ("0", "nan", "inf", "true")),
        *((f"ledger = {bad}", "line 1: ledger: ") for bad in ('"ledger.json"', "true")),
        *((f"kinds = {bad}", "line 1: kinds: ") for bad in ('"sums"', "[]", "[1]")),
        ('kinds = ["sum"]', "line 1: kinds: there is no sum; there are sums, noisy"),
        ('kinds = [\n "sums",\n "mixture"]', "line 1: kinds: there is no mixture"),
        ('guarantees = ["sums"]', "line 1: guarantees: there is no sums; there are by-class"),
        ("[policy]\nsums_only = true", "line 1: policy: is no key of a policy"),
        ("sums_only.really = true", "line 1: sums_only: "),
        ("[[kinds]]", "line 1: kinds: "),
        ("sums_only = true\nsums_only = false", "is not a policy: "),
        ("sums_only = yes", "is not a policy: "),
        ("sums only = true", "is not a policy: "),
        ("least_rows = " + "9" * 5000, "is not a policy: "),
        ('"sums\\u005fonly" = true', "the key sums_only has no line of its own; write it once, as key = value"),
        ('kinds = ["""\nkinds = 1"""]', "the key kinds has no line of its own"),
        (b"sums_only = \xff", "is not text in UTF-8"),
        ("kinds = " + "[" * 5000, "is not a policy"),
    ],
)
def test_a_file_that_cannot_be_understood(text: str | bytes, why: str, tmp_path: Path) -> None:
    path = written(tmp_path / "policy.toml", text)
    with refused(f"{path}: ", why):
        read_policy(path)


@given(start=strategies.integers(0, 60), end=strategies.integers(0, 60), data=strategies.binary(max_size=20))
def test_any_bytes_are_a_policy_or_refused_in_one_line(
    start: int, end: int, data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = b"sums_only = true\nleast_sites = 5\nkinds = ['sums']\n"
    path = written(tmp_path_factory.getbasetemp() / "bytes.toml", text[:start] + data + text[end:])
    why = ""
    try:
        assert read_policy(path).in_words()
    except InputError as error:
        why = str(error)
    assert len(why.splitlines()) <= 1


def test_where_the_policy_is_stays_at_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "policy.toml"))
    with pytest.raises(InputError, match=r"^policy\.toml: cannot be read") as caught:
        policy_of()
    assert str(tmp_path) not in str(caught.value)
    written(tmp_path / "policy.toml", "least_rows = 3")
    assert policy_of() == Policy(least_rows=3)
    with pytest.raises(InputError, match=r"^policy\.toml, line 1: least_rows = 3, and this site has fewer$"):
        policy_of().check(Outgoing(kind="ranks", rows=2))
    assert policy_of(written(tmp_path / "other.toml", "least_rows = 4")) == Policy(least_rows=4)


def test_summaries_and_noisy_counts_say_what_they_are() -> None:
    one, two = fc.Summary.of_scores([0.1, 0.2], site="a"), fc.Summary.of_scores([0.1, 0.2, 0.3], site="b")
    assert Outgoing.of(one) == Outgoing(kind="ranks", rows=2)
    pooled = fc.pool([one, two])
    assert Outgoing.of(pooled, guarantee="pac") == Outgoing(kind=pooled.name, rows=2, sites=2, guarantee="pac")
    pytest.importorskip("opendp", reason="noise needs opendp")
    noisy = noisy_histogram([0.1, 0.2], epsilon="0.3", site="a")
    assert Outgoing.of(noisy, ledger=True) == Outgoing(kind="noisy", rows=2, epsilon=0.3, ledger=True)
    Policy(largest_epsilon=0.3).check(Outgoing.of(noisy))
    with refused("largest_epsilon = 0.29, and this spends 0.3"):
        Policy(largest_epsilon=0.29).check(Outgoing.of(noisy))


def test_who_is_left_counts_in_every_round() -> None:
    """The roster is not known when a site joins; from then on those who are left are what it hides among."""
    pytest.importorskip("cryptography", reason="sums need cryptography")
    pytest.importorskip("cryptography", reason="sums need cryptography")

    alone = new_site("a", [0.1, 0.2])
    with refused("site 'a' has not joined a session"):
        Outgoing.of_sums(alone)
    joined, _ = join(alone, invite(fc.Mixture(), 0.1, epsilon=2)[1])
    assert Outgoing.of_sums(joined) == Outgoing(kind="sums", rows=2, sites=None, epsilon=2.0, guarantee="mixture")
    _, _, sites = opened({name: np.linspace(0, 1, 9) for name in "abcd"})
    entered = sites["a"]
    assert Outgoing.of_sums(entered) == Outgoing(kind="sums", rows=9, sites=4, guarantee="mixture", sessions=1)
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
