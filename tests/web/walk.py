"""The walk that docs/page.md shows: from a table to a file, and from a predictor to sets. It takes the pictures.

python -m tests.web.walk
"""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import fedconformal as fc
from fedconformal.privacy import signatures
from tests.web.form import Form, opened

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "page"
NAMES = ("nevus", "melanoma", "keratosis")
WIDTH = 900
COLOURS = 48
BOX = """
const box = document.querySelector(arguments[0]).getBoundingClientRect();
return [box.top + scrollY, box.bottom + scrollY];
"""


def rows(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw what a model says of some images, and what they are."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, count, p=[0.6, 0.25, 0.15])
    logits = rng.normal(size=(count, 3)) + 2.2 * np.eye(3)[truth]
    return fc.softmax(logits).round(4), truth


def write(folder: Path) -> None:
    """Write the files of the walk: a German table, and what the coordinator sends back."""
    probs, truth = rows(1, 240)
    lines = [";".join(["scan", *NAMES, "diagnosis"])]
    for k, (row, label) in enumerate(zip(probs.tolist(), truth.tolist(), strict=True)):
        lines.append(";".join([f"scan-{k + 1:03}", *(f"{p:.4f}".replace(".", ",") for p in row), NAMES[label]]))
    (folder / "scans.csv").write_text("\r\n".join(lines) + "\r\n", "utf-8-sig")
    kept = [line.rpartition(";")[0] for line in lines[:41]]
    (folder / "new scans.csv").write_text("\r\n".join(kept) + "\r\n", "utf-8")


def send_back(folder: Path, summary: bytes) -> str:
    """Calibrate with another site, sign the predictor, and return the coordinator's public key."""
    probs, truth = rows(2, 300)
    other = fc.summarize(probs, np.array(NAMES)[truth], score=fc.APS(), site="clinic-b", classes=list(NAMES), alpha=0.1)
    predictor = fc.calibrate([fc.Summary.from_bytes(summary), other], alpha=0.1)
    predictor.save(folder / "predictor.json")
    key = bytes(range(32))
    seal = signatures.seal((folder / "predictor.json").read_bytes(), key)
    (folder / "predictor.json.sig").write_text(json.dumps({"key": seal.key, "signature": seal.signature}))
    return signatures.public_key(key)


def picture(form: Form, path: Path, *parts: str) -> None:
    """Take a picture of some parts of the page, one below the other."""
    boxes = [form.browser.run(BOX, part) for part in parts]
    top, bottom = min(box[0] for box in boxes) - 12, max(box[1] for box in boxes) + 12
    clip = {"x": 0, "y": max(0, top), "width": WIDTH, "height": bottom - max(0, top), "scale": 1}
    found = form.browser.tool("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    few = Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


def walk(form: Form, folder: Path, images: Path) -> bytes:
    """Do it all as a person would, and return the summary that was saved."""
    write(folder)
    form.browser.look(width=WIDTH, dark=False)
    form.choose("file", folder / "scans.csv")
    form.wait()
    form.fill({"labels": "diagnosis", "ids": "scan", "site": "clinic-a", "score": "aps"})
    picture(form, images / "table.png", "h1", "#site-panel section:nth-of-type(3)")
    form.click("work")
    form.wait()
    assert form.problem() == "", form.problem()
    data = form.saved("clinic-a.fcs")
    picture(form, images / "sent.png", "#result")
    key = send_back(folder, data)
    form.click("tab-predictor")
    for field, name in {
        "seal": "predictor.json.sig",
        "own": "saved/clinic-a.fcs",
        "predictor": "predictor.json",
        "rows": "new scans.csv",
    }.items():
        form.choose(field, folder / name)
    form.wait("predict")
    form.browser.press("key", key + "\ue004")
    form.fill({"rows-ids": "scan"})
    form.click("predict")
    form.wait("predict")
    assert form.problem("rows-problem") == "", form.problem("rows-problem")
    picture(form, images / "checks.png", "#predictor-panel section:nth-of-type(1)")
    picture(form, images / "sets.png", "#predictor-panel section:nth-of-type(2)", "#sets tr:nth-of-type(9)")
    return data


def main() -> None:
    """Take the pictures of the docs."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as form:
        walk(form, Path(folder), IMAGES)
    for path in sorted(IMAGES.iterdir()):
        sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
