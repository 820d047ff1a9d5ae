"""All that a stranger can verify of one release."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import RequestError, reason
from pipelines.journal.ask_session import AskSession
from pipelines.ledger import public_log
from pipelines.ledger.public_log import LogError, LogHead, PublicLog
from pipelines.releases import history, statements
from pipelines.releases.release import STATEMENT
from pipelines.releases.signature import SIGNATURE, Keys, SignatureError, require_signed
from pipelines.verify import answers, files, price, tables, words
from pipelines.verify.verdict import Check, fault, holds, shown, unchecked
from pipelines.wording import number_of
from transforms.files.systems import FileSystems, escaped

_STRANGE = (ValueError, TypeError, KeyError, AttributeError, IndexError)
# What a statement of anybody may raise where nothing more is known of it.
_ANY = (*_STRANGE, ArithmeticError, RecursionError, RequestError)
_GROWING = ("running totals", "window alarm", "gaussian filter")
_NOTHING = {"epsilon": 0.0, "delta": 0.0}


@dataclass(frozen=True)
class Verifier:
    """What somebody has who verifies: public things, and no secret.

    Attributes:
        keys: of who publishes, had from them.
        log: the ledger's, or a mirror of it; None if he has none.
        seen: a head of it that he, or a witness, has kept; None if nobody has.
        wrong: how the log, or that head, is not as it was signed; empty if it is, or there is none.
    """

    keys: Keys
    log: PublicLog | None = None
    seen: LogHead | None = None
    wrong: str = ""
    # Change of a log -> what it paid for.
    _paid_for: dict[tuple[str, int], tuple[str, frozenset[str]]] = field(default_factory=dict)

    def of_log(self) -> Check:
        """Whether the log goes on from what was seen of it."""
        if self.wrong:
            return fault("ledger", self.wrong)
        if self.log is None:
            return unchecked("ledger", "no --log: nothing shows what else was paid for")
        head = self.log.head
        if self.seen is None:
            return unchecked(
                "ledger",
                "no --head that was kept elsewhere: the log may have been rolled back, or forked",
            )
        try:
            self.log.require_later(self.seen)
        except LogError as error:
            return fault("ledger", str(error))
        return holds(
            "ledger", f"{number_of(head.size, 'change')}, and {self.seen.size:,} were seen before"
        )

    def of_release(self, folder: str) -> list[Check]:
        """What holds of a release, what does not, and what nobody can tell.

        Args:
            folder: of the release, which anybody may have written.
        """
        signed = [*self._signature(folder)]
        if any(one.outcome == "fault" for one in signed):
            # Whoever cannot sign could have a reader compute for hours.
            return [
                *signed,
                unchecked("statement", "nothing else is looked at: it is not as signed"),
            ]
        checks = [*signed]
        try:
            # One by one, so that those before a fault stay.
            for one in self._content(folder):
                checks.append(one)
        except _ANY:
            checks.append(fault("statement", "it is not as hushbeam writes statements"))
        return checks

    def _signature(self, folder: str) -> Iterator[Check]:
        try:
            content = statements.read_file(folder, SIGNATURE)
            digests = require_signed(f"{folder}/{SIGNATURE}", content, self.keys)
            there = _names(folder) - {SIGNATURE}
        except FileNotFoundError:
            yield fault(
                "signature",
                f"{folder} is not signed: no {SIGNATURE}; of a plan name the whole release",
            )
            return
        except (SignatureError, OSError, ImportError) as error:
            yield fault("signature", reason(error))
            return
        wrong = [f"{shown(name)} is missing" for name in sorted(digests.keys() - there)]
        wrong += [f"{shown(name)} was not signed" for name in sorted(there - digests.keys())]
        for name in sorted(digests.keys() & there):
            try:
                data = statements.read_file(folder, name, statements.LARGEST_TABLE)
            except OSError as error:
                wrong.append(f"{shown(name)}: {reason(error)}")
                continue
            if hashlib.sha256(data).hexdigest() != digests[name]:
                wrong.append(f"{shown(name)} is not as it was signed")
        if STATEMENT not in digests:
            wrong.append(f"{STATEMENT} was not signed")
        for line in wrong:
            yield fault("files", line)
        if not wrong:
            yield holds("signature", f"of {number_of(len(digests), 'file')}")

    def _content(self, folder: str) -> Iterator[Check]:
        try:
            published = history.releases_in([folder])
            whole, written = statements.read_statement(folder)
        except RequestError as error:
            yield fault("statement", str(error))
            return
        named = (
            (one.statement.get("metric") or one.statement["release"], one) for one in published
        )
        metrics = dict(named)
        said = {name: one.statement for name, one in metrics.items()}
        yield from words.of_release(whole, said)
        prices = [price.of_metric(*one) for one in said.items()]
        if whole["release"] == "plan":
            prices += price.of_plan(whole, said)
        yield from prices
        if whole["release"] == "ask":
            yield answers.of_session(folder, whole)
        for name, one in metrics.items():
            try:
                yield from tables.of_metric(name, one.folder, one.statement)
            except _STRANGE:
                yield fault("tables", f"{name}: a table is not as hushbeam writes it")
        with suppress(OSError):  # that it cannot be listed is a fault of the signature's
            yield from files.of_release(folder, _names(folder) - {SIGNATURE}, whole, metrics)
        priced = all(one.outcome == "holds" for one in prices)
        try:
            yield self._paid(whole, priced, *_paid_content(folder, whole, written))
        except (*_STRANGE, RequestError, OSError):
            yield fault("ledger", "what was paid for is not as hushbeam writes it")

    def _paid(
        self, whole: Mapping[str, Any], priced: bool, own: str, figures: frozenset[str]
    ) -> Check:
        """Whether the public log of its ledger has the price of a release, and of no other."""
        stamp = whole.get("ledger")
        if stamp is None:
            return unchecked("ledger", "no ledger has paid for the release")
        if self.log is None and self.wrong:
            return unchecked("ledger", "the log is not as it was signed")
        if self.log is None:
            return unchecked("ledger", "no --log: nothing shows that its price was counted")
        try:
            opened = public_log.of_statement(stamp["opened"])
            number, ledger, leaf = int(stamp["changes"]), stamp["id"], opened.hash
        except _STRANGE:
            return fault("ledger", "the release does not show what was reserved for it")
        if ledger != self.log.head.ledger:
            return fault("ledger", "the release was paid for from another ledger than the log's")
        try:
            self.log.require(number, leaf)
        except LogError as error:
            return fault("ledger", str(error))
        plan = whole.get("plan")
        if plan is not None and plan.get("window") != opened.window:
            return fault("ledger", "another window was paid for")
        try:
            covered = _covers(opened.prices, whole, priced)
        except _STRANGE:
            covered = False
        if not covered:
            return fault("ledger", "less was paid than the release promises to cost")
        before, known = self._paid_for.get((ledger, number), (own, figures))
        if before != own or not (figures <= known or known <= figures):
            return fault("ledger", f"change {number:,} of the log has paid for another release")
        self._paid_for[ledger, number] = own, figures | known
        return holds("ledger", f"change {number:,} of the log has set its price aside")


def _covers(
    prices: tuple[tuple[float, float], ...], whole: Mapping[str, Any], priced: bool
) -> bool:
    """Whether what was reserved is what a release costs, account by account.

    A first round has its own reservation, and its own release; what it costs is believed where the
    price holds, or it might be said to have cost all.
    """
    accounts = whole.get("design") if whole["release"] == "plan" else None
    if accounts is not None and "first_round" not in whole:
        return [*prices] == [(one["epsilon"], one["delta"]) for one in accounts]
    promise = whole["guarantees"]["release"]
    if promise["epsilon"] is None:
        return False
    first = whole["first_round"]["guarantee"] if priced and "first_round" in whole else _NOTHING
    sums = dict(zip(_NOTHING, map(sum, zip(*prices, strict=True)), strict=True))
    return all(promise[name] - first[name] <= sums[name] * (1 + 1e-9) for name in sums)


def _paid_content(
    folder: str, whole: Mapping[str, Any], written: bytes
) -> tuple[str, frozenset[str]]:
    """What one price pays for once, and what of it grows under that price.

    Returns:
        A digest of all files, or of the statement of a release that grows; its figures if it does.
    """
    design = whole.get("design")
    kind = design.get("is") if isinstance(design, dict) else None
    if kind not in _GROWING:
        return hashlib.sha256(statements.read_file(folder, SIGNATURE)).hexdigest(), frozenset()
    if kind == "gaussian filter":
        figures: list[Any] = [*AskSession.read(folder).answers]
    else:
        tables = statements.read_tables(folder).values()
        figures = [row for table in tables for row in table.to_pylist()]
    return hashlib.sha256(written).hexdigest(), frozenset(map(repr, figures))


def _names(folder: str) -> set[str]:
    """All files of a release, in folders of its own too.

    Raises:
        OSError: it cannot be listed.
    """
    if "://" in folder:
        entries = FileSystems.match([f"{escaped(folder)}/**"])[0].metadata_list
        return {entry.path.removeprefix(f"{folder.rstrip('/')}/") for entry in entries}
    return {
        os.path.relpath(os.path.join(place, file), folder).replace(os.sep, "/")
        for place, folders, files in os.walk(folder)
        for file in (*files, *(one for one in folders if os.path.islink(os.path.join(place, one))))
    }
