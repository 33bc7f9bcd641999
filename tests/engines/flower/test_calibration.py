"""One round of calibration, added to somebody else's app."""

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, gather, pooled_reply, summary_question
from fedconformal.engines.flower.records import fingerprint, site_of
from fedconformal.errors import ClassCountsWarning, InputError
from tests.engines.flower.tools import MODEL, Backwards, calibrating_app, grid, site_logits


def by_hand(sites: int, score: fc.Score, temperature: float = 1.0) -> list[fc.Summary]:
    """Return the summaries that the sites would write to files."""
    return [
        fc.summarize(
            fc.softmax(logits, temperature=temperature),
            labels,
            alpha=0.1,
            score=score,
            model=fingerprint(MODEL),
            temperature=temperature,
            site=f"site-{k}",
        )
        for k in range(sites)
        for logits, labels in [site_logits(k)]
    ]


@pytest.mark.parametrize("score", [fc.LAC(), fc.APS(randomized=True, random_state=3), fc.RAPS()])
def test_it_is_what_files_give(score: fc.Score) -> None:
    result = calibrate(Federation(grid(5)), MODEL, alpha=0.1, score=score, temperature=1.5)
    summaries = by_hand(5, score, 1.5)
    expected = fc.calibrate(summaries, alpha=0.1).certificate
    assert result.certificate == expected
    assert fc.verify(result.predictor, summaries) == []
    assert "left_out" not in result.certificate.to_dict()


def test_the_order_of_answers_does_not_matter() -> None:
    forwards, backwards = (
        calibrate(Federation(kind(calibrating_app(), 12)), MODEL) for kind in (InProcessGrid, Backwards)
    )
    assert forwards.certificate == backwards.certificate
    assert [record.sites[0] for record in backwards.certificate.summaries] == [f"site-{k}" for k in range(12)]


def test_by_class() -> None:
    with pytest.warns(ClassCountsWarning):
        result = calibrate(Federation(grid(5)), MODEL, alpha=0.2, guarantee=fc.ByClass(fc.Mixture()))
    assert len(result.certificate.promises) == 4


def test_sites_bring_names_of_their_own() -> None:
    nodes = [{"site": "zurich"}, {"site": "basel"}]
    result = calibrate(Federation(InProcessGrid(calibrating_app(), nodes)), MODEL)
    assert [record.sites for record in result.certificate.summaries] == [("zurich",), ("basel",)]


def test_another_model_has_another_fingerprint() -> None:
    others = [
        ArrayRecord({"weights": Array(np.eye(4, dtype=np.float64))}),
        ArrayRecord({"bias": Array(np.eye(4, dtype=np.float32))}),
        ArrayRecord({"weights": Array(np.eye(4, dtype=np.float32) * 2)}),
    ]
    assert len({fingerprint(MODEL), *map(fingerprint, others)}) == 4


def test_too_few_scores() -> None:
    with pytest.raises(InputError, match="the sites sent 120 scores, at least 121 are needed"):
        calibrate(Federation(grid(3)), MODEL, min_scores=121)
    assert calibrate(Federation(grid(3)), MODEL, min_scores=120).certificate.scores == 120


def test_too_few_nodes_end_in_bounded_time() -> None:
    federation = Federation(grid(2), min_sites=3)
    with pytest.raises(InputError, match=r"2 nodes are connected after 0\.1 s, at least 3 are needed"):
        federation.wait(0.1)
    with pytest.raises(InputError, match="calibrate: 2 sites answered properly, at least 3 are needed"):
        calibrate(federation, MODEL)


def aggregator(sites: int, faulty: int | None = None) -> ClientApp:
    """An app whose every node stands for some sites."""
    app = ClientApp()

    def fail(reply: Message) -> None:
        raise ValueError("the disk is full")

    @app.query("calibrate")
    def forward(msg: Message, context: Context) -> Message:
        me = site_of(context).partition
        nodes = [{"partition-id": me * sites + k} for k in range(sites)]
        inner = grid(0, {} if faulty is None else {faulty: fail})
        inner = InProcessGrid(inner._client_app, nodes)
        answers, left_out = gather(Federation(inner), msg.content.array_records["arrays"], summary_question(msg))
        return pooled_reply(msg, context, [answer.value[0] for answer in answers], left_out)

    return app


def test_three_aggregators_of_a_hundred_sites() -> None:
    flat = calibrate(Federation(grid(300)), MODEL, alpha=0.05, kind="exact")
    pooled = calibrate(Federation(InProcessGrid(aggregator(100), 3)), MODEL, alpha=0.05, kind="exact")
    assert pooled.certificate.threshold == flat.certificate.threshold
    assert (pooled.certificate.sites, pooled.certificate.promises[0].rank) == (300, flat.certificate.promises[0].rank)
    assert [len(record.sites) for record in pooled.certificate.summaries] == [100, 100, 100]
    assert pooled.certificate.left_out is None


def test_whom_an_aggregator_left_out_is_in_the_certificate() -> None:
    result = calibrate(Federation(InProcessGrid(aggregator(10, faulty=13), 3)), MODEL)
    assert result.certificate.sites == 29
    assert result.certificate.left_out == [LeftOut(site="site-1/node-5", reason="failed: ValueError: the disk is full")]
    assert fc.verify(result.predictor, result.summaries, sealed=True) == []
    assert fc.Predictor.from_bytes(result.predictor.to_bytes()).certificate == result.certificate


def test_a_site_that_keeps_a_model_of_its_own_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    app = calibrating_app()

    def personal(message: Message, context: Context) -> Message:
        if site_of(context).partition == 1:  # as Flower's examples keep the last layer at the site
            context.state["head"] = MODEL
        return app(message, context)

    calibrate(Federation(InProcessGrid(personal, 3)), MODEL)  # type: ignore[arg-type]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.endswith("flower.client")]
    assert "keeps arrays of its own (head), and its scores carry the fingerprint of the global model" in warning
