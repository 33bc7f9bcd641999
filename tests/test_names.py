"""Names are compared stripped and in Unicode's NFKC: one site has one name, however its file spells it."""

from __future__ import annotations

import unicodedata

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.groups import as_sites, named_sites
from fedconformal._base.names import as_name
from fedconformal.federated.questions import Outputs, ScoreQuestion
from fedconformal.privacy import check_signatures, new_key, public_key, sign, signed
from fedconformal.privacy.local_dp import NoisyHistogram, calibrate_locally
from fedconformal.privacy.sums.coordinator import invite, read, step
from fedconformal.privacy.sums.site import join, new_site
from fedconformal.training.data.partitions import Sites
from tests.contracts.tools import refused

NAME = "Köln"
SPELLINGS = (unicodedata.normalize("NFD", NAME), f"{NAME} ", f" {NAME}", "\uff2böln")


@pytest.mark.parametrize("text", SPELLINGS)
def test_new_names_are_normalised(text: str) -> None:
    assert text != NAME
    assert as_name(text, "site") == NAME
    summary = fc.Summary.of_scores([0.1], site=text, model=text)
    assert (summary.sites, summary.provenance.model) == ((NAME,), NAME)
    assert new_site(text, [0.1]).name == NAME


def test_a_name_is_checked_as_it_is_compared() -> None:
    assert as_name("Krankenhaus\u00a0Köln\n", "site") == "Krankenhaus Köln"
    for text in (" ", "\u3000", "\ufdfa" * 4):  # nothing is left; one character becomes eighteen
        with refused("site is ", "expected 1 to 64 printable characters"):
            as_name(text, "site")


@pytest.mark.parametrize("text", SPELLINGS)
def test_one_site_in_two_spellings_is_there_twice(text: str) -> None:
    pair = [fc.Summary.of_scores([0.5], site=NAME), fc.Summary.of_scores([0.5], site=text)]
    for action in (fc.calibrate, fc.pool):
        with refused(param="site"):
            action(pair)


def test_one_model_in_two_spellings_goes_together() -> None:
    def pair(one: str | None, other: str | None) -> list[fc.Summary]:
        return [fc.Summary.of_scores([0.5], site=site, model=name) for site, name in (("a", one), ("b", other))]

    assert fc.calibrate(pair(NAME, SPELLINGS[0]), alpha=0.6).certificate.sites == 2
    for one, other in ((NAME, "Koln"), ("None", None), (None, "None")):
        with refused("do not go together: model"):
            fc.calibrate(pair(one, other))


def test_a_site_is_found_in_any_spelling() -> None:
    for text in SPELLINGS:
        for pair in ((NAME, text), (text, NAME)):
            sites = [fc.Summary.of_scores([0.5], site="a"), fc.Summary.of_scores([0.7], site=pair[0])]
            guarantee = fc.OneSite(site=pair[1])
            assert fc.calibrate(sites, alpha=0.6, guarantee=guarantee, exact=True).threshold == 0.7


@pytest.mark.parametrize("text", SPELLINGS)
def test_trusted_keys(text: str) -> None:
    key = new_key()
    for site, trusted in ((NAME, text), (text, NAME)):
        summary = fc.Summary.of_scores([0.5], site=site, calibration="june", alpha="0.6")
        certificate = fc.calibrate([summary], alpha=0.6).certificate
        assert signed(certificate, [sign(summary, key)], {trusted: public_key(key)}).summaries[0].signature
    keys = {NAME: public_key(key), text: public_key(new_key())}
    certificate = signed(certificate, [sign(summary, key)], {NAME: public_key(key)})
    with refused("there are two keys for one site"):
        check_signatures(certificate, keys)


@pytest.mark.parametrize("text", SPELLINGS)
def test_over_a_network(text: str) -> None:
    question = ScoreQuestion(model="m", kind="exact")
    summary = question.summarize(Outputs(outputs=[[2.0, 0.0]], truth=[0]), site=text)
    assert question.read(summary.to_bytes(), site=text).sites == (NAME,)


def test_sums_and_noisy_counts() -> None:
    state, invitation = invite(fc.Mixture(), 0.1)
    sites = [new_site(name, [0.5]) for name in ("a", "b", NAME)]
    late = msgspec.structs.replace(new_site("c", [0.5]), name=SPELLINGS[0])  # as an older release joins
    with refused("a site or a key is on the roster twice"):
        step(state, [read(state, join(site, invitation)[1]) for site in (*sites, late)])
    grid, counts = [0.5, np.inf], [10, 10]
    noisy = [NoisyHistogram(site=name, size=20, epsilon=1.0, grid=grid, counts=counts) for name in (NAME, SPELLINGS[1])]
    with refused("each once"):
        calibrate_locally([NoisyHistogram.from_bytes(found.to_bytes()) for found in noisy])


def test_clients_and_partitions() -> None:
    assert as_sites([NAME, SPELLINGS[0], "b ", "b"], rows=4).tolist() == [NAME, NAME, "b", "b"]
    assert as_sites(np.array([[NAME], [SPELLINGS[2]]]), rows=2).tolist() == [NAME, NAME]
    none = np.empty(0, dtype=np.int64)
    with refused("sites: expected one name a site, each a different one"):
        Sites(names=(NAME, SPELLINGS[0]), train=none, val=none, test=none)
    with refused("names: expected a name for each site"):
        named_sites(np.array([0, 1]), np.array([NAME, SPELLINGS[0]]))
