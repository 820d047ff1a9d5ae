"""Verification of several releases, with one key and one log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import RequestError
from pipelines.ledger.public_log import HEAD, LogError, UnreadableLogError, read_head, read_log
from pipelines.releases import history, release
from pipelines.releases.signature import SIGNATURE, public_keys
from pipelines.verify.keys import of_lists
from pipelines.verify.release import Verifier
from pipelines.verify.verdict import LIMIT, Check, Outcome
from pipelines.wording import number_of

LOG, KEYS = "ledger's log", "window keys"


@dataclass(frozen=True)
class Report:
    """What verification has come to.

    Attributes:
        findings: by the folder of a release; those of the log under `LOG`, of lists under `KEYS`.
        limit: what no verification shows.
    """

    findings: Mapping[str, Sequence[Check]]
    limit: str = LIMIT

    @property
    def faults(self) -> int:
        """How many things do not hold."""
        return self._count("fault")

    @property
    def unchecked(self) -> int:
        """Of how many nobody knows."""
        return self._count("not checked")

    @property
    def faulty(self) -> list[str]:
        """The folders of releases with a fault."""
        return [
            where
            for where, findings in self.findings.items()
            if where not in (LOG, KEYS) and any(one.outcome == "fault" for one in findings)
        ]

    @property
    def priced(self) -> bool:
        """Whether all prices hold, and are known."""
        findings = (one for several in self.findings.values() for one in several)
        return all(one.outcome == "holds" for one in findings if one.subject == "price")

    @property
    def counts(self) -> str:
        """Both, for people."""
        return f"{number_of(self.faults, 'fault')}, {self.unchecked:,} not checked"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "limit": self.limit, "faults": self.faults, "unchecked": self.unchecked,
            "findings": [
                {"release": where, **one._asdict()}
                for where, several in self.findings.items()
                for one in several
            ],
        }  # fmt: skip

    def _count(self, outcome: Outcome) -> int:
        return sum(one.outcome == outcome for many in self.findings.values() for one in many)


def opened(keys: Sequence[str], log: str | None = None, head: str | None = None) -> Verifier:
    """What somebody verifies with.

    Args:
        keys: files of the public keys of who publishes, as of `public_keys`.
        log: folder of a ledger's public log.
        head: file of a head of it that was kept; the log's own file tells nothing.

    Raises:
        RequestError: one of them cannot be read, or a key is none. What can be read of a log and
            a head, and belies the other, is a fault that verification finds.
    """
    public = public_keys("--key", keys)
    if head is not None and log is None:
        raise RequestError("--head is compared with a log: name that with --log")
    if head is not None and log is not None and _same(head, os.path.join(log, HEAD)):
        head = None
    known, seen, wrong = None, None, list[str]()
    for flag, place in (("--log", log), ("--head", head)):
        try:
            if place is not None and flag == "--log":
                known = read_log(place, public)
            elif place is not None:
                seen = read_head(place, public)
        except UnreadableLogError as error:
            raise RequestError(f"{flag}: {error}") from None
        except LogError as error:
            wrong.append(str(error))
    return Verifier(public, known, seen, "; ".join(wrong))


def _same(head: str, own: str) -> bool:
    """Whether a head that was kept is the log's own file; one that is gone is not."""
    return os.path.exists(head) and os.path.exists(own) and os.path.samefile(head, own)


def verified(
    releases: Sequence[str], verifier: Verifier, lists: Sequence[str] = (), signer: str = ""
) -> Report:
    """What holds of some releases.

    Args:
        releases: folders of releases, folders that hold such, or globs of either.
        verifier: of `opened`.
        lists, signer: as of `of_lists`.

    Raises:
        RequestError: there is none, or a list cannot be read.
    """
    folders = [folder.rstrip("/") for pattern in releases for folder in _folders(pattern)]
    findings = {LOG: [verifier.of_log()]}
    findings |= {KEYS: of_lists(lists, signer)} if lists else {}
    return Report(findings | {one: verifier.of_release(one) for one in dict.fromkeys(folders)})


def _folders(pattern: str) -> list[str]:
    """The releases of a pattern, those without a statement among them: somebody has taken it away.

    Raises:
        RequestError: there is none, or it cannot be looked at.
    """
    try:
        signed = release.newest([pattern], None, SIGNATURE)
        signed = signed or release.newest([f"{pattern}/*"], None, SIGNATURE)
    except (OSError, ValueError, ImportError):
        signed = []  # what cannot be looked at `folders_in` refuses, and says why
    try:
        folders = history.folders_in(pattern)
    except RequestError:
        if not signed:
            raise
        folders = []
    parts = tuple(f"{folder}/" for folder in signed)
    return list(dict.fromkeys([*(one for one in folders if not one.startswith(parts)), *signed]))
