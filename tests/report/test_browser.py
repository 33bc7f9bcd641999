"""The report in a real browser: it fits the screen and the paper, and nothing is asked of the network."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import report_page
from tests.contracts.tools import changed
from tests.report.browser import CHROMIUM, DRIVER, Browser, open_browser

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
CLASSES = 6
Made = tuple[fc.Predictor, Any, Any]
"""A predictor, with probabilities and labels of other rows."""


@pytest.fixture(scope="module")
def made() -> Made:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, 900)
    logits = 1.5 * rng.normal(size=(900, CLASSES)) + 3 * np.eye(CLASSES)[labels]
    probs = fc.softmax(logits)
    sites = np.array([f"clinic-{k}" for k in labels % 3])
    summaries = [
        fc.Summary.of_scores(fc.LAC().evaluate(probs[:400][mine], labels[:400][mine]), score=fc.LAC(), site=str(site))
        for site in np.unique(sites)
        for mine in [sites[:400] == site]
    ]
    predictor = fc.calibrate(summaries, alpha=0.1, exact=True)
    return predictor, probs[400:], labels[400:]


@pytest.fixture(scope="module")
def page(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    predictor, probs, labels = made
    clients = np.array([f"clinic-{k}" for k in labels % 3])
    groups = {
        "sex": np.resize(["female", "male"], len(clients)),
        "age": np.resize(["-39", "40-64", "65-"], len(clients)),
    }
    found = predictor.evaluate(probs, labels, sites=clients, groups=groups)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_page(predictor, found), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as window:
        window.go(page)
        yield window


FOLD = """
const box = (one) => one.getBoundingClientRect(), area = (one) => box(one).width * box(one).height;
const cards = [...document.querySelectorAll(".cards > .card")];
return {
  board: box(document.querySelector(".board")).bottom,
  sides: new Set(cards.map((one) => box(one).left)).size,
  filled: cards.reduce((sum, one) => sum + area(one), 0) / area(document.querySelector(".cards")),
  rows: [...document.querySelectorAll(".board .card")].map((one) => box(one).bottom),
};
"""


def test_four_answers_are_above_the_fold_and_cards_are_in_two_columns(browser: Browser) -> None:
    browser.look(width=1280, dark=False)
    seen = browser.run(FOLD)
    assert seen["board"] <= 720
    assert seen["rows"][0] == seen["rows"][1]
    assert seen["rows"][2] == seen["rows"][3]
    assert seen["sides"] == 2
    assert seen["filled"] > 0.9  # no empty place beside or below a card


def test_it_prints_on_two_pages_with_the_fine_print(browser: Browser) -> None:
    assert browser.pages_on_paper() == 2
    browser.tool("Emulation.setEmulatedMedia", media="print")
    shown = "return document.querySelector(arguments[0]).getBoundingClientRect().height"
    assert browser.run(shown, ".fine .facts") > 100
    browser.look(width=1280, dark=False)
    assert browser.run("return document.querySelector('.fine .facts').checkVisibility()") is False


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen(browser: Browser, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    SHOTS.mkdir(parents=True, exist_ok=True)
    (SHOTS / f"report-{width}-{'dark' if dark else 'light'}.png").write_bytes(browser.screenshot())
    assert browser.run("return document.documentElement.scrollWidth") <= width
    light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
    assert light != dark


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


@pytest.mark.parametrize("width", [390, 1200])
def test_long_names_are_neither_cut_nor_overlap(
    browser: Browser, made: Made, page: Path, tmp_path: Path, width: int
) -> None:
    predictor, probs, labels = made
    sites = np.array(["university hospital of the north", "a", "vidir_molemax"])[labels % 3]
    found = predictor.evaluate(probs, labels, sites=sites)
    names = [f"actinic keratosis or intraepithelial carcinoma {i}" for i in range(CLASSES)]
    long = tmp_path / "long.html"
    named = dataclasses.replace(predictor, certificate=changed(predictor.certificate, class_names=names))
    long.write_text(report_page(named, found), "utf-8")
    browser.look(width=width, dark=False)
    try:
        browser.go(long)
        assert browser.run(CUT_OR_OVERLAPPING) == []
        assert browser.run("return document.documentElement.scrollWidth") <= width
    finally:
        browser.go(page)


FIGURES = sorted((Path(__file__).parents[2] / "docs" / "images" / "results").glob("*.svg"))


def test_no_label_of_a_figure_is_cut_or_overlaps(browser: Browser, page: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "figures.html"
    head = '<!doctype html><meta charset="utf-8"><body style="width: 2700px">'
    drawn.write_text(head + "".join(path.read_text("utf-8") for path in FIGURES), "utf-8")
    browser.look(width=2700, dark=False)
    try:
        browser.go(drawn)
        assert browser.run("return document.querySelectorAll('svg.chart').length") == len(FIGURES) > 20
        assert browser.run(CUT_OR_OVERLAPPING) == []
    finally:
        browser.go(page)


def test_nothing_is_asked_for_and_nothing_goes_wrong(browser: Browser, page: Path) -> None:
    browser.requests()  # what the browser asked for when it started is not the page's
    browser.go(page)
    assert browser.complaints() == []
    asked = browser.requests()
    assert page.as_uri() in asked
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}
    assert page.stat().st_size < 3_000_000
