"""Every coalition of a third of the sites and the coordinator, up to ten sites: it learns sums of honest sites only.

The coalition has every message of a real session and the states of its own sites. It puts secrets together from all
shares that it holds or that honest sites opened, takes off every mask it knows, and adds up what is left over every set
of honest sites. Where the pseudorandom words are gone, it has read the sum of that set.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest

from fedconformal.privacy.sums import masks
from fedconformal.privacy.sums.masks import SECRET, colluders, combine
from fedconformal.privacy.sums.messages import Answer, Lost, Reveal, Shares, unpack
from fedconformal.privacy.sums.radix import Counted, Search
from tests.contracts.tools import refused
from tests.privacy.sums_play import Attack, opened

pytestmark = pytest.mark.long


class Asked(NamedTuple):
    """One list of sites that answered one question."""

    number: int
    about: bytes
    answers: dict[int, Answer]
    search: Search


class Session(Attack):
    """States after a session: of the coordinator, and of the sites, for a coalition to read."""

    def __init__(self, count: int) -> None:
        state, _, sites = opened({f"{k:02}": np.random.default_rng(k).random(9) for k in range(count)})
        super().__init__(state, sites)
        self.asked: list[Asked] = []
        self.seeds: dict[tuple[int, bytes], bytes] = {}
        self.opened: dict[tuple[int, int], dict[int, bytes]] = {}
        """By round and site: the shares that holders opened."""

    def named(self, present: Sequence[int]) -> list[str]:
        return [self.session.names[k] for k in present]

    def ask(self, number: int, prefix: int, present: Sequence[int]) -> bytes:
        question = self.question(present, number, prefix)
        sent = self.send(question, self.named(present)).values()
        answers = [unpack(one, Answer, self.session.signing) for one in sent]
        about = self.session.about(number, prefix, question.present)
        self.asked.append(Asked(number, about, {one.site: one for one in answers}, Search(number, prefix)))
        return about

    def reveal(self, about: bytes, present: Sequence[int], silent: Sequence[int] = ()) -> None:
        request = self.countersigned(about, self.named(present))
        for data in self.send(request, self.named([k for k in present if k not in silent])).values():
            found = unpack(data, Reveal, self.session.signing)
            self.seeds[found.site, about] = found.seed

    def call_lost(self, number: int, about: bytes, lost: dict[int, Sequence[int]]) -> None:
        """Say to each of these sites that some others were lost after their answer."""
        session, deposits = self.session, self.state.deposits
        sealed = {i: dict(deposit.shares) for i, deposit in deposits.items()}
        wanted = {
            session.names[k]: Lost(session.id, about, k, [(i, sealed[i][k]) for i in some]) for k, some in lost.items()
        }
        for data in self.send(wanted).values():
            found = unpack(data, Shares, session.signing)
            for i, share in found.shares:
                self.opened.setdefault((number, i), {})[found.site] = share


unseal = cache(masks.unseal)


@cache
def mask(secret: bytes, about: bytes) -> Counted:
    return masks.masks_of([masks.round_key(secret, about)], 8, np.dtype("<u4"))


def known_secret(played: Session, coalition: Sequence[int], number: int, site: int) -> bytes | None:
    """Put a site's secret of a round together, from opened shares and those that the coalition holds."""
    session = played.session
    places = {j: place for place, j in enumerate(session.neighbours(site))}
    sealed = dict(played.state.deposits[site].shares)
    shares = {places[j]: share for j, share in played.opened.get((number, site), {}).items()}
    for j in coalition:
        keys = played.sites[session.names[j]].agreed[site]
        found = unseal(keys.seal, sealed[j], masks.about_share(session.id, site, j))
        assert found is not None
        shares[places[j]] = found[SECRET * number : SECRET * (number + 1)]
    return combine(dict(list(shares.items())[: session.needed])) if len(shares) >= session.needed else None


