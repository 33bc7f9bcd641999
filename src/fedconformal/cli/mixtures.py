"""Options that describe a guarantee, for calibrate and plan."""

from __future__ import annotations

from typing import Annotated

import typer

from fedconformal.errors import InputError

Contamination = Annotated[
    float | None, typer.Option(help="worst-case: the share of test rows that may come from any of the sites.")
]
TotalVariation = Annotated[
    float | None, typer.Option(help="worst-case: the share of weight that may be elsewhere than n_k + 1 says.")
]
Box = Annotated[
    str | None, typer.Option(metavar="LOW,HIGH", help="worst-case: every site's weight is from LOW to HIGH.")
]
Failure = Annotated[
    float | None, typer.Option(help="pac: how often the calibration draw may be a bad one (default 0.05).")
]


def as_numbers(text: str, option: str, expected: str) -> tuple[float, ...]:
    """Read numbers with commas between them."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected {expected}") from None


def as_box(text: str) -> tuple[float, float]:
    """Read the two bounds of every site's weight."""
    expected = "two numbers such as 0.1,0.5"
    bounds = as_numbers(text, "--box", expected)
    if len(bounds) != 2:
        raise InputError(f"--box is {text!r}, expected {expected}")
    return bounds
