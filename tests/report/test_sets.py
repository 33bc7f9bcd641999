"""The report about sets: four answers in common words, nothing to load, and nothing that hides what went wrong."""

import dataclasses
import re
import warnings
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates import text
from fedconformal.evaluation import Evaluation
from fedconformal.report import Study, read_study, report_page
from tests.contracts.tools import GUARANTEES, changed, guarantee_examples, maybe_infeasible

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RNG = np.random.default_rng(5)
NAMES = ("benign", "malignant", "unclear")
TRUTH = RNG.integers(0, 3, 1500)
PROBS = fc.softmax(RNG.normal(size=(1500, 3)) + 2 * np.eye(3)[TRUTH])
LABELS = np.array(NAMES)[TRUTH]
SITES = np.array(["clinic-a", "clinic-b", "clinic-c"])[np.arange(1500) % 3]
WRONG = np.where(np.arange(600) % 3 == 0, np.roll(LABELS[900:], 1), LABELS[900:])
NOT_FOR_A_BOARD = (
    r"n_k|exchangeab|alpha|quantile|\bdraws?\b|threshold|coverage|mixture|\bp =|i\.i\.d|\bscores?\b|\brows?\b"
)


def predictor(rows: int = 900, kind: str = "ranks", score: fc.Score | None = None, **more: Any) -> fc.Predictor:
    score = fc.LAC() if score is None else score
    with maybe_infeasible():
        made = [
            fc.Summary.of_scores(
                score.evaluate(PROBS[mine], TRUTH[mine]), kind=kind, score=score, site=str(site), classes=NAMES
            )
            for site in np.unique(SITES)
            for mine in [np.flatnonzero(SITES[:rows] == site)]
        ]
        return fc.calibrate(made, **more)


def by_class(kept: Any = slice(None), **more: Any) -> fc.Predictor:
    """A predictor with a threshold for each class, from some of the calibration rows."""
    mine = np.arange(900)[kept]
    scores = fc.LAC().evaluate(PROBS[mine], TRUTH[mine])
    with maybe_infeasible():
        site = fc.Summary.of_scores(scores, score=fc.LAC(), site="clinic-a", labels=TRUTH[mine], classes=NAMES)
        return fc.calibrate([site], guarantee=fc.ByClass(fc.Mixture()), **more)


def found(about: fc.Predictor, labels: Any = LABELS[900:], **more: Any) -> Evaluation:
    with maybe_infeasible():
        evaluation: Evaluation = about.evaluate(PROBS[900:], labels, **{"sites": SITES[900:], **more})
        return evaluation


def page_of(about: fc.Predictor, **more: Any) -> str:
    return unescape(report_page(about, found(about, **more)))


def first_screen(page: str) -> str:
    """Return what is read above the first card, without its tags."""
    (seen,) = re.findall(r"<main>(.*?</ul></section></div>)", page, re.DOTALL)
    assert seen.count("<h2>") == 4
    return unescape(re.sub("<.*?>", " ", seen))


def warning(page: str) -> str | None:
    """Return the warning of the page, without its tags."""
    seen = re.findall(r'<p class="warning" role="note">(.*?)</p>', page)
    assert len(seen) <= 1
    return re.sub("<.*?>", "", seen[0]) if seen else None


