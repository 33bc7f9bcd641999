"""Before any data is collected: which guarantees can be had at this alpha from sites of these sizes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec

from fedconformal.errors import InputError
from fedconformal.guarantees import EveryClient, Exchangeable, Guarantee, Mixture, OneClient
from fedconformal.validation import as_alpha, as_sizes


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: can it be had, and what is the band of coverage; if not, what is missing."""

    guarantee: str
    feasible: bool
    coverage_at_least: float
    coverage_at_most: float
    rank: int | None
    rank_out_of: int | None
    smallest_alpha: float
    missing: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What can be promised at this alpha."""

    alpha: float
    sizes: list[int]
    condition: str
    options: list[Option]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, ready for JSON."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def plan(*, alpha: Any, sizes: Sequence[int], sites: Sequence[str] | None = None) -> Plan:
    """Say which guarantees are feasible, the band of each, and what would make the others feasible.

    >>> for option in plan(alpha=0.1, sizes=[200, 50, 5]).options:
    ...     print(option.guarantee, option.feasible, round(option.coverage_at_most, 3), option.missing)
    mixture proportional True 0.911
    mixture uniform True 0.964
    exchangeable True 0.902
    every-client False 1.0 calibration scores needed: 4 more at site '#3'
    one-client #1 True 0.9
    one-client #2 True 0.902
    one-client #3 False 1.0 calibration scores needed: 4 more at site '#3'
    """
    wanted = as_alpha(alpha)
    counts = as_sizes(sizes)
    names = list(sites) if sites is not None else [f"#{k + 1}" for k in range(len(counts))]
    if len(names) != len(counts):
        raise InputError(f"sites: {len(names)} names were given for {len(counts)} sites")
    offered: list[tuple[str, Guarantee]] = [
        ("mixture proportional", Mixture()),
        ("mixture uniform", Mixture(weights="uniform")),
        ("exchangeable", Exchangeable()),
        ("every-client", EveryClient()),
        *((f"one-client {name}", OneClient(client=k)) for k, name in enumerate(names)),
    ]
    return Plan(
        alpha=float(wanted),
        sizes=counts,
        condition=_condition(wanted, counts),
        options=[_option(label, guarantee, wanted, counts, names) for label, guarantee in offered],
    )


def _option(label: str, guarantee: Guarantee, alpha: Fraction, sizes: list[int], names: list[str]) -> Option:
    feasible = guarantee.feasible(alpha, sizes)
    rank, out_of = guarantee.rank(alpha, sizes) or (None, None)
    exact = [0] * len(sizes)
    return Option(
        guarantee=label,
        feasible=feasible,
        coverage_at_least=float(guarantee.at_least(alpha, sizes)) if feasible else 1.0,
        coverage_at_most=float(guarantee.at_most(alpha, sizes, exact)) if feasible else 1.0,
        rank=rank,
        rank_out_of=out_of,
        smallest_alpha=float(1 - guarantee.promised(sizes, sizes)),
        missing="" if feasible else guarantee.shortfall(alpha, sizes, names),
    )


def _condition(alpha: Fraction, sizes: list[int]) -> str:
    # alpha >= 1/(N/K + 1) is the same as ceil((1 - alpha)(N + K)) <= N: N is whole.
    total, count = sum(sizes), len(sizes)
    rank, out_of = Mixture().rank(alpha, sizes) or (0, 0)
    holds = "holds" if rank <= total else "fails"
    return (
        f"mixture needs ceil((1 - alpha)(N + K)) <= N, that is alpha >= 1/(N/K + 1) = {count / (total + count):.6g}: "
        f"rank {rank} of N = {total} scores (N + K = {out_of}), which {holds}"
    )
