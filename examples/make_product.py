"""Make what a product team has: six weeks of an app's events, in which something goes wrong.

    python examples/make_product.py events

It is made up, of 100,000 users; a Parquet file a day, the same each time. Half of the users
have a new button from the first day on, of which more buy. From day 36 on version 3.1 is slow.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAYS, USERS = 42, 100_000
FIRST = datetime(2026, 11, 1, tzinfo=timezone.utc)
VERSIONS = {"3.0": 0.5, "3.1": 0.4, "2.9": 0.1}
ERRORS = {"timeout": 0.5, "no network": 0.3, "bad gateway": 0.15, "disk full": 0.05}
STEPS = ("open", "search", "basket", "buy")
GOES_ON = {"old": (0.6, 0.4, 0.5), "new": (0.6, 0.4, 0.56)}  # of those at a step, to the next one
WEEKEND, ACTIVE, FAILS, SLOW_FROM = 0.7, 0.35, 0.03, 35


def events(day: int, arms: np.ndarray, draw: np.random.Generator) -> pa.Table:
    """The rows of a day: of each active user a few, in the order of their times."""
    begin = FIRST + timedelta(days=day)
    share = ACTIVE * (WEEKEND if begin.weekday() >= 5 else 1.0)
    users = np.flatnonzero(draw.random(USERS) < share)
    version = draw.choice([*VERSIONS], users.size, p=[*VERSIONS.values()])
    at, parts = draw.integers(0, 80_000, users.size), []
    for place, step in enumerate(STEPS):
        slow = np.where((version == "3.1") & (day >= SLOW_FROM), 1.6, 1.0)
        error = draw.choice([*ERRORS], users.size, p=[*ERRORS.values()])
        ms = np.round(draw.gamma(2, 90, users.size) * slow, 1)
        parts.append((users, at, version, np.full(users.size, step), ms,
                      np.where(draw.random(users.size) < FAILS, error, "")))  # fmt: skip
        if place < len(GOES_ON["old"]):
            odds = np.where(arms[users], GOES_ON["new"][place], GOES_ON["old"][place])
            stays = draw.random(users.size) < odds
            users, version, at = users[stays], version[stays], at[stays]
            at = at + draw.exponential(60, users.size).astype(int) + 1
    users, at, version, event, ms, error = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")
    times = np.datetime64(begin.replace(tzinfo=None), "s") + at[order]
    return pa.table({
        "user": [f"u{user:05}" for user in users[order]],
        "at": pa.array(times, pa.timestamp("s", "UTC")),
        "version": version[order], "arm": np.array(["old", "new"])[arms[users[order]]],
        "event": event[order], "ms": ms[order],
        "error": pa.array([text or None for text in error[order]], pa.string()),
    })  # fmt: skip


def make(folder: Path, days: int = DAYS) -> None:
    """Write a file for each day into a new folder."""
    folder.mkdir()
    draw = np.random.default_rng(28)
    arms = draw.integers(0, 2, USERS)
    for day in range(days):
        name = (FIRST + timedelta(days=day)).strftime("%Y-%m-%d")
        pq.write_table(events(day, arms, draw), folder / f"{name}.parquet")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
