"""Run the README in an empty folder: its Python blocks and its commands by files.

    python -m tests.readme

It needs only the packages that the README installs: `make fresh` runs it in such an environment.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from fedconformal.cli.app import run
from tests.pages import Block, blocks_of, run_blocks

README = Path(__file__).parents[1] / "README.md"


def blocks() -> list[Block]:
    """List the blocks that run: all Python blocks, and the first shell block."""
    found = blocks_of(README)
    later = [block for block in found if block.language == "sh"][1:]
    return [block for block in found if block not in later]


def write_files() -> None:
    """Write the input files of the commands: calibration, new and test rows, and another summary."""
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
    """Run the whole README in this folder."""
    write_files()
    run_blocks(README, blocks())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_readme()
        os.chdir(README.parent)
