from pathlib import Path

import numpy as np
import pytest


def write_logits(
    folder: Path, name: str, *, classes: int = 7, rows: int = 600, sharp: float = 2.0, seed: int = 0
) -> None:
    """Write logits that are noisy copies of the labels; `sharp` says how much they know, the seed fixes the labels."""
    labels = np.random.default_rng(seed).integers(0, classes, rows)
    rng = np.random.default_rng([len(name), *name.encode()])
    logits = (rng.normal(size=(rows, classes)) + sharp * np.eye(classes)[labels]).astype(np.float32)
    cut = rows // 4
    np.savez(
        folder / f"{name}.npz",
        val_logits=logits[:cut],
        test_logits=logits[cut:],
        val_labels=labels[:cut],
        test_labels=labels[cut:],
    )


@pytest.fixture
def logits(tmp_path: Path) -> Path:
    """A directory with made-up logits of DermaMNIST's form, from a central model and from FedAvg."""
    write_logits(tmp_path, "dermamnist_central", sharp=2.2)
    write_logits(tmp_path, "dermamnist_fedavg", sharp=1.5)
    return tmp_path
