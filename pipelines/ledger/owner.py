"""Which process holds a reservation, and whether it still runs."""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter

from pipelines.ledger.entries import Entry, Owner
from pipelines.storage.alive import is_silent

# The reservations whose runs go on in this process: a worker that lives for weeks is not at work on
# all that it ever began.
_at_work = Counter[str]()


def this_process() -> Owner:
    """The process that asks."""
    return Owner(host=_host(), process=os.getpid(), started=_started(os.getpid()))


def may_run(owner: Owner) -> bool:
    """Whether a process may still be running: always, if it is on a machine that we cannot see."""
    if owner.host != _host():
        return True
    try:
        os.kill(owner.process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it exists, and belongs to another user
    # The number alone does not tell, for systems give it to later processes again.
    return _started(owner.process) == owner.started


def began(entry: Entry) -> None:
    """This process is at work on a release."""
    _at_work[entry.id] += 1  # threads of it may want the same, and all but one give it up


def ended(entry: Entry) -> None:
    """It is no more."""
    _at_work[entry.id] -= 1
    if not _at_work[entry.id]:
        del _at_work[entry.id]


def is_lost(entry: Entry) -> bool:
    """Whether the process that began a release is no longer at work on it, or too long silent.

    It may have handed the work over.
    """
    if entry.owner == this_process():
        return _at_work[entry.id] < 1
    return not may_run(entry.owner) or is_silent(entry.changed_at)


def is_ours(entry: Entry) -> bool:
    """Whether this process has begun a release."""
    return entry.owner == this_process()


def _host() -> str:
    """A digest of what tells this machine, or container, from others."""
    # Containers of one image share a machine id; the namespace of processes tells them apart.
    parts = (platform.node(), _text("/etc/machine-id"), _link("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _started(process: int) -> str:
    """The boot and the tick at which a process began, or nothing where that cannot be told."""
    # The command in parentheses may hold anything; after it, the twentieth field is the start.
    fields = _text(f"/proc/{process}/stat").rpartition(")")[2].split()
    return f"{_text('/proc/sys/kernel/random/boot_id')[:8]}:{fields[19]}" if fields else ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