def pages() -> dict[str, tuple[fc.Predictor, Evaluation | None]]:
    good, few, estimated = predictor(), predictor(rows=3), predictor(kind="tdigest")
    every = predictor(guarantee=fc.EverySite())
    return {
        "good": (good, found(good)),
        "not checked": (good, None),
        "below": (good, found(good, WRONG)),
        "every site, below": (every, found(every, WRONG)),
        "infeasible": (few, found(few)),
        "estimated": (estimated, found(estimated)),
        "without the sites": (good, found(good, sites=None)),
        "one site": (good, found(good, sites=np.full(600, "clinic-a"))),
    }


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    PAGES = pages()
SAYS = {
    "good": ("at least 90% of new cases of all sites together", "Nothing here speaks against", "Use the lists."),
    "not checked": ("Not checked", "Not known", "Check the promise on cases with known answers"),
    "below": ("chance does not explain it", "Do not rely on the lists", "below the promise"),
    "every site, below": ("of each single site", "Below the promise: site clinic-a (", "Do not rely on the lists"),
    "infeasible": ("Nothing", "names every answer", "Do not use the lists yet"),
    "estimated": ("There is no promise: the fine print says why.", "Calibrate again with new cases"),
    "without the sites": ("Record which site each checked case is from",),
    "one site": ("No checked case is from clinic-b, clinic-c.",),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_first_screen_is_in_common_words(name: str) -> None:
    page = report_page(*PAGES[name])
    seen = first_screen(page)
    assert re.findall(NOT_FOR_A_BOARD, seen) == []
    assert "The answers are benign, malignant, unclear." in seen
    for words in SAYS[name]:
        assert words in seen
    assert ("Use the lists." in seen) == (name in {"good", "without the sites"})
    assert ('class="badge good"' in page) == (name in {"good", "not checked", "without the sites"})


def test_exact_words_are_in_the_fine_print() -> None:
    about, evaluation = PAGES["good"]
    assert evaluation is not None
    assert evaluation.verdict is not None
    front, fine = unescape(report_page(about, evaluation)).split('<details class="card fine">')
    certificate = about.certificate
    for words in (text.sentence(certificate), certificate.statement.assumption, evaluation.verdict.words, "n_k,"):
        assert words in fine
        assert words not in front
    assert "Nothing is promised" in report_page(*PAGES["estimated"])


def test_every_certified_site_without_a_row_is_named() -> None:
    sites = [f"clinic-{k}" for k in range(40)]
    about = fc.calibrate(
        [fc.Summary.of_scores(RNG.random(30), score=fc.LAC(), site=site, classes=NAMES) for site in sites]
    )
    page = report_page(about, found(about, sites=np.full(600, "clinic-7")))
    assert "No checked case is from clinic-0, clinic-1, " in first_screen(page)
    (named,) = re.findall("Certified sites without a test row: (.*?)\\.<", page)
    assert named.split(", ") == [site for site in sites if site != "clinic-7"]


def test_every_guarantee_says_to_whom_in_common_words() -> None:
    examples = guarantee_examples() + guarantee_examples(by_class=True)
    assert {one.name for one in examples} == set(GUARANTEES)
    for guarantee in examples:
        words = text.lay_description(guarantee, ["a", "b", "c"])
        assert "fine print" not in words
        assert re.findall(NOT_FOR_A_BOARD, words) == []


def test_names_are_escaped_and_nothing_is_loaded_from_elsewhere() -> None:
    about = predictor()
    hostile = ["<script>alert(1)</script>", "<b>b</b>", "c"]
    named = dataclasses.replace(about, certificate=changed(about.certificate, class_names=hostile))
    groups = {"sex": np.where(np.arange(600) % 2, "f", "<b>m</b>"), "<i>age</i>": np.arange(600) // 300}
    page = report_page(named, found(about, groups=groups))
    assert re.findall("<script>alert|<b>[bm]|<i>age", page) == []
    assert "&lt;script&gt;alert" in page
    titles = {"Coverage by site", "Coverage by class", "Coverage by sex", "Coverage by &lt;i&gt;age&lt;/i&gt;"}
    assert set(re.findall(r"<h2>(Coverage.*?)</h2>", page)) == titles
    tags: list[tuple[str, list[str]]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, [name for name, _ in attrs]))

    Tags().feed(page)
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in tags}
    assert not {"src", "href", "onclick"} & {name for _, names in tags for name in names}
    assert "default-src 'none'" in page


def test_sets_with_every_label_are_said() -> None:
    page = page_of(predictor(score=fc.RAPS(), alpha=0.003))
    said = warning(page)
    assert said is not None
    assert said.startswith("600 of 600 sets hold every label: ")
    assert page.index('class="board"') < page.index('class="warning"') < page.index("Coverage by site")
    assert "Each of the 600 lists names every answer, so none can miss the right one." in page
    good = predictor()
    assert warning(page_of(good)) is None
    full = found(good).full_sets
    assert f'<h2>Set sizes</h2><p class="soft">{full} of 600 sets hold every label.</p>' in page_of(good)
    assert (warning(report_page(predictor(rows=3))) or "").startswith("alpha=0.1 cannot be promised")


