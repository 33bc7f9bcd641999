"""From scores to bytes, for every kind; pools, losses, signatures."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.errors import ClassCountsWarning
from fedconformal.summaries.tdigest import TDigestSummary
from scripts.vector_cases.tools import Case

FEW = [0.5, -1.0, 0.25, 1.75, 0.25]
EXTREME = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1e-9]
KEY = "11" * 32


def made(count: int, modulo: int = 1024, less: int = 0) -> Case:
    """Say by which rule scores follow: ((37 i) mod modulo - less) / 256 for i from 0 to count - 1."""
    return {"count": count, "times": 37, "modulo": modulo, "less": less, "over": 256}


def named(name: str, **given: Any) -> Case:
    """Return a case."""
    return {"name": name, "input": given}


def packed(**given: Any) -> str:
    """Return the bytes of a small summary, to be pooled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassCountsWarning)
        return fc.Summary.of_scores(given.pop("scores"), **given).to_bytes().hex()


def cases() -> list[Case]:
    """List them."""
    return [
        *_kinds(),
        *_ranks(),
        *_parted(),
        *_together(),
        *_losses(),
        *_read_only(),
        *_signed(),
        *_refused(),
        *_strata_together(),
    ]


def _kinds() -> list[Case]:
    found = []
    for kind in ("exact", "ranks", "ddsketch", "tdigest"):
        found += [
            named(f"{kind}: one score", kind=kind, scores=[0.5], site="a"),
            named(f"{kind}: few, some tied", kind=kind, scores=FEW, site="clinic-a", score={"name": "lac"}),
            named(f"{kind}: extreme scores", kind=kind, scores=EXTREME),
            named(f"{kind}: rows left out", kind=kind, scores=FEW, site="a", skipped=12),
            named(f"{kind}: whole numbers", kind=kind, scores=[3, 1, 2], alpha="0.2", site="病院"),
            named(
                f"{kind}: classes and precision", kind=kind, scores=FEW, site="Köln 2", classes=3, precision="float32"
            ),
        ]
    return found


def _ranks() -> list[Case]:
    sizes = [(99, "0.1"), (100, None), (101, None), (101, 0.1), (257, 0.5), (1000, "0.05"), (1000, None)]
    found = [named(f"ranks: {n} scores, alpha {alpha}", scores=made(n), alpha=alpha) for n, alpha in sizes]
    alphas = [0.001, "1e-05", 0.999, "0.30000000000000004", 0.123456789012345, "1.5e-07"]
    found += [named(f"ranks: alpha {alpha}", scores=made(3001, 4096), alpha=alpha) for alpha in alphas]
    tied = {"scores": made(5000, 8), "alpha": 0.1}
    signed = {"scores": made(500, 1024, 512), "alpha": 0.1}
    return [
        *found,
        named("ranks: mostly ties", **tied),
        named("ranks: 100,000 scores", scores=made(100_000, 65_536), alpha=0.1),
        named("ranks: signed, both ends are fine", **signed, score={"name": "signed"}, site="a"),
        named("ranks: signed, a lower end of 0.2", **signed, score={"name": "signed", "scaled": True, "lower": 0.2}),
        named("ranks: signed, no alpha", scores=made(500), score={"name": "signed"}),
        named("ranks: signed, few", scores=FEW, alpha=0.1, score={"name": "signed"}),
    ]


def _parted() -> list[Case]:
    scores = [0.5, 0.25, 0.125, 0.75, 0.875, 0.25, 0.375]
    labels, sex = [0, 9, 0, 2, 9, 0, 1_048_575], ["F", "M", None, "F", "F", "", "M"]
    age = [60, 61, 60, None, None, None, None]
    classes = {"labels": labels, "site": "clinic-a"}
    groups = {"groups": {"sex": sex, "age": age}, "site": "clinic-a"}
    return [
        *(named(f"{kind} by class", kind=kind, scores=scores, **classes) for kind in ("ranks", "exact", "ddsketch")),
        *(named(f"{kind} by group", kind=kind, scores=scores, **groups) for kind in ("ranks", "exact", "tdigest")),
        named("ranks by class, many", scores=made(900), labels=[i % 3 for i in range(900)], alpha=0.1),
        named("by class by group", kind="exact", scores=scores, **(classes | groups)),
        named("by group: all rows have a group", kind="exact", scores=[0.5, 0.25], groups={"sex": ["F", "M"]}),
        named(
            "by group: values that are texts and numbers", scores=[1, 2, 3], groups={" age ": ["60.0", "60", "\uff17"]}
        ),
    ]


def _together() -> list[Case]:
    found = []
    sites = {"a": [0.5, 0.25, 0.25], "b": [0.25], "c": [0.75, 0.125, 1.0, 1.0]}
    for kind in ("exact", "ranks", "ddsketch", "tdigest"):
        parts = [packed(scores=scores, kind=kind, site=site, score=fc.LAC()) for site, scores in sites.items()]
        found.append(named(f"{kind}: three sites pooled", pool=parts))
    many = [packed(scores=np.arange(n) / 64, alpha=0.1, site=f"s{n}") for n in (150, 130)]
    return [*found, named("ranks: two large sites pooled", pool=many)]


