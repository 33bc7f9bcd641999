"""The report is one page with nothing to load, and names from outside cannot break it."""

import warnings
from html.parser import HTMLParser

import numpy as np

import fedconformal as fc
from fedconformal.report import report_page


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
    site = fc.summarize(fc.LAC().evaluate(probs, labels), score=fc.LAC(), site=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        predictor = fc.Predictor.of(fc.calibrate([site], alpha=alpha))
        ids = np.array([name] * 50) if clients else None
        return report_page(predictor, predictor.evaluate(probs, labels, clients=ids))


def test_nothing_is_loaded_from_elsewhere() -> None:
    found = Tags(page())
    assert not {"script", "link", "img", "iframe"} & set(found.names)
    assert not {"src", "href", "onclick"} & set(found.attributes)


def test_names_are_escaped() -> None:
    hostile = page(name="<script>alert(1)</script>")
    assert "<script>" not in hostile
    assert "&lt;script&gt;" in hostile


def test_odd_predictors_have_pages_too() -> None:
    assert "threshold" in page(alpha=0.001)  # infinite
    assert "11-100 labels" in page(alpha=0.05, classes=60, clients=False)  # too many sizes for single bars
