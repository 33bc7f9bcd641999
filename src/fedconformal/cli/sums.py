"""fedconformal sums: the threshold from sums only, by files: start, then answer and advance in turn, then close."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import naming, read_bytes, wipe, write_bytes
from fedconformal._base.names import counted
from fedconformal.calibration.choose import predictor_of
from fedconformal.calibration.risk_predictor import RiskPredictor
from fedconformal.cli.console import print_result, progress
from fedconformal.cli.differential import Grid, charge, describe_privacy, read_grid
from fedconformal.cli.inputs import Alpha, Json
from fedconformal.cli.outputs import check_output, check_outputs
from fedconformal.cli.policy import PolicyFile, allowed
from fedconformal.cli.risk import Risk, Safe
from fedconformal.cli.risk import read_grid as read_thresholds
from fedconformal.cli.session import (
    RECOMMENDED,
    SHOWS,
    exchanges,
    exchanges_in_words,
    key,
    precise,
    read_key,
    roster_lines,
    wide,
)
from fedconformal.cli.sites import shares_in_words
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.ledger import Rows, rows_of
from fedconformal.privacy.policy import Leaving
from fedconformal.privacy.signatures import read_trusted
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.communication import bound_in_words, quoted_bound
from fedconformal.privacy.sums.coordinator import invite, invite_losses
from fedconformal.privacy.sums.files import (
    advance_files,
    answer_bundle,
    bundle,
    prepare,
    publish,
    read_state,
    write_secret,
)
from fedconformal.privacy.sums.lost import remarks, share
from fedconformal.privacy.sums.memory import note, recalled
from fedconformal.privacy.sums.radix import FOUR_ROUNDS, IN_STEPS
from fedconformal.privacy.sums.site import site_from
from fedconformal.privacy.sums.state import CoordinatorState, SiteState, check_state
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.summary import Summary

STATE = "coordinator.state"

sums = typer.Typer(help="Find the threshold while the coordinator sees only sums over the sites.", no_args_is_help=True)

sums.command()(key)

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder of this session.")]


@sums.command()
def start(
    folder: Folder,
    alpha: Alpha = "0.1",
    guarantee: Annotated[str, typer.Option(help="mixture, independent, exchangeable, pac or new-client.")] = "mixture",
    epsilon: Annotated[
        str | None, typer.Option(help="Let every site add noise: the sum is then differentially private.")
    ] = None,
    grid: Grid = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Go on to the last bit of a score; the sums then show rows one by one.")
    ] = False,
    reach: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="For scores of numbers: a public number that the threshold will not exceed, such as an error that is "
            "too large to matter. A hundred times too large costs about 1%.",
        ),
    ] = None,
    risk: Risk = None,
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="GRID", help="With --risk: the thresholds, with commas between them or in a file."),
    ] = None,
    bound: Annotated[float, typer.Option(help="With --risk: the most that a row can lose.")] = 1.0,
    safe: Safe = None,
    json: Json = False,
) -> None:
    """At the coordinator: open a session, and write the invitation for all sites."""
    if (folder / STATE).exists():
        raise InputError(f"{folder}: holds a session already; choose another folder")
    if (folder / "predictor.json").exists():
        raise InputError(f"{folder}: holds the predictor of a session that is over; choose another folder")
    if grid is not None and epsilon is None:
        raise InputError("--grid goes with --epsilon; sums without noise find the score itself")
    if exact and epsilon is not None:
        raise InputError("--exact does not go with --epsilon, which adds noise")
    if reach is not None and (exact or grid is not None):
        raise InputError("--reach is for public cells; it goes neither with --exact nor with --grid")
    invited = folder / "invite.fcm"
    check_output(invited, grid)
    wanted = registry.find(guarantee, Guarantee)()
    if risk is None and (thresholds is not None or safe is not None):
        raise InputError("--thresholds and --safe go with --risk")
    if risk is not None:
        if thresholds is None or epsilon is not None or reach is not None:
            raise InputError("--risk needs --thresholds, and goes neither with --epsilon nor with --reach")
        state, invitation = invite_losses(wanted, risk, read_thresholds(thresholds), bound, exact=exact, safe=safe)
    else:
        steps = (FOUR_ROUNDS, None) if exact else IN_STEPS
        state, invitation = invite(wanted, alpha, *steps, epsilon=epsilon, grid=read_grid(grid), reach=reach)
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / STATE, state)
    write_bytes(invited, bundle(invitation))
    print_result(
        {"invite": str(invited)},
        f"wrote {invited}: send it to every site",
        *([SHOWS] if exact else []),
        *([RECOMMENDED] if epsilon is None and risk is None else []),
        json=json,
    )


@sums.command()
def answer(
    message: Annotated[Path, typer.Argument(help="What the coordinator sent (.fcm).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="What to send back (.fcm).")],
    state: Annotated[Path, typer.Option(help="Where this site keeps its keys between two steps; never send it.")],
    summary: Annotated[
        Path | None,
        typer.Option(help="With the invitation: this site's exact summary or loss curve (.fcs), which stays here."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="With the invitation: the private key by which the other sites know this one.")
    ] = None,
    signed: Annotated[
        Path | None,
        typer.Option(metavar="KEYS", help='With the invitation: all sites\' public keys, {"site": "hex"} (.json).'),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="With the invitation: enter here (.json with a budget) what is spent and with whom rows are summed, "
            "and refuse what is over the budget or would show a single site."
        ),
    ] = None,
    policy: PolicyFile = None,
    json: Json = False,
) -> None:
    """At a site: answer the coordinator's file."""
    check_output(output, message, summary, state, ledger, key, signed, policy)
    check_output(state, message, summary, ledger, key, signed, policy)
    if summary is None and (key is not None or signed is not None):
        raise InputError("--key and --signed go with --summary, at the first step")
    known, rows = _site(state, summary, signed, ledger)
    if policy is not None:
        known = msgspec.structs.replace(known, policy=str(policy.resolve()))
    before, private = known, read_key(key)
    with naming(message):
        entered = bool(known.roster)
        known, reply = answer_bundle(known, read_bytes(message), private)
    allowed(Path(known.policy) if known.policy else None).check(Leaving.of_sums(known))
    spent = known.invite.epsilon if summary is not None and known.invite is not None else None
    if spent is not None:  # a site that joins will answer: it pays now
        charge(ledger, rows, spent, "noisy sum")
    note(before, known)
    write_secret(state, known)
    write_bytes(output, reply)
    if known.is_over:
        wipe(state)
    facts: dict[str, Any] = {"answer": str(output), "bytes": len(reply)}
    lines = [f"wrote {output}: {len(reply)} bytes for the coordinator"]
    if known.roster and not entered:
        facts |= known.session.shown()
        lines = [*roster_lines(facts), *lines]
    if summary is not None and known.invite is not None and spent is None:
        least = facts["least"] = known.invite.least
        lines.insert(
            0,
            SHOWS if least is None else f"joined: a cell is split only if its parts have {least / 8:g} rows on average",
        )
    if spent is not None:
        facts["epsilon"] = spent
        lines.insert(0, f"joined for epsilon {spent:g}, which the answer to the coordinator's question spends")
    print_result(facts, *lines, json=json)


