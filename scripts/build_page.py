"""Build the page for sites that install nothing: all of web/ in one HTML file, inside the package.

`make page` installs the one tool, esbuild, at the version that web/package.json pins; it joins the modules and shortens
them. A rebuild gives the same bytes anywhere, and a test compares them. Who uses the package needs neither.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "web"
PACKAGE = ROOT / "src" / "fedconformal"
OUTPUT = PACKAGE / "cli" / "page.html"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"
MOST_BYTES = 110_000


def page() -> str:
    """Return the page."""
    script = _shortened("src/main.js", "--bundle", "--format=iife", "--target=es2022")
    style = _shortened("page.css")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; form-action 'none'; "
        "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    found = (WEB / "page.html").read_text("utf-8")
    parts = {"policy": policy, "version": version(), "sources": sources(), "style": style, "script": script}
    for name, value in parts.items():
        found = found.replace("{{" + name + "}}", value)
    return found


def version() -> str:
    """Return the version of the package."""
    return (PACKAGE / "_version.py").read_text("utf-8").partition('__version__ = "')[2].partition('"')[0]


def sources() -> str:
    """Return a digest of all that the page is made from, which the page states: one that is out of date shows."""
    files = [*sorted((WEB / "src").glob("*.js")), WEB / "page.html", WEB / "page.css", WEB / "package.json"]
    texts = [re.sub("\r\n?", "\n", path.read_text("utf-8")) for path in files]
    return hashlib.sha256("\0".join([version(), *texts]).encode()).hexdigest()


def _shortened(file: str, *options: str) -> str:
    command = [str(ESBUILD), file, "--minify", "--charset=utf8", "--log-level=warning", *options]
    return subprocess.run(command, cwd=WEB, check=True, capture_output=True, encoding="utf-8").stdout  # noqa: S603


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def main() -> None:
    """Write the page."""
    if not ESBUILD.exists():
        raise SystemExit("esbuild is not there: run make page, which installs it with npm")
    found = page()
    size = len(found.encode())
    if size > MOST_BYTES:
        raise SystemExit(f"the page has {size} bytes, more than {MOST_BYTES}")
    OUTPUT.write_text(found, "utf-8", newline="\n")
    digest = hashlib.sha256(found.encode()).hexdigest()
    sys.stdout.write(f"{OUTPUT.relative_to(ROOT)}: {size} bytes, SHA-256 {digest}\n")


if __name__ == "__main__":
    main()
