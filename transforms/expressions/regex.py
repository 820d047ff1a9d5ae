"""Regular expressions as Arrow's `extract_regex` takes them, whose groups must have names."""

from __future__ import annotations

from collections.abc import Iterator

_NAME = "found"


def first_group(pattern: str) -> tuple[str, str]:
    """A pattern whose one group has a name, and that name; without a group all of it is one.

    Raises:
        ValueError: there are several groups, or a group without an end.

    >>> first_group("v([0-9]+)"), first_group("[(]+")
    (('v(?P<found>[0-9]+)', 'found'), ('(?P<found>[(]+)', 'found'))
    """
    groups = list(_groups(pattern))
    if not groups:
        return f"(?P<{_NAME}>{pattern})", _NAME
    if len(groups) > 1:
        raise ValueError("one group at the most")
    place, name = groups[0]
    if name:
        return pattern, name
    return f"{pattern[: place + 1]}?P<{_NAME}>{pattern[place + 1 :]}", _NAME


def _groups(pattern: str) -> Iterator[tuple[int, str]]:
    """(where, name) of each bracket that captures."""
    place, inside = 0, False
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 2
            continue
        if inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            # A ] that comes first stands for itself.
            place += 1 + (pattern[place + 1 : place + 2] == "^")
            place -= pattern[place : place + 1] != "]"
        elif sign == "(" and pattern[place + 1 : place + 2] != "?":
            yield place, ""
        elif sign == "(" and pattern[place + 2 : place + 4][:1] in ("P", "<"):
            start = pattern.index("<", place) + 1
            yield place, pattern[start : pattern.index(">", start)]
        place += 1