@sums.command()
def advance(
    folder: Folder,
    answers: Annotated[list[Path], typer.Argument(help="What the sites sent (.fcm).")],
    json: Json = False,
) -> None:
    """At the coordinator: take the next step; at the last one, write predictor.json."""
    state = _under_way(folder)
    if sent := publish(folder, state):
        raise InputError(f"{folder}: this step was taken before and broke off; send {sent[0]} and the like, then go on")
    before = state
    state, outgoing = advance_files(state, progress(answers, "reading answers", len(answers)))
    shares = {name: share(state.session, k) for k, name in enumerate(state.session.names)}
    about: dict[str, Any] = {"shares": shares, "lost": remarks(before, state)}  # people read of lost sites in the log
    about |= exchanges(state)
    files = {name: folder / f"to-{_safe(name)}.fcm" for name in outgoing}
    of = {path: name for name, path in files.items()}
    if same := [(name, of[path]) for name, path in files.items() if of[path] != name]:
        one, other = same[0]
        raise InputError(f"{one!r} and {other!r} give the same file name; let one of them take another name")
    check_outputs((*files.values(), folder / "predictor.json"), *answers)
    if outgoing:
        prepare(state, {files[name]: data for name, data in outgoing.items()})
        write_secret(folder / STATE, state)
        publish(folder, state)
        to = {name: str(path) for name, path in files.items()}
        said = [*([] if before.roster else [shares_in_words(shares)]), *(f"send {to[name]} to {name}" for name in to)]
        said.append(exchanges_in_words(state))
        print_result({"send": to, **about}, *said, json=json)
        return
    for stale in folder.glob("to-*.fcm"):
        stale.unlink()
    result = certified(state)
    predictor = predictor_of(result) if result.certificate.risk is None else RiskPredictor.of(result)
    predictor.save(folder / "predictor.json")
    wipe(folder / STATE)
    certificate = predictor.certificate
    bound = quoted_bound(certificate.clients, certificate.scores, as_alpha(certificate.alpha))
    privacy = certificate.privacy or {}
    print_result(
        {
            "predictor": str(folder / "predictor.json"),
            "certificate": certificate.to_dict(),
            "bytes_received": state.received,
            "bound": bound,
            **about,
        },
        certificate.sentence(),
        *([describe_privacy(privacy)] if "epsilon" in privacy else []),
        f"threshold {certificate.limit_text}, from sums only; wrote {folder / 'predictor.json'}",
        *precise(privacy, finite=certificate.threshold != "inf"),
        *wide(certificate),
        *(
            f"{one['site']} dropped out {one['when']}; the promise still covers it"
            for one in privacy.get("dropped", [])
        ),
        f"{state.received:,} bytes came from {counted(certificate.clients, 'site')} in "
        f"{counted(state.exchanges, 'exchange')}. {bound_in_words(bound)}",
        shares_in_words(shares),
        "The session is over; every site wipes its state with fedconformal sums close STATE",
        json=json,
    )


