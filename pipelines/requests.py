"""From the words of a command line to validated options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import RequestError

_Options = TypeVar("_Options", bound=BaseModel)


def request(kind: type[_Options], asked: Mapping[str, Any]) -> _Options:
    """Validated options, or the first thing that is wrong with them in one line.

    Args:
        kind: the options' class.
        asked: option -> what was typed; None for what was not.

    Raises:
        RequestError: an option is malformed or out of range.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-")
        raise RequestError(f"{flag}: {first['msg']}, not {first['input']!r}") from None


def no_more(arguments: Sequence[str]) -> None:
    """Refuse words that a command without a pipeline has no use for."""
    if arguments:
        raise RequestError(f"unknown: {' '.join(arguments)}; see --help")
