"""The predictor: its numbers, its file, and what happens when the file is changed."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.calibration.search import MAX_POINTS, PromiseCurve
from fedconformal.errors import AlteredError
from fedconformal.evaluation import evaluate_sets
from tests.contracts.tools import checks, coverage_at, refusal, refused, vectors
from tests.golden import make

JSON = dict[str, Any]
Way = tuple[str | int, ...]


@pytest.fixture(scope="module")
def predictor() -> fc.Predictor:
    """Return the predictor of the golden file; the tests do not change it."""
    return fc.Predictor.from_bytes((make.HERE / "predictor.json").read_bytes())


def document() -> JSON:
    loaded = json.loads((make.HERE / "predictor.json").read_bytes())
    assert isinstance(loaded, dict)
    return loaded


def resealed(content: JSON) -> bytes:
    """Write JSON with the digest made right again."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}).encode()


def leaves(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Walk down to every number, string and null."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*way, key))
    else:
        yield way, value


def put(content: JSON, way: Way, value: Any) -> JSON:
    """Return a copy with one value replaced."""
    copied: Any = copy.deepcopy(content)
    reduce(getitem, way[:-1], copied)[way[-1]] = value
    return cast("JSON", copied)


def other(value: Any) -> Any:
    """Change one digit, or one letter."""
    match value:
        case None:
            return 1
        case bool():
            return not value
        case int():
            return value + 1 if value % 10 < 9 else value - 1
        case float():
            return float(np.nextafter(value, np.inf))
        case str():
            return ("b" if value[:1] == "a" else "a") + value[1:]
        case _:
            raise TypeError(value)


every_leaf = pytest.mark.parametrize(
    "way", [way for way, _ in leaves(document())], ids=lambda way: ".".join(map(str, way))
)


# --- the golden file ---


def test_the_golden_file_predicts_what_it_did(predictor: fc.Predictor) -> None:
    assert predictor.to_bytes() == (make.HERE / "predictor.json").read_bytes()
    assert (predictor.score, predictor.threshold, predictor.certificate.alpha) == (fc.RAPS(penalty=0.125), 1.0, 0.2)
    rows = [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75], [0.0, 0.5, 0.5]]
    assert predictor.predict_set(rows).astype(int).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 0]]
    half = predictor.predict_set(rows, alpha=0.5, allow_empty=True)
    assert half.astype(int).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    with pytest.warns(fc.InfeasibleWarning, match=r"alpha=0\.01 cannot be promised.*80 more in all"):
        assert predictor.predict_set(rows, alpha="0.01").all()
    assert predictor.predict_p(rows) == pytest.approx(np.array([[20, 9, 1], [9, 1, 13], [1, 20, 1]]) / 20, abs=1e-15)


def test_the_golden_file_is_written_the_same_but_for_versions_and_words() -> None:
    made, kept = json.loads(make.predictor().to_bytes()), document()
    for content in (made, kept):
        del content["sha256"], content["certificate"]["versions"], content["certificate"]["statement"]
    assert made == kept


# --- numbers ---


@given(st.lists(vectors(15), min_size=1, max_size=4), vectors(12))
@checks(60)
def test_p_values_of_the_proportional_mixture(sites: list[Floats], tested: Floats) -> None:
    summaries = [fc.Summary.of_scores(scores, kind="exact", site=f"s{k}") for k, scores in enumerate(sites)]
    curve = fc.calibrate(summaries, alpha=0.9, exact=True).curve
    together = np.concatenate(sites)
    whole = len(together) + (len(sites) == 1)  # one site: the classical rank
    for score, p in zip(tested, curve.p_values(tested), strict=True):
        exact = min(Fraction(1), Fraction(int(np.count_nonzero(together >= score)) + 1, whole))
        assert exact <= Fraction(round(p * 10**15), 10**15) < exact + Fraction(1, 10**15)


def test_evaluate_compares_the_sets(predictor: fc.Predictor) -> None:
    rows, labels = np.array(make.PROBS), np.array(make.LABELS)
    found = predictor.evaluate(rows, labels, sites=list("aabbb"), alpha=0.4)
    sets, certificate = predictor.predict_set(rows, alpha=0.4), predictor.certificate
    assert found == evaluate_sets(sets, labels, sites=list("aabbb"), certificate=certificate, alpha=0.4)
    clustered = predictor.evaluate(rows, labels, clusters=list("aabbc"), alpha=0.4)
    assert clustered == evaluate_sets(sets, labels, clusters=list("aabbc"), certificate=certificate, alpha=0.4)


