"""The key of a machine's ledgers: who has it can write their history anew."""

from __future__ import annotations

import os

from pipelines.errors import RequestError
from pipelines.journal.checkpoint import keyed
from pipelines.storage.secrets import KeptSecret, default_place, made_once, read

VARIABLE = "HUSHBEAM_LEDGER_KEY"
_KEY = KeptSecret(
    "--ledger-key",
    "under which ledgers are kept: copy it to every machine that runs their plans, and to nobody "
    f"else; {VARIABLE} names another place",
)


def key() -> bytes:
    """The key of this machine.

    Raises:
        RequestError: it is not there.
    """
    place = _place()
    if "://" not in place and not os.path.exists(place):
        raise RequestError(
            f"{VARIABLE}: there is no key of ledgers in {place}: copy it from where the ledger was "
            f"begun, or let {VARIABLE} name the file"
        )
    return read(VARIABLE, place)


def key_to_begin() -> bytes:
    """The same; made if this machine has none."""
    return read(VARIABLE, made_once(_KEY, os.environ.get(VARIABLE)))


def fingerprint(key: bytes) -> str:
    """What tells keys apart and says nothing of them."""
    return keyed(key, "fingerprint")[:16]


def _place() -> str:
    return os.environ.get(VARIABLE) or default_place(_KEY)
