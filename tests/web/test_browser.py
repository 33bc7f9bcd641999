"""The page in a real browser: saved files, refusals, and no script or request from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli.app import run
from fedconformal.privacy import signatures
from fedconformal.summaries.summary import digest_of
from tests.report.browser import CHROMIUM, DRIVER
from tests.web.cases import random_case
from tests.web.form import Form, opened
from tests.web.identity import by_command_line

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]

TABLE = "id,benign,malignant,truth\np1,0.9,0.1,benign\np2,0.4,0.6,malignant\np3,0.2,0.8,benign\n"
EVIL = "<img src=x onerror=\"document.title='ran'\">"
SCRIPT = "<script>document.title='ran'</script>"


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Form]:
    with opened(tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture(autouse=True)
def fresh(form: Form) -> Iterator[None]:
    """Open the page anew; whatever a test does, nothing runs, nothing is asked for, and the console stays silent."""
    form.browser.go(form.page)
    yield
    assert form.browser.run("return document.title") == "fedconformal: summarise calibration rows"
    assert form.browser.complaints() == []
    asked = [url for url in form.browser.requests() if url.split(":")[0] not in ("chrome", "data", "blob")]
    assert asked == [form.page.as_uri()] * len(asked)


def worked(form: Form, path: Path, *, every_column: bool = False, **values: Any) -> None:
    form.choose("file", path)
    form.wait()
    if every_column:
        form.tick("columns")
    form.fill({"labels": "truth", "ids": "id", "site": "clinic-a", **values})
    form.click("work")
    form.wait()


@pytest.mark.parametrize(
    ("start", "count", "cells", "least"),
    [(5_000, 10, 2000, 7), pytest.param(10_000, 206, 20_000, 200, marks=pytest.mark.slow)],
)
def test_cases_through_the_file_chooser(
    form: Form, tmp_path: Path, start: int, count: int, cells: int, least: int
) -> None:
    equal = 0
    for seed in range(start, start + count):
        case, own = random_case(seed, cells), tmp_path / str(seed)
        own.mkdir()
        for name, data in case.files.items():
            (own / name).write_bytes(data)
        expected, found = by_command_line(case, own), form.made(case, own)
        if isinstance(found, str):
            assert expected.startswith("refused"), f"case {seed}: {found}"
        else:
            assert found.hex() == expected, f"case {seed}"
            equal += 1
    assert equal >= least


def test_it_says_what_was_recognised_and_shows_every_number(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "scans.csv"
    path.write_bytes(TABLE.replace(",", ";").replace("0.", "0,").encode())
    worked(form, path)
    assert form.problem() == ""
    said = "scans.csv: semicolons, decimal commas, header; 3 rows; classes benign, malignant; ids from id"
    assert form.browser.text("found").startswith(said)
    data = form.saved("clinic-a.fcs")
    summary: Any = fc.Summary.from_bytes(data)
    shown = form.browser.run(
        "return [...document.querySelectorAll('#numbers tbody tr')].map((row) => row.cells[2].textContent)"
    )
    assert shown == ["3", *map(repr, summary.values.tolist())]
    assert digest_of(summary) in form.browser.text("facts")
    assert "holds every score" in form.browser.text("warnings")


def test_a_change_takes_the_result_away(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "scans.csv"
    path.write_text(TABLE)
    worked(form, path)
    assert not form.hidden("result")
    form.fill({"alpha": "0.2"})
    assert form.hidden("result")


HOSTILE = {
    "one cell": (b"x" * 200_000, "cell"),
    "logits": (b"id,benign,malignant,truth\np1,2.5,-0.5,benign\n", "the last bits of exp differ between machines"),
    "percent": (b"id,benign,malignant,truth\np1,90,10,benign\np2,60,40,malignant\n", "these are percentages"),
    "a sum": (b"id,benign,malignant,truth\np1,0.5,0.4,benign\n", "line 2 sums to 0.9, not 1"),
    "no number": (f"id,benign,malignant,truth\np1,{SCRIPT},0.1,benign\n".encode(), "which is not a number"),
    "dangerous name": (b"id,a,__proto__,truth\np1,0.9,0.2,a\n", "sums to 1.1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_table_is_refused_in_one_line(name: str, form: Form, tmp_path: Path) -> None:
    data, said = HOSTILE[name]
    path = tmp_path / "scans.csv"
    path.write_bytes(data)
    worked(form, path, every_column=True)
    assert said in form.problem()
    assert "\n" not in form.problem()
    assert form.hidden("result")


def test_no_script_of_a_cell_runs(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "scans.csv"
    evil = EVIL.replace('"', "'")
    head = f'"{evil}","{SCRIPT}",javascript:alert(1),truth,sex\n'
    rows = [f"0.5,0.25,0.25,{SCRIPT},{evil}\n", f"0.5,0.25,0.25,javascript:alert(1),{evil}\n"]
    path.write_text(head + "".join(rows))
    form.choose("file", path)
    form.wait()
    form.fill({"labels": "truth", "site": EVIL[:60], "model": SCRIPT, "calibration": EVIL[:60]}, by_class=True)
    form.tick("groups", ["sex"])
    form.click("work")
    form.wait()
    assert form.problem() == ""
    assert SCRIPT in form.browser.text("facts")
    assert not form.browser.run("return document.querySelectorAll('img, main script, [onerror]').length")


def test_the_page_cannot_reach_anything(form: Form) -> None:
    tried = form.browser.run(
        """
        const blocked = [];
        document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
        try { new Worker("x.js"); } catch {}
        new Image().src = "http://127.0.0.1:9/x";
        const later = (answer) => new Promise((done) => setTimeout(() => done([answer, blocked.sort()]), 300));
        return fetch("http://127.0.0.1:9/").catch(() => "refused").then(later);
        """
    )
    assert tried[0] == "refused"
    assert {"connect-src", "img-src"} <= set(tried[1])
    form.browser.complaints()  # the console says so too
    form.browser.requests()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A predictor, its signature, the summaries that it is from, and rows."""
    pytest.importorskip("cryptography")
    folder, rng = tmp_path_factory.mktemp("predictor"), np.random.default_rng(1)
    probs = rng.dirichlet(np.full(3, 0.5), 400)
    names = np.array(["gut", "böse", SCRIPT])
    labels = names[np.where(rng.random(400) < 0.8, probs.argmax(axis=1), 0)]
    sites = [
        fc.summarize(probs, labels, score=fc.LAC(), site=site, classes=names.tolist(), alpha=0.1) for site in ("a", "b")
    ]
    predictor = fc.calibrate(sites, alpha=0.1)
    predictor.save(folder / "predictor.json")
    key = signatures.new_key()
    (folder / "key.txt").write_text(signatures.public_key(key))
    sealed = signatures.seal((folder / "predictor.json").read_bytes(), key)
    (folder / "predictor.json.sig").write_text(json.dumps({"key": sealed.key, "signature": sealed.signature}))
    (folder / "a.fcs").write_bytes(sites[0].to_bytes())
    (folder / "other.fcs").write_bytes(fc.Summary.of_scores([0.5], site="a").to_bytes())
    lines = [["who", *names], *([f"p{i}", *map(repr, row)] for i, row in enumerate(probs[:40].tolist()))]
    (folder / "rows.csv").write_text("\n".join(map(",".join, lines)), "utf-8")
    np.save(folder / "sets.npy", predictor.predict_set(probs[:40]))
    return folder