def test_sets_need_a_score() -> None:
    nameless, named = fc.Summary.of_scores([0.1] * 9), fc.Summary.of_scores([0.1] * 9, score=fc.APS())
    with refused(param="score"):
        fc.calibrate([nameless]).predict_set([[0.5, 0.5]])
    assert fc.calibrate([named]).score == fc.APS()


def test_an_infinite_threshold_is_saved_as_a_word(tmp_path: Path) -> None:
    with pytest.warns(fc.InfeasibleWarning):
        result = fc.calibrate([fc.Summary.of_scores([0.5], score=fc.LAC())], alpha=0.1, exact=True)
    result.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text("utf-8"))["certificate"]["promises"][0]["threshold"] == "inf"
    again = fc.load(tmp_path / "p.json")
    assert again.threshold == np.inf
    with pytest.warns(fc.InfeasibleWarning, match="8 more in all"):
        assert again.threshold_at(0.1) == np.inf
    with pytest.warns(fc.InfeasibleWarning, match="every label is in every set"):
        assert again.predict_set([[1.0, 0.0]], allow_empty=True).all()


# --- changed files ---


@every_leaf
def test_one_digit_changed_anywhere_is_noticed(way: Way) -> None:
    changed = put(document(), way, other(dict(leaves(document()))[way]))
    refusal(lambda: fc.Predictor.from_bytes(json.dumps(changed).encode()))
    if way[0] not in ("kind", "format", "sha256"):
        with pytest.raises(AlteredError, match="altered"):
            fc.Predictor.from_bytes(json.dumps(changed).encode())


WRONG_TYPES: list[Any] = [None, True, -1, 2**70, 1e300, "x", "", [], {}, [[]], "NaN", "inf"]


@every_leaf
def test_wrong_types_are_refused_even_with_a_right_digest(way: Way) -> None:
    """With a correct digest the checks of the content apply, and no other exception is raised."""
    for value in WRONG_TYPES:
        data = resealed(put(document(), way, value))
        try:
            found = fc.Predictor.from_bytes(data)
        except fc.InputError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
            continue
        assert "Predictor(" in repr(found)
        assert fc.Predictor.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
        found.predict_set([[0.5, 0.25, 0.25]])
        problems = fc.verify(found, [])
        assert problems or not found.certificate.summaries


@every_leaf
def test_a_missing_field_is_refused(way: Way) -> None:
    if isinstance(way[-1], int):
        return
    content: Any = document()
    del reduce(getitem, way[:-1], content)[way[-1]]
    for data in (json.dumps(content).encode(), resealed(content)):
        try:
            found = fc.Predictor.from_bytes(data)
        except fc.InputError:
            continue
        assert way == ("sha256",) or way[1] in ("versions", "exact", "provenance"), way
        assert "Predictor(" in repr(found)
        assert way[:2] != ("certificate", "provenance") or fc.verify(found, make.sites())


@pytest.mark.parametrize("length", range(0, len(resealed(document())), 41))
def test_truncated_json_is_refused(length: int) -> None:
    refusal(lambda: fc.Predictor.from_bytes(resealed(document())[:length]))


def replaced(way: str, value: Any) -> bytes:
    return resealed(put(document(), tuple(int(key) if key.isdigit() else key for key in way.split(".")), value))


def written(word: str, text: str) -> bytes:
    """Put raw text, such as a number that json.dumps would not write, in the place of a word."""
    content = document()
    content["certificate"]["slack"] = word
    return json.dumps(content).replace(f'"{word}"', text).encode()


def deep(levels: int, way: str = "certificate.guarantee") -> bytes:
    content = put(document(), tuple(way.split(".")), "@")
    return json.dumps(content).replace('"@"', '{"a":' * levels + "1" + "}" * levels).encode()


