"""Makes the data of these examples: visits to a restaurant, ratings of films, notes of many people.

python examples/beam/made.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from mechanisms.randomness import SeededRandom

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WORDS = ("bread", "soup", "fish", "wine", "coffee", "cake", "tea", "rice")


def made(folder: str) -> None:
    """Write visits.csv, ratings.csv and notes.tsv."""
    rng, place = SeededRandom(31), Path(folder)
    place.mkdir(parents=True, exist_ok=True)

    def drawn(bound: int, size: int) -> list[int]:
        return [*map(int, rng.integers(bound, size))]

    visits = zip(drawn(3000, 9000), drawn(12, 9000), drawn(60, 9000), drawn(50, 9000), strict=True)
    lines = [
        f"v{visitor},{9 + hour},{minutes},{euros},{DAYS[(visitor + hour) % 7]}"
        for visitor, hour, minutes, euros in visits
    ]
    _write(place / "visits.csv", "visitor,hour,minutes,euros,day", lines)
    ratings = zip(drawn(4000, 12_000), drawn(20, 12_000), drawn(5, 12_000), strict=True)
    lines = [f"u{viewer},{film},{1 + rating}" for viewer, film, rating in ratings]
    _write(place / "ratings.csv", "viewer,film,rating", lines)
    notes = zip(drawn(2000, 6000), drawn(8, 6000), drawn(8, 6000), strict=True)
    lines = [f"w{who}\tthe {WORDS[one]} and the {WORDS[other]}" for who, one, other in notes]
    # What nobody else has written: it must not come out.
    lines.append("w7\tsesame is my password")
    _write(place / "notes.tsv", "who\ttext", lines)


def _write(path: Path, header: str, lines: list[str]) -> None:
    path.write_text("\n".join([header, *lines, ""]))


if __name__ == "__main__":
    made(sys.argv[1])
