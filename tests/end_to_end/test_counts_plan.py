"""The example's plan of counters: six figures of users, one release, nothing exact."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release

pytestmark = pytest.mark.verify

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["aircraft", "miles", "delay", "delays", "destinations", "origins"]
NAMELESS = 2512  # rows without a tail number
FAR = 6.2  # standard errors: a false alarm has a chance below 10^-9


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    with fixed_randomness():
        yield


def truth() -> dict[str, np.ndarray]:
    """What the figures should be, from the log itself."""
    log = pq.read_table(EXAMPLES / "flights.parquet")
    users, tails = np.unique(
        log["tail_number"].fill_null("").to_numpy(zero_copy_only=False).astype(str),
        return_inverse=True,
    )
    named, n = tails != int(np.flatnonzero(users == "")[0]), len(users)
    miles = np.bincount(tails[named], log["distance"].to_numpy()[named], n)
    late = pc.cast(log["departure_delay"], "float64").to_numpy()
    told = named & ~np.isnan(late)
    flights = np.bincount(tails[told], minlength=n)
    means = np.bincount(tails[told], late[told], n)[flights > 0] / flights[flights > 0]
    airports = (EXAMPLES / "airports.txt").read_text().split()
    visited = {}
    for column in ("origin", "destination"):
        places = pc.index_in(log[column], value_set=pc.cast(airports, "string"))
        cells = pc.fill_null(places, len(airports)).to_numpy()
        pairs = np.unique(tails[named] * (len(airports) + 1) + cells[named])
        visited[column] = pairs // (len(airports) + 1), pairs % (len(airports) + 1)
    bounded = np.minimum(np.bincount(visited["destination"][0]), 10).sum()
    return {
        "aircraft": np.array([n - 1]),
        "miles": np.array([np.minimum(miles, 500_000).sum()]),
        "delay": np.array([np.clip(means, -30, 180).mean()]),
        "delays": np.array([np.count_nonzero(flights)]),
        "destinations": np.array([bounded]),
        "origins": np.bincount(visited["origin"][1], minlength=len(airports) + 1),
    }


def test_one_release_one_price_and_nothing_exact(run, workspace: Path) -> None:
    for name in ("flights-counts.yaml", "flights.parquet", "airports.txt"):
        shutil.copy(EXAMPLES / name, name)
    text = Path("flights-counts.yaml").read_text()
    Path("flights-counts.yaml").write_text(text.replace("../flights-counts-release", "out"))
    outcome = run(["run", "flights-counts.yaml"])
    assert outcome.code == 0, outcome.said
    folder, expected = Path("out"), truth()
    said = json.loads((folder / "statement.json").read_text())
    assert (said["metrics"], said["withheld"], said["missing"]) == (NAMES, [], {})
    released = said["guarantees"]["release"]
    assert (released["neighbours"], released["delta"]) == ("add or remove", 1e-6)
    assert 0.98 * 2.0 < released["epsilon"] <= 2.0
    parts = {name: Release(folder / name) for name in NAMES}
    own = [part.statement["guarantees"]["release"]["epsilon"] for part in parts.values()]
    assert released["epsilon"] < sum(own)
    for part in parts.values():
        assert part.statement["release_id"] == said["release_id"]
        assert part.statement["published_exactly"] == "nothing"
    assert said["neighbours"] == "a user's rows, all of them, are there or not"
    assert said["published_exactly"] == "nothing"
    page = (folder / "report.html").read_text()
    for sentence in (
        "all of its rows together, whether they are there or not",
        "the shuffler, here the job that read the log, drew dummies",
        "drew honestly and has told nobody what it drew",
        "No exact counts are published",
    ):
        assert sum(sentence in text for text in said["in_words"]) == 1
        assert sentence in page
    links = [page.index(f'href="{name}/report.html"') for name in NAMES]
    assert links == sorted(links)
    # No exact figure of what was read, anywhere.
    files = [path for path in folder.rglob("*") if path.suffix in {".json", ".html"}]
    everything = outcome.said + "".join(path.read_text() for path in files)
    rows = pq.read_metadata(EXAMPLES / "flights.parquet").num_rows
    for exact in (rows, rows - NAMELESS):
        assert str(exact) not in everything
        assert f"{exact:,}" not in everything

    for name in ("aircraft", "miles", "delay"):
        (table,) = parts[name].tables.values()
        far = np.abs(table["estimate"].to_numpy() - expected[name])
        assert (far <= FAR * table["standard_error"].to_numpy()).all(), name
    places, origins = (parts[name].table("histogram.parquet") for name in NAMES[4:])
    far = np.abs(origins["users"].to_numpy() - expected["origins"][:-1])
    assert (far <= FAR * origins["users_standard_error"].to_numpy()).all()
    # Of more than ten places ten are drawn, and those that nobody declared are no row of the table.
    error = FAR * places["users_standard_error"][0].as_py() * math.sqrt(len(places))
    (most,) = expected["destinations"]
    assert 0.9 * most - error <= places["users"].to_numpy().sum() <= most + error
    shares, asked = (
        parts["delays"].table(f"{name}.parquet") for name in ("distribution", "quantiles")
    )
    error = parts["delays"].statement["error"]["standard_error_of_a_count_up_to_the_middle"]
    assert abs(shares["users"].to_numpy().sum() - expected["delays"][0]) <= 3 * FAR * error
    assert asked["lower"][0].as_py() <= asked["estimate"][0].as_py() <= asked["upper"][0].as_py()
