"""What the loss of a site means, said at the moment.

Before the first sum its rows count as above every threshold from then on; if its share of them is larger than alpha,
every set will hold every label. Then the session had better start again without it, as long as that shows nothing.
After the first sum the search stops at the cell that it has reached.
"""

from __future__ import annotations

from fedconformal.privacy.sums.radix import Rounds
from fedconformal.privacy.sums.session import Session
from fedconformal.privacy.sums.state import CoordinatorState
from fedconformal.scores import RegressionScore


def may_restart(state: CoordinatorState) -> bool:
    """Tell whether the session may start again without a site that was lost: only before the first sum is asked for.

    Nothing has been seen until then, so the promise is that of the sites that are left. Later the roster is frozen: the
    difference of two sums over other sites would show one site's counts.
    """
    return state.search.number == 0 and not state.answers


def gone(state: CoordinatorState) -> frozenset[int]:
    """Return the sites that were lost so far, also in the round that is open."""
    missing = state.present - state.answers.keys() if state.answers else frozenset()
    late = state.lost_after_answer if state.reveals else frozenset()
    return missing | late | frozenset(state.dropped)


def share(session: Session, site: int) -> float:
    """Return a site's share of all rows, by its own claim."""
    return session.sizes[site] / sum(session.sizes)


def remarks(before: CoordinatorState, after: CoordinatorState) -> list[str]:
    """Say what the sites mean that were lost in a step."""
    lost = sorted(gone(after) - gone(before)) if before.roster else []
    if not lost:
        return []
    session = after.session
    counted = before.search.number > 0 or bool(before.answers)
    what = (
        "the search stops at the cell that it has reached; another session with the same sites may go further"
        if counted
        else "they count as above every threshold from now on"
    )
    found = [f"site {session.names[k]!r} is lost and held {share(session, k):.1%} of the rows; {what}" for k in lost]
    if not counted and not enough_left(session, frozenset(range(len(session.names))) - gone(after)):
        so = "every interval will be the whole line" if _of_numbers(after) else "every label will be in every set"
        found.append(f"the sites that are left are too few for alpha={float(session.alpha):g}: {so}")
    return found


def _of_numbers(state: CoordinatorState) -> bool:
    return isinstance(state.provenance.score, RegressionScore)


def enough_left(session: Session, left: frozenset[int]) -> bool:
    """Tell whether the rows of these sites alone can give a finite threshold."""
    rounds = session.rounds
    if isinstance(rounds, Rounds):
        return sum(rounds.wanted.weights[k] * session.sizes[k] for k in left) >= rounds.wanted.target
    return rounds.plan is not None and sum(session.sizes[k] for k in left) >= rounds.plan.rank
