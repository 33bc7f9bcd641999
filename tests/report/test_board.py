"""The first screen: four answers in common words, which follow from the certificate and the verdict."""

import re
import warnings
from html import unescape
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates import text
from fedconformal.errors import ClassCountsWarning
from fedconformal.evaluation import Evaluation
from fedconformal.report import report_page
from tests.contracts.tools import GUARANTEES, guarantee_examples

RNG = np.random.default_rng(5)
NAMES = ("benign", "malignant", "unclear")
TRUTH = RNG.integers(0, 3, 1500)
PROBS = fc.softmax(RNG.normal(size=(1500, 3)) + 2 * np.eye(3)[TRUTH])
LABELS = np.array(NAMES)[TRUTH]
SITES = np.array(["clinic-a", "clinic-b", "clinic-c"])[np.arange(1500) % 3]
NOT_FOR_A_BOARD = (
    r"n_k|exchangeab|alpha|quantile|\bdraws?\b|threshold|coverage|mixture|\bp =|i\.i\.d|\bscores?\b|\brows?\b"
)


def predictor(rows: int = 900, kind: str = "ranks", **more: Any) -> fc.Predictor:
    score = fc.LAC()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [
            fc.Summary.of_scores(
                score.evaluate(PROBS[mine], TRUTH[mine]), kind=kind, score=score, site=str(site), classes=NAMES
            )
            for site in np.unique(SITES)
            for mine in [np.flatnonzero(SITES[:rows] == site)]
        ]
        return fc.calibrate(made, **more)


def found(about: fc.Predictor, labels: Any = LABELS[900:], **more: Any) -> Evaluation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation: Evaluation = about.evaluate(PROBS[900:], labels, **{"sites": SITES[900:], **more})
        return evaluation


def first_screen(page: str) -> str:
    """Return what is read above the first card, without its tags."""
    (seen,) = re.findall(r"<main>(.*?</ul></section></div>)", page, re.DOTALL)
    assert seen.count("<h2>") == 4
    return unescape(re.sub("<.*?>", " ", seen))


def pages() -> dict[str, tuple[fc.Predictor, Evaluation | None]]:
    good, few = predictor(), predictor(rows=3)
    wrong = np.where(np.arange(600) % 3 == 0, np.roll(LABELS[900:], 1), LABELS[900:])
    estimated = predictor(kind="tdigest")
    every = predictor(guarantee=fc.EverySite())
    return {
        "good": (good, found(good)),
        "not checked": (good, None),
        "below": (good, found(good, wrong)),
        "every site, below": (every, found(every, wrong)),
        "infeasible": (few, found(few)),
        "estimated": (estimated, found(estimated)),
        "without the sites": (good, found(good, sites=None)),
        "one site": (good, found(good, sites=np.full(600, "clinic-a"))),
    }


PAGES = pages()
SAYS = {
    "good": ("at least 90% of new cases of all sites together", "Nothing here speaks against", "Use the lists."),
    "not checked": ("Not checked", "Not known", "Check the promise on cases with known answers"),
    "below": ("more than bad luck explains", "Do not rely on the lists", "below the promise"),
    "every site, below": ("of each single site", "Below the promise: site clinic-a (", "Do not rely on the lists"),
    "infeasible": ("Nothing", "names every answer", "Do not use the lists yet"),
    "estimated": ("there is no promise", "Ask the sites for summaries that allow a promise"),
    "without the sites": ("Record which site each checked case is from",),
    "one site": ("No checked case is from clinic-b, clinic-c.", "Check cases of clinic-b, clinic-c too."),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_first_screen_is_in_common_words(name: str) -> None:
    text = first_screen(report_page(*PAGES[name]))
    assert re.findall(NOT_FOR_A_BOARD, text) == []
    assert "The answers are benign, malignant, unclear." in text
    for words in SAYS[name]:
        assert words in text
    assert ("Use the lists." in text) == (name in {"good", "without the sites"})


def test_exact_words_are_in_the_fine_print() -> None:
    about, evaluation = PAGES["good"]
    page = unescape(report_page(about, evaluation))
    fine = page[page.index('<details class="card fine">') :]
    assert evaluation is not None
    assert evaluation.verdict is not None
    for words in (
        about.certificate.sentence(),
        about.certificate.statement.assumption,
        evaluation.verdict.words,
        "n_k,",
    ):
        assert words in fine
        assert words not in page[: page.index('<details class="card fine">')]


def test_every_certified_site_without_a_row_is_named() -> None:
    sites = [f"clinic-{k}" for k in range(40)]
    made = [fc.Summary.of_scores(RNG.random(30), score=fc.LAC(), site=site, classes=NAMES) for site in sites]
    about = fc.calibrate(made)
    page = report_page(about, found(about, sites=np.full(600, "clinic-7")))
    assert "No checked case is from clinic-0, clinic-1, " in first_screen(page)
    assert "and 34 more" in first_screen(page)
    (named,) = re.findall("Certified sites without a test row: (.*?)\\.<", page)
    assert named.split(", ") == [site for site in sites if site != "clinic-7"]


def test_every_guarantee_says_to_whom_in_common_words() -> None:
    examples = guarantee_examples() + guarantee_examples(by_class=True)
    assert {one.name for one in examples} == set(GUARANTEES)
    for guarantee in examples:
        words = text.lay_description(guarantee, ["a", "b", "c"])
        assert "fine print" not in words
        assert re.findall(NOT_FOR_A_BOARD, words) == []


def test_coverage_is_by_site_class_and_column() -> None:
    about = predictor()
    sex = np.where(np.arange(600) % 2, "female", "<b>male</b>")
    page = report_page(about, found(about, groups={"sex": sex, "<i>age</i>": np.arange(600) // 300}))
    titles = re.findall(r"<h2>(Coverage.*?)</h2>", page)
    assert sorted(titles) == sorted(
        ["Coverage by site", "Coverage by class", "Coverage by sex", "Coverage by &lt;i&gt;age&lt;/i&gt;"]
    )
    for name in ("female", "malignant", "clinic-b"):
        assert f"<td>{name}</td>" in page
    assert "<b>male" not in page
    assert "<i>age" not in page


def test_classes_have_their_names_wherever_a_class_is_named() -> None:
    rare = (TRUTH[:900] == 2) & (np.arange(900) > 20)
    kept = np.flatnonzero(~rare)
    scores = fc.LAC().evaluate(PROBS[kept], TRUTH[kept])
    with pytest.warns(ClassCountsWarning):
        site = fc.Summary.of_scores(scores, score=fc.LAC(), site="clinic-a", labels=TRUTH[kept], classes=NAMES)
    with pytest.warns(fc.InfeasibleWarning, match="promised to class unclear, which is in every set; class unclear: "):
        about = fc.calibrate([site], alpha=0.05, guarantee=fc.ByClass(fc.Mixture()))
    wrong = np.where(LABELS[900:] == "benign", "malignant", LABELS[900:])
    evaluation = found(about, wrong, sites=np.full(600, "clinic-a"))
    page = unescape(report_page(about, evaluation))
    text = first_screen(page)
    assert "Nothing is promised for the answers unclear: every list names them." in text
    assert "Below the promise: class malignant (" in text
    assert "Collect more calibration cases of the answers without a promise." in text
    assert evaluation.verdict is not None
    assert "Nothing is promised to class unclear, which is in every set." in evaluation.verdict.words
    assert "rows of class malignant (p" in evaluation.verdict.words
    assert not re.search(
        r"\bclass(es)? \d", re.sub(r"<svg.*?</svg>|<style.*?</style>|<script.*", "", page, flags=re.DOTALL)
    )
