"""The page of a watch in a real browser: on a phone and a desk, light and dark, with names that try to break out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedconformal.report.watch import combined_page, watch_page
from tests.monitoring.streams import messages
from tests.report.browser import CHROMIUM, DRIVER, Browser, open_browser
from tests.report.test_watch_page import HOSTILE, federation, thousand

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


PAGES = {
    "holds": lambda: watch_page(federation(drifts="")),
    "drifts": lambda: watch_page([*federation(), *messages(HOSTILE[:60], [0.4] * 20)]),
    "too-early": lambda: watch_page(messages("a", [0.1] * 2, rows=4)),
    "no-labels": lambda: watch_page(messages("a", [0.1] * 5, labels=0)),
    "thousand": lambda: combined_page(thousand()),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "thousand" else name for name in PAGES]
)
def test_it_fits_and_says_nothing_to_the_network(browser: Browser, tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), "utf-8")
    browser.requests()
    browser.go(path)
    SHOTS.mkdir(parents=True, exist_ok=True)
    for width in (390, 1280):
        for dark in (False, True):
            browser.look(width=width, dark=dark)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            (SHOTS / f"watch-{name}-{width}-{'dark' if dark else 'light'}.png").write_bytes(browser.screenshot())
        do_next = "return document.querySelectorAll('.answer')[1].getBoundingClientRect().top"
        assert browser.run(do_next) < 500
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith(("data:", "chrome:"))} == {path.as_uri()}
    assert browser.run("return document.title").startswith("fedconformal: watch of ")
    assert browser.run("return document.querySelectorAll('script, [onload]').length") == 0


def test_numbers_fold_out(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(watch_page(federation()), "utf-8")
    browser.go(path)
    browser.look(width=390, dark=False)
    rows = browser.run(
        "const all = document.querySelectorAll('details'); all.forEach((one) => { one.open = true; });"
        "return document.querySelectorAll('table tr').length"
    )
    assert rows == 8  # four sites and two groups, each table with a head
    assert browser.run("return document.documentElement.scrollWidth") <= 390
