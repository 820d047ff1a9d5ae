"""The signed lists of window keys, as several devices and witnesses were given them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mechanisms.wire.oblivious import is_key
from pipelines.errors import RequestError, because
from pipelines.releases.key_list import KeyList, WindowKey, verified
from pipelines.releases.signature import public_key
from pipelines.verify.verdict import Check, fault, holds, unchecked
from pipelines.wording import number_of

_SUBJECT = "keys"


def of_lists(files: Sequence[str], signer: str) -> list[Check]:
    """Whether lists are signed, and agree on the key of every window.

    Args:
        files: as they were fetched, by anybody, at any time.
        signer: a PEM file, the public key of who publishes the list.

    Returns:
        A fault; or what holds of keys that several lists have, and what one alone has.

    Raises:
        RequestError: a file cannot be read.
    """
    key, joined = public_key("--signer", signer), KeyList()
    times: Counter[WindowKey] = Counter()
    for file in files:
        try:
            with open(file, "rb") as stream:
                content = stream.read()
        except OSError as error:
            raise RequestError(f"--keys: {file} cannot be read{because(error)}") from None
        try:
            listed = verified(content, key, f"--keys: {file}")
            joined = joined.joined(listed)
        except RequestError as error:
            return [fault(_SUBJECT, str(error))]
        except ValueError as error:
            return [fault(_SUBJECT, f"{file} and the lists before it have {error}")]
        times.update(set(listed.keys))
    plans: dict[str, str] = {}
    for one in joined.keys:
        if plans.setdefault(one.window, one.fingerprint) != one.fingerprint:
            return [fault(_SUBJECT, f"window {one.window} has keys of two plans")]
        if not is_key(bytes.fromhex(one.public)):
            return [fault(_SUBJECT, f"the {one.role} key of window {one.window} is none")]
    shared = [one for one in joined.keys if times[one] > 1]
    number, alone = len(joined.keys), len(joined.keys) - len(shared)
    keys = number_of(number, "key")
    said = f"alike in all lists that have them: {len(shared):,} of {keys}"
    why = f"in one list alone: {alone:,} of {keys}: name lists that others fetched"
    checks = [holds(_SUBJECT, said)] * bool(shared) + [unchecked(_SUBJECT, why)] * bool(alone)
    return checks or [unchecked(_SUBJECT, "the lists have no keys")]
