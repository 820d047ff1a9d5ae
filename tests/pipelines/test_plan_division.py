"""Metrics of the local model divide users, or epsilon: whichever errs less."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.metrics.permanent import promises
from pipelines.metrics.terms import answering_share
from pipelines.parties.device import ClientReports
from pipelines.plan.check import check
from pipelines.plan.job import PlanJob, unread_job
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.fakes.few import few
from tests.fakes.ledgers import begun_by
from transforms.encoders.part import DRAWN, Part
from transforms.encoders.users import UserDigest
from transforms.units.divide import DrawPartsDoFn

PLAN = """\
collection: trips
version: 1
{unit}
input: log.parquet
output: out
epsilon: {epsilon}
model: local
min_reports: 100
metrics:
"""
USERS = "unit: user\nuser_column: rider"
SHARES = (0.5, 0.3, 0.2)
METRICS = "".join(
    f"  - {{name: m{k}, kind: histogram, column: c{k}, domain: 1..4, share: {share}}}\n"
    for k, share in enumerate(SHARES)
)
TEN = "".join(
    f"  - {{name: m{k}, kind: histogram, column: c, domain: 1..915}}\n" for k in range(10)
)


def written(folder: Path, metrics: str = METRICS, unit: str = USERS, epsilon: float = 1.0) -> str:
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(unit=unit, epsilon=epsilon) + metrics)
    return str(path)


def job_of(folder: Path, *words: str | float) -> PlanJob:
    return unread_job(load(written(folder, *words)), "all")


def test_ten_metrics_of_a_million_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(tmp_path, TEN)
    own = [round(10**6 * answering_share(metric)) for metric in job.metrics]
    assert own == [10**5] * 10
    assert max(math.sqrt(m.mechanism.variance(0.0, 10**5)) for m in job.metrics) <= 0.62e-2
    assert {promises(metric)[1].epsilon for metric in job.metrics} == {1.0}
    assert [guarantee.epsilon for guarantee in job.guarantees] == [1.0, 1.0]
    assert check(written(tmp_path, TEN)) == 0
    assert "each user answers one metric" in " ".join(capsys.readouterr().out.split())


def test_where_noise_is_small_all_users_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tmp_path, METRICS, USERS, 12.0)
    assert [metric.part for metric in job.metrics] == [None] * 3
    assert job.guarantees[0].epsilon == pytest.approx(12.0)
    assert check(written(tmp_path, METRICS, USERS, 12.0)) == 0
    assert "each user answers every metric" in " ".join(capsys.readouterr().out.split())


def test_parts_cover_everybody_once() -> None:
    parts = Part.of([1 / 3, 0.1, 0.2], 7)
    assert (parts[0].first, parts[-1].last) == (0, 2**64 - 1)
    assert all(a.last + 1 == b.first for a, b in itertools.pairwise(parts))
    draws = np.array([0, parts[0].last, parts[1].first, 2**64 - 1], np.uint64)
    table = pa.table({DRAWN: draws, "row": range(4)})
    answered = [part.rows(table).column("row").to_pylist() for part in parts]
    assert answered == [[0, 1], [2], [3]]


def test_a_user_has_one_draw_in_all_files_and_types() -> None:
    step = DrawPartsDoFn(UserDigest("rider", 3, as_text=True), lambda: SeededRandom(1))
    step.setup()
    numbers = pa.table({"rider": pa.chunked_array([[1, 2], [1, 3]], pa.int64())})
    texts = pa.table({"rider": pa.array(["1", "2", "1", "3"]).dictionary_encode()})
    (one,), (other,) = step.process(numbers), step.process(texts)
    assert one.column(DRAWN).equals(other.column(DRAWN))
    drawn = one.column(DRAWN).to_pylist()
    assert drawn[0] == drawn[2]
    assert len({*drawn}) == 3


@pytest.mark.parametrize("unit", few([USERS, "unit: row"], lambda _: "a unit"))
def test_a_run_asks_each_unit_for_one_metric(run, workspace: Path, unit: str) -> None:
    """4,000 units with two rows each, or one: every one of them is in one release of three."""
    users, rows = 4000, 8000 if unit == USERS else 4000
    columns = {f"c{k}": np.arange(rows) % 4 + 1 for k in range(3)}
    log = pa.table(columns | {"rider": np.arange(rows) % users})
    pq.write_table(log, workspace / "log.parquet", row_group_size=1500)
    more = "\nledger: l.sqlite\nbudget: {epsilon: 1.0, delta: 0}"
    begun_by(plan := written(workspace, METRICS, unit + more))
    outcome = run(["run", plan])
    assert outcome.code == 0, outcome.said
    said = [json.loads((workspace / f"out/m{k}/statement.json").read_text()) for k in range(3)]
    counts = [part["n"] for part in said]
    assert sum(counts) == users
    # By chance a count is as far off with a probability of 1e-11.
    for count, share in zip(counts, SHARES, strict=True):
        assert abs(count - users * share) < 6.8 * math.sqrt(users * share * (1 - share))
    assert all("asked for one metric of several" in " ".join(part["in_words"]) for part in said)
    (entry,) = CollectionLedger.open("l.sqlite").entries()
    assert (entry.metrics, [loss.epsilon for loss in entry.losses]) == (("m0+m1+m2",), [1.0])


@pytest.mark.verify
def test_a_client_of_a_log_asks_each_user_for_one_metric_in_all_its_runs(
    run, workspace: Path
) -> None:
    """Two runs of different metrics, one of a column of integers and one of the same as text."""
    users = np.arange(900)
    table = pa.table({f"c{k}": users % 4 + 1 for k in range(3)} | {"rider": users})
    pq.write_table(table, workspace / "log.parquet")
    text = table.set_column(3, "rider", table.column("rider").cast(pa.string()))
    pq.write_table(text, workspace / "text.parquet")
    plan, sizes = written(workspace), []
    for file, names in (("log.parquet", ["m0"]), ("text.parquet", ["m1", "m2"])):
        output = f"{names[0]}.parquet"
        words = ["parties", "client", plan, "--input", file, "--output", output, "--metric", *names]
        outcome = run([*words, "--report-secret", "secret"])
        assert outcome.code == 0, outcome.said
        sizes.append(pq.read_metadata(output).num_rows)
    assert sum(sizes) == users.size
    rows = ["parties", "client", written(workspace, METRICS, "unit: row"), "--input", "log.parquet"]
    refused = run([*rows, "--output", "r.parquet", "--metric", "m0"])
    assert (refused.code, "report all of them at once" in refused.err) == (2, True)


def test_a_device_answers_one_metric_however_often_it_reports(tmp_path: Path) -> None:
    parted = split(load(written(tmp_path)), "all")
    values = pa.table({f"c{k}": [1, 2] for k in range(3)} | {"rider": [5, 5]})
    answered = np.zeros(3)
    for user in range(300):
        own = user.to_bytes(32, "little")
        sizes = [
            [len(ClientReports(parted, k, one=True, own=own).report([values])[0]) for k in range(3)]
            for _ in range(2)
        ]
        assert sizes[0] == sizes[1]
        assert sum(sizes[0]) == 1
        answered += sizes[0]
    for count, share in zip(answered, SHARES, strict=True):
        assert abs(count - 300 * share) < 6.1 * math.sqrt(300 * share * (1 - share))


def test_rows_are_divided_by_one_lot(tmp_path: Path) -> None:
    parted = split(load(written(tmp_path, METRICS, "unit: row")), "all")
    values = [pa.table({f"c{k}": np.arange(n) % 4 + 1 for k in range(3)}) for n in (100, 50)]
    with pytest.raises(RequestError, match="lot="):
        ClientReports(parted, 0)
    sizes = [len(ClientReports(parted, k, lot=9).report(values)[0]) for k in range(3)]
    assert sum(sizes) == 150
    assert min(sizes) > 0
