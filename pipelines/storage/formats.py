"""The number of a format, which every store of ours keeps, and the refusal of any other.

No reader of an old format is kept. In these files stands what was paid, drawn or sent on: one that
was begun anew, or of which half was understood, would let it be paid, drawn or sent once more.
"""

from __future__ import annotations

import json
from typing import Any

from pipelines.errors import RequestError


class OtherFormatError(RequestError):
    """A file of ours is of another format: none that was cut off, and none of somebody else."""


def require_known(where: str, number: object, known: int, why: str) -> None:
    """Refuse a file of another format, or of none.

    Args:
        where: the option that names the file, and its place.
        number: what stands in it as the number of its format, of whatever type.
        known: the number that this version keeps.
        why: it cannot be done without, or what else helps.

    Raises:
        OtherFormatError: it is another number.
        RequestError: it is none. Nothing else of the file is quoted.
    """
    whole = type(number) is int  # True is 1 for Python, and no number for us
    if whole and number == known:
        return
    error = OtherFormatError if whole else RequestError
    said = f"is of format {number}" if whole else "has no format number"
    raise error(
        f"{where} {said}, and this hushbeam keeps format {known}: use the hushbeam that wrote it, "
        f"or restore it from a copy ({why})"
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a key that stands twice some readers take the first, others the last.

    Raises:
        ValueError: one does.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError
    return made


def numbered(
    where: str, content: bytes, known: int, why: str, name: str = "version"
) -> dict[str, Any]:
    """What a JSON file holds, if it is of the format that this version keeps.

    Args:
        where, known, why: as of `require_known`.
        content: of the file, whatever it is.
        name: under which its number stands.

    Raises:
        RequestError: as `require_known`; or it is no whole document of JSON, or has a key twice.

    >>> numbered("kept.json", b'{"version": 2, "spent": 3}', 2, "it says what was spent")["spent"]
    3
    """
    try:
        document: Any = json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise RequestError(
            f"{where} is cut off, or is no JSON with each key once: restore it from a copy ({why})"
        ) from None
    if not isinstance(document, dict):
        document = {}
    require_known(where, document.get(name), known, why)
    return document
