"""What `hushbeam ledger` shows: entries, and how they add up."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from mechanisms.channel import Guarantee
from pipelines.errors import DONE, RequestError
from pipelines.ledger.accounting import further, largest_share, summed, total
from pipelines.ledger.entries import Budget, Entry, Loss
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.listing import Entries
from pipelines.ledger.reservation import caution
from pipelines.ledger.rules import losses_of, once, together
from pipelines.request import answers
from pipelines.views.console import Screen
from pipelines.wording import upward

MOST = 50
"""Entries that are shown unless all are asked for: each has three lines."""

_PERMANENT = "further windows of the last plan cost nothing, for their noise is drawn"
_CHANGES = (
    "noise is permanent: the price is that of every value that a user reports in all windows, as "
    "many as the plan declares; it does not cover a change: who sees two windows sees that "
    "somebody's value changed, and the message before and after"
)
_REPLACED = (
    "they are about different neighbours: all are charged for another contribution in a unit's "
    "place"
)


def show(arguments: argparse.Namespace) -> int:
    """List the last entries, and sum up all."""
    screen = Screen()
    known = _entries(arguments.ledger)
    entries = _chosen(known, arguments)
    if answers.wanted():
        answers.give(_dumped(entries))
    last = entries if arguments.all else entries[-MOST:]
    if len(last) < len(entries):
        left = f"the last {len(last)} of {len(entries):,} entries ({_states(entries)})"
        screen.say(f"{left}; --all shows all")
    # One table of all would be laid out only when its last row is known.
    for first in range(0, max(1, len(last)), MOST):
        screen.print(_entry_table(last[first : first + MOST]))
    for line in _together(_accounts(known, entries.people, last)):
        screen.say(line)
    lost = len(entries.where(state="reserved"))
    if lost:
        screen.print(
            f"{lost} reserved: each counts as spent until its run commits it, the next run of its "
            "window goes on with it, or `hushbeam ledger settle ID` ends it",
            highlight=False,
        )
    kept = len(entries.where(state="spent", irrevocable=True))
    if kept:
        screen.print(
            f"{kept} spent without a release: the collector has the reports, or the window may be "
            "drawn; to make the same one again costs nothing more",
            highlight=False,
        )
    return DONE


def _together(accounts: Sequence[tuple[str, Entries]]) -> Iterator[str]:
    """What accounts of several losses come to, windows that come to the same in one line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for window, account in accounts:
        losses, latest = losses_of(account), account.latest
        if max(len(account), losses.total()) > 1:
            joint = _joint(frozenset(losses.items()), latest.budget.delta)
            claim, whose = joint.as_dict(), _whose(window, latest)
            name = _title(whose | {"unit": claim["unit"], "window": None})
            one = str(whose["window"] or "")
            alike.setdefault((name, "window" if one else "", _claim(claim)), []).append(one)
    for (name, kind, price), windows in alike.items():
        which = f", {kind} {windows[0]}" if kind else ""
        if len(windows) > 1:
            which = f", each of {len(windows):,} windows from {min(windows)} to {max(windows)}"
        yield f"{name}{which}: together {price}"


@lru_cache(maxsize=256)
def _joint(kinds: frozenset[tuple[Loss, int]], delta: float) -> Guarantee:
    """`total`, of losses and how often each comes: windows are alike."""
    return total(Counter(dict(kinds)), delta)


def _states(entries: Entries) -> str:
    return ", ".join(f"{n:,} {state}" for state, n in _counts(entries).items())


def _counts(entries: Entries) -> dict[str, int]:
    """How many there are of each state."""
    return {entry.state: times for entry, times in entries.groups("state")}


def explain(arguments: argparse.Namespace) -> int:
    """How each account's total comes about."""
    screen = Screen()
    known = _entries(arguments.ledger)
    people = _chosen(known, arguments).people
    accounts = [_account(*one) for one in _accounts(known, people)]
    answers.give(accounts)
    for account in accounts:
        screen.print(_kinds_table(account))
        for line in _lines(account):
            screen.print(line, highlight=False, markup=False)
    return DONE


