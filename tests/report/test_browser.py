"""Pages in a real browser: they fit the screen and the paper, and nothing is asked of the network."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import combined_page, report_page, watch_page
from tests.contracts.tools import changed
from tests.monitoring.streams import messages
from tests.report.browser import CHROMIUM, DRIVER, Browser, open_browser
from tests.report.test_watch_page import HOSTILE, federation, thousand

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")

CLASSES = 6
Made = tuple[fc.Predictor, Any, Any]
"""A predictor, with probabilities and labels of other rows."""


@pytest.fixture(scope="module")
def made() -> Made:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, 900)
    probs = fc.softmax(1.5 * rng.normal(size=(900, CLASSES)) + 3 * np.eye(CLASSES)[labels])
    scores, sites = fc.LAC().evaluate(probs[:400], labels[:400]), labels[:400] % 3
    sent = [fc.Summary.of_scores(scores[sites == k], score=fc.LAC(), site=f"clinic-{k}") for k in range(3)]
    return fc.calibrate(sent, alpha=0.1, exact=True), probs[400:], labels[400:]


@pytest.fixture(scope="module")
def report(made: Made) -> str:
    predictor, probs, labels = made
    sites = np.array([f"clinic-{k}" for k in labels % 3])
    groups = {"sex": np.resize(["female", "male"], 500), "age": np.resize(["-39", "40-64", "65-"], 500)}
    return report_page(predictor, predictor.evaluate(probs, labels, sites=sites, groups=groups))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


def show(browser: Browser, page: str, folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(page, "utf-8")
    browser.go(path)
    return path


FOLD = """
const box = (one) => one.getBoundingClientRect(), area = (one) => box(one).width * box(one).height;
const cards = [...document.querySelectorAll(".cards > .card")];
return {
  board: box(document.querySelector(".board")).bottom,
  sides: new Set(cards.map((one) => box(one).left)).size,
  filled: cards.reduce((sum, one) => sum + area(one), 0) / area(document.querySelector(".cards")),
  beside: box(cards[0].querySelector("svg")).left > box(cards[0].querySelector("p")).right,
  rows: [...document.querySelectorAll(".board .card")].map((one) => box(one).bottom),
};
"""


def test_four_answers_are_above_the_fold_and_cards_are_in_two_columns(
    browser: Browser, made: Made, report: str, tmp_path: Path
) -> None:
    predictor, probs, labels = made
    by_site = report_page(predictor, predictor.evaluate(probs, labels, sites=[f"clinic-{k}" for k in labels % 3]))
    for page in (report, by_site):
        show(browser, page, tmp_path)
        browser.look(width=1280, dark=False)
        seen = browser.run(FOLD)
        assert seen["board"] <= 720
        assert seen["rows"][0] == seen["rows"][1]
        assert seen["rows"][2] == seen["rows"][3]
        assert seen["sides"] == 2
        assert seen["filled"] > 0.9  # no empty place beside or below a card
        assert seen["beside"]


def test_it_prints_on_two_pages_with_the_fine_print(browser: Browser, report: str, tmp_path: Path) -> None:
    show(browser, report, tmp_path)
    assert browser.pages_on_paper() == 2
    browser.tool("Emulation.setEmulatedMedia", media="print")
    shown = "return document.querySelector(arguments[0]).getBoundingClientRect().height"
    assert browser.run(shown, ".fine .facts") > 100
    browser.look(width=1280, dark=False)
    assert browser.run("return document.querySelector('.fine .facts').checkVisibility()") is False


CUT_OR_OVERLAPPING = """
const found = [];
for (const chart of document.querySelectorAll("svg.chart")) {
  const frame = chart.getBoundingClientRect();
  const texts = [...chart.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  texts.forEach(([text, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1) found.push("cut: " + text);
    for (const [other, b] of texts.slice(0, i)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 3) found.push("overlap: " + text + ", " + other);
    }
  });
}
return found;
"""
WATCHES: dict[str, Callable[[], str]] = {
    "holds": lambda: watch_page(federation(drifts="")),
    "drifts": lambda: watch_page([*federation(), *messages(HOSTILE[:60], [0.4] * 20)]),
    "too-early": lambda: watch_page(messages("a", [0.1] * 2, rows=4)),
    "no-labels": lambda: watch_page(messages("a", [0.1] * 5, labels=0)),
}


def long_names(made: Made) -> str:
    predictor, probs, labels = made
    sites = np.array(["university hospital of the north", "a", "vidir_molemax"])[labels % 3]
    names = [f"actinic keratosis or intraepithelial carcinoma {i}" for i in range(CLASSES)]
    named = dataclasses.replace(predictor, certificate=changed(predictor.certificate, class_names=names))
    return report_page(named, predictor.evaluate(probs, labels, sites=sites))


@pytest.mark.parametrize("name", ["report", "long names", *WATCHES, pytest.param("thousand", marks=pytest.mark.slow)])
def test_it_fits_the_screen_and_asks_for_nothing(
    browser: Browser, made: Made, report: str, tmp_path: Path, name: str
) -> None:
    pages: dict[str, Callable[[], str]] = {
        "report": lambda: report,
        "long names": lambda: long_names(made),
        "thousand": lambda: combined_page(thousand()),
    }
    browser.requests()  # what the browser asked for before is not the page's
    path = show(browser, {**pages, **WATCHES}[name](), tmp_path)
    for width in (390, 1280):
        for dark in (False, True):
            browser.look(width=width, dark=dark)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
            assert light != dark
        assert browser.run(CUT_OR_OVERLAPPING) == []
        do_next = "return document.querySelectorAll('.answer')[1].getBoundingClientRect().top"
        assert browser.run(do_next) < (600 if name == "long names" else 500)
    opened = "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
    browser.look(width=390, dark=False)
    assert browser.run(f"{opened} return document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith(("data:", "chrome:"))} == {path.as_uri()}
    assert browser.run("return document.title").startswith("fedconformal: ")
    assert browser.run("return document.querySelectorAll('script, [onload]').length") == 0
    assert path.stat().st_size < 3_000_000


FIGURES = sorted((Path(__file__).parents[2] / "docs" / "images" / "results").glob("*.svg"))


def test_no_label_of_a_figure_is_cut_or_overlaps(browser: Browser, tmp_path: Path) -> None:
    head = '<!doctype html><meta charset="utf-8"><body style="width: 2700px">'
    show(browser, head + "".join(path.read_text("utf-8") for path in FIGURES), tmp_path)
    browser.look(width=2700, dark=False)
    assert browser.run("return document.querySelectorAll('svg.chart').length") == len(FIGURES) > 20
    assert browser.run(CUT_OR_OVERLAPPING) == []
