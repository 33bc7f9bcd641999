"""Certificates name the edition of their wording, and old ones are compared with the words of their own."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

import fedconformal as fc
from fedconformal.calibration import wording
from fedconformal.calibration.certificate import Certificate
from tests.contracts.tools import guarantee_examples, maybe_infeasible
from tests.golden import make

SITES = [fc.summarize([i / 20 for i in range(20)], site=name, score=fc.LAC()) for name in "abc"]


def predictor_of(guarantee: fc.Guarantee) -> fc.Predictor:
    with maybe_infeasible():
        return fc.Predictor.of(fc.calibrate(SITES, alpha=0.2, guarantee=guarantee))


def with_certificate(predictor: fc.Predictor, **fields: object) -> fc.Predictor:
    certificate = msgspec.structs.replace(predictor.certificate, **fields)
    return fc.Predictor(score=predictor.score, certificate=certificate, curve=predictor.curve)


def as_first_edition(predictor: fc.Predictor) -> Certificate:
    """Write a certificate as the first release wrote it."""
    certificate = predictor.certificate
    words = wording.reworded(certificate.to_dict(), guarantee_of(certificate), list("abc"), 1)
    return msgspec.structs.replace(certificate, **words, edition=None, format=1)


def guarantee_of(certificate: Certificate) -> fc.Guarantee:
    return certificate.terms()[0]


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_certificates_of_both_editions_are_confirmed_in_their_own_words_only(guarantee: fc.Guarantee) -> None:
    predictor = predictor_of(guarantee)
    now, first = predictor.certificate, as_first_edition(predictor)
    assert fc.verify(predictor, SITES) == []
    assert fc.verify(with_certificate(predictor, **msgspec.structs.asdict(first)), SITES) == []
    same = {name: getattr(first, name) for name in wording.WORDING} == {
        name: getattr(now, name) for name in wording.WORDING
    }
    assert (now.edition is None) == same
    if not same:
        assert now.edition == wording.EDITION
        old_words = {name: getattr(first, name) for name in wording.WORDING}
        assert fc.verify(with_certificate(predictor, **old_words), SITES)  # of this edition by name, not by its words
        assert fc.verify(with_certificate(predictor, edition=None, format=1), SITES)


@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.PAC(), fc.NewClient()], ids=repr)
def test_an_edition_is_named_only_as_a_release_names_it(guarantee: fc.Guarantee) -> None:
    """The first edition is never named, a later one only for other words, and format 2 began with the second."""
    predictor = predictor_of(guarantee)
    for edition in range(wording.EDITION + 1):
        words = wording.reworded(predictor.certificate.to_dict(), guarantee, list("abc"), edition)
        forged = with_certificate(predictor, **words, edition=edition, format=2)
        assert (fc.verify(forged, SITES) == []) == (edition == predictor.certificate.edition)
    sites = [fc.summarize([i / 20 for i in range(20)], site=name, score=fc.LAC(), classes=3) for name in "abc"]
    with maybe_infeasible():
        newer = fc.Predictor.of(fc.calibrate(sites, alpha=0.2, guarantee=guarantee))
    assert fc.verify(newer, sites) == []
    for edition in wording.UNNAMED:
        words = wording.reworded(newer.certificate.to_dict(), guarantee, list("abc"), edition)
        older = with_certificate(newer, **words, edition=None)
        assert (fc.verify(older, sites) == []) == (older.certificate == newer.certificate)


def test_an_edition_that_is_not_known_is_not_confirmed() -> None:
    strange = with_certificate(predictor_of(fc.Mixture()), edition=99, format=2)
    assert fc.verify(strange, SITES) == [
        f"the wording is of edition 99, this release knows 1 to {wording.EDITION}; update fedconformal"
    ]


def test_every_old_sentence_is_of_a_guarantee_and_differs_from_now() -> None:
    examples: list[Any] = [*guarantee_examples(), fc.ByClass()]
    known = {one.name: one for one in examples}
    for edition, guarantees in copy.deepcopy(wording._editions()).items():
        assert 0 <= int(edition) < wording.EDITION
        assert guarantees.pop("certificate", {}).keys() <= {"conditions"}
        for name, sentences in guarantees.items():
            assert wording._changes(known[name], ["a", "b", "c"], int(edition))
            for field in sentences:
                assert hasattr(known[name], field)


def test_the_golden_predictor_is_confirmed_words_and_all() -> None:
    golden = fc.load(make.HERE / "predictor.json")
    score = fc.RAPS(penalty=0.125)
    scores = score.evaluate(make.PROBS * 4, make.LABELS * 4)
    about: dict[str, Any] = {"alpha": 0.2, "score": score, "model": "m-1", "temperature": 1.5}
    sites = [fc.summarize(scores[i : i + 10], site=s, **about) for i, s in ((0, "clinic-a"), (10, "Köln"))]
    assert golden.certificate.format == 1
    assert fc.verify(golden, sites) == []
    assert fc.verify(with_certificate(golden, caveat="none"), sites)


def test_the_format_says_what_the_content_needs() -> None:
    certificate = predictor_of(fc.Mixture()).certificate
    for fields in ({"format": 2}, {"labels": 3}, {"precision": "float32", "format": 1}):
        with pytest.raises(ValueError, match="its content needs"):
            msgspec.structs.replace(certificate, **fields)
