"""The page in a real browser: fill in its form, press its buttons, take what it saves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.build_page import OUTPUT
from tests.report.browser import Browser, open_browser
from tests.web.cases import Case

WAIT = 120
TYPED = ("classes", "ids", "labels", "positive", "prediction", "encoding")
PARAMETERS = {"seed": "0", "penalty": "0.001", "free": "1"}
ABOUT = ("site", "kind", "alpha", "model", "calibration", "expires", "temperature")

FILL = """
const [values, ticks] = arguments;
for (const [id, value] of Object.entries(values)) {
  const at = document.getElementById(id);
  at.value = value;
  at.dispatchEvent(new Event("input", { bubbles: true }));
}
for (const [id, value] of Object.entries(ticks)) {
  const at = document.getElementById(id);
  at.checked = value;
  at.dispatchEvent(new Event("input", { bubbles: true }));
}
"""

TICK = """
const [id, names] = arguments;
for (const box of document.getElementById(id).querySelectorAll("input")) {
  box.checked = names === null || names.includes(box.value);
  box.dispatchEvent(new Event("input", { bubbles: true }));
}
"""


class Form:
    """The page, opened from a file, and the folder that it saves into."""

    def __init__(self, browser: Browser, page: Path, folder: Path) -> None:
        self.browser, self.page, self.folder = browser, page, folder
        folder.mkdir(exist_ok=True)
        browser.tool("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        browser.go(page)
        browser.requests()  # of the window, before the page

    def choose(self, field: str, path: Path | None) -> None:
        """Use the browser's own file chooser; None takes a file away again."""
        self.browser.run("document.getElementById(arguments[0]).value = ''", field)
        if path is None:
            self.browser.run(
                "document.getElementById(arguments[0]).dispatchEvent(new Event('change', { bubbles: true }))", field
            )
        else:
            self.browser.press(field, str(path))

    def fill(self, values: dict[str, Any], **ticks: bool) -> None:
        """Type values, and set what is ticked."""
        self.browser.run(FILL, values, {name.replace("_", "-"): value for name, value in ticks.items()})

    def tick(self, field: str, names: Sequence[str] | None = None) -> None:
        """Tick these columns of a list, and no others; all of them if none are named."""
        self.browser.run(TICK, field, names if names is None else list(names))

    def click(self, button: str) -> None:
        """Press a button."""
        self.browser.run("document.getElementById(arguments[0]).click()", button)

    def hidden(self, field: str) -> bool:
        """Whether a part of the page is not shown."""
        return bool(self.browser.run("return document.getElementById(arguments[0]).hidden", field))

    def wait(self, button: str = "work") -> None:
        """Wait until a button can be pressed again."""
        end = time.monotonic() + WAIT
        while self.browser.run("return document.getElementById(arguments[0]).disabled", button):
            assert time.monotonic() < end, "the page did not answer"
            time.sleep(0.02)

    def problem(self, field: str = "problem") -> str:
        """The error message; empty without an error."""
        return "" if self.hidden(field) else self.browser.text(field)

    def saved(self, name: str, button: str = "save") -> bytes:
        """Press a button that saves, and return the file."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        self.click(button)
        end = time.monotonic() + WAIT
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < end, f"{name} was not saved; there are {list(self.folder.iterdir())}"
            time.sleep(0.02)
        return path.read_bytes()

    def made(self, case: Case, folder: Path) -> bytes | str:
        """Do a whole case by the form: the bytes that are saved, or the problem."""
        first, second = [*(folder / name for name in case.files), None][:2]
        self.choose("file", None)
        self.choose("labels-file", None)
        columns, wanted, score = case.columns, case.wanted, case.wanted["score"]
        self.fill({"encoding": columns.get("encoding", "")})
        self.choose("file", first)
        self.wait()
        if second is not None:
            self.choose("labels-file", second)
            self.wait()
        values = {name: columns.get(name) or "" for name in TYPED}
        values |= {"task": "numbers" if columns.get("numbers") else "classes"}
        values |= {"score": score["name"] if score["name"] != "residual" else "lac"}
        values |= {name: score.get(name, usual) for name, usual in PARAMETERS.items()}
        values |= {name: wanted.get(name) or "" for name in ABOUT}
        self.tick("columns")
        self.tick("groups", columns.get("groups", []))
        self.fill(values, randomized=bool(score.get("randomized")), by_class=bool(wanted.get("byClass")))
        self.click("work")
        self.wait()
        if problem := self.problem():
            return problem
        return self.saved(self.browser.run("return document.getElementById('save').textContent.slice(5)"))


@contextmanager
def opened(folder: Path) -> Iterator[Form]:
    """Open the page from a file of its own."""
    page = folder / "summarize.html"
    page.write_bytes(OUTPUT.read_bytes())
    with open_browser(folder / "profile") as browser:
        yield Form(browser, page, folder / "saved")
