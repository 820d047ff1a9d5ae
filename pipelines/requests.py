"""From the words of a command line to validated options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from pipelines.errors import RequestError

# A whole number, also as people type large ones: 1e6.
Whole = Annotated[int, BeforeValidator(lambda text: _whole(text))]

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


def _whole(text: object) -> object:
    """1e6 as 1000000; what is no whole number is left for the validation to refuse."""
    try:
        number = float(str(text))
    except ValueError:
        return text
    return int(number) if number.is_integer() and "e" in str(text).lower() else text
