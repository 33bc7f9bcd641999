"""fedconformal recalibrate: at the coordinator, from a predictor and new summaries to the one that replaces it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import naming
from fedconformal.calibration.chain import SHORT, changes
from fedconformal.calibration.document import Document, load
from fedconformal.calibration.recalibrate import check_sites, kept_terms, successor
from fedconformal.calibration.replaced import Rows, replacing
from fedconformal.cli.calibrate import Asked, guarantee_from, warn_of_full
from fedconformal.cli.console import print_json
from fedconformal.cli.inputs import Json
from fedconformal.cli.options import ALL_SCORES, GUARANTEES, Given, taking
from fedconformal.cli.outputs import check_output
from fedconformal.cli.watches import Watches, check_watches, close_watches
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore


@taking(GUARANTEES, ALL_SCORES)
def recalibrate(
    predictor: Annotated[Path, typer.Argument(help="The predictor that is replaced (.json); it stays as it is.")],
    summaries: Annotated[list[Path], typer.Argument(help="One .fcs file a site, of the new calibration rows.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the new predictor (.json).")],
    why: Annotated[
        str | None, typer.Option(help="Why, in your words; recorded.", show_default="a planned renewal")
    ] = None,
    rows: Annotated[
        Rows | None,
        typer.Option(
            help="Which rows calibrate: new, that no watch has counted; or watched, from which nothing is promised."
        ),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="How often the truth may be missed.", show_default="as before")
    ] = None,
    guarantee: Annotated[str | None, typer.Option(help="What is promised, if not the same as before:")] = None,
    score: Annotated[
        str | None, typer.Option(help="The score of the new summaries, if not the same as before:")
    ] = None,
    watch: Watches = None,
    *,
    asked: Asked,
    json: Json = False,
    **given: Any,
) -> None:
    """Calibrate again, by default with the same promise; the certificate names the predictor that it replaces."""
    watches = watch or []
    inputs = (predictor, *summaries, *watches, asked.ledger, asked.signed)
    check_output(output, *inputs, ending=".json", force=asked.force)
    old: Any = load(predictor)
    replaced = replacing(old.digest(), why=why, rows=rows)
    check_watches(watches, replaced.sha256)
    with naming(predictor):
        terms = kept_terms(old, alpha=alpha, risk=asked.risk, safe=asked.safe)
    if terms.risk is not None:
        asked = replace(asked, risk=str(terms.risk), safe=terms.safe)
    promised = _kept(old, asked, given) if guarantee is None else _typed(guarantee, asked, given)
    level = "0.1" if terms.alpha is None else str(terms.alpha)
    asked.check("0.1" if alpha is None else level)
    made = asked.made(summaries, level, promised)
    found = successor(old, made.result, replaced, _score(score, given))
    found.save(output)
    close_watches(watches)
    warn_of_full(found)
    same = changes(old.certificate, found.certificate)
    if json:
        print_json({"predictor": str(output), "changes": same, "certificate": found.certificate.to_dict()})
        return
    named = f"{predictor}, sha256 {replaced.sha256[:SHORT]}..."
    closed = [f"closed {path}: it counts no more, and still answers" for path in watches]
    asked.tell(found, made, f"It replaces {named} ({replaced.why}): {same}.", *closed, f"wrote {output}")


def _typed(name: str, asked: Asked, given: Given) -> Any:
    return guarantee_from(name, given, sites_alike=asked.sites_alike)


def _kept(old: Document, asked: Asked, given: Given) -> Any:
    """Keep the guarantee; options of another one need its name."""
    flags = {"--by-class": asked.by_class, "--by-group": asked.by_group, "--sites-alike": asked.sites_alike}
    typed = [option for option, _ in GUARANTEES.typed(given).values()]
    if wrong := [*typed, *(option for option, on in flags.items() if on)]:
        raise InputError(f"{wrong[0]} is for a guarantee that is not the same as before; name it with --guarantee")

    def promised(sites: list[str], _: list[int]) -> Any:
        check_sites(old.certificate, sites or [f"#{k + 1}" for k in range(old.certificate.sites)])
        return old.certificate.terms()[0]

    return promised


def _score(name: str | None, given: Given) -> AnyScore | None:
    if name is None and (typed := ALL_SCORES.typed(given)):
        raise InputError(f"{next(iter(typed.values()))[0]} is for a new score; name it with --score")
    return None if name is None else ALL_SCORES.chosen(name, given)
