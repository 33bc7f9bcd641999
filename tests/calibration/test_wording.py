"""The words of a certificate are recomputed, as its numbers are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedconformal as fc
from tests.contracts.tools import changed, guarantee_examples, maybe_infeasible

SITES = [fc.Summary.of_scores([i / 20 for i in range(20)], site=name, score=fc.LAC()) for name in "abc"]


def predictor_of(guarantee: fc.Guarantee) -> fc.Predictor:
    with maybe_infeasible():
        return fc.calibrate(SITES, alpha=0.2, guarantee=guarantee)


def with_certificate(predictor: fc.Predictor, **fields: object) -> fc.Predictor:
    certificate = changed(predictor.certificate, **fields)
    return replace(predictor, certificate=certificate)


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_the_words_are_part_of_what_is_confirmed(guarantee: fc.Guarantee) -> None:
    predictor = predictor_of(guarantee)
    assert fc.verify(predictor, SITES) == []
    for field in ("promise", "assumption", "caveat", "conditions"):
        (problem,) = fc.verify(with_certificate(predictor, **{field: "none"}), SITES)
        assert problem.startswith(f"statement.{field}: ")
