"""Whether a ledger is the newest there is: by its key, its witness, and the releases that stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.errors import RequestError
from pipelines.ledger.key import VARIABLE, fingerprint
from pipelines.ledger.snapshot import Snapshot
from pipelines.ledger.witness import Seen
from pipelines.storage.formats import OtherFormatError
from pipelines.wording import number_of

NEWEST = 16  # releases that a run looks at: an older copy of a ledger lacks the newest first

_RESTORE = (
    "put the newest copy back; if there is none, `hushbeam ledger adopt --lost EPSILON` says what "
    "the lost ones have spent"
)


class Standing(NamedTuple):
    """A release that stands, as far as it speaks of a ledger.

    Attributes:
        folder: its.
        seen: the ledger when the release was paid for.
        entry: there.
        collection: of its plan, or None.
        population: whom it is about, or None.
    """

    folder: str
    seen: Seen
    entry: str
    collection: str | None
    population: str | None


def require_own(snapshot: Snapshot, key: bytes) -> None:
    """Refuse a ledger that is kept under another key than the one at hand."""
    if snapshot.beginning.key != fingerprint(key):
        raise RequestError(
            f"{VARIABLE}: {snapshot.where} is kept under another key than this machine's: copy the "
            f"key from where the ledger was begun, or let {VARIABLE} name its file"
        )


def require_witnessed(heads: Mapping[int, str], seen: Seen, name: str, where: str) -> None:
    """Refuse a ledger that is not what someone else has seen of it.

    Args:
        heads: of the ledger, by its changes, back to what was seen.
        seen: of it.
        name: of who has seen it.
        where: the ledger's name.

    Raises:
        RequestError: it is an older copy, or has another history.
    """
    if seen.changes > max(heads):
        raise RequestError(
            f"--ledger: {where} has {number_of(max(heads), 'change')}, and {name} knows of "
            f"{seen.changes}: it is an older copy; {_RESTORE}"
        )
    if heads.get(seen.changes) != seen.head:
        raise RequestError(
            f"--ledger: {where} has another history than {name} has seen: it was rewritten, or "
            f"is a copy that went on by itself; {_RESTORE}"
        )


def require_released(
    snapshot: Snapshot, heads: Mapping[int, str], releases: Iterable[Standing],
    collection: str | None = None,
) -> None:  # fmt: skip
    """Refuse a ledger that does not know of releases that stand.

    Args:
        snapshot: of it.
        heads: of it, as of `require_witnessed`.
        releases: that can be seen.
        collection: that is about to spend; it may have no entry yet.

    Raises:
        RequestError: it is an older copy, or another ledger has paid for the same collection.
    """
    begun, where = snapshot.beginning, snapshot.where
    before = {earlier.id: earlier.changes for earlier in begun.before}
    collections = {entry.collection for entry, _ in snapshot.entries.groups("collection")}
    if collection is not None:
        collections.add(collection)
    for release in releases:
        seen = release.seen
        if seen.ledger == begun.id:
            try:
                require_witnessed(heads, seen, f"the release in {release.folder}", where)
            except RequestError as error:
                # The witness was asked first: one of the two is not what it seems.
                raise RequestError(
                    f"{error}. Its witness agrees with it: unless that was put back, too, the "
                    "release is forged or of a later copy; move it away if it is not yours"
                ) from None
        elif seen.changes > before.get(seen.ledger, seen.changes):
            raise RequestError(
                f"--ledger: the release in {release.folder} was paid for from the ledger that "
                f"{where} took the place of, after that: both have gone on; `hushbeam ledger "
                "adopt --lost EPSILON --releases GLOB` counts what the other has spent"
            )
        elif seen.ledger not in before and (
            release.collection in collections or release.population in snapshot.populations
        ):
            name = release.collection or release.population
            raise RequestError(
                f"--ledger: the release in {release.folder}, of collection {name!r}, was "
                f"paid for from another ledger than {where}: two ledgers have two budgets; go "
                "on with the one that paid for it, or move that release away"
            )


def standing(patterns: Sequence[str], most: int | None = NEWEST) -> Iterator[Standing]:
    """The releases that can be seen, the newest first.

    Args:
        patterns: of their folders.
        most: of them that are looked at.

    Raises:
        RequestError: one of them is of another format.
    """
    if not patterns:
        return
    # It opens files through Beam, which who shows a ledger need not wait for.
    from pipelines.releases import release

    for folder in release.newest(patterns, most):
        try:
            evidence = _of(folder, release.statement_of(folder))
        except OtherFormatError:  # what it knows of a ledger nobody can tell
            raise
        except (RequestError, OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # somebody else's file, or one that is being moved away
        if evidence is not None:
            yield evidence


def _of(folder: str, statement: dict[str, Any]) -> Standing | None:
    stamp = statement.get("ledger")
    if stamp is None:
        return None
    seen = Seen(ledger=stamp["id"], changes=stamp["changes"], head=stamp["head"])
    plan = statement.get("plan") or {}
    people = stamp.get("population")
    return Standing(folder, seen, stamp["entry"], plan.get("collection"), people)
