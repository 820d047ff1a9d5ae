"""What `hushbeam ledger` does to a ledger: begin, check, settle, archive, adopt."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from pipelines.errors import DONE, RequestError, reason
from pipelines.ledger import beginning
from pipelines.ledger.beginning import LedgerRequest
from pipelines.ledger.entries import Budget, Entry, Population, Scope
from pipelines.ledger.evidence import Standing, standing
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.outcomes import require_there
from pipelines.ledger.public_log import HEAD
from pipelines.releases.signature import VARIABLE, introduction, key_id, public_keys
from pipelines.request import answers
from pipelines.storage.paths import beside, new_file
from pipelines.views.console import Screen
from pipelines.wording import number_of
from transforms.files.systems import escaped

_DELTA = 1e-6  # of a budget, as in plans


def init(arguments: argparse.Namespace) -> int:
    """Begin a ledger, or give a population a budget."""
    request = _typed(arguments) if arguments.plan is None else _planned(arguments)
    return _say(beginning.init(request))


def adopt(arguments: argparse.Namespace) -> int:
    """Adopt a ledger."""
    # Unlike a budget, what was lost has the delta that was typed: one more would spend for nothing.
    lost = None if arguments.lost in (None, "0") else _budget("--lost", arguments.lost, delta=0.0)
    surely = arguments.lost == "0"
    witness = arguments.witness and beside("", arguments.witness)
    releases = _releases(arguments)
    neighbours = arguments.neighbours
    return _say(beginning.adopt(arguments.ledger, witness, lost, surely, releases, neighbours))


def check(arguments: argparse.Namespace) -> int:
    """Hold a ledger against all that can be seen of it."""
    releases = _releases(arguments)
    ledger = CollectionLedger.at(arguments.ledger)
    ledger.require_newest(releases)
    snapshot = ledger.require_replayed()
    # Not by what stands in `releases`, which anybody may have written there in their place.
    published = snapshot.entries.where(state="committed", archived=False)
    for entry in published:
        require_there(entry)
    return _say(
        f"{arguments.ledger}: {number_of(snapshot.seen.changes, 'change')}, "
        f"{number_of(len(snapshot.entries), 'entry')}; its witness {snapshot.beginning.witness} "
        f"and {number_of(len(published), 'release')} agree with it"
    )


def log(arguments: argparse.Namespace) -> int:
    """Publish what witnesses mirror of a ledger."""
    before = public_keys("--key", arguments.key)
    head = CollectionLedger.open(arguments.ledger).publish_log(arguments.output, before)
    return _say(
        f"{arguments.output}: {number_of(head.size, 'change')} of {arguments.ledger}, signed by "
        f"key {head.key}; copy {HEAD} to where nobody restores it with the ledger"
    )


def introduce(arguments: argparse.Namespace) -> int:
    """Sign with the present key that another one is of the same publisher."""
    (new,) = public_keys("--new-key", [arguments.new_key])
    try:
        with new_file(arguments.output, over=False) as stream:
            stream.write(introduction(new))
    except OSError as error:
        raise RequestError(f"--output: cannot write {arguments.output}: {reason(error)}") from None
    return _say(
        f"{arguments.output}: key {key_id(new)} is introduced; publish it, sign with that key from "
        f"now on ({VARIABLE}), and name the old one at the next `hushbeam ledger log --key`"
    )


def _releases(arguments: argparse.Namespace) -> list[Standing]:
    patterns = [beside(escaped(os.getcwd()), pattern) for pattern in arguments.releases]
    return [*standing(patterns, most=None)]


def settle(arguments: argparse.Namespace) -> int:
    """End a reservation."""
    entry = CollectionLedger.open(arguments.ledger).settle(arguments.id, arguments.spent)
    return _show(arguments, [entry], entry.state)


def archive(arguments: argparse.Namespace) -> int:
    """Acknowledge that releases are no longer where they were published."""
    ledger = CollectionLedger.open(arguments.ledger)
    entries = [ledger.archive(id) for id in arguments.id]
    return _show(arguments, entries, "archived")


def _typed(arguments: argparse.Namespace) -> LedgerRequest:
    """What a ledger is to begin with, by options."""
    for needed in ("ledger", "population", "budget"):
        if getattr(arguments, needed) is None:
            raise RequestError(
                f"--{needed} is missing: name a PLAN, or --ledger, --population and --budget"
            )
    rows = arguments.unit == "row"
    scope: Scope = "user per window" if arguments.unit == "user per window" else "user"
    population = Population(
        name=arguments.population, unit="row" if rows else "user", scope=scope,
        budget=_budget("--budget", arguments.budget),
    )  # fmt: skip
    witness = arguments.witness and beside("", arguments.witness)
    return LedgerRequest(arguments.ledger, population, witness, (), arguments.amend)


def _planned(arguments: argparse.Namespace) -> LedgerRequest:
    """The same by a plan: its witness stands beside its releases."""
    # Beam, which opens a plan in a bucket, takes a second to import.
    from pipelines.plan.loading import load
    from pipelines.plan.run import releases_of

    for name in ("ledger", "population", "budget"):
        if getattr(arguments, name) is not None:
            raise RequestError(f"--{name}: the plan says it; leave it out, or the plan")
    plan = load(arguments.plan)
    if plan.ledger is None or plan.budget is None:
        raise RequestError(f"{arguments.plan} has no ledger: add `ledger` and `budget` to it")
    population = Population(
        name=plan.population or plan.collection, unit="row" if plan.unit == "row" else "user",
        scope=plan.scope, budget=Budget(**plan.budget.model_dump()),
    )  # fmt: skip
    (releases,) = releases_of(plan)
    witness = (
        beside("", arguments.witness)
        if arguments.witness
        else _beside_releases(plan.output, plan.ledger)
    )
    return LedgerRequest(
        plan.ledger, population, witness, (releases,), arguments.amend, plan.collection
    )


def _beside_releases(output: str, ledger: str) -> str:
    """A file in the folder that all releases of a plan are in, however deep."""
    from pipelines.plan.document import WINDOW

    folder = output.partition(WINDOW)[0].rpartition("/")[0]
    name = os.path.splitext(ledger.rpartition("/")[2])[0]
    return f"{folder}/{name}.witness.json"


def _budget(flag: str, text: str, delta: float = _DELTA) -> Budget:
    epsilon, _, typed = text.partition(",")
    try:
        return Budget(epsilon=float(epsilon), delta=float(typed) if typed else delta)
    except ValueError:
        raise RequestError(
            f"{flag}: {text!r} is no EPSILON[,DELTA]: a positive number, and one of 0 to 1"
        ) from None


def _say(line: str) -> int:
    answers.give({"done": line})
    Screen().say(line)
    return DONE


def _show(arguments: argparse.Namespace, entries: Sequence[Entry], state: str) -> int:
    screen = Screen()
    whole: list[Any] = [entry.model_dump(mode="json") for entry in entries]
    answers.give(whole if isinstance(arguments.id, list) else whole[0])
    for entry in entries:
        screen.print(f"entry {entry.id} is now: {state}", highlight=False, markup=False)
    return DONE
