"""Run the README as a newcomer does: its blocks of Python and its commands by files, in an empty folder.

    python -m tests.readme

It needs what the README says to install, and no test tool: `make fresh` runs it in such an environment.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from fedconformal.cli.app import run
from tests.pages import Block, blocks_of, run_blocks

README = Path(__file__).parents[1] / "README.md"


def blocks() -> list[Block]:
    """List the blocks that run as they stand: all of Python, and the first of a shell, the commands by files."""
    found = blocks_of(README)
    later = [block for block in found if block.language == "sh"][1:]
    return [block for block in found if block not in later]


def write_files() -> None:
    """Write the files that the commands read: rows of a site, new rows and test rows; another summary."""
    rng = np.random.default_rng(0)
    for name in ("", "new_", "test_", "other_"):
        probs = rng.dirichlet([1, 1, 1], size=30)
        np.savetxt(f"{name}probs.csv", probs, delimiter=",")
        np.savetxt(f"{name}labels.csv", [rng.choice(3, p=row) for row in probs], fmt="%d")
    Path("test_sites.csv").write_text("clinic-a\nclinic-b\n" * 15)
    Path("rows.csv").write_text("patient\n" + "".join(f"{row // 2}\n" for row in range(30)))
    command = ["summarize", "other_probs.csv", "other_labels.csv", "--site", "clinic-b", "-o", "clinic-b.fcs"]
    assert run(command) == 0


def run_readme() -> None:
    """Run all of it in this folder."""
    write_files()
    run_blocks(README, blocks())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_readme()
        os.chdir(README.parent)