def checks(form: Form, *states: str) -> list[str]:
    """Wait until the checks are in these states, and return what they say."""
    found: list[list[str]] = []
    for _ in range(200):
        found = form.browser.run(
            "return [...document.querySelectorAll('#checks li')].map((one) => [one.className, one.textContent])"
        )
        if tuple(state for state, _ in found) == states:
            break
    assert tuple(state for state, _ in found) == states, found
    return [text for _, text in found]


def give(form: Form, folder: Path, **files: str) -> None:
    form.click("tab-predictor")
    for field, name in files.items():
        form.choose(field, folder / name)


def predict(form: Form, path: Path, *keep: str, **ticks: bool) -> None:
    form.choose("rows", path)
    form.wait("predict")
    form.fill({"rows-ids": "who"}, **ticks)
    form.tick("rows-keep", keep)
    form.click("predict")
    form.wait("predict")
    assert form.problem("rows-problem") == ""


def test_a_predictor_is_checked_and_shows_its_sets(form: Form, made: Path) -> None:
    give(form, made, seal="predictor.json.sig", own="a.fcs", predictor="predictor.json")
    checks(form, "good", "", "good")
    form.browser.press("key", (made / "key.txt").read_text())
    form.browser.press("key", "\ue004")
    checks(form, "good", "good", "good")
    predict(form, made / "rows.csv")
    assert form.hidden("rows-prediction-label")
    lines = "[...document.querySelectorAll('#sets tbody tr')]"
    cells = form.browser.run(f"return {lines}.map((row) => [...row.cells].map((cell) => cell.textContent))")
    names = ["gut", "böse", SCRIPT]
    sets = np.load(made / "sets.npy")
    assert cells == [[f"p{i}", str(row.sum()), ", ".join(np.array(names)[row])] for i, row in enumerate(sets[:25])]
    form.browser.press("slider", "\ue011")  # to the smallest alpha
    assert form.browser.text("alpha-now") == "0.005"
    form.click("certified")
    assert form.browser.text("alpha-now") == "0.1"