RISING = list(range(1, MAX_POINTS + 2))
NO_PREDICTORS = [
    *(b"", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 100_000, resealed(document()) + b"x"),
    fc.Summary.of_scores([0.5]).to_bytes(),
    replaced("kind", "fedconformal summary"),
    replaced("certificate.provenance.model", "half a \ud800 character"),
    *(written("@", text) for text in ("NaN", "1" * 5000, "0x10")),
]


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        *((data, "not a fedconformal predictor") for data in NO_PREDICTORS),
        (b'{"kind": "fedconformal predictor"}', ""),
        (resealed({**document(), "more": 1}), "more"),
        (resealed(put(document(), ("certificate", "more"), 1)), "more"),
        (resealed(put(document(), ("curves", 0, "more"), 1)), "more"),
        (replaced("format", 2), "format"),
        (replaced("certificate.status", "proven"), "status"),
        (replaced("certificate.promises.0.threshold", 0.75), "different thresholds"),
        (replaced("certificate.alpha", 0.5), "different thresholds"),
        (replaced("certificate.alpha", 0), "alpha"),
        (replaced("certificate.provenance.score", {}), "no score is called"),
        (replaced("certificate.provenance.score", {"name": "raps"}), "parameters"),
        (replaced("certificate.provenance.score", {"name": "lac", "self": 1}), "parameters"),
        (replaced("certificate.provenance.score.penalty", 10**400), "penalty"),
        (replaced("certificate.provenance.score.randomized", 1), "randomized"),
        (replaced("curves.0.thresholds", [0.5, 1.0, 0.75]), "rising"),
        (replaced("curves.0.thresholds", [0.5, 1.0]), "points"),
        (replaced("curves.0.promised", [5, 4, 909090909090909]), "rising"),
        (replaced("curves.0.promised", [-1, 1, 909090909090909]), "promised"),
        (replaced("curves.0.promised", [1, 2, 10**15]), "promised"),
        (replaced("curves.0.promised", [1, 2, 10**400]), "promised"),
        (replaced("curves.0", {"thresholds": RISING, "promised": RISING}), "points"),
    ],
)  # fmt: skip
def test_hostile_json_is_refused(data: bytes, fragment: str) -> None:
    assert fragment in refusal(lambda: fc.Predictor.from_bytes(data))


@pytest.mark.parametrize(
    "way", ["certificate.guarantee", "certificate.provenance.score", "certificate.versions", "certificate.promises"]
)
def test_deep_nesting_is_refused(way: str) -> None:
    for levels in [*range(100, 1100, 50), *range(940, 1000, 4), 5000, 50_000]:
        with pytest.raises(fc.InputError):
            fc.Predictor.from_bytes(deep(levels, way))


def test_hostile_guarantees_are_harmless() -> None:
    weights: list[Any] = [["a"], {}, [[0.5, 0.5]], [10**400]]
    wrong: list[Any] = [{}, {"name": 5}, {"name": "mixture"}, {"name": "every-site", "more": 1}, {"name": "nope"}]
    wrong += [{"name": "mixture", "weights": one} for one in weights]
    wrong += [{"name": "one-site", "site": site} for site in (None, 10**30)]
    for guarantee in wrong:
        try:
            found = fc.Predictor.from_bytes(replaced("certificate.guarantee", guarantee))
        except fc.InputError:
            continue
        assert "Predictor(" in repr(found)
        assert fc.verify(found, make.sites())


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with refused(str(path), "cannot be read"):
        fc.load(path)
    path.write_bytes(b"{")
    with refused(f"{path}: not a fedconformal predictor"):
        fc.load(str(path))
    path.write_bytes(json.dumps(put(document(), ("certificate", "rank"), 19)).encode())
    with pytest.raises(AlteredError, match="altered") as caught:
        fc.load(path)
    assert str(caught.value).startswith(f"{path}: ")


# --- the curve itself ---


@given(
    st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 10**15 - 1)), min_size=1, max_size=30),
    st.integers(1, 10**15 - 1),
)
@checks(150)
def test_p_values_and_thresholds_agree_on_any_curve(points: list[tuple[float, int]], units: int) -> None:
    thresholds = np.unique([q for q, _ in points])
    promised = np.unique([c for _, c in points])
    length = min(len(thresholds), len(promised))
    curve = PromiseCurve(thresholds[:length], promised[:length])
    scores = np.concatenate([thresholds, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf)])
    p = curve.p_values(scores)
    for alpha in {Fraction(units, 10**15), *(1 - Fraction(int(c), 10**15) for c in promised if c)}:
        limit = curve.threshold(alpha)
        assert np.array_equal(p > float(alpha), scores <= limit)
        assert coverage_at(curve, limit) >= 1 - alpha or limit == np.inf
        below = thresholds[thresholds < limit]
        assert all(coverage_at(curve, float(q)) < 1 - alpha for q in below)
