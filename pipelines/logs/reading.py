"""What a request says of its files and of their rows, from words to what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipelines.errors import RequestError
from transforms.expressions.view import View, ViewError
from transforms.files.format import encoding_of
from transforms.files.reading import TYPES, Reading


def reading_of(
    types: Iterable[str], delimiter: str | None, header: Sequence[str], encoding: str | None = None
) -> Reading:
    """How text is read.

    Args:
        types: COLUMN=TYPE each.
        delimiter: one sign, or "tab"; None for what files' names say.
        header: names of columns.
        encoding: a name that Python knows one by; None for UTF-8.

    Raises:
        RequestError: one is malformed.
    """
    kinds = named("--types", types, "seconds=float")
    for column, kind in kinds.items():
        if kind not in TYPES:
            known = ", ".join(TYPES)
            raise RequestError(f"--types: {column}: a column may hold {known}; not {kind!r}")
    sign = {None: "", "tab": "\t", "\\t": "\t"}.get(delimiter, delimiter or "")
    if delimiter is not None and not (len(sign) == 1 and sign.isascii() and sign not in '"\r\n'):
        raise RequestError("--delimiter: one sign, which is no quote, or tab")
    if len({*header}) < len(header) or "" in header:
        raise RequestError("--header: each column needs a name, and one of its own")
    try:
        known = encoding_of(encoding or "")
    except ValueError:
        raise RequestError(
            f"--encoding: there is no encoding {encoding!r}; as in latin-1, cp1252 or utf-16"
        ) from None
    return Reading(tuple(kinds.items()), sign, tuple(header), known)


def view_of(derive: Iterable[str], where: Iterable[str]) -> View:
    """What is derived of rows, and what must hold of them.

    Args:
        derive: NAME=EXPRESSION each.
        where: an expression each.

    Raises:
        RequestError: one is no expression.
    """
    columns = named("--derive", derive, "minutes=seconds/60")
    try:
        return View.read(columns.items(), where)
    except ViewError as error:
        raise wrong(error) from None


def wrong(error: ViewError) -> RequestError:
    """That an expression is wrong, at its option."""
    return RequestError(f"--{error.option}: {error}")


def named(flag: str, words: Iterable[str], example: str) -> dict[str, str]:
    """Words NAME=WHAT as a mapping, in their order.

    Args:
        flag: the option that they are of.
        words: of it.
        example: of one.

    Raises:
        RequestError: one is malformed, or a name is there twice.
    """
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not (name and equals and text):
            raise RequestError(f"{flag}: a name, = and what it is are needed, as in {example}")
        if name in pairs:
            raise RequestError(f"{flag}: {name} is there twice; keep one")
        pairs[name] = text
    return pairs
