"""fedconformal page: the one HTML file for a site that installs nothing; scripts/build_page.py builds it."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Json
from fedconformal.cli.outputs import Force, check_output


def page(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")] = Path(
        "summarize.html"
    ),
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an HTML page that summarises a table in a browser, with nothing to install."""
    check_output(output, ending=".html", force=force)
    digest = write_page(output)
    said = f"wrote {output}: open it in a browser at the site; it sends nothing"
    print_result({"output": str(output), "sha256": digest}, said, f"SHA-256 {digest}", json=json)


def write_page(output: Path) -> str:
    """Write the page, and return its SHA-256."""
    data = resources.files("fedconformal.cli").joinpath("page.html").read_bytes()
    write_bytes(output, data)
    return hashlib.sha256(data).hexdigest()
