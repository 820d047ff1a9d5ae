"""Cross-tabs of divided users in plans, compared, on a site, in streams and in Beam YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.plan.loading import load
from pipelines.releases import history
from pipelines.releases.schema import own
from pipelines.site.build import Site
from pipelines.stream.windows import streamed
from tests.end_to_end.test_stream import NAMES, Stream, land, rows, spread
from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness

FAR = 6.2  # standard errors: further once in 10^9
N = 4000
PLAN = """\
collection: tabs
version: 1
input: log.parquet
output: out/{{window}}
epsilon: {epsilon}
model: local
{more}metrics:
  - {{name: tabs, kind: cross-tab, columns: [value, number], drawn_by: each-report,
     domains: [value=values.txt, "number=-3..3"]}}
"""
MEAN = '  - {name: mean, kind: mean, column: number, bounds: "-3,3"}\n'


@pytest.fixture(autouse=True)
def fixed(workspace: Path) -> Iterator[None]:
    Path("values.txt").write_text("\n".join(canaries.DECLARED) + "\n")
    number = (np.arange(N) % 7 - 3).astype(np.int64)
    value = [canaries.DECLARED[k % 3] for k in range(N)]
    pq.write_table(pa.table({"value": value, "number": number}), "log.parquet")
    with fixed_randomness():
        yield


def plan(epsilon: float = 4.0, more: str = "", last: str = "") -> None:
    Path("plan.yaml").write_text(PLAN.format(epsilon=epsilon, more=more) + last)


def released(folder: str) -> list[dict[str, Any]]:
    return own(pq.read_table(f"{folder}/cross-tab.parquet")).to_pylist()


def test_of_users_who_answer_another_metric_too_figures_are_estimates(run) -> None:
    """Units are divided among the metrics, and figures are of all of them, the total as well."""
    plan(epsilon=0.8, last=MEAN)
    assert run(["run", "plan.yaml", "--window", "2026-11-01"]).code == 0
    table = released("out/2026-11-01/tabs")
    said = json.loads(Path("out/2026-11-01/tabs/statement.json").read_text())
    share = said["n"] / N
    assert 0.4 < share < 0.6
    assert (
        "Figures are of all rows: of those who were asked, divided by their share."
        in (said["in_words"])
    )
    total = table[0]
    # A sample of one in two, drawn one by one.
    assert total["standard_error"] == pytest.approx(np.sqrt(N), rel=0.05)
    assert 0 < abs(total["estimate"] - N) < FAR * total["standard_error"]
    values = [row for row in table if row["group"] == "value"]
    assert sum(row["estimate"] for row in values) == total["estimate"]
    assert sum(row["fitted"] for row in values) == total["fitted"]
    for place, row in enumerate(values):
        truth = len(range(place, N, 3)) if place < 3 else 0
        assert abs(row["estimate"] - truth) < FAR * row["standard_error"]


@pytest.mark.verify
def test_releases_are_compared_and_laid_side_by_side(run) -> None:
    plan()
    for day in (1, 2):
        assert run(["run", "plan.yaml", "--window", f"2026-11-0{day}"]).code == 0
    table = released("out/2026-11-01/tabs")
    assert (table[0]["estimate"], table[0]["standard_error"]) == (N, 0)  # all answered
    outcome = run(["compare", "out/2026-11-01", "out/2026-11-02", "--json"])
    assert outcome.code == 0, outcome.said
    answer = json.loads(outcome.out)
    assert (answer["compared"], answer["left_out"]) == (len(table), {})
    assert answer["beyond_noise"] == 0
    (tabs,) = Site(history.releases_in(["out"]), []).histories
    (series,) = tabs.series
    drawn = series.drawn()
    assert np.array(drawn["estimate"], float).shape == (len(drawn["labels"]), 2)
    (since,) = series.changes(tabs.windows)
    assert (since["window"], since["compared"]) == ("2026-11-01", len(drawn["labels"]))
    assert since["names"] == []


@pytest.mark.verify
def test_a_stream_serves_them() -> None:
    stream = "stream: {window: 1h, state: state, time: at}\nmin_reports: 400\n"
    plan(more=stream)
    text = Path("plan.yaml").read_text().replace("log.parquet", "landing/*.parquet")
    Path("plan.yaml").write_text(text)
    Path("landing").mkdir()
    land("a", rows([*spread(0, 600), *spread(1, 500), *spread(2, 400), *spread(3, 10)]))
    with Stream(streamed(load("plan.yaml"))) as served:
        served.catch_up()
    for name, n in zip(NAMES, (600, 500), strict=False):
        table = released(f"out/{name}/tabs")
        assert table[0]["estimate"] == n
        of_first = next(row for row in table if row["value"] == canaries.DECLARED[0])
        assert abs(of_first["estimate"] - n / 4) < FAR * of_first["standard_error"]
