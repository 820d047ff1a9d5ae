"""Folders that say something of all rows below them: day=2026-11-20/country=DE/part-0.csv."""

import re
from urllib.parse import unquote

_PART = re.compile(r"([^/\\=]+)=([^/\\]*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark write that there is no value


def parts_of(path: str) -> dict[str, str | None]:
    """Column -> text, of the folders that a file is in.

    >>> parts_of("logs/day=2026-11-20/city=S%C3%A3o%20Paulo/a=b.csv")
    {'day': '2026-11-20', 'city': 'São Paulo'}
    """
    if "=" not in path:
        return {}
    folders = re.split(r"[/\\]", path)[:-1]
    matches = (match for match in map(_PART.fullmatch, folders) if match)
    parts = {unquote(match[1]): unquote(match[2]) for match in matches}
    return {column: None if text == _NULL else text for column, text in parts.items()}


_TIME = re.compile(r"\d{4}(-?\d\d(-?\d\d)?|-?W\d\d)?([T ]\d\d(:?\d\d)*Z?)?", re.ASCII)
_OF_TIME = {"year", "month", "day", "hour", "week", "quarter"}


def shown(path: str) -> str:
    """A path that may be said aloud: values of its folders may be users, unless they are times.

    >>> shown("logs/day=2026-11-20/user=alice/part-0.csv"), shown("year=2026/month=11/a.csv")
    ('logs/day=2026-11-20/user=*/part-0.csv', 'year=2026/month=11/a.csv')
    """

    def said(part: str) -> str:
        match = _PART.fullmatch(part)
        if match is None:
            return part
        key, value = match[1], match[2]
        known = key.lower() in _OF_TIME and value.isdecimal() and len(value) <= 4
        return part if known or _TIME.fullmatch(unquote(value)) else f"{key}=*"

    *folders, name = re.split(r"([/\\])", path)
    return "".join([*map(said, folders), name])
