"""Run the code blocks of a documentation page in order, in one folder.

    python -m tests.pages PAGE

Blocks of Python share one namespace; shell blocks hold fedconformal commands only. A text block after "prints" is the
expected output; a line of three points stands for any lines, and white space is normalised.
"""

import contextlib
import doctest
import io
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedconformal.cli.app import run

BLOCK = re.compile(r"^(prints\n\n)?```(python|sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A block of code, or the expected output of the block before it (`shown`)."""

    language: str
    text: str
    line: int
    shown: bool = False


def blocks_of(page: Path) -> list[Block]:
    """List the blocks of a page that run, and their expected output."""
    text = page.read_text("utf-8")
    found = [
        Block(hit[2], hit[3], text[: hit.start(3)].count("\n") + 1, shown=bool(hit[1])) for hit in BLOCK.finditer(text)
    ]
    return [block for block in found if block.language != "text" or block.shown]


def run_shell(text: str) -> None:
    """Run the commands of a block; a comment states the exit code of one that has to fail, whose error is shown."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "fedconformal", f"{line}: a page runs fedconformal only"
        files = [sorted(map(str, Path().glob(word))) if "*" in word else [word] for word in words]
        wanted = re.search(r"# exit code (\d)", line)
        with contextlib.redirect_stderr(sys.stdout) if wanted else contextlib.nullcontext():  # the reader sees why
            code = run([name for some in files for name in some])
        assert code == (int(wanted[1]) if wanted else 0), f"{line}: ends with {code}"


def run_page(page: Path) -> None:
    """Run all blocks of a page in this folder, and compare their output."""
    run_blocks(page, blocks_of(page))


def run_blocks(page: Path, blocks: Sequence[Block]) -> None:
    """Run some blocks of a page in this folder, and compare their output."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks:
        if block.language == "text":
            same = doctest.OutputChecker().check_output(block.text, printed, FLAGS)
            assert same, f"{page.name}, line {block.line}: the page says\n{block.text}\nbut it prints\n{printed}"
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if block.language == "sh":
                run_shell(block.text)
            else:
                code = "\n" * (block.line - 1) + block.text  # an error names the line of the page
                exec(compile(code, str(page), "exec"), names)  # noqa: S102
        printed = out.getvalue()


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