@sums.command()
def close(
    state: Annotated[Path, typer.Argument(help="A site's state, or the coordinator's folder.")], json: Json = False
) -> None:
    """At a site, when the session is over or was given up: wipe the state with its keys and scores."""
    path = state / STATE if state.is_dir() else state
    if state.is_dir() and not path.exists():
        raise InputError(f"{state}: holds no session that is under way")
    with naming(path):
        check_state(read_bytes(path))
    wipe(path)
    print_result({"wiped": str(path)}, f"wiped {path}: its keys and scores are gone", json=json)


def _site(state: Path, summary: Path | None, signed: Path | None, ledger: Path | None) -> tuple[SiteState, list[Rows]]:
    """Make a site from its summary, at the first step, with the rows to enter in a ledger; later read its state."""
    if summary is None:
        if not state.exists():
            raise InputError(f"{state}: is not there; the first step needs --summary as well")
        if ledger is not None:
            raise InputError("--ledger goes with --summary; later steps know it")
        return read_state(state, SiteState), []
    if state.exists():
        raise InputError(
            f"{state}: exists; later steps go without --summary, and for another session "
            f"fedconformal sums close {state} wipes it"
        )
    trusted = None if signed is None else read_trusted(signed)
    with naming(summary):
        own = Summary.from_bytes(read_bytes(summary))
        known = site_from(own, trusted)
    rows = [] if isinstance(own, LossSummary) else rows_of([own])
    return known if ledger is None else recalled(known, ledger), rows


def _under_way(folder: Path) -> CoordinatorState:
    if not (folder / STATE).exists():
        raise InputError(f"{folder}: holds no session that is under way; fedconformal sums start opens one")
    return read_state(folder / STATE, CoordinatorState)


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
