"""A plan of one alarm: charged once, told of no number, and over when it has fired."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from pipelines.cli import cli
from pipelines.errors import Caution
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.resolving import resolve
from pipelines.running.options import RunningCountOptions

PLAN: dict[str, Any] = {
    "collection": "rides", "version": 1, "unit": "user", "user_column": "user",
    "input": "logs/{window}.parquet", "output": "releases/{window}", "ledger": "l.sqlite",
    "budget": {"epsilon": 1, "delta": 1e-6}, "epsilon": 1, "delta": 1e-6,
    "metrics": [{"name": "users", "kind": "count", "horizon": 30, "above": 1200}],
}  # fmt: skip
USERS = {"2026-01-01": 1000, "2026-01-02": 1100, "2026-01-03": 1500, "2026-01-04": 1000}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("logs").mkdir()
    for day, users in USERS.items():
        pq.write_table(pa.table({"user": range(users)}), f"logs/{day}.parquet")
    return written({})


def written(more: Mapping[str, Any]) -> str:
    metric = PLAN["metrics"][0] | more
    Path("plan.yaml").write_text(json.dumps(PLAN | {"metrics": [metric]}))
    return "plan.yaml"


def test_quiet_windows_say_nothing_and_one_above_ends_with_4(plan: str, capsys: Any) -> None:
    assert cli.main(["ledger", "init", plan]) == 0
    codes = {day: cli.main(["run", plan, "--window", day]) for day in USERS}
    assert codes == dict(zip(USERS, (0, 0, 4, 2), strict=True))
    heard = capsys.readouterr()
    assert "alarm: users: more than 1,200 users in 2026-01-03" in heard.out
    assert "all alarms (1) of" in heard.err
    assert cli.main(["run", plan, "--window", "2026-01-03", "--json"]) == 4  # made once
    (alarm,) = json.loads(capsys.readouterr().out)["alarms"]
    assert (alarm["metric"], alarm["window"]) == ("users", "2026-01-03")
    with pytest.warns(Caution, match="alarm: users: more than 1,200 users"):
        hushbeam.Plan(plan).run("2026-01-03")
    for day, fired in zip(USERS, (0, 0, 1), strict=False):
        folder = Path("releases", day, "users")
        assert pq.read_table(folder / "count.parquet")["estimate"].to_pylist() == [fired]
        texts = [(folder / name).read_text() for name in ("statement.json", "report.html")]
        assert not any(str(users) in text for text in texts for users in (1000, 1100, 1500))
    # The price of all windows is one alarm's.
    assert "together epsilon 1, delta 1e-06" in said_of_the_ledger(capsys)


def said_of_the_ledger(capsys: Any) -> str:
    assert cli.main(["ledger", "show", "--ledger", "l.sqlite"]) == 0
    return str(capsys.readouterr().out)


@pytest.mark.parametrize("more", [{"column": "city", "domain": "1..3"}, {"last": 7}])
def test_an_alarm_is_of_one_count(plan: str, capsys: Any, more: dict[str, Any]) -> None:
    assert cli.main(["check", written(more)]) == 2
    assert "an alarm is of one count" in capsys.readouterr().err


def test_noise_covers_all_that_a_user_adds_to_a_window() -> None:
    words: Any = {"user_column": "u", "per_value": 3, "horizon": 9, "above": 5, "firings": 2}
    options = RunningCountOptions(
        input=("log.parquet",), output="out", epsilon=1.0, delta=1e-6, window="a", series="s",
        **words,
    )  # fmt: skip
    alarm: Any = resolve(options, Source(telemetry=UNREAD))
    assert (alarm.noise.most, alarm.noise.vector.sensitivity) == (3, 3)
    assert (alarm.guarantees[0].epsilon, alarm.noise.firings) == (1.0, 2)
    assert alarm.guarantees[0].condition == ""  # of users in every window, too
