"""docs/architecture.md cannot rot: what it draws are the layers, and every file and name that it names is there."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fedconformal"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def sections() -> dict[str, str]:
    return {title: text for title, _, text in (part.partition("\n") for part in PAGE.split("\n## ")[1:])}


def table(title: str) -> list[list[str]]:
    lines = [line for line in sections()[title].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def places(text: str) -> list[str]:
    """List what is written as a file or a folder."""
    return [word for word in re.findall(r"`([\w./-]+)`", text) if "/" in word or re.search(r"\w\.(py|md|toml)$", word)]


def is_there(place: str) -> bool:
    found = [folder / place for folder in (ROOT, PACKAGE) if (folder / place).exists()]
    return any(path.is_dir() for path in found) if place.endswith("/") else bool(found)


def test_every_file_and_folder_is_there() -> None:
    assert [place for place in places(PAGE) if not is_there(place)] == []


def test_every_name_is_in_its_file() -> None:
    titles = [title for title in sections() if title.startswith("From ")]
    rows = [row[-2:] for title in titles for row in table(title)]
    missing = [
        f"{file}: {name}"
        for file, name in ((file.strip("`"), name.strip("`")) for file, name in rows)
        if not re.search(rf"^(class|def) {name}\b", (PACKAGE / file).read_text(), re.MULTILINE)
    ]
    assert rows
    assert missing == []


def test_the_drawing_shows_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [layer.split(" | ") for layer in contracts[0]["layers"]]
    drawing = sections()["The packages"].partition("```text\n")[2].partition("```")[0]
    drawn = [re.match(r" ((?:\S+ {1,2}\b)*\S+)", line) for line in drawing.splitlines()]
    packages = [re.sub(r"\.py\b|/", "", line[1]).split() for line in drawn if line]
    assert packages == layers


def test_every_make_target_that_is_named_is_there() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        named = re.findall(r"(?:`|^)make (\w+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page