def entries(path: str) -> list[dict[str, Any]]:
    """What a ledger holds, the oldest first.

    Raises:
        RequestError: it cannot be read.
    """
    return _dumped(_entries(path))


def _dumped(entries: Entries) -> list[dict[str, Any]]:
    """Entries as JSON; the unit of a loss is named with its condition."""
    records = [entry.model_dump(mode="json") for entry in entries.stream()]
    for loss in (loss for entry in records for loss in entry["losses"]):
        loss["unit"] = f"{loss['unit']} {loss.pop('condition')}".rstrip()
    return records


def accounts(path: str) -> list[dict[str, Any]]:
    """What each account of a ledger comes to, in numbers.

    Raises:
        RequestError: it cannot be read.
    """
    known = _entries(path)
    return [_account(*one) for one in _accounts(known, known.people)]


def _chosen(known: Entries, arguments: argparse.Namespace) -> Entries:
    """The entries that the words on the command line are about."""
    wanted = arguments.collection
    if wanted is None:
        return known
    own = known.where(collection=wanted).places, known.of_people(wanted).places
    chosen = replace(known, places=np.unique(np.concatenate(own)))
    if not chosen:
        raise RequestError(f"--collection: {arguments.ledger} holds nothing of {wanted!r}")
    return chosen


def _entries(path: str) -> Entries:
    """What is there, with a caution if it may be old: then above all one has to look."""
    ledger = CollectionLedger.at(path)
    snapshot = ledger.unverified()
    try:
        ledger.require_newest(())
    except RequestError as error:
        caution(f"{error}. What follows is what it says all the same")
    return snapshot.entries


def _accounts(
    entries: Entries, people: Sequence[str], about: Entries | None = None
) -> list[tuple[str, Entries]]:
    """(window, the counted entries that compose in it), account by account.

    Args:
        entries: of a ledger.
        people: the populations whose accounts are wanted: all that was published about them.
        about: entries one of which must be in an account; by default any may be.
    """
    accounts: dict[bytes, tuple[str, Entries]] = {}
    for name in people:
        own = entries.of_people(name).counted
        shown = own if about is None else about.of_people(name).counted
        if own and own[0].scope == "user":  # all windows make one account
            if shown:
                accounts[own.places.tobytes()] = own[0].window, own
            continue
        # An account of which one of them is that of itself, or of an entry that meets it.
        near = {int(p) for one in shown for p in together(own, one, one.scope).places}
        for entry in own if about is None else replace(own, places=np.array(sorted(near), int)):
            account = together(own, entry, entry.scope)
            accounts.setdefault(account.places.tobytes(), (entry.window, account))
    return list(accounts.values())


def _whose(window: str, latest: Entry) -> dict[str, Any]:
    """Whose account it is, by its latest entry."""
    return {
        "collection": latest.collection,
        "population": latest.people,
        "scope": latest.scope,
        "window": None if latest.scope == "user" else window,
    }


def _account(window: str, entries: Entries) -> dict[str, Any]:
    # The latest version's budget is the one that the next release will be held against.
    last, spent = entries.latest, losses_of(entries)
    reckoned = _reckoned(frozenset(spent.items()), tuple(last.losses), last.budget)
    kinds = Counter[tuple[str, float, float]]()
    for loss, times in spent.items():
        kinds[loss.model, loss.epsilon, loss.delta] += times
    return {
        **_whose(window, last),
        "unit": reckoned["total"]["unit"],
        "budget": last.budget.model_dump(),
        "releases": _counts(entries),
        "noise": last.noise,
        "counted_once": len(entries) - sum(times for _, times in once(entries.kinds())),
        "losses": [
            {"times": n, "model": model, "epsilon": epsilon, "delta": delta}
            for (model, epsilon, delta), n in kinds.items()
        ],
        "replaced": len({loss.neighbours for loss in spent}) > 1,
        "last_release": [loss.epsilon for loss in last.losses],
        **reckoned,
    }


