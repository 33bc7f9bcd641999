"""The documentation site: it builds without a warning, links lead somewhere, nothing comes from a network."""

import importlib
import inspect
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fedconformal as fc
from tests.report.browser import CHROMIUM, DRIVER, open_browser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MODULES = (
    *("engines.flower", "engines.nvflare", "losses", "privacy", "report", "scores", "tables", "training"),
    "training.data",
)
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}


def anchors(page: Path) -> set[str]:
    """Give the names of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_to_files_and_headings() -> None:
    for page in (*ROOT.glob("*.md"), *PAGES):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {link} is not there"
            assert not heading or heading in anchors(target), f"{page}: {link}: there is no such heading"


class Loads(HTMLParser):
    """Addresses that a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        if tag == "link" and "stylesheet" not in (about.get("rel") or "") and "icon" not in (about.get("rel") or ""):
            return
        self.found.append(about.get(LOADED.get(tag, ""), "") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as `make docs` does; a warning is an error."""
    for module in ("furo", "myst_parser", "sphinx", "torch", "flwr", "nvflare"):
        pytest.importorskip(module, reason=f"the site is built with {module}")
    folder = tmp_path_factory.mktemp("site")
    options = ("--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", "--doctree-dir", folder / "trees")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, DOCS, folder / "html"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_loads_nothing_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        assert [address for address in loads.found if re.match(r"(https?:)?//", address)] == [], page
    for style in site.rglob("*.css"):
        text = style.read_text("utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), style


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "\n".join(page.read_text("utf-8") for page in (site / "api").glob("*.html"))
    written = {name.rpartition(".")[2] for name in re.findall(r'id="(fedconformal[\w.]+)"', text)}
    modules = [fc, *(importlib.import_module(f"fedconformal.{name}") for name in MODULES)]
    named = {name: getattr(module, name) for module in modules for name in module.__all__}
    wanted = {name for name, one in named.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert wanted - written == set()


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
def test_search_works_from_files_without_a_network(site: Path, tmp_path: Path) -> None:
    assert (site / "searchindex.js").is_file()
    with open_browser(tmp_path) as browser:
        browser.go(site / "index.html")
        browser.run("document.querySelector('input[name=q]').value = 'liars'; document.querySelector('form').submit()")
        found: list[str] = []
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            time.sleep(0.2)
            found = browser.run("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")
        assert any("guarantees.html" in link for link in found)
        assert [address for address in browser.requests() if address.startswith(("http", "ws"))] == []
        assert browser.complaints() == []
