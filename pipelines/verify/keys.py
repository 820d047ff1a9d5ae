"""The signed lists of window keys, as several devices and witnesses were given them."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import RequestError, because
from pipelines.releases.key_list import KeyList, verified
from pipelines.releases.signature import public_key
from pipelines.verify.verdict import Check, fault, holds

_SUBJECT = "keys"


def of_lists(files: Sequence[str], signer: str) -> Check:
    """Whether lists are signed, and agree on the key of every window.

    Args:
        files: as they were fetched, by anybody, at any time.
        signer: a PEM file, the public key of who publishes the list.

    Raises:
        RequestError: a file cannot be read.
    """
    key, joined = public_key("--signer", signer), KeyList()
    for file in files:
        try:
            with open(file, "rb") as stream:
                content = stream.read()
        except OSError as error:
            raise RequestError(f"--keys: {file} cannot be read{because(error)}") from None
        try:
            joined = joined.joined(verified(content, key, f"--keys: {file}"))
        except RequestError as error:
            return fault(_SUBJECT, str(error))
        except ValueError as window:
            return fault(_SUBJECT, f"{file} has another key of window {window} than a list before")
    windows = len({(one.window, one.fingerprint) for one in joined.keys})
    said = f"{len(joined.keys):,} of {windows:,} windows, alike in all lists that were named"
    return holds(_SUBJECT, said)
