"""Verification of several releases, with one key and one log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import RequestError
from pipelines.ledger.public_log import LogError, read_head, read_log
from pipelines.releases import history
from pipelines.releases.signature import public_key
from pipelines.verify.release import Verifier
from pipelines.verify.verdict import LIMIT, Check, Outcome

LOG = "ledger's log"


@dataclass(frozen=True)
class Report:
    """What verification has come to.

    Attributes:
        findings: by the folder of a release; those of the log under `LOG`.
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


def opened(key: str, log: str | None = None, head: str | None = None) -> Verifier:
    """What somebody verifies with.

    Args:
        key: file of the public key of who publishes.
        log: folder of a ledger's public log.
        head: file of a head of it that was kept.

    Raises:
        RequestError: one of them cannot be read, or is not signed by that key.
    """
    public = public_key("--key", key)
    if head is not None and log is None:
        raise RequestError("--head is compared with a log: name that with --log")
    try:
        known = None if log is None else read_log(log, public)
    except LogError as error:
        raise RequestError(f"--log: {error}") from None
    try:
        return Verifier(public, known, None if head is None else read_head(head, public))
    except LogError as error:
        raise RequestError(f"--head: {error}") from None


def verified(releases: Sequence[str], verifier: Verifier) -> Report:
    """What holds of some releases.

    Args:
        releases: folders of releases, folders that hold such, or globs of either.
        verifier: of `opened`.

    Raises:
        RequestError: there is none.
    """
    folders = [folder for pattern in releases for folder in history.folders_in(pattern)]
    findings = {LOG: [verifier.of_log()]}
    return Report(findings | {one: verifier.of_release(one) for one in dict.fromkeys(folders)})
