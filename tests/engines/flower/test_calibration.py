"""One round of calibration, added to somebody else's app."""

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message

from fedconformal.engines.flower import Federation, InProcessGrid, calibrate
from fedconformal.engines.flower.records import fingerprint, site_of
from fedconformal.errors import InputError
from tests.engines.flower.tools import MODEL, Backwards, calibrating_app, grid


def test_the_order_of_answers_does_not_matter() -> None:
    forwards, backwards = (
        calibrate(Federation(kind(calibrating_app(), 12)), MODEL) for kind in (InProcessGrid, Backwards)
    )
    assert forwards.certificate == backwards.certificate
    assert [record.sites[0] for record in backwards.certificate.summaries] == [f"site-{k}" for k in range(12)]


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


def test_a_site_that_keeps_a_model_of_its_own_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    app = calibrating_app()

    def personal(message: Message, context: Context) -> Message:
        if site_of(context).partition == 1:  # as Flower's examples keep the last layer at the site
            context.state["head"] = MODEL
        return app(message, context)

    calibrate(Federation(InProcessGrid(personal, 3)), MODEL)  # type: ignore[arg-type]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.endswith("flower.client")]
    assert "keeps arrays of its own (head), and its scores carry the fingerprint of the global model" in warning
