"""Options and files shared by several commands.

A parameter whose type is a dataclass is expanded to the options in its fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_origin, get_type_hints

import typer

from fedconformal._base.files import TEXT, read_bytes
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, progress
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.policy import VARIABLE
from fedconformal.summaries.batch import SummaryBatch, check_together
from fedconformal.summaries.format import NOISY
from fedconformal.summaries.provenance import has_expired
from fedconformal.summaries.summary import Summary

F = TypeVar("F", bound=Callable[..., None])

SPEC = "SPEC"
GUARANTEES = "mixture, every-site, one-site:NAME, new-site, pac, by-class, ..."

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
PredictorFile = Annotated[Path, typer.Argument(metavar="PREDICTOR", help="The predictor (.json).")]
Page = Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.html).")]
Alpha = Annotated[str, typer.Option("--alpha", help="How often the truth may be missed.")]
OtherAlpha = Annotated[str | None, typer.Option("--alpha", help="Another alpha than the certified one.")]
Ledger = Annotated[Path | None, typer.Option("--ledger", help="The ledger that epsilon is spent from (.json).")]
PolicyFile = Annotated[Path | None, typer.Option("--policy", envvar=VARIABLE, help="This site's policy (.toml).")]
Trusted = Annotated[
    Path | None, typer.Option("--signed", metavar="KEYS", help="The sites' public keys (.json); all must sign.")
]
CalibrationId = Annotated[
    str | None, typer.Option("--calibration", metavar="ID", help="Id of this calibration, such as lungs-2027-06.")
]


def expand_options(function: F) -> F:
    """Replace each dataclass parameter of a command with the options in its fields, for typer."""
    own = inspect.signature(function, eval_str=True)
    shared: dict[str, Any] = {p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)}
    options = {name: _options_in(kind, own.parameters[name].kind) for name, kind in shared.items()}

    @wraps(function)
    def call(**values: Any) -> None:
        for name, kind in shared.items():
            values[name] = kind(**{p.name: values.pop(p.name) for p in options[name]})
        function(**values)

    expanded = [part for p in own.parameters.values() for part in options.get(p.name, [p])]
    vars(call).update(__signature__=own.replace(parameters=expanded))
    return cast(F, call)


def _options_in(kind: Any, place: Any) -> list[inspect.Parameter]:
    """Return the options of a dataclass: its fields with an `Annotated` type."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(option.name, place, default=option.default, annotation=hints[option.name])
        for option in fields(kind)
        if get_origin(hints[option.name]) is Annotated
    ]


def expand_wildcards(paths: list[Path] | None) -> list[Path] | None:
    """Replace names with wildcards with the matching files, for shells that do not expand them."""
    expanded: list[Path] = []
    for path in paths or ():
        if not re.search(r"[*?\[]", str(path)) or path.exists():
            expanded.append(path)
            continue
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise InputError(f"{path}: no file has such a name")
        expanded += matches
    return expanded if paths else paths


def refuse(reason: str, **given: object) -> None:
    """Refuse the first option that has a value.

    >>> refuse("goes with --risk", safe="stop")
    Traceback (most recent call last):
    fedconformal.errors.InputError: --safe goes with --risk
    """
    if used := next((name for name, value in given.items() if value), None):
        raise InputError(f"--{used.replace('_', '-')} {reason}")


def split(names: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def check_output(output: Path, *inputs: Path | None, ending: str = "") -> None:
    """Refuse an output that is also an input, by whatever path, or has another ending."""
    if ending and output.suffix != ending:
        raise InputError(f"{output}: expected a file that ends in {ending}")
    for path in inputs:
        if path is not None and _same(output, path):
            problem = "is also an input of this command"
            raise InputError(f"{output}: {problem}; choose another place with -o")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except OSError:  # one of them does not exist
        return False


def read_summaries(paths: Sequence[Path]) -> list[Summary]:
    """Read summaries; refuse repeated files and incompatible summaries."""
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: is given twice; give each site's summary once")
        if path.suffix.lower() in (*TEXT, ".json"):
            raise InputError(f"{path}: is not a summary; a site makes one (.fcs) with fedconformal summarize")
        seen.add(path.resolve())
    names = list(map(str, paths))
    messages = [read_bytes(path) for path in progress(paths, "reading summaries", len(paths))]
    summaries = list(SummaryBatch.from_bytes(messages, names))
    check_together(summaries, names)
    return summaries


def read_noisy(paths: Sequence[Path]) -> list[NoisyHistogram] | None:
    """Read noisy counts; None if the first file has another kind."""
    if not paths or not read_bytes(paths[0]).startswith(NOISY):
        return None
    histograms = []
    for path in progress(paths, "reading noisy counts", len(paths)):
        with prefix_errors(path):
            histograms.append(NoisyHistogram.from_bytes(read_bytes(path)))
    return histograms


def read_predictor(path: Path) -> bytes:
    """Read the bytes of a predictor; other files are refused."""
    data = read_bytes(path)
    if not data.lstrip().startswith(b"{"):
        raise InputError(f"{path}: is not a predictor; give the .json file that calibrate wrote first")
    return data


def load_predictor(path: Path) -> Predictor:
    """Read a predictor."""
    data = read_predictor(path)
    with prefix_errors(path):
        return Predictor.from_bytes(data)


def warn_of_expiry(predictor: Predictor) -> None:
    """Warn about an expired certificate."""
    expires = predictor.certificate.provenance.expires
    if has_expired(expires):
        logger.warning("the certificate expired on %s; calibrate again from new summaries", expires)
