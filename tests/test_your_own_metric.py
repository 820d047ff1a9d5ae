"""docs/extending/your-own-metric.md as it stands: a kind that only an entry point makes known."""

from __future__ import annotations

import io
import json
import shlex
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import build
from pipelines.metrics import registry
from pipelines.views.digits import percent
from tests.fakes.installed import FAKES, blocks, install
from tests.oracles.releases import Release, require_contract

PAGE = (Path(__file__).parents[1] / "docs/extending/your-own-metric.md").read_text("utf-8")
(PLAN,) = blocks(PAGE, "yaml")
ALONE, IN_PLAN, BY_PARTIES = blocks(PAGE, "sh")
USERS, NULLS = 800, 40
EVEN = 0.7  # of the numbers, and nulls are no numbers
TABLE = "even_share.parquet"
LANDED = datetime(2024, 5, 1, tzinfo=timezone.utc)  # past for every clock


@pytest.fixture(autouse=True)
def installed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's package, and the files that its commands name."""
    (project,) = blocks(PAGE, "toml")
    (workspace / "site").mkdir()
    install(project, workspace / "site")
    for path in (workspace / "site", FAKES):
        monkeypatch.syspath_prepend(path)
    row = np.arange(USERS)
    number = pa.array(np.where(row % 10 < 10 * EVEN, 2 * row, 2 * row + 1), mask=row < NULLS)
    user = pa.array([f"CANARY-USER-{k:04}" for k in row])
    at = pa.array([LANDED + timedelta(seconds=int(4 * k)) for k in row])
    log = pa.table({"number": number, "user": user, "at": at, "text": user})
    pq.write_table(log, "log.parquet", row_group_size=300)
    pq.write_table(log.slice(NULLS, 1), "mine.parquet")
    Path("plan.yaml").write_text(PLAN)
    Path("secret").write_bytes(bytes(range(32)))


def words(line: str) -> list[str]:
    """What is typed after `hushbeam`."""
    return shlex.split(line)


def typed(run, block: str) -> str:
    """Runs the commands of a block of the page, all of which must succeed; what they print."""
    outcomes = [run(words(line)[1:]) for line in block.splitlines()]
    assert [outcome.code for outcome in outcomes] == [0] * len(outcomes), outcomes
    return "".join(outcome.out for outcome in outcomes)


def check(folder: str, unit: str = "user", model: str = "shuffle") -> dict[str, Any]:
    """A release is whole, says what is so, and comes as near as it says; its statement."""
    release = Release(Path(folder))
    require_contract(release, "even-share", [TABLE])
    said = release.statement
    mechanism = build(said["mechanism"]["name"], **_parameters(said))
    assert (said["n"], said["invalid_reports"], said["rejects"]) == (USERS, 0, {})
    assert (said["request"]["unit"], said["request"]["model"]) == (unit, model)
    assert said["guarantees"]["local"]["epsilon"] == mechanism.guarantee.epsilon
    (row,) = release.tables[TABLE].to_pylist()
    error = np.sqrt(mechanism.variance(np.clip(row["unbiased"], 0, 1), said["n"]))
    assert row["standard_error"] == pytest.approx(error)
    share = EVEN * (USERS - NULLS) / USERS
    assert abs(row["unbiased"] - share) < 6.5 * row["standard_error"]  # by chance 1e-10
    assert row["lower"] <= row["unbiased"] <= row["upper"]
    assert f"<td>{percent(row['estimate'], row['standard_error'])}</td>" in release.page
    return said


def _parameters(said: dict[str, Any]) -> dict[str, Any]:
    """What the mechanism of a statement is built of."""
    constants = said["mechanism"]["constants"]
    return {name: constants[name] for name in ("epsilon", "domain_size")}


def test_the_page_shows_the_files() -> None:
    files = [FAKES / "even_share" / name for name in ("options.py", "metric.py", "example.py")]
    assert blocks(PAGE, "python")[1:] == [path.read_text("utf-8") for path in files]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files[:2]) <= 120
    assert registry.names()[-1] == "even-share"


def test_as_a_command(run) -> None:
    printed = typed(run, ALONE)
    assert "the column of integers" in printed
    assert "even_share.parquet" in printed
    said = check("share", "row")
    assert said["rows_read"] == USERS
    assert f"shuffle: epsilon {said['guarantees']['release']['epsilon']:.4g}" in printed
    local = "even-share --input log.parquet --column number --epsilon 1 --output out --model local"
    assert run(words(local)).code == 0
    check("out", "row", "local")


def test_what_cannot_be_is_refused_or_withheld(run, refused) -> None:
    asked = words("even-share --input log.parquet --output out --epsilon 1 --column")
    refused([*asked, "text"], "--column: 'text' holds string; integers are needed")
    refused([*asked, "number", "--model", "central"], "--model")
    refused([*asked, "number", "--unusable", "fill=odd"], "--unusable fill: name an integer")
    left_out = [*asked, "number", "--unusable", "count", "--min-reports", "761"]
    outcome = run(left_out)
    assert outcome.code == 1
    assert "760 reports came, fewer than --min-reports 761" in outcome.err
    assert not Path("out").exists()


def test_in_a_plan_that_a_ledger_prices(run) -> None:
    printed = typed(run, IN_PLAN)
    assert "even-share" in printed
    assert "releases/monday" in printed
    said = check("releases/monday/even")
    (entry,) = json.loads(run(["ledger", "show", "--ledger", "ledger.sqlite", "--json"]).out)
    assert (entry["state"], entry["window"]) == ("committed", "monday")
    (kind,) = (
        part["then"]
        for part in json.loads(run(["check", "--schema"]).out)["$defs"]["MetricRequest"]["allOf"]
        if part["if"]["properties"]["kind"]["const"] == "even-share"
    )
    assert kind["properties"]["column"]["description"] == "the column of integers"
    (price,) = entry["losses"]
    assert price["epsilon"] == said["guarantees"]["release"]["epsilon"]


@pytest.mark.verify
def test_by_three_parties(run) -> None:
    assert run(words("ledger init plan.yaml")).code == 0
    typed(run, BY_PARTIES)
    assert "saw shuffled reports and no row" in " ".join(check("releases/tuesday/even")["in_words"])


def test_a_device_keeps_its_noise_and_reads_values_one_a_line(run, monkeypatch) -> None:
    Path("plan.yaml").write_text(PLAN + "noise: permanent\ndistinct_values: 2\n")
    asked = words(
        "parties client plan.yaml --window w --user-secret secret --input mine.parquet --output"
    )
    sent = []
    for name in ("one.parquet", "two.parquet"):
        outcome = run([*asked, name])
        assert outcome.code == 0, outcome.err
        assert "even: a value that never changes costs epsilon" in outcome.out
        sent.append(pq.read_table(name)["message"].to_pylist())
    assert len(sent[0]) == 1
    assert sent[0] == sent[1]
    Path("plan.yaml").write_text(PLAN.replace("unit: user\nuser_column: user\n", ""))
    lines = b"12\nseven\n13\n\n-4\n2.5\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    outcome = run(words("parties client plan.yaml --window w --input - --output lines.bin"))
    assert (outcome.code, outcome.out) == (0, "6 reports in lines.bin\n")
