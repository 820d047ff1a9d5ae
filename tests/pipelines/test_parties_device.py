"""A device's reports: of its values, one of a user's, and the same for ever if it has a secret."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.parties.device import ClientReports
from pipelines.parties.split import Split, split
from pipelines.plan.document import Plan

COLUMNS = {"value": ["a", "b", None, "c", "z"], "real": [0.0, 5.0, None, 10.0, float("nan")]}


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """One metric of each kind that can be divided, in the local model."""
    domain = tmp_path_factory.mktemp("device") / "values.txt"
    domain.write_text("a\nb\nc\n")
    metrics = [
        {"kind": "histogram", "column": "value", "domain": str(domain)},
        {"kind": "heavy-hitters", "column": "value", "max_length": 4},
        {"kind": "mean", "column": "real", "bounds": "0,10"},
        {"kind": "distribution", "column": "real", "bounds": "0,10"},
    ]
    plan = Plan(
        collection="device", version=1, input="x", output="y", epsilon=16, model="local",
        unit="user", user_column="user", min_reports=100,
        metrics=[{"name": m["kind"], **m} for m in metrics],
    )  # fmt: skip
    return split(plan, "all")


def open_rng() -> SeededRandom:
    return SeededRandom(3)


def table(times: int = 1) -> pa.Table:
    return pa.table({name: values * times for name, values in COLUMNS.items()})


@pytest.mark.parametrize(("place", "usable"), [(0, 3), (1, 4), (2, 3), (3, 3)])
def test_values_become_reports_and_others_are_counted(parted, place, usable) -> None:
    reports, counted = ClientReports(parted, place, open_rng=open_rng).report([table(), table()])
    assert len(reports) == 2 * usable
    assert set(reports.records["metric"]) == {place}
    assert parted.mechanisms[place].valid(reports.records["message"]).all()
    assert len(np.unique(reports.records["report_id"], axis=0)) == 2 * usable
    assert counted["rows read"] == 10
    assert sum(counted.values()) - 10 == 10 - 2 * usable


def test_of_a_user_one_value_is_reported_and_any_of_them(parted) -> None:
    """200 devices: each of three values is missed with probability (2/3)^200 < 1e-35."""
    secret, seen = bytes(32), set()
    for seed in range(200):
        device = ClientReports(parted, 0, secret, True, lambda seed=seed: SeededRandom(seed))
        reports, _ = device.report([table()])
        assert len(reports) == 1
        seen.update(reports.records["message"].tolist())
    alone = [
        ClientReports(parted, 0, secret).report([pa.table({"value": [text]})])[0] for text in "abc"
    ]
    assert seen == {int(each.records["message"][0]) for each in alone}
    assert len(ClientReports(parted, 0, one=True).report([])[0]) == 0


@pytest.mark.parametrize("place", [0, 2, 3])
def test_noise_is_permanent_and_ids_are_not(parted, place) -> None:
    """Of each user one report a day; each of 60 users' is one message with probability < 0.8."""
    same = pa.table({"value": ["b"] * 40, "real": [5.0] * 40})
    days = [
        [ClientReports(parted, place, bytes([k] * 32)).report([same])[0] for k in range(60)]
        for _ in range(2)
    ]
    first, again = (np.concatenate([each.records for each in day]) for day in days)
    assert first.size == again.size == 60
    assert np.array_equal(first["message"], again["message"])
    assert not (first["report_id"] == again["report_id"]).all(axis=1).any()
    assert len(np.unique(first["message"])) > 1


def test_rows_that_are_reported_each_by_itself_have_no_permanent_noise(parted) -> None:
    """With it equal rows of a user would give equal messages, and others hardly ever."""
    rows = parted.job.plan.model_copy(update={"unit": "row", "user_column": None})
    with pytest.raises(RequestError, match="names no user_column, so each row is reported"):
        ClientReports(split(rows, "all"), 0, bytes(32))
    assert len(ClientReports(split(rows, "all"), 0).report([table()])[0]) == 3


def test_what_permanent_noise_costs_over_time_is_told(parted) -> None:
    device = ClientReports(parted, 0, bytes(32))
    once = parted.mechanisms[0].local.epsilon
    assert device.over_time(1).epsilon == once
    assert device.over_time(5).epsilon == pytest.approx(5 * once)
    assert device.over_time(1).unit.startswith("user, over all time")


def test_fresh_noise_is_fresh(parted) -> None:
    """400 reports of one value at epsilon 4: all alike with probability below 0.97^400 < 1e-5."""
    reports, _ = ClientReports(parted, 0).report([pa.table({"value": ["a"] * 2000})])
    assert len(np.unique(reports.records["message"])) > 1


def test_what_is_drawn_anew_by_its_protocol_cannot_be_permanent(parted) -> None:
    with pytest.raises(RequestError, match="drawn anew for each report"):
        ClientReports(parted, 1, bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        ClientReports(parted, 0, bytes(5)).report([table()])


def test_a_secret_is_not_shown(parted) -> None:
    assert "secret" not in repr(ClientReports(parted, 0, b"\x07" * 32))
