"""Folders that say something of all rows below them: day=2026-11-20/country=DE/part-0.csv."""

from __future__ import annotations

import re
from urllib.parse import unquote

_PART = re.compile(r"([^/\\=]+)=([^/\\]*)")
_NULL = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark write that there is no value


def parts_of(path: str) -> dict[str, str | None]:
    """Column -> text, of the folders that a file is in.

    >>> parts_of("logs/day=2026-11-20/city=S%C3%A3o%20Paulo/a=b.csv")
    {'day': '2026-11-20', 'city': 'São Paulo'}
    """
    folders = re.split(r"[/\\]", path)[:-1]
    found = (match for match in map(_PART.fullmatch, folders) if match)
    parts = {unquote(match[1]): unquote(match[2]) for match in found}
    return {column: None if text == _NULL else text for column, text in parts.items()}
