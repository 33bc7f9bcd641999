"""The cases of tests/vectors/intake, on which every implementation agrees: what is read, said and refused."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

import fedconformal as fc
from fedconformal.tables import Predictions, pair, probabilities_of, read_table

FOLDER = Path(__file__).parents[1] / "vectors" / "intake"
CASES = {
    f"{path.stem}: {case['name']}": case
    for path in sorted(FOLDER.glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
}


def found_in(case: dict[str, Any], folder: Path) -> Predictions:
    for name, content in case["files"].items():
        data = base64.b64decode(content["base64"]) if "base64" in content else content["text"].encode()
        (folder / name).write_bytes(data)
    first = next(iter(case["files"]))
    found = probabilities_of(read_table(folder / first, encoding=case.get("encoding")), **case.get("options", {}))
    if "pair" in case:
        options = dict(case["pair"])
        found = pair(found, read_table(folder / options.pop("file")), **options)
    return found.matched(case["match"]) if "match" in case else found


def outcome(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        found = found_in(case, folder)
    except fc.InputError as error:
        return {"refused": str(error).replace(f"{folder}{os.sep}", "")}
    optional = {
        "ids": found.ids,
        "labels": None if found.labels is None else found.labels.tolist(),
        "others": found.others or None,
    }
    return {
        "recognised": found.recognised.replace(f"{folder}{os.sep}", ""),
        "classes": None if found.classes is None else list(found.classes),
        "values": found.values.tolist(),
        **{key: value for key, value in optional.items() if value is not None},
    }


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tmp_path: Path) -> None:
    expected = CASES[name]["expected"]
    assert outcome(CASES[name], tmp_path) == expected
    assert "\n" not in expected.get("refused", "")
