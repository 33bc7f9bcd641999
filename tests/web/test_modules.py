"""The page's modules against the package: numbers, JSON, signatures, thresholds, sets and intervals."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import signatures
from fedconformal.tables import probabilities_of, read_table
from scripts.vector_cases.tools import seal
from tests.web.cases import CELLS
from tests.web.identity import differences
from tests.web.modules import WEB, answers, needs_node, node

pytestmark = needs_node
ALPHAS = ["0.1", "0.05", "0.3", "0.005", "0.123"]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_modules_pass_their_own_tests() -> None:
    assert "# pass 0" not in node("--test", "test/")


def test_the_types_are_right() -> None:
    compiler = WEB / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("typescript is not installed: make page installs it")
    node(compiler, "-p", ".")


@pytest.mark.parametrize(
    ("start", "count", "cells"),
    [pytest.param(0, 200, 4000, marks=pytest.mark.long), pytest.param(10**6, 5000, CELLS, marks=pytest.mark.slow)],
)
def test_files_are_those_of_the_command_line(start: int, count: int, cells: int) -> None:
    """Byte for byte, on random tables and options; `python -m tests.web.identity` runs as many as asked for."""
    found, seen = differences(start, count, cells)
    assert not found
    assert seen["byte-identical"] > 0.9 * count


def spellings(rng: np.random.Generator) -> list[str]:
    texts = "0 -0 +1 1. .5 5e-324 2.4703282292062327e-324 2.4703282292062328e-324 1e308 0e99 9007199254740993 0.1e1 "
    texts += "1E-5 4.35 0.000001 123456789012345678 899999999999999.9 1e22 900719925474099.3 0.30000000000000004"
    found = [*texts.split(), "1" * 400 + "e-390", "0." + "0" * 300 + "1", "9" * 15, "9" * 16]
    for _ in range(4000):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 25))))
        point = int(rng.integers(0, len(digits) + 1))
        exponent = f"e{rng.integers(-330, 290)}" if rng.random() < 0.4 else ""
        found.append(f"{digits[:point]}.{digits[point:]}{exponent}")
    for bits in rng.integers(0, 2**63, 2000, dtype=np.uint64):
        value = struct.unpack("d", struct.pack("Q", int(bits)))[0]
        if np.isfinite(value):
            found += [repr(value), f"{value:.16e}", f"{value:.18e}"]
    return found


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    texts = spellings(np.random.default_rng(0))
    asked = [{"ask": "number", "text": text, "mark": "."} for text in texts]
    asked += [{"ask": "number", "text": f" {text.replace('.', ',')} ", "mark": ","} for text in texts]
    expected = [struct.pack(">d", float(text)).hex() for text in texts]
    assert answers(asked, tmp_path) == expected * 2


def test_what_is_no_number_is_none(tmp_path: Path) -> None:
    texts = ["", ".", "-", "e5", "1e", "1e+", "1_0", "0x1", "nan", "inf", "1,5", "1.2.3", "\u0661"]
    found = answers([{"ask": "number", "text": text, "mark": "."} for text in texts], tmp_path)
    assert all(np.isnan(struct.unpack(">d", bytes.fromhex(one))[0]) for one in found)


def test_numbers_are_written_as_python_writes_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    texts = "0 -0 1 1e15 1e16 1e-4 1e-5 0.1 123456 1234567 5e-324 1.7976931348623157e308 0.3333333333333333 100"
    values = [float(text) for text in texts.split()]
    values += [
        struct.unpack("d", struct.pack("Q", int(bits)))[0] for bits in rng.integers(0, 2**63, 3000, dtype=np.uint64)
    ]
    values = [value for value in values if np.isfinite(value)] + (10 ** rng.uniform(-8, 20, 1000)).tolist()
    found = answers([{"ask": "written", "bits": struct.pack(">d", value).hex()} for value in values], tmp_path)
    assert found == [[repr(value), f"{value:g}"] for value in values]


def tables(rng: np.random.Generator, count: int) -> list[bytes]:
    """Write small tables with a few characters changed, put in or taken out."""
    found = []
    for _ in range(count):
        separator = (",", ";", "\t")[rng.integers(3)]
        head = (["id", "a", "b", "y"], ["", "a", "b", "y"], ["0", "1", "2", "3"], ["x", "prob_a", "prob_b", "y"])[
            rng.integers(4)
        ]
        lines = [head] if rng.random() < 0.8 else []
        for k in range(rng.integers(1, 5)):
            p = float(rng.random())
            lines.append(
                [(f"p{k}", str(k), f"00{k}")[rng.integers(3)], f"{p:.3g}", f"{1 - p:.3g}", "ab"[rng.integers(2)]]
            )
        letters = list("\n".join(separator.join(line) for line in lines) + "\n")
        for _ in range(rng.integers(0, 4)):
            at, one = int(rng.integers(len(letters))), STRANGE[rng.integers(len(STRANGE))]
            letters[at : at + int(rng.integers(2))] = [one] if rng.random() < 0.8 else []
        found.append("".join(letters).encode("utf-8", "surrogatepass"))
    return found


STRANGE = [*",;\t\n\r\" '.%-+e0159aN|_\xa0\u2028\ufeff\0é\u0301\u0661😀\x1f\x85", "1,5", "NA", '""', "sep=;\n"]
"""Contents of tables by mistake or by attack."""


def read_here(data: bytes, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "t.csv"
    path.write_bytes(data)
    try:
        found = probabilities_of(read_table(path), **options)
    except fc.InputError as error:
        return {"refused": str(error).replace(str(path), "t.csv")}
    classes, labels = (None if one is None else list(one) for one in (found.classes, found.labels))
    said = {"recognised": found.recognised.replace(str(path), "t.csv"), "classes": classes, "labels": labels}
    return said | {"values": found.values.ravel().tolist(), "ids": found.ids}


def test_strange_tables_are_read_or_refused_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    options: list[dict[str, Any]] = [
        {},
        {"labels": "y"},
        {"ids": "id", "labels": "y"},
        {"labels": "y", "classes": ["a", "b"]},
    ]
    asked = [(data, options[rng.integers(4)]) for data in tables(rng, 1200)]
    found = answers([{"ask": "intake", "table": encoded(data), "options": given} for data, given in asked], tmp_path)
    expected = [read_here(data, given, tmp_path) for data, given in asked]
    assert [one for one in zip(asked, found, expected, strict=True) if one[1] != one[2]] == []
    assert 120 < sum("refused" in one for one in expected) < 1080


def test_altered_summaries_are_read_or_refused_alike(tmp_path: Path) -> None:
    rng, sent = np.random.default_rng(9), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores, labels = rng.random(130).round(2), rng.integers(0, 3, 130)
        for kind in ("exact", "ranks", "ddsketch", "tdigest"):
            about: dict[str, Any] = {"kind": kind, "site": "Köln", "alpha": 0.1}
            sent.append(fc.Summary.of_scores(scores[:7], score=fc.RAPS(), classes=["a", "b"], calibration="c", **about))
            sent.append(fc.Summary.of_scores(scores, labels=labels, **about))
            sent.append(fc.Summary.of_scores(scores, groups={"sex": ["F", "M"] * 65}, **about))
        sent.append(fc.pool([fc.Summary.of_scores(scores, site="a"), fc.Summary.of_scores(scores[:9], site="b")]))
        sent.append(fc.LossSummary.of_losses([[1, 0.5, 0], [0.5, 0.5, 0]], thresholds=[1, 2, 3], site="a"))
    asked = []
    for whole in (one.to_bytes() for one in sent):
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(rng.integers(1, 3)):
                at = int(rng.integers(3, len(data)) if rng.random() < 0.5 else rng.integers(9, min(90, len(data))))
                data[at] = int(rng.integers(256)) if rng.random() < 0.5 else data[at] ^ 1 << int(rng.integers(8))
            asked.append(seal(bytes(data[:-4])))
    asked += [one.to_bytes() for one in sent]
    found = answers([{"ask": "summary", "data": encoded(data)} for data in asked], tmp_path)
    expected = [accepted(data) for data in asked]
    assert [one for one in zip(asked, found, expected, strict=True) if isinstance(one[1], list) != one[2]] == []
    assert 100 < sum(expected) < 1900


def accepted(data: bytes) -> bool:
    try:
        fc.Summary.from_bytes(data)
    except fc.InputError:
        return False
    return True


def documents(rng: np.random.Generator) -> list[Any]:
    texts = ["", "a", "é", "😀", "\x7f", '"', "\\", "\n\t\b", "\u2028", "\u017f", "\uffff", "\U0001f600b", "\uff5a"]
    scalars = [None, True, False, 0, -1, 10**30, 0.1, 1e-7, 1e22, -0.0, 1.0, *texts]

    def value(deep: int) -> Any:
        kind = rng.integers(4 if deep < 4 else 2)
        if kind < 2:
            return scalars[rng.integers(len(scalars))]
        inside = [value(deep + 1) for _ in range(rng.integers(5))]
        return inside if kind == 2 else {f"{texts[rng.integers(len(texts))]}{k}": one for k, one in enumerate(inside)}

    return [value(0) for _ in range(300)]


def test_json_has_the_same_digest(tmp_path: Path) -> None:
    made = documents(np.random.default_rng(2))
    asked = [
        {"ask": "json", "data": encoded(json.dumps(one, ensure_ascii=k % 2 == 0, indent=k % 3).encode())}
        for k, one in enumerate(made)
    ]
    expected = [hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest() for one in made]
    assert answers(asked, tmp_path) == expected


def test_json_that_is_none_is_refused(tmp_path: Path) -> None:
    texts = ["", "{", "[1,]", '{"a" 1}', "NaN", "1e400", '"\\ud800"', '"a', "nul", '"\n"', "1 2", "{1: 2}", "[" * 5000]
    found = answers([{"ask": "json", "data": encoded(text.encode())} for text in texts], tmp_path)
    assert all("refused" in one for one in found)


def rows(rng: np.random.Generator, count: int, classes: int) -> tuple[Any, Any, dict[str, list[str]]]:
    probs = rng.dirichlet(np.full(classes, 0.5), count)
    probs[: count // 4] = rng.multinomial(8, np.full(classes, 1 / classes), count // 4) / 8  # ties
    labels = np.where(rng.random(count) < 0.7, probs.argmax(axis=1), rng.integers(0, classes, count))
    return probs, labels, {"sex": [("F", "M", "")[k] for k in rng.integers(0, 3, count)]}


def table(probs: Any, groups: dict[str, list[str]]) -> bytes:
    names = [f"c{k}" for k in range(probs.shape[1])]
    lines = [",".join([*names, *groups])]
    lines += [
        ",".join([*map(repr, row), *(values[i] for values in groups.values())]) for i, row in enumerate(probs.tolist())
    ]
    return "\n".join(lines).encode()


SCORES = [fc.LAC(), fc.APS(), fc.APS(randomized=True, random_state=3), fc.RAPS(penalty=0.01, free_ranks=2)]


KINDS: dict[str, fc.Guarantee] = {
    "": fc.Mixture(),
    "class": fc.ByClass(),
    "group": fc.ByGroup(),
    "group and class": fc.ByGroup(fc.ByClass()),
}


def indices(sets: Any) -> list[list[list[int]]]:
    return [[np.flatnonzero(row).tolist() for row in one] for one in sets]


@pytest.mark.parametrize(("by", "precision"), [("", True), *zip(KINDS, [False, True] * 2, strict=True)])
def test_sets_are_those_of_the_package(by: str, precision: bool, tmp_path: Path) -> None:
    rng, names = np.random.default_rng(4), [f"c{k}" for k in range(4)]
    asked, expected = [], []
    for score in SCORES:
        probs, labels, groups = rows(rng, 300, 4)
        test, _, own = rows(rng, 120, 4)
        held = own if "group" in by else None
        about: dict[str, Any] = {"score": score, "alpha": 0.1, "site": "a", "classes": names}
        about |= {"groups": groups} if held else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if precision:
                summary = fc.summarize(probs, np.array(names)[labels], by_class="class" in by, **about)
            else:
                summary = fc.Summary.of_scores(score.evaluate(probs, labels), **about)  # in float64
            predictor = fc.calibrate([summary], alpha=0.1, guarantee=KINDS[by])
            expected.append(indices(predictor.predict_set(test, groups=held, alpha=alpha) for alpha in ALPHAS))
        files = {"predictor": encoded(predictor.to_bytes()), "table": encoded(table(test, held or {}))}
        asked.append({"ask": "sets", "columns": {}, "alphas": ALPHAS, **files})
    assert answers(asked, tmp_path) == expected


def test_a_site_has_sets_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    sites = [
        fc.summarize(*rows(rng, n, 4)[:2], score=fc.LAC(), site=site, alpha=0.1, classes=4)
        for site, n in (("a", 300), ("b", 60), ("few", 5))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        predictor = fc.calibrate(sites, alpha=0.1, guarantee=fc.EverySite())
        test, _, _ = rows(rng, 120, 4)
        known = [None, "a", "b", "few"]
        expected = [[predictor.predict_set(test, sites=site, alpha=alpha) for alpha in ALPHAS] for site in known]
    about = {"ask": "sets", "columns": {}, "alphas": ALPHAS, "predictor": encoded(predictor.to_bytes())}
    found = answers([{**about, "table": encoded(table(test, {})), "site": site} for site in known], tmp_path)
    assert found == [indices(made) for made in expected]
    assert len({json.dumps(one) for one in found}) == 3  # without a site as at the site with too few rows


def test_rows_with_a_missing_value_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    site = fc.summarize(*rows(rng, 300, 4)[:2], score=fc.LAC(), site="a", alpha=0.1, classes=4)
    lines = table(rows(rng, 9, 4)[0], {}).split(b"\n")
    holes = [*lines[:3], b",0.5,0.25,0.25", *lines[3:6], b'"NA",1,0,0', *lines[6:]]
    tables = [lines, holes, [*holes, b"0.75,0.75,0,0"], [lines[0], b",1,0,0"]]
    about = {"ask": "sets", "columns": {}, "alphas": ALPHAS, "predictor": encoded(fc.calibrate([site]).to_bytes())}
    whole, left, wrong, none = answers([{**about, "table": encoded(b"\n".join(one))} for one in tables], tmp_path)
    assert left == whole
    assert len(left[0]) == 9
    assert f"line {len(holes) + 1} " in wrong["refused"]
    assert "has a missing value in every row" in none["refused"]


def test_intervals_are_those_of_the_package(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    f, y = rng.normal(size=(2, 200)).round(2)
    site = fc.summarize(f, y, score=fc.Residual(), site="a", alpha=0.1)
    predictor = fc.calibrate([site], alpha=0.1)
    test = np.concatenate([rng.normal(size=100).round(2), 10 ** rng.uniform(-9, 9, 100)])
    data = ("prediction\n" + "\n".join(map(repr, test.tolist()))).encode()
    asked = {"ask": "sets", "predictor": encoded(predictor.to_bytes()), "table": encoded(data), "columns": {}}
    (found,) = answers([{**asked, "alphas": ALPHAS[:3]}], tmp_path)
    expected = [predictor.predict_interval(test, alpha=alpha).tolist() for alpha in ALPHAS[:3]]
    assert [[list(map(float, ends)) for ends in one] for one in found] == expected


def test_labels_that_contradict_the_model_are_noticed_alike(tmp_path: Path) -> None:
    rng, asked, expected = np.random.default_rng(11), [], []
    for case in range(60):
        classes, count = int(rng.integers(2, 8)), int(rng.integers(10, 300))
        probs, labels, _ = rows(rng, count, classes)
        if case % 3:
            labels = (rng.permutation(classes)[labels], labels[::-1])[case % 2]
        asked.append({"ask": "contradiction", "values": probs.ravel().tolist(), "columns": classes})
        asked[-1]["labels"] = labels.tolist()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fc.summarize(probs, labels, score=fc.LAC(), classes=classes)
        expected.append(next((str(one.message)[:60] for one in seen if "commonest" in str(one.message)), None))
    found = answers(asked, tmp_path)
    assert [one and one[:60].replace("The most", "the most") for one in found] == expected
    assert 10 < sum(one is not None for one in expected) < 50


@pytest.fixture(scope="module")
def made() -> tuple[fc.Predictor, fc.Summary]:
    rng = np.random.default_rng(6)
    probs, labels, _ = rows(rng, 200, 3)
    sites = [fc.summarize(probs, labels, score=fc.LAC(), site=site, alpha=0.1) for site in ("Köln", "b")]
    return fc.calibrate(sites, alpha=0.1), sites[0]


def test_a_predictor_is_checked(made: tuple[fc.Predictor, fc.Summary], tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    predictor, own = made
    data, key, other = predictor.to_bytes(), signatures.new_key(), signatures.new_key()
    seal = signatures.seal(data, key)
    wrong = json.dumps({"key": seal.key, "signature": signatures.seal(data + b" ", key).signature}).encode()
    forged = json.dumps({"key": signatures.public_key(other), "signature": seal.signature}).encode()
    right = json.dumps({"key": seal.key, "signature": seal.signature}).encode()
    altered = data.replace(b'"certified"', b'"estimated"', 1)
    asked = [
        {"predictor": encoded(data), "seal": encoded(one), "own": encoded(own.to_bytes())}
        for one in (right, wrong, forged)
    ]
    asked += [{"predictor": encoded(altered)}, {"predictor": encoded(data), "own": encoded(own.to_bytes() + b"x")}]
    first, *others = answers([{"ask": "checks", **one} for one in asked], tmp_path)
    assert first["sentence"] == predictor.sentence()
    assert first["digest"] == hashlib.sha256(data).hexdigest()
    assert first["seal"] == {"key": seal.key, "valid": True}
    assert first["own"] == "Köln"
    assert [one["seal"]["valid"] for one in others[:2]] == [False, False]
    assert "altered" in others[2]["refused"]
    assert others[3]["own"] is None


def test_signatures_are_those_of_the_standard(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    rng = np.random.default_rng(7)
    asked, expected = [], []
    for size in (0, 1, 63, 64, 111, 112, 127, 128, 129, 1000):
        key, data = signatures.SigningKey(rng.bytes(32)), rng.bytes(size)
        signature, public = key.sign(data), key.public
        bent = bytearray(signature)
        bent[rng.integers(64)] ^= 1 << int(rng.integers(8))
        large = int.from_bytes(signature[32:], "little") + 2**252 + 27742317777372353535851937790883648493
        beyond = signature[:32] + large.to_bytes(32, "little")
        for one, what in ((signature, data), (bytes(bent), data), (signature, data + b"x"), (beyond, data)):
            asked.append({"ask": "signed", "data": encoded(what), "signature": one.hex(), "key": public.hex()})
        expected += [True, False, False, False]
    assert answers(asked, tmp_path) == expected