def _strata_together() -> list[Case]:
    """Sites that lack a class or a group of another."""
    labels, sexes = {"a": [0, 0, 7], "b": [9], "c": [0, 7]}, {"a": ["F", None, "M"], "b": ["M"], "c": ["F", "F"]}
    scores = {"a": [0.5, 0.25, 0.25], "b": [0.25], "c": [0.75, 1.0]}
    by_class = [packed(scores=scores[site], kind="exact", site=site, labels=labels[site]) for site in scores]
    by_group = [packed(scores=scores[site], alpha=0.1, site=site, groups={"sex": sexes[site]}) for site in scores]
    return [
        named("exact by class: three sites pooled", pool=by_class),
        named("ranks by group: three sites pooled", pool=by_group),
    ]


def _losses() -> list[Case]:
    grid = [0.25, 0.5, 0.75, 1.0]
    falls = [[1, 0.5, 0.25, 0], [1, 1, 1, 0.3], [0.1, 0.1, 0.1, 0.1]]
    rises = [[0, 0.5, 0.25, 1], [1, 0, 1, 0.3]]
    steps = [[1 if j < i else 0 for j in range(40)] for i in (3, 3, 17)]
    return [
        named("losses", losses=falls, thresholds=grid, site="clinic-a"),
        named("losses: one row, one threshold", losses=[[0.5]], thresholds=[0]),
        named("losses: a bound of 3", losses=[[3, 0.7, 0.1]], thresholds=[1, 2, 3], bound=3, model="m"),
        named("losses: that rise", losses=rises, thresholds=grid, rising=True, site="a"),
        named("losses: few steps", losses=steps, thresholds=list(range(40)), loss=["miss", []], site="a"),
        named("losses: parameters", losses=falls, thresholds=grid, loss=["fnr", [0.5, 2, True]], expires="2027-06-30"),
        named("losses: too large", losses=[[1.5, 1]], thresholds=[1, 2]),
        named("losses: rising", losses=[[0.5, 0.75]], thresholds=[1, 2]),
        named("losses: a grid that falls", losses=[[0.5, 0.25]], thresholds=[2, 1]),
    ]


def _read_only() -> list[Case]:
    """List files that only readers need: how scores are gathered into a digest of more than 100 is left to writers."""
    digest = TDigestSummary(
        means=np.array([-1.0, 0.125, 0.5, 0.5, 3.0]),
        weights=np.array([1, 40, 100, 7, 2]),
        smallest=-1.0,
        largest=4.0,
        sizes=(150,),
        sites=("a",),
    )
    return [{"name": "tdigest: 150 scores, to be read", "bytes": digest.to_bytes().hex()}]


def _signed() -> list[Case]:
    about: Case = {"site": "clinic-a", "alpha": 0.1, "calibration": "ab" * 16}
    plain = packed(scores=FEW, **about)
    full = packed(scores=FEW, **{**about, "site": "Köln"}, model='say "m"', expires="2027-06-30")
    return [
        named("signature", key=KEY, signed=plain),
        named("signature: of all that is signed", key=KEY, signed=full),
        named("signature: without a calibration", key=KEY, signed=packed(scores=FEW, site="a")),
        named("signature: without a site", key=KEY, signed=packed(scores=FEW, alpha=0.1, calibration="x")),
    ]


def _refused() -> list[Case]:
    return [
        named("scores: none", scores=[]),
        named("scores: NaN", scores=[0.5, "nan"]),
        named("scores: infinite", scores=[0.5, "-inf"]),
        named("scores: too few labels", scores=[0.5, 0.25], labels=[0]),
        named("scores: a class of 2^20", scores=[0.5], labels=[1_048_576]),
        named("groups: a column with =", scores=[0.5], groups={"a=b": ["x"]}),
        named("groups: too few", scores=[0.5, 0.25], groups={"a": ["x"]}),
        named("alpha: 1", scores=[0.5], alpha=1),
        named("alpha: below 1e-15", scores=[0.5], alpha=1e-16),
        named("temperature: 0", scores=[0.5], temperature=0),
        named("site: a control character", scores=[0.5], site="a\u0007b"),
        named("site: 65 characters", scores=[0.5], site="x" * 65),
        named("pool: one site twice", pool=[packed(scores=[0.5], site="a"), packed(scores=[1.0], site=" a")]),
        named("pool: two kinds", pool=[packed(scores=[0.5], site="a"), packed(scores=[1.0], site="b", kind="exact")]),
        named("pool: two scores", pool=[packed(scores=[0.5], score=fc.LAC()), packed(scores=[1.0], score=fc.APS())]),
        named("pool: with and without names", pool=[packed(scores=[0.5], site="a"), packed(scores=[1.0])]),
    ]
