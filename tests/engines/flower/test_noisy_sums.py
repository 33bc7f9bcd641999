"""Differential privacy over Flower: one round of noisy counts, and what a site spends on it."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("opendp", reason="noise needs OpenDP")
pytest.importorskip("cryptography", reason="sums need cryptography")

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, calibrate_by_sums, calibrate_reply
from fedconformal.engines.flower.records import site_of
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import Ledger, read_ledger, rows_of, write_ledger
from tests.engines.flower.tools import MODEL, site_logits

ROWS = 2000
SITES = 4


def large_app() -> ClientApp:
    """Sites with enough rows for noise."""
    app = ClientApp()

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        return calibrate_reply(msg, context, *site_logits(site_of(context).partition, ROWS))

    return app


def test_epsilon_is_in_the_certificate_and_the_threshold_just_above_the_plain_one() -> None:
    federation = Federation(InProcessGrid(large_app(), SITES))
    found = calibrate_by_sums(federation, MODEL, alpha=0.1, epsilon=1.0).certificate
    plain = calibrate(Federation(InProcessGrid(large_app(), SITES)), MODEL, alpha=0.1, kind="exact").certificate
    assert found.privacy is not None
    assert (found.privacy["epsilon"], found.privacy["rounds"], found.privacy["mode"]) == (1.0, 1, "sums")
    lower, upper = float(str(plain.threshold)), float(str(found.threshold))
    assert lower <= upper < lower + 0.1
    (stage,) = federation.to_list()
    assert stage["exchanges"] <= 5
    with pytest.raises(InputError, match="epsilon"):
        calibrate_by_sums(Federation(InProcessGrid(large_app(), SITES)), MODEL, epsilon=-1.0)


def test_a_site_pays_from_its_own_ledger_and_is_out_when_its_budget_is_spent(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    write_ledger(ledger, Ledger(budget=1.5))
    nodes: list[dict[str, Any]] = [{"ledger": str(ledger)} if k == 1 else {} for k in range(SITES)]
    first = calibrate_by_sums(Federation(InProcessGrid(large_app(), nodes)), MODEL, epsilon=1.0).certificate
    assert first.sites == SITES
    logits, labels = site_logits(1, ROWS)
    scores = fc.LAC().evaluate(fc.softmax(logits).astype("float32"), labels)
    (rows,) = rows_of([fc.Summary.of_scores(scores, kind="exact", site="site-1")])
    assert [(entry.site, entry.digest, entry.epsilon) for entry in read_ledger(ledger).entries] == [(*rows, 1.0)]
    again = calibrate_by_sums(Federation(InProcessGrid(large_app(), nodes)), MODEL, epsilon=1.0).certificate
    (left_out,) = again.left_out or []
    assert isinstance(left_out, LeftOut)
    assert left_out.reason.endswith("InputError: 'site-1' has spent 1 of 1.5; 1 more is over its budget")
    assert len(read_ledger(ledger).entries) == 1
    without = calibrate_by_sums(Federation(InProcessGrid(large_app(), nodes)), MODEL).certificate
    assert without.sites == SITES  # no noise, nothing spent: its policy says whether that may be
