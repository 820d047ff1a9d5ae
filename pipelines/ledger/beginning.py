"""How a ledger begins: with a population and its budget, or by adopting one that was there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mechanisms.channel import AnyNeighbours
from mechanisms.randomness import SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.journal.journal import FactJournal, RivalError
from pipelines.ledger.entries import Before, Beginning, Budget, Entry, Loss, Population, Record
from pipelines.ledger.evidence import Standing, standing
from pipelines.ledger.key import fingerprint, key, key_to_begin
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.listing import Entries
from pipelines.ledger.owner import this_process
from pipelines.ledger.reservation import now
from pipelines.ledger.snapshot import Snapshot, fact_of
from pipelines.ledger.witness import Seen, witness_at
from pipelines.storage.formats import OtherFormatError
from pipelines.storage.secrets import state_folder
from pipelines.wording import number_of


@dataclass(frozen=True)
class LedgerRequest:
    """What a ledger is to begin with.

    Attributes:
        path: of the ledger.
        population: and its budget.
        witness: where the witness is to stand; None for the default.
        releases: globs of folders that may hold releases of it.
        amend: whether a population that is there may be given another budget.
        collection: of the plan that asks, or None.
    """

    path: str
    population: Population
    witness: str | None = None
    releases: Sequence[str] = ()
    amend: bool = False
    collection: str | None = None


def init(request: LedgerRequest, ledger: CollectionLedger | None = None) -> str:
    """Begin a ledger, or give a population a budget in one that is there.

    Args:
        request: what it begins with.
        ledger: to be begun, if it is not the one at the request's path.

    Returns:
        What was done, in a line.

    Raises:
        RequestError: releases stand that another ledger has paid for, or the population has a
            budget already, or the ledger or its witness cannot be written.
    """
    wanted, place = request.population, _place(request.path, request.witness)
    ledger = ledger or CollectionLedger.at(request.path)
    if ledger.keeping.read() is None:
        _require_unpaid(request)
        _put(ledger, place, [], ())
        ledger.require_newest(())
        what = f"began {request.path}"
    else:
        ledger.require_newest(standing(request.releases), request.collection)
        what = f"in {request.path}"
    for _ in ledger.backoff.attempts():
        snapshot = ledger.read()
        had = snapshot.populations.get(wanted.name)
        if had == wanted:
            return f"{what}: population {wanted.name!r} has {_said(wanted.budget)}, as before"
        spent = bool(snapshot.entries.of_people(wanted.name))
        # What was spent per one unit cannot be added to what is spent per another.
        same = had is not None and (had.unit, had.scope) == (wanted.unit, wanted.scope)
        if had is not None and not (request.amend and (same or not spent)):
            raise RequestError(
                f"--population: {request.path} knows {wanted.name!r}, per {had.unit} (scope: "
                f"{had.scope}), with {_said(had.budget)}; --amend gives it another budget, and, "
                "as long as nothing is spent, another unit"
            )
        if ledger.write(wanted, snapshot):
            return f"{what}: population {wanted.name!r} has {_said(wanted.budget)}"
    raise FailedError(ledger.crowded)


def adopt(
    path: str, witness: str | None, lost: Budget | None, surely: bool,
    releases: Sequence[Standing] = (), neighbours: AnyNeighbours | None = None,
) -> str:  # fmt: skip
    """Take over a ledger that is behind its witness, or without one.

    Args:
        path: of the ledger.
        witness: where the new one is to stand; None for the default.
        lost: what was spent that the ledger does not know of, by the operator's word; needed of a
            ledger that is behind its witness, or has none, or is kept under another key.
        surely: whether nothing was, by the operator's word.
        releases: that can be seen: none that the ledger pays for later is let stand beside them.
        neighbours: that the lost releases hid from each other; None for those of the releases that
            the ledger knows of each population.

    Returns:
        What was done, in a line.

    Raises:
        RequestError: the ledger is sound, or was rewritten, or what it lacks has to be said first.
        FailedError: it was changed meanwhile.
    """
    ledger = CollectionLedger.at(path)
    snapshot, place = ledger.unverified(), _place(path, witness)
    before = _before(ledger, snapshot, lost is not None, surely, place, releases)
    people = _populations(snapshot)
    spent = []
    if lost is not None:
        for one in people.values():
            known = snapshot.entries.of_people(one.name)
            spent.append(_lost(one, lost, neighbours or _neighbours(known)))
    new = [one for name, one in people.items() if name not in snapshot.populations]
    _put(ledger, place, [*new, *spent], before, over=snapshot)
    ledger.require_newest(())
    said = [f"{one.people}: {one.losses[0].neighbours}" for one in spent]
    more = f"; {_said(lost)} more is spent of each ({', '.join(said)})" if lost else ""
    whole = f"{number_of(len(snapshot.entries), 'entry')}, {number_of(len(people), 'population')}"
    return f"adopted {path}: {whole}{more}"


def _before(
    ledger: CollectionLedger, snapshot: Snapshot, lost: bool, surely: bool, place: str,
    releases: Sequence[Standing],
) -> tuple[Before, ...]:  # fmt: skip
    """The ledgers that an adopted one takes the place of, if that may be adopted."""
    begun, where = snapshot.beginning, ledger.where
    ours = _has_key_of(begun)
    if ours:  # --lost is about changes that are gone, and never about such as were made otherwise
        ledger.read()
    if not (lost or surely):
        try:
            ledger.require_newest(releases)
        except RequestError as error:
            raise RequestError(
                f"{error}. --lost is missing: the most that was spent and it does not know of; "
                "0 if that is surely nothing"
            ) from None
        raise RequestError(f"--ledger: {where} is sound: there is nothing to adopt")
    seen = [_seen(ledger, one) for one in {begun.witness, place}]
    seen += [release.seen for release in releases]
    known = {one.id: one.changes for one in begun.before} | {begun.id: snapshot.seen.changes}
    most = {
        id: max([count, *(one.changes for one in seen if one and one.ledger == id)])
        for id, count in known.items()
    }
    if not lost and not ours:
        raise RequestError(
            f"--lost: {where} is kept under another key than this machine's, so nothing tells "
            "whether it was rewritten: say more than 0, or bring its key here"
        )
    if not lost and most != known:
        raise RequestError(
            f"--lost: its witness or a release knows of changes that {where} has not: say more "
            "than 0, the most that the lost ones have spent"
        )
    return tuple(Before(id=id, changes=count) for id, count in most.items())


def _seen(ledger: CollectionLedger, place: str) -> Seen | None:
    try:
        return witness_at(place, ledger.backoff).seen()
    except OtherFormatError:
        raise
    except RequestError:  # who lost the witness may have lost its bucket with it
        return None


def _has_key_of(begun: Beginning) -> bool:
    try:
        return begun.key == fingerprint(key())
    except RequestError:  # this machine has none
        return False


def _populations(snapshot: Snapshot) -> dict[str, Population]:
    """Those that are known, and those that entries alone speak of."""
    populations: dict[str, Population] = {}
    for people in snapshot.entries.people:
        entry = snapshot.entries.of_people(people)[-1]
        unit: Literal["row", "user"] = "row" if entry.unit == "row" else "user"
        populations[people] = Population(
            name=people, unit=unit, scope=entry.scope, budget=entry.budget
        )
    return populations | snapshot.populations


def _neighbours(known: Entries) -> AnyNeighbours:
    """Those of all known releases of a population, so that the account stays about them.

    Where they differ, or none is known, the dearer ones: as "replace" they count twice.
    """
    kinds = {loss.neighbours for entry, _ in known.counted.kinds() for loss in entry.losses}
    return kinds.pop() if len(kinds) == 1 else "add or remove"


def _lost(people: Population, lost: Budget, neighbours: AnyNeighbours) -> Entry:
    """What was spent, and no entry tells of, as an entry."""
    loss = Loss(
        model="central", epsilon=lost.epsilon, delta=lost.delta, unit=people.unit,
        how="by the operator's word, of changes that the ledger had lost", profile=(),
        neighbours=neighbours,
    )  # fmt: skip
    moment, own = now(), _word()
    return Entry(
        id=own, collection=f"lost-{own[:8]}", version=1, fingerprint=own, window="lost",
        scope=people.scope, metrics=("lost",), losses=(loss,), budget=people.budget, output="",
        release_id=_word() + _word(), state="spent", owner=this_process(), reserved_at=moment,
        changed_at=moment, operations=(_word(),), population=people.name, attempt=1,
    )  # fmt: skip


def _require_unpaid(request: LedgerRequest) -> None:
    """Refuse a new ledger where an older one has paid for releases that stand."""
    for release in standing(request.releases):
        others = (release.collection, release.population)
        mine = request.population.name in others or request.collection in others
        if None not in others and not mine:
            continue
        raise RequestError(
            f"--ledger: the release in {release.folder} was paid for from a ledger that is not at "
            f"{request.path}: put it back there (a new one would forget what was spent), or move "
            "that release away"
        )


def _put(
    ledger: CollectionLedger, place: str, records: Sequence[Record],
    before: tuple[Before, ...], over: Snapshot | None = None,
) -> None:  # fmt: skip
    """Write a ledger with its first changes, and then its witness.

    One that is adopted goes on as another account, under this machine's key.
    """
    secret = key_to_begin()
    journal = FactJournal(ledger.keeping, secret, ledger.rng)
    begun = Beginning(
        id=_word(), begun_at=now(), witness=place, key=fingerprint(secret), before=before
    )
    facts = [fact_of(begun), *map(fact_of, records)]
    _require_vacant(ledger, place, {earlier.id for earlier in before})
    if over is not None:
        state = journal.add(over.state, facts, begun.id)
    elif journal.begin(begun.id, facts):
        state = journal.read()
    else:
        raise RivalError(f"another process has begun {ledger.where} meanwhile; run it again")
    seen = Snapshot(state, ledger.where).seen
    witness_at(place, ledger.backoff).follow(seen, over=over is not None)


def _require_vacant(ledger: CollectionLedger, place: str, before: set[str]) -> None:
    """Refuse a witness that is another ledger's, before a ledger is written that would lack it."""
    seen = witness_at(place, ledger.backoff).seen()
    if seen is not None and seen.ledger not in before:
        raise RequestError(
            f"--witness: {place} has seen a ledger of {number_of(seen.changes, 'change')} that is "
            f"not at {ledger.where}: put it back (a new one would forget what was spent), or name "
            "another place"
        )


def _place(path: str, witness: str | None) -> str:
    """Where a witness stands: not where a ledger is restored from a copy of its folder."""
    if witness is not None:
        return witness
    if "://" in path:
        raise RequestError(
            "--witness is missing: a file or gs://BUCKET/witness.json that is not restored with "
            "the ledger, such as one beside the releases"
        )
    # Known by its place: who deletes a ledger, and begins it anew there, finds the old witness.
    real = os.path.realpath(path)
    mark = hashlib.sha256(real.encode()).hexdigest()[:16]
    name = f"{os.path.basename(real)}-{mark}.json"
    return os.path.join(state_folder("--witness"), "witnesses", name)


def _said(budget: Budget) -> str:
    return f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"


def _word() -> str:
    return f"{int(SecureRandom().words(1)[0]):016x}"
