"""The report is one page with nothing to load, and names from outside cannot break it."""

import dataclasses
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.report import CheckedRows, report_page
from fedconformal.report.slider import slider
from tests.contracts.tools import changed


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]


def page(*, alpha: float = 0.1, classes: int = 3, name: str = "a", clients: bool = True) -> str:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(classes), 50)
    labels = rng.integers(0, classes, 50)
    site = fc.Summary.of_scores(fc.LAC().evaluate(probs, labels), score=fc.LAC(), site=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        predictor = fc.calibrate([site], alpha=alpha)
        ids = np.array([name] * 50) if clients else None
        return report_page(predictor, predictor.evaluate(probs, labels, sites=ids))


def test_nothing_is_loaded_from_elsewhere() -> None:
    found = Tags(page())
    assert not {"link", "img", "iframe", "object", "base"} & set(found.names)
    assert not {"src", "href", "onclick"} & set(found.attributes)
    assert "default-src 'none'" in page()


def test_names_are_escaped() -> None:
    hostile = page(name="<script>alert(1)</script>")
    assert "<script>alert" not in hostile
    assert "&lt;script&gt;alert" in hostile


def test_odd_predictors_have_pages_too() -> None:
    assert "threshold" in page(alpha=0.001)  # infinite
    assert "11-100 labels" in page(alpha=0.05, classes=60, clients=False)  # too many sizes for single bars


def rows(count: int = 80, classes: int = 4, seed: int = 1) -> CheckedRows:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(classes), count)
    labels = np.array([rng.choice(classes, p=p) for p in probs])
    return CheckedRows(outputs=probs, truth=labels)


def by_class(seen: int = 3) -> fc.Predictor:
    """A predictor with a curve for each of the classes that were seen; the last class of `rows` was not."""
    found = rows(300, seed=2)
    kept = found.truth < seen
    scores = fc.LAC().evaluate(found.outputs[kept], found.truth[kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        site = fc.Summary.of_scores(scores, score=fc.LAC(), site="a", labels=found.truth[kept])
        return fc.calibrate([site], alpha=0.1, guarantee=fc.ByClass(fc.Mixture()))


def named(predictor: fc.Predictor, names: list[str]) -> fc.Predictor:
    return dataclasses.replace(predictor, certificate=changed(predictor.certificate, class_names=names))


def plain() -> fc.Predictor:
    found = rows(300, seed=2)
    return fc.calibrate(
        [fc.Summary.of_scores(fc.LAC().evaluate(found.outputs, found.truth), score=fc.LAC())], exact=True
    )


@pytest.mark.parametrize("predictor", [by_class(), plain()], ids=["by class", "plain"])
def test_every_position_is_what_the_predictor_says(predictor: fc.Predictor) -> None:
    test = rows()
    found = slider(predictor, test)
    assert found.start.alpha == 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        for step in found.steps[::7]:
            expected = predictor.evaluate(test.outputs, test.truth, alpha=step.alpha)
            assert step.size == expected.mean_size
            assert step.coverage == expected.coverage
            sets = predictor.predict_set(test.outputs, alpha=step.alpha)
            for one in found.examples:
                assert sorted(one.members(step.alpha)) == np.flatnonzero(sets[one.row]).tolist()


def test_a_promise_by_class_says_which_classes_are_in_every_set() -> None:
    predictor = by_class()
    found = slider(predictor, None)
    assert found.steps[0].threshold == "3 of 3 classes are in every set"
    assert "of each class" in found.start.promise
    html = report_page(predictor, predictor.evaluate(rows().outputs, rows().truth), rows=rows())
    assert "Coverage by class" in html
    assert "<td>bee</td>" in report_page(named(predictor, ["ant", "bee", "cow", "dog"]))
    assert "Every class by itself" in html


def test_bytes_are_told_where_they_are_known() -> None:
    predictor = plain()
    digest = predictor.certificate.summaries[0].sha256
    assert "Together 1,234 bytes left the sites" in report_page(predictor, sent={digest: 1234})
    assert "not known" in report_page(predictor)


def test_labels_have_names() -> None:
    html = report_page(named(plain(), ["<cat>", "dog", "owl", "ant"]), rows=rows())
    assert "&lt;cat&gt;" in html
    assert "<cat>" not in html


def test_an_estimate_is_no_promise() -> None:
    found = rows(300, seed=2)
    site = fc.Summary.of_scores(fc.LAC().evaluate(found.outputs, found.truth), kind="tdigest", score=fc.LAC())
    html = report_page(fc.calibrate([site]))
    assert "Nothing is promised" in html
    assert "at least 90% (estimated)" in html
