"""fedconformal verify: does the predictor follow from these summaries, to the last byte?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedconformal._version import __version__
from fedconformal.cli.console import print_json, say
from fedconformal.cli.differential import read_noisy
from fedconformal.cli.inputs import Json, read_summaries
from fedconformal.cli.sign import Trusted, read_trusted
from fedconformal.errors import AlteredError
from fedconformal.files import naming, read_bytes
from fedconformal.predictor import Predictor, load
from fedconformal.privacy.signatures import check_signatures
from fedconformal.summaries.wire import NOISY
from fedconformal.verification import verify as verify_predictor


def verify(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    summaries: Annotated[list[Path], typer.Argument(help="The .fcs or .fcn files it was made from, in any order.")],
    signed: Trusted = None,
    json: Json = False,
) -> None:
    """Recompute the certificate from the summaries; exit code 1 if anything differs."""
    problems = _problems(predictor, summaries)
    if signed is not None and not problems:
        problems = check_signatures(load(predictor).certificate, read_trusted(signed))
    made_by = None if problems else load(predictor).certificate.versions.get("fedconformal")
    compared = made_by == __version__
    if json:
        found = {"confirmed": not problems, "problems": problems, "wording_compared": compared}
        print_json({"predictor": str(predictor), **found})
    elif problems:
        for problem in problems:
            say(f"{predictor}: {problem}")
    else:
        say(f"{predictor}: confirmed from {len(summaries)} summaries")
        if not compared:
            say(f"It is of fedconformal {made_by}: its wording was not compared; the numbers are what counts.")
    if problems:
        raise typer.Exit(1)


def _problems(path: Path, summaries: list[Path]) -> list[str]:
    data = read_bytes(path)
    noisy = bool(summaries) and read_bytes(summaries[0])[: len(NOISY)] == NOISY
    given = read_noisy(summaries) if noisy else read_summaries(summaries)
    try:
        with naming(path):
            found = Predictor.from_bytes(data)
    except AlteredError as error:
        return [str(error).removeprefix(f"{path}: ")]
    problems = verify_predictor(found, given)
    if not problems and found.to_bytes() != data:
        problems.append("the file was reformatted: it says the same, but not in the same bytes")
    return problems
