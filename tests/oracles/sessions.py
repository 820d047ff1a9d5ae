"""Sessions, user by user and row by row: slow, and plain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def sessions(rows: Iterable[Row], gap: float) -> list[Row]:
    """The first row of each session with what is known of it; rows of nobody and no time fall."""
    of_users: dict[Any, list[Row]] = {}
    for row in rows:
        if row["user"] is not None and row["at"] is not None:
            of_users.setdefault(row["user"], []).append(row)
    made: list[Row] = []
    for own in of_users.values():
        parts: list[list[Row]] = []
        for row in sorted(own, key=lambda row: row["at"]):
            if parts and (row["at"] - parts[-1][-1]["at"]).total_seconds() <= gap:
                parts[-1].append(row)
            else:
                parts.append([row])
        for number, part in enumerate(parts, 1):
            seconds = (part[-1]["at"] - part[0]["at"]).total_seconds()
            known = {"session": number, "sessions": len(parts), "session_rows": len(part)}
            made.append(part[0] | known | {"session_seconds": seconds})
    return made