def test_only_columns_that_look_like_probabilities_are_ticked(form: Form, tmp_path: Path) -> None:
    path = tmp_path / "scans.csv"
    rows = ["p1,61,1,0.82,0.1,0.09,benign", "p2,48,0,0.3,0.6,0.1,malignant", "p3,70,1,0.1,0.8,0.1,benign"]
    path.write_text("id,age,sex,benign,malignant,other,truth\n" + "\n".join(rows) + "\n")
    worked(form, path)
    assert form.problem() == ""
    assert fc.Summary.from_bytes(form.saved("clinic-a.fcs")).provenance.classes == ("benign", "malignant", "other")
    assert '--drop "age,sex"' in form.browser.text("command")
    assert "rounded to 2 decimals" in form.browser.text("warnings")
    shown = form.browser.run("return [...document.querySelectorAll('#groups input')].map((box) => box.value)")
    assert shown == ["id", "age", "sex", "truth"]


@pytest.mark.parametrize("wide", [True, False])
def test_saved_sets_are_those_of_the_command_line(wide: bool, form: Form, made: Path, tmp_path: Path) -> None:
    names = ["gut", "böse", SCRIPT]
    head, *lines = (made / "rows.csv").read_text("utf-8").replace(",", ";").split("\n")
    rows = [f"{line.replace('.', ',')};{60 + i};=1+1" for i, line in enumerate(lines)]
    (tmp_path / "new.csv").write_text("\n".join([f"{head};age;note", *rows]), "utf-8")
    give(form, made, predictor="predictor.json")
    predict(form, tmp_path / "new.csv", "age", "note", wide=wide)
    found, expected = form.saved("sets.csv", "save-sets").decode(), tmp_path / "sets.csv"
    options = ["--id", "who", "--keep", "age,note", *(["--wide"] if wide else []), "-o", str(expected)]
    assert run(["--quiet", "predict", str(made / "predictor.json"), str(tmp_path / "new.csv"), *options]) == 0
    assert found == expected.read_text("utf-8")
    assert found.startswith("who;age;note;size;" + (";".join(names) if wide else "labels"))


def test_what_is_wrong_with_a_predictor_is_said(form: Form, made: Path, tmp_path: Path) -> None:
    data = (made / "predictor.json").read_bytes()
    (tmp_path / "altered.json").write_bytes(data.replace(b'"certified"', b'"estimated"', 1))
    (tmp_path / "script.json").write_text(f'{{"kind": "{SCRIPT}"}}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "bad.fcs").write_bytes((made / "a.fcs").read_bytes()[:-3])
    (tmp_path / "bad.sig").write_text('{"key": "00", "signature": "00"}')
    for name, said in {"altered.json": "was altered", "script.json": "another kind", "deep.json": "too deep"}.items():
        give(form, tmp_path, predictor=name)
        checks(form)
        found = next(text for _ in range(200) if said in (text := form.problem("predictor-problem")))
        assert "\n" not in found
    give(form, tmp_path, own="bad.fcs", seal="bad.sig")
    give(form, made, predictor="predictor.json")
    assert "truncated or altered" in checks(form, "good", "bad", "bad")[2]
    give(form, made, own="other.fcs")
    assert any("is not in this predictor" in checks(form, "good", "bad", "bad")[2] for _ in range(200))
