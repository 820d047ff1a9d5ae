"""The examples of pipelines run as they stand, and come near the truth of the data they make."""

from __future__ import annotations

import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "beam"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    run("made.py", str(folder))
    return folder


def run(script: str, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *words], cwd=ROOT, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def published(script: str, data: Path, log: str) -> list[str]:
    run(script, "--runner=FnApiRunner", "--input", str(data / log), "--output", str(data / "out"))
    parts = sorted(data.glob("out-*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    for part in parts:
        part.unlink()
    return lines


def rows(path: Path, separator: str = ",") -> list[list[str]]:
    return [line.split(separator) for line in path.read_text().splitlines()[1:]]


def test_words_that_many_use_and_no_others(data: Path) -> None:
    users = defaultdict(set)
    for who, text in rows(data / "notes.tsv", "\t"):
        for word in text.split():
            users[word].add(who)
    counts = dict(line.split(": ") for line in published("word_count.py", data, "notes.tsv"))
    assert {*counts} == {word for word, who in users.items() if len(who) > 100}
    assert {"sesame", "password"}.isdisjoint(counts)
    for word, count in counts.items():
        assert abs(int(count) - len(users[word])) < 200


def test_films(data: Path) -> None:
    sums: dict[str, int] = defaultdict(int)
    for _, film, stars in rows(data / "ratings.csv"):
        sums[film] += int(stars)
    found = dict(line.split(": ") for line in published("movies.py", data, "ratings.csv"))
    found.pop("None")
    assert found.keys() == sums.keys()
    for film, total in sums.items():
        # Two of a viewer's three films count on average, so about two thirds do.
        assert 0.4 * total < int(found[film]) < 1.1 * total


def test_a_restaurant(data: Path) -> None:
    figures = [line.split("\t") for line in published("restaurant.py", data, "visits.csv")]
    assert {name for name, *_ in figures} == {"sum", "count", "mean", "sum-2"}
    table = {(name, group): float(value) for name, group, value, _ in figures if value != "None"}
    visitors = {visitor for visitor, *_ in rows(data / "visits.csv")}
    counted = sum(table["count", str(hour)] for hour in range(9, 21))
    assert abs(counted - len(visitors)) < 500  # one visit of each counts
    for hour in range(9, 21):
        assert 20 < table["mean", str(hour)] < 40
    revenue = sum(float(euros) for *_, euros, _ in rows(data / "visits.csv"))
    assert abs(sum(table["sum", day] for day in ("Mon", "Tue", "Wed")) / revenue - 3 / 7) < 0.2


def lines_of_code(path: Path) -> int:
    """Lines that hold code: no comment, no docstring, nothing blank."""
    lines: set[int] = set()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            documents = token.type == tokenize.STRING and token.line.lstrip().startswith('"""')
            if token.type not in _NO_CODE and not documents and token.string:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - {0})


@pytest.mark.parametrize("script", ["word_count.py", "restaurant.py", "movies.py"])
def test_the_page_says_how_long_they_are(script: str) -> None:
    page = (ROOT / "docs" / "beam.md").read_text("utf-8")
    [said] = re.findall(rf"`examples/beam/{script}`[^|]*\| (\d+) \|", page)
    assert int(said) == lines_of_code(EXAMPLES / script)


SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "beam.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(4))
def test_what_the_page_shows_runs(number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2
    assert len(SNIPPETS) == 4
