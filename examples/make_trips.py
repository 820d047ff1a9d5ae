"""Make a log such as a stranger has: packed CSV, with blanks, mixed case and missing fields.

    python examples/make_trips.py trips

It is made up, of 20,000 bicycle trips a day for a week, a file a day; the same each time.
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
from collections.abc import Iterator
from pathlib import Path

CITIES = {"Oslo": 50, "Bergen": 25, "Trondheim": 15, "Stavanger": 7, "Tromsø": 3}
DAYS, TRIPS, RIDERS, MISSING = 7, 20_000, 9_000, 0.03


def trips(day: str, draw: random.Random) -> Iterator[list[str]]:
    """The lines of one day; a field is empty where it is missing."""
    for _ in range(TRIPS):
        city = draw.choices([*CITIES], weights=CITIES.values())[0]
        hour, minute = int(draw.triangular(5, 24, 16)), draw.randrange(60)
        fields = [
            draw.choice([city, city.upper(), city.lower(), f" {city} "]),
            f"{draw.expovariate(1 / 700):.0f}",
            f"{day}T{hour:02}:{minute:02}",
        ]
        rider = f"r{draw.randrange(RIDERS):04}"
        yield [rider, *("" if draw.random() < MISSING else field for field in fields)]


def make(folder: Path) -> None:
    """Write a file for each day into a new folder."""
    folder.mkdir()
    draw = random.Random(20)
    for day in (f"2026-11-{number + 1:02}" for number in range(DAYS)):
        with gzip.open(folder / f"{day}.csv.gz", "wt", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["user_id", "City", "seconds", "started"])
            lines.writerows(trips(day, draw))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
