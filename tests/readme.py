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
    """Write what the blocks read: tables for pandas; the rows of a site, new rows and test rows; another summary."""
    lines = [f"{p},{1 - p},{'benign' if p > 0.3 else 'malignant'},clinic-{k % 2}" for k in range(60) for p in [k / 64]]
    Path("scans.csv").write_text("\n".join(["benign,malignant,diagnosis,clinic", *lines]))
    Path("new.csv").write_text("patient,benign,malignant\n1,0.9375,0.0625\n2,0.4375,0.5625\n3,0.0625,0.9375\n")
    rng = np.random.default_rng(0)
    for name in ("", "new_", "test_", "other_", "later_"):
        probs = rng.dirichlet([1, 1, 1], size=30)
        np.savetxt(f"{name}probs.csv", probs, delimiter=",")
        np.savetxt(f"{name}labels.csv", [rng.choice(3, p=row) for row in probs], fmt="%d")
    Path("test_sites.csv").write_text("clinic-a\nclinic-b\n" * 15)
    Path("rows.csv").write_text("patient\n" + "".join(f"{row // 2}\n" for row in range(30)))
    Path("later").mkdir()
    for name, site, file in (("other", "clinic-b", "clinic-b.fcs"), ("later", "clinic-a", "later/clinic-a.fcs")):
        assert run(["summarize", f"{name}_probs.csv", f"{name}_labels.csv", "--site", site, "-o", file]) == 0


def run_readme() -> None:
    """Run all of it in this folder."""
    write_files()
    run_blocks(README, blocks())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_readme()
        os.chdir(README.parent)