def read_by(played: Session, coalition: Sequence[int]) -> set[tuple[int, frozenset[int]]]:
    """Return the rounds and the sets of honest sites whose sums the coalition reads."""
    names, found = played.session.names, set()
    for number, about, answers, search in played.asked:
        left: dict[int, Counted] = {}
        for i in sorted(answers.keys() - set(coalition)):
            seed = played.seeds.get((i, about))
            if seed is None:
                secret = known_secret(played, coalition, number, i)
                if secret is None:
                    continue
                seed = masks.round_key(secret, about)
            words = np.frombuffer(answers[i].counts, "<u4") - masks.masks_of([seed], 8, np.dtype("<u4"))
            for j in answers.keys() & set(coalition):
                shared = mask(played.sites[names[j]].agreed[i].mask, about)
                words = words - shared if j > i else words + shared
            left[i] = words - played.session.rounds.histogram(search, played.sites[names[i]].keys)
        # Every set of sites, as a row: where nothing is left but their counts, these are read.
        sets = np.array(list(product((0, 1), repeat=len(left)))[1:], dtype=np.uint32).reshape(-1, len(left))
        read = ~(sets @ np.array(list(left.values()), dtype=np.uint32).reshape(-1, 8)).any(axis=1)
        found |= {(number, frozenset(np.array(list(left))[row == 1].tolist())) for row in sets[read]}
    return found


def honest(coalition: Sequence[int], sites: Sequence[int]) -> frozenset[int]:
    return frozenset(sites) - set(coalition)


def normal(count: int) -> tuple[Session, list[Sequence[int]]]:
    """Everybody is there; return the session, and who is in the sum of each round."""
    played, everybody = Session(count), range(count)
    played.reveal(played.ask(0, 0, everybody), everybody)
    played.reveal(played.ask(1, 5, everybody), everybody)
    return played, [everybody, everybody]


def lost_after_its_answer(count: int) -> tuple[Session, list[Sequence[int]]]:
    """The last site is lost after its answer: all others open its share, and answer nothing any more."""
    played, everybody, rest = Session(count), range(count), range(count - 1)
    about = played.ask(0, 0, everybody)
    played.reveal(about, everybody, silent=[count - 1])
    played.call_lost(0, about, {k: [count - 1] for k in rest})
    for present in (rest, everybody):
        with refused("the session has ended"):
            played.ask(1, 5, present)
    return played, [everybody]


def falsely_lost(count: int) -> tuple[Session, list[Sequence[int]]]:
    """All answer; the coordinator calls the last one lost, has the sum without it, and then calls everybody lost.

    So every site of the second list opens its shares of all others of it, and every secret of theirs is known: with the
    secret of the last site, the sum over the first list could be opened as well, and the difference is one site.
    """
    played, everybody, rest = Session(count), range(count), range(count - 1)
    played.ask(0, 0, everybody)
    about = played.ask(0, 0, rest)
    played.reveal(about, rest)
    played.call_lost(0, about, {k: [i for i in rest if i != k] for k in rest})
    return played, [rest]


PLAYS = {
    "normal": normal,
    "lost after its answer": lost_after_its_answer,
    "falsely lost": falsely_lost,
}


# Of three or four sites nobody answers without one of them, so none is called lost before its answer.
CASES = [(play, count) for play in PLAYS for count in (3, 5, 6, 7, 8, 10) if play != "falsely lost" or count > 4]


@pytest.mark.parametrize(("play", "count"), CASES)
def test_a_third_of_the_sites_learns_nothing_but_the_sum(play: str, count: int) -> None:
    played, sums = PLAYS[play](count)
    for coalition in combinations(range(count), colluders(count)):
        expected = {(number, honest(coalition, sites)) for number, sites in enumerate(sums)}
        assert read_by(played, coalition) == expected
        assert all(len(sites) >= 2 for _, sites in expected)


@pytest.mark.parametrize("count", [5, 6, 7, 8, 10])
def test_one_site_more_reads_a_single_site(count: int) -> None:
    """So the test above can fail: the shares of one more are enough, and the difference of two sums is one site."""
    played, _ = falsely_lost(count)
    for coalition in combinations(range(count - 1), colluders(count) + 1):
        expected = {(0, honest(coalition, range(count - 1))), (0, honest(coalition, range(count)))}
        assert read_by(played, coalition) == expected - {(0, frozenset())}