@lru_cache(maxsize=256)  # accounts of windows are alike, and one takes most of a second
def _reckoned(
    kinds: frozenset[tuple[Loss, int]], last: tuple[Loss, ...], budget: Budget
) -> dict[str, Any]:
    """What losses, and how often each comes, make; and how much more like the last fits."""
    spent = Counter(dict(kinds))
    return {
        "total": total(spent, budget.delta).as_dict(),
        "basic": summed(spent).as_dict(),
        "further_like_the_last": further(spent, last, budget),
        "largest_share_of_the_last": largest_share(spent, last, budget),
    }


def _entry_table(entries: Entries) -> Table:
    """Three lines an entry, so that ids stay whole, for `settle`, on a screen of 80 columns."""
    table = _table()
    table.add_column("id", no_wrap=True)
    table.add_column("collection, window\nmetrics\noutput", overflow="fold")
    # Composed they are less, which the account of all windows says below.
    table.add_column("sum of\nepsilons,\ndeltas", justify="right", overflow="fold")
    table.add_column("state\nsince (UTC)\nby", overflow="fold")
    for entry in entries:
        added = summed(entry.losses)
        what = f"{entry.collection} version {entry.version}, {entry.window}"
        if entry.people != entry.collection:
            what = f"{entry.people}: {what}"
        if added.condition:
            what = f"{what}, per {added.whose}"
        since = entry.changed_at[:16].replace("T", " ")
        table.add_row(
            entry.id[:8],
            Text(f"{what}\n{', '.join(entry.metrics)}\n{entry.output}"),
            f"{upward(added.epsilon, 4):g}\n{upward(added.delta, 4):g}",
            Text(f"{entry.state}\n{since}\n{entry.owner.host[:6]}/{entry.owner.process}"),
        )
    return table


def _title(account: dict[str, Any]) -> str:
    window = f", window {account['window']}" if account["window"] else ""
    return f"{account['population']}, per {account['unit']}{window}"


def _kinds_table(account: dict[str, Any]) -> Table:
    table = _table("releases of", title=_title(account))
    for heading in ("epsilon", "delta", "times"):
        table.add_column(heading, justify="right")
    for loss in account["losses"]:
        table.add_row(
            f"{loss['model']} model", f"{upward(loss['epsilon'], 4):g}",
            f"{upward(loss['delta'], 4):g}", f"{loss['times']:,}",
        )  # fmt: skip
    return table


def _lines(account: dict[str, Any]) -> list[str]:
    budget, joint, added = account["budget"], account["total"], account["basic"]
    states = ", ".join(f"{n:,} {state}" for state, n in account["releases"].items())
    share, more = account["largest_share_of_the_last"], account["further_like_the_last"]
    left = f"what still fits: {more:,} more like the last"
    if account["noise"] != "fresh":
        so_far = f"{account['counted_once']:,} so far"
        left = f"{_PERMANENT} ({so_far}); what still fits: {more:,} more like it, of other noise"
    elif not more:
        left += f", or one at {share:g} of its epsilon" if share else ", and no smaller one either"
    return [
        *([_CHANGES] if account["noise"] == "permanent" else []),
        f"releases: {states}",
        *([_REPLACED] if account["replaced"] else []),
        f"together: {_claim(joint)} ({joint['how']})",
        f"their sum: {_claim(added)} (basic composition)",
        f"budget: epsilon {budget['epsilon']:g}, delta {budget['delta']:g}",
        left,
    ]


def _claim(guarantee: dict[str, Any]) -> str:
    epsilon = math.inf if guarantee["epsilon"] is None else guarantee["epsilon"]
    text = f"{upward(epsilon, 4):g}" if epsilon < math.inf else "unbounded"
    return f"epsilon {text}, delta {upward(guarantee['delta'], 4):g}"


def _table(*headings: str, title: str | None = None) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
