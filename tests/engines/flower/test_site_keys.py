"""Sites of a sums session that know each other by keys which they keep, over Flower."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("cryptography", reason="sums need cryptography")

from fedconformal.engines.flower import Federation, InProcessGrid, calibrate_by_sums
from fedconformal.errors import InputError
from fedconformal.privacy.signatures import new_key, public_key
from tests.cli.command import Command
from tests.engines.flower.tools import MODEL, calibrating_app

SITES = 4


@pytest.fixture
def nodes(tmp_path: Path) -> list[dict[str, Any]]:
    """Sites with a private key each, and the public keys of all."""
    keys = [new_key() for _ in range(SITES)]
    signed = tmp_path / "keys.json"
    signed.write_text(json.dumps({f"site-{k}": public_key(key) for k, key in enumerate(keys)}))
    for k, key in enumerate(keys):
        (tmp_path / f"{k}.key").write_bytes(key)
    return [{"key": str(tmp_path / f"{k}.key"), "signed": str(signed)} for k in range(SITES)]


def test_sites_that_have_the_keys_they_are_known_by_go_through(nodes: list[dict[str, Any]]) -> None:
    certificate = calibrate_by_sums(Federation(InProcessGrid(calibrating_app(), nodes)), MODEL).certificate
    assert certificate.sites == SITES
    assert certificate.left_out is None


def test_a_session_with_another_key_is_refused_by_all_others(nodes: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "3.key").write_bytes(new_key())
    with pytest.raises(InputError, match="site-3"):
        calibrate_by_sums(Federation(InProcessGrid(calibrating_app(), nodes)), MODEL)


def test_the_command_makes_a_key_or_shows_its_public_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(capsys)
    path = tmp_path / "a.key"
    made = command.ok("sign", "--key", path, "--new-key", "--json").json
    assert made == {"key": str(path), "public_key": public_key(path.read_bytes())}
    assert path.stat().st_mode & 0o077 == 0
    assert made["public_key"] in command.ok("sign", "--key", path).out  # one that exists is shown, not replaced
    path.write_bytes(b"short")
    assert "a private key has 32 bytes" in command("sign", "--key", path).err
