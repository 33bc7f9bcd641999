"""Engineers in Osaka and Lagos read this package: its words are short, common and mean one thing.

The phrases below are old or idiomatic English. Each has a plainer word, which stands beside it. They are looked for in
names, docstrings, messages and documents, also where a phrase goes on in the next line.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md")
FOLDERS = {"src": "*.*", "paper/src": "*.*", "docs": "*.md"} | dict.fromkeys(
    ("examples", "benchmarks", "scripts"), "*.py"
)
ENDINGS = {".py", ".md", ".json", ".js", ".css", ".template"}

PLACE = "above|anywhere|at|before|below|beside|between|beyond|closer|far|in|on|outside|where"
PLAIN = {
    rf"\b(?:lies?|lay) (?:{PLACE})\b": "is, are",
    r"(?<![a-z])told\b": "says, text",
    r"\bso many\b": "this many, a number of",
    r"\bwhoever\b": "anyone who, the one who",
    r"\b(?:is|are) said to be\b": "is, are",
    r"\bwhat it takes\b": "what is needed",
    r"\bbears\b": "allows",
    r"\bought to\b": "should",
    r"\banyhow\b": "in any case",
    r"\bspoken[ _]for\b": "covered",
}
"""A phrase, and what to say instead. Dishonest sites lie, and for them that is the right word."""

KEPT = ("lie in ever smaller cells",)
"""Parts of sentences in certificates, which stay as they are, byte for byte."""

OLD_NAMES = ("Course", "Crew", "Room", "_Told", "conclude", "sort_out", "spoken_for")
"""Names from earlier releases that did not say what they name."""

NEXT_LINE = re.compile(r"\s*\"?\s*\n\s*(?:#|f?\")?\s*")


@cache
def texts() -> dict[str, str]:
    inside = [path for folder, names in FOLDERS.items() for path in sorted((ROOT / folder).rglob(names))]
    own = [path for path in inside if path.suffix in ENDINGS and ".venv" not in path.parts]  # that of the peers
    paths = [ROOT / page for page in PAGES] + own
    return {str(path.relative_to(ROOT)): joined(path.read_text("utf-8")) for path in paths}


def joined(text: str) -> str:
    """Write a text in one line, without what is kept."""
    text = NEXT_LINE.sub(" ", text)
    for words in KEPT:
        text = text.replace(words, "")
    return text


def found(phrase: str, text: str) -> list[str]:
    """List where a phrase is found, with the words around it."""
    return [text[max(0, hit.start() - 20) : hit.end() + 20] for hit in re.finditer(phrase, text, re.IGNORECASE)]


@pytest.mark.parametrize("phrase", PLAIN)
def test_words_are_plain(phrase: str) -> None:
    hits = [f"{path}: {words!r}" for path, text in texts().items() for words in found(phrase, text)]
    assert not hits, f"say {PLAIN[phrase]!r} instead:\n" + "\n".join(hits)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_names_say_what_they_name(name: str) -> None:
    assert [path for path, text in texts().items() if re.search(rf"\b(?:class|def) {name}\b", text)] == []


def test_the_check_can_fail() -> None:
    lies, told, many, *_ = PLAIN
    assert len(found(lies, joined("It lies in a file; scores lie\n    # below it. Sites that lie are not meant."))) == 2
    assert len(found(told, "told = untold, _Told")) == 2
    assert found(many, joined('f"at most so "\n    f"many bytes"')) == ['f"at most so many bytes"']
    assert len(texts()) > 200
