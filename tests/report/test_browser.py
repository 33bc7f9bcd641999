"""The report in a real browser: the slider moves the numbers, nothing is asked of the network, nothing goes wrong."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import Rows, report_page
from tests.report.browser import CHROMIUM, DRIVER, Browser, open_browser

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
ARROW_RIGHT, HOME = "\ue014", "\ue011"
CLASSES = 6


@pytest.fixture(scope="module")
def made() -> tuple[fc.Predictor, Rows]:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, 900)
    logits = 1.5 * rng.normal(size=(900, CLASSES)) + 3 * np.eye(CLASSES)[labels]
    probs, plain = fc.softmax(logits), fc.softmax(3 * logits)
    images = (40 * labels[:, None, None] + rng.integers(0, 50, (900, 12, 12))).astype(np.uint8)
    sites = np.array([f"clinic-{k}" for k in labels % 3])
    summaries = [
        fc.summarize(fc.LAC().evaluate(probs[:400][mine], labels[:400][mine]), score=fc.LAC(), site=str(site))
        for site in np.unique(sites)
        for mine in [sites[:400] == site]
    ]
    predictor = fc.Predictor.of(fc.calibrate(summaries, alpha=0.1))
    return predictor, Rows(probs=probs[400:], labels=labels[400:], plain=plain[400:], images=images[400:])


@pytest.fixture(scope="module")
def page(made: tuple[fc.Predictor, Rows], tmp_path_factory: pytest.TempPathFactory) -> Path:
    predictor, rows = made
    clients = np.array([f"clinic-{k}" for k in rows.labels % 3])
    sent = {used.sha256: 1000 for used in predictor.certificate.summaries}
    found = predictor.evaluate(rows.probs, rows.labels, clients=clients)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_page(predictor, found, rows=rows, sent=sent), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as window:
        window.go(page)
        yield window


def slide(browser: Browser, alpha: float) -> None:
    browser.run(
        """
        const steps = JSON.parse(document.getElementById("data").textContent).steps;
        const slider = document.getElementById("alpha");
        slider.value = steps.findIndex((step) => step.alpha === arguments[0]);
        slider.dispatchEvent(new Event("input"));
        """,
        alpha,
    )


@pytest.mark.parametrize("alpha", [0.005, 0.05, 0.1, 0.25, 0.5])
def test_the_slider_shows_what_the_predictor_says(
    browser: Browser, made: tuple[fc.Predictor, Rows], alpha: float
) -> None:
    predictor, rows = made
    slide(browser, alpha)
    assert browser.text("alpha-now") == str(alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)  # at the smallest alpha
        found = predictor.evaluate(rows.probs, rows.labels, alpha=alpha)
        sets = predictor.predict_set(rows.probs, alpha=alpha)
    assert browser.text("size-now") == f"{found.mean_size:.2f}"
    assert browser.text("coverage-now") == f"{100 * found.coverage:.1f}%"
    shown = browser.run(
        """return [...document.querySelectorAll(".example")].map((one) => [
            Number(one.querySelector(".soft").textContent.match(/row (\\d+)/)[1]),
            [...one.querySelectorAll(".chip")].map((chip) => Number(chip.textContent)).sort()])"""
    )
    assert len(shown) == 12
    for row, members in shown:
        assert members == np.flatnonzero(sets[row]).tolist()


def test_keys_move_the_slider(browser: Browser) -> None:
    slide(browser, 0.1)
    before = browser.text("size-now")
    for _ in range(8):
        browser.press("alpha", ARROW_RIGHT)
    assert browser.text("alpha-now") == "0.14"
    assert browser.text("size-now") != before
    browser.press("alpha", HOME)
    assert browser.text("alpha-now") == "0.005"
    browser.run("document.getElementById('certified').click()")
    assert browser.text("alpha-now") == "0.1"
    assert browser.text("size-now") == before


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen(browser: Browser, width: int, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    SHOTS.mkdir(parents=True, exist_ok=True)
    (SHOTS / f"report-{width}-{'dark' if dark else 'light'}.png").write_bytes(browser.screenshot())
    assert browser.run("return document.documentElement.scrollWidth") <= width
    light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
    assert light != dark


def test_nothing_is_asked_for_and_nothing_goes_wrong(browser: Browser, page: Path) -> None:
    browser.requests()  # what the browser asked for when it started is not the page's
    browser.go(page)
    slide(browser, 0.2)
    assert browser.complaints() == []
    asked = browser.requests()
    assert page.as_uri() in asked
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}
    assert page.stat().st_size < 3_000_000
