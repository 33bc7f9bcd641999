"""fedconformal recalibrate: at the coordinator, from a predictor and new summaries to the one that replaces it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import naming
from fedconformal.calibration.chain import SHORT, changes
from fedconformal.calibration.predictor import Predictor, load
from fedconformal.calibration.recalibrate import check_sites, kept_terms, successor
from fedconformal.certificates.replacement import Replacement, Rows
from fedconformal.cli.calibrate import CalibrateOptions, GuaranteeFor, read_guarantee, warn_of_full
from fedconformal.cli.console import print_json
from fedconformal.cli.inputs import Json
from fedconformal.cli.options import GUARANTEES, SPEC, ScoreOption, expand_options
from fedconformal.cli.outputs import check_output
from fedconformal.cli.watches import Watches, check_watches, close_watches
from fedconformal.guarantees import Guarantee


@expand_options
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
    guarantee: Annotated[
        str | None,
        typer.Option(metavar=SPEC, help=f"What is promised, if not as before: {GUARANTEES}"),
    ] = None,
    score: ScoreOption = None,
    watch: Watches = None,
    *,
    options: CalibrateOptions,
    json: Json = False,
) -> None:
    """Calibrate again, by default with the same promise; the certificate names the predictor that it replaces."""
    watches = watch or []
    inputs = (predictor, *summaries, *watches, options.ledger, options.signed)
    check_output(output, *inputs, ending=".json", force=options.force)
    old: Any = load(predictor)
    replaced = Replacement.of(old.digest(), why=why, rows=rows)
    check_watches(watches, replaced.sha256)
    with naming(predictor):
        terms = kept_terms(old, alpha=alpha, risk=options.risk, safe=options.safe)
    if terms.risk is not None:
        options = replace(options, risk=str(terms.risk), safe=terms.safe)
    guarantee_for = _same_guarantee(old) if guarantee is None else read_guarantee(guarantee)
    level = "0.1" if terms.alpha is None else str(terms.alpha)
    options.check("0.1" if alpha is None else level)
    made = options.calibrate(summaries, level, guarantee_for)
    found = successor(old, made.result, replaced, score)
    found.save(output)
    close_watches(watches)
    warn_of_full(found)
    same = changes(old.certificate, found.certificate)
    if json:
        print_json({"predictor": str(output), "changes": same, "certificate": found.certificate.to_dict()})
        return
    named = f"{predictor}, sha256 {replaced.sha256[:SHORT]}..."
    closed = [f"closed {path}: it counts no more, and still answers" for path in watches]
    options.tell(found, made, f"It replaces {named} ({replaced.why}): {same}.", *closed, f"wrote {output}")


def _same_guarantee(old: Predictor) -> GuaranteeFor:
    def guarantee_for(sites: Sequence[str], _: Sequence[int]) -> Guarantee:
        check_sites(old.certificate, sites or [f"#{k + 1}" for k in range(old.certificate.sites)])
        return old.certificate.terms()[0]

    return guarantee_for
