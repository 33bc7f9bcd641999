"""Site policies: a TOML file with the limits on all messages that leave a site.

The coordinator chooses kind and epsilon. A site with a policy checks every message against it before sending, and
refuses with the violated key. Keys are conservative: missing information counts as the worst case. No noise is an
infinite epsilon, and a summary of one site is a sum over one site. A policy that cannot be read forbids everything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fedconformal._base import registry
from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, check_name
from fedconformal.errors import InputError, prefix_errors
from fedconformal.guarantees.guarantee import as_decimal
from fedconformal.privacy.dp import as_epsilon
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.sums.state import SiteState
from fedconformal.summaries import LossSummary, Summary

VARIABLE = "FEDCONFORMAL_POLICY"
"""Environment variable with the path of a site's policy, for all programs of the site."""
SUMS, WATCH, EVALUATION, TEMPERATURE, WEIGHTS = "sums", "watch", "evaluation", "temperature", "weights"
STRATA = ("", " by class", " by group", " by class by group")

Count = Annotated[int, msgspec.Meta(ge=1)]
Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


def count_patients(ids: Iterable[Any] | None) -> int | None:
    """Return the number of distinct ids, compared as text; None without ids."""
    return None if ids is None else len({str(patient) for patient in ids})


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """Description of a message that is about to leave a site."""

    kind: str
    """A kind of summary or message (`known_kinds`); "noisy" for noisy counts, "sums" for masked counts."""
    rows: int
    """Number of rows; of a watch, the smallest number of new outcomes, of all rows or of a group."""
    patients: int | None = None
    """Distinct ids among the rows; None if there are no ids."""
    model: str | None = None
    """Fingerprint of the model behind the scores; None if unknown."""
    sites: int | None = 1
    """Number of sites whose scores are in the readable data; None if nothing is readable."""
    epsilon: float | None = None
    """Epsilon of the noise; None without noise."""
    ledger: bool = False
    """Whether the message is entered in a ledger."""
    sessions: int = 0
    """Number of sums sessions of these rows without noise, including this one."""

    @classmethod
    def of(cls, sent: Summary | NoisyHistogram, *, ledger: bool = False, **about: Any) -> Outgoing:
        """Describe a summary (of one site or pooled) or noisy counts; `about` may hold the number of patients."""
        about["model"] = sent.provenance.model
        if isinstance(sent, NoisyHistogram):
            return cls(kind=sent.name, rows=sent.size, epsilon=float(sent.epsilon), ledger=ledger, **about)
        return cls(kind=sent.name, rows=min(sent.sizes), sites=len(sent.sizes), **about)

    @classmethod
    def of_sums(cls, site: SiteState) -> Outgoing:
        """Describe a step of a sums session, from the state after it."""
        if site.invite is None:
            raise InputError(f"site {site.name!r} has not joined a session")
        return cls(
            kind=SUMS,
            rows=site.size,
            sites=len(site.present) if site.roster else None,
            epsilon=site.invite.epsilon,
            ledger=site.ledger != "",
            sessions=site.sessions + 1 if site.invite.epsilon is None else 0,
            patients=site.patients,
            model=site.provenance.model,
        )


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits on the messages that leave a site; without a key there is no limit.

    Parameters
    ----------
    sums_only
        Whether only masked counts of a sums session may leave.
    least_sites, least_rows, least_patients
        Minimum number of sites in a readable sum, and of rows and patients of this site.
    most_sessions
        Maximum number of sums sessions without noise over the same rows.
    largest_epsilon, ledger
        Maximum epsilon of the required noise; "mandatory" if noise and sums must be entered in a ledger.
    kinds, models
        Permitted kinds of messages, and fingerprints of models.

    Examples
    --------
    >>> Policy(kinds=("sums", "ranks")).check(Outgoing(kind="exact", rows=100))
    Traceback (most recent call last):
    fedconformal.errors.InputError: the site's policy: kinds = ["sums", "ranks"], and this is of the kind exact
    """

    sums_only: bool = False
    least_sites: Count = 1
    least_rows: Count = 1
    least_patients: Count = 1
    most_sessions: Count | None = None
    largest_epsilon: float | None = None
    ledger: Literal["mandatory"] | None = None
    kinds: Names | None = None
    models: Names | None = None

    def __post_init__(self) -> None:
        if self.largest_epsilon is not None:
            as_epsilon(self.largest_epsilon)
        if unknown := set(self.kinds or ()) - set(known_kinds()):
            kinds = ", ".join(known_kinds())
            raise InputError(f"there is no kind {abbreviate(min(unknown))}; there are {kinds}", param="kinds")
        for name in self.models or ():
            check_name(name, "models")

    def check(self, outgoing: Outgoing) -> None:
        """Raise `InputError` with the violated key; the reason may be sent to the coordinator."""
        for key, why in self.violations(outgoing):
            raise InputError(f"the site's policy: {key} = {json.dumps(getattr(self, key))}, and {why}")

    def violations(self, outgoing: Outgoing) -> Iterator[tuple[str, str]]:
        """Yield each violated key with the reason."""
        if self.sums_only and outgoing.kind != SUMS:
            yield "sums_only", f"this is of the kind {outgoing.kind}"
        if self.kinds is not None and outgoing.kind not in self.kinds:
            yield "kinds", f"this is of the kind {outgoing.kind}"
        if outgoing.sites is not None and outgoing.sites < self.least_sites:
            yield "least_sites", f"this is over {outgoing.sites}"
        if self.most_sessions is not None and outgoing.sessions > self.most_sessions:
            yield "most_sessions", "these rows were in as many sums sessions before"
        if self.largest_epsilon is not None and outgoing.epsilon is None:
            yield "largest_epsilon", "this has no noise"
        elif self.largest_epsilon is not None and as_decimal(outgoing.epsilon or 0) > as_decimal(self.largest_epsilon):
            yield "largest_epsilon", f"this spends {outgoing.epsilon:g}"
        if self.ledger is not None and (outgoing.epsilon is not None or outgoing.kind == SUMS) and not outgoing.ledger:
            yield "ledger", "no ledger is given to enter this in"
        if self.models is not None and outgoing.kind not in (WATCH, WEIGHTS) and outgoing.model not in self.models:
            yield "models", "this is of " + ("no model" if outgoing.model is None else f"the model {outgoing.model}")
        if outgoing.rows < self.least_rows:  # the reason is sent, so it does not state the number
            yield "least_rows", "this site has fewer"
        if self.least_patients > 1 and (outgoing.patients or 0) < self.least_patients:
            yield "least_patients", "this site has fewer" if outgoing.patients else "these rows have no ids to count"

    def in_words(self) -> list[str]:
        """Return the policy in words, one sentence per key."""
        values = msgspec.to_builtins(self).items()
        words = [WORDS[key].format(", ".join(value) if isinstance(value, tuple) else value) for key, value in values]
        return words or ["All kinds may leave."]


WORDS = {
    "sums_only": "Only masked counts leave, in a sums session.",
    "least_sites": "What leaves can be read only as a sum over {} sites or more; a summary of one site is over one.",
    "least_rows": "Nothing leaves if this site has fewer than {} rows.",
    "least_patients": "Nothing leaves if the rows are of fewer than {} patients, by distinct ids, or have no ids.",
    "most_sessions": "These rows are in {} sums sessions without noise at most, as each shows counts of other cells.",
    "largest_epsilon": "What leaves has noise, with an epsilon of at most {} in one release; exact counts are refused.",
    "ledger": "Noise and sums are entered in a ledger before they leave; a plain summary is not.",
    "kinds": "Only these kinds leave: {}.",
    "models": "Only scores of these models, by fingerprint: {}; counts of a watch and trained weights have none.",
}


def known_kinds() -> list[str]:
    """Return every kind of message that a site can send."""
    plain = sorted(registry.members(Summary))
    by = (kind + ending for kind in plain for ending in STRATA)
    return [SUMS, NoisyHistogram.name, *by, LossSummary.name, WATCH, EVALUATION, TEMPERATURE, WEIGHTS]


EXAMPLE = """\
# Limits on the data that leave this site, for every recipient. A missing or commented line forbids nothing.
sums_only = true              # only masked counts of a sums session
least_sites = 5               # only sums over 5 sites or more
least_rows = 50               # nothing leaves a site with fewer rows
# least_patients = 30         # nothing leaves if the rows have fewer patients, by their ids
# most_sessions = 3           # sums without noise: maximum number of sessions over the same rows
# largest_epsilon = 1.0       # only with noise, with at most this epsilon per release
# ledger = "mandatory"        # epsilon is spent from a ledger, which counts sessions too
# kinds = ["sums", "noisy"]   # only these: sums, noisy, ranks, exact, "ranks by class" and so on
# models = ["onnx:..."]       # only scores of these models, by the fingerprint that all sites agreed on
"""


def read_policy(path: Path) -> Policy:
    """Read a policy; unknown keys and values of the wrong type are refused."""
    with prefix_errors(path):
        data = read_bytes(path)
        try:
            return msgspec.toml.decode(data, type=Policy)
        except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too
            raise InputError(f"is not a policy: {abbreviate(str(error), 600)}; policy new shows every key") from None


def policy_of(path: str | Path | None = None) -> Policy:
    """Return the policy in this file or in that of FEDCONFORMAL_POLICY, never empty; without either, no limits."""
    location = os.environ.get(VARIABLE) if path is None else path
    if location is None:
        return Policy()
    if not location:
        raise InputError(f"the name of the policy is empty; name a file, or unset {VARIABLE}")
    with hide_folder(Path(location)):
        return read_policy(Path(location))


@contextmanager
def hide_folder(path: Path) -> Iterator[None]:
    """Remove the folder of a file from errors, which an engine sends to the coordinator."""
    try:
        yield
    except InputError as error:
        raise InputError(error.problem, param=error.param, code=error.code, where=path.name) from None