def test_intervals_say_what_they_assume() -> None:
    plain, clustered = page_of(predictor()), page_of(predictor(), clusters=np.arange(600) // 10)
    for page, unit in ((plain, "cases"), (clustered, "clusters")):
        assert page.count(f", if {unit} are independent)") == 1  # on the first screen
        assert f"Lines: 95% interval, if {'rows' if unit == 'cases' else unit} are independent." in page
        assert ('<th scope="col">clusters</th>' in page) == (unit == "clusters")


def test_coverage_of_the_certified_mixture_is_on_the_first_screen() -> None:
    about = predictor(guarantee=fc.Mixture(weights=(0.9, 0.05, 0.05)))
    hard = np.where(SITES[900:] == "clinic-a", LABELS[900:], np.roll(LABELS[900:], 1))
    evaluation = found(about, hard)
    mixed = evaluation.reweighted
    assert mixed is not None
    assert mixed.coverage is not None
    assert mixed.coverage > evaluation.coverage + 0.05
    page = unescape(report_page(about, evaluation))
    assert f"With the sites counted as promised it is {mixed.coverage:.1%}." in page
    assert mixed.sentence in page
    assert "not reweighted to the certified mixture: it needs" in report_page(about, found(about, sites=None))


def test_classes_have_their_names_wherever_a_class_is_named() -> None:
    about = by_class((TRUTH[:900] != 2) | (np.arange(900) <= 20), alpha=0.05)
    wrong = np.where(LABELS[900:] == "benign", "malignant", LABELS[900:])
    evaluation = found(about, wrong, sites=np.full(600, "clinic-a"))
    page = unescape(report_page(about, evaluation))
    seen = first_screen(page)
    assert "Nothing is promised for the answer unclear: there are too few calibration cases." in seen
    assert "Below the promise: class malignant (" in seen
    assert "Collect more calibration cases: the note below says how many." in seen
    assert "<td>unclear</td>" in page[page.index("Thresholds by class") :]
    told = re.sub(r"<svg.*?</svg>|<style.*?</style>|<script.*", "", page, flags=re.DOTALL)
    assert not re.search(r"\bclass(es)? \d", told)


def test_a_site_of_few_cases_takes_the_promise_from_no_other_site() -> None:
    seen = first_screen(unescape(report_page(predictor(26, guarantee="every-site", alpha=0.1))))
    assert "90%" in seen
    assert "Nothing is promised for the site clinic-c: there are too few calibration cases." in seen


def test_set_sizes_have_a_bar_each_and_are_binned_if_there_are_many() -> None:
    probs = RNG.dirichlet(np.ones(60), 50)
    truth = RNG.integers(0, 60, 50)
    about = fc.calibrate([fc.Summary.of_scores(fc.LAC().evaluate(probs, truth), score=fc.LAC(), site="a")])
    assert "11-60 labels" in report_page(about, about.evaluate(probs, truth))
    assert ">3 labels<" in report_page(*PAGES["infeasible"])


def test_promised_groups_are_said_to_be_promised() -> None:
    mine = np.resize(["f", "m"], 1500)
    groups = {"sex": mine[:900]}
    summary = fc.summarize(PROBS[:900], LABELS[:900], score="lac", site="a", classes=NAMES, groups=groups)
    about = fc.calibrate([summary], guarantee=fc.ByGroup(fc.Mixture()))
    page = page_of(about, groups={"sex": mine[900:]})
    assert "Each group is promised coverage by itself" in page
    assert "No group of" not in page


def test_long_names_that_end_differently_are_drawn_differently() -> None:
    sites = np.array([f"University Hospital of the North {k}" for k in range(3)])
    page = page_of(predictor(), sites=sites[np.arange(600) % 3])
    assert len(set(re.findall(">(Univers[^<]*…[^<]*)</text>", page))) == 3


def test_the_report_is_a_document() -> None:
    study = Study(title="Skin lesions", responsible="Dr <Who>", patients=840, intended_use="triage", model="net 1.4")
    page = report_page(*PAGES["good"], study=study)
    assert "<h1>Skin lesions</h1>" in page
    (facts,) = re.findall(r"<h2>This document</h2>(.*?)</section>", page, re.DOTALL)
    cells = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", facts))
    assert cells["responsible"] == "Dr &lt;Who&gt;"
    assert cells["model"] == "net 1.4"
    assert (cells["calibration"], cells["check"]) == ("840 patients, 900 rows, 3 sites", "600 rows")
    assert cells["population"] == cells["calibration dates"] == "not given"
    plain = report_page(*PAGES["not checked"])
    assert "patients not given, 900 rows, 3 sites" in plain
    for text_of in (page, plain):
        told = re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", text_of, flags=re.DOTALL)
        assert (
            re.findall(r" --[a-z]|\.fcs|\.json|\bverify\b|fedconformal (?!0)", told.partition("This document")[2]) == []
        )


def test_every_chart_of_groups_says_what_is_promised_to_them() -> None:
    sex = {"sex": np.resize(["f", "m"], 600)}
    for about, whom in (
        (predictor(), {"site": "No site is", "class": "No class is", "sex": "No group of sex is"}),
        (predictor(guarantee=fc.EverySite()), {"site": "The promise is for new cases of each single site"}),
        (by_class(), {"class": "Each class is", "sex": "No group of sex is"}),
        (predictor(kind="tdigest"), {"site": "Nothing is promised"}),
    ):
        page = report_page(about, found(about, groups=sex))
        for column, words in whom.items():
            (card,) = re.findall(rf"<h2>Coverage by {column}</h2>(.*?)</section>", page, re.DOTALL)
            assert words in card


def test_a_study_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('title = "Lesions"\npatients = 3\n')
    assert read_study(path) == Study(title="Lesions", patients=3)
    for text_of in ("titel = 'x'", "patients = 'three'", "patients = 0", "title = "):
        path.write_text(text_of)
        with pytest.raises(fc.InputError, match=r"study\.toml: "):
            read_study(path)
