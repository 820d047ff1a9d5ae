"""A device's reports: of its values, one of a user's, and the same for ever if it has a secret."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.parties.device import ClientReports
from pipelines.plan.document import PlanDocument
from pipelines.plan.split import Split, split

COLUMNS = {"value": ["a", "b", None, "c", "z"], "real": [0.0, 5.0, None, 10.0, float("nan")]}


def lasting(parted: Split) -> Split:
    """The same with permanent noise, of the metrics that can have it."""
    plan = parted.job.plan
    kept = tuple(metric for metric in plan.metrics if metric.kind != "strings")
    more = {"noise": "permanent", "distinct_values": 3, "metrics": kept}
    return split(plan.model_copy(update=more), "all")


@pytest.fixture(scope="module")
def permanent(parted: Split) -> Split:
    """Of `parted`: a histogram, a mean and a distribution, at an epsilon at which most lie."""
    plan = parted.job.plan.model_copy(update={"epsilon": 4.0})
    return lasting(split(plan, "all"))


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """One metric of each kind that can be divided, in the local model; users answer all."""
    domain = tmp_path_factory.mktemp("device") / "values.txt"
    domain.write_text("a\nb\nc\n")
    metrics = [
        {"kind": "histogram", "column": "value", "domain": str(domain)},
        {"kind": "strings", "search": "levels", "column": "value", "max_length": 4},
        {"kind": "mean", "column": "real", "bounds": "0,10"},
        {"kind": "distribution", "column": "real", "bounds": "0,10"},
    ]
    plan = PlanDocument(
        collection="device", version=1, input="x", output="y", epsilon=16, model="local",
        unit="user", user_column="user", min_reports=100,
        metrics=[{"name": m["kind"], **m} for m in metrics],
    )  # fmt: skip
    return split(plan, "all")


def open_rng() -> SeededRandom:
    return SeededRandom(3)


def table(times: int = 1) -> pa.Table:
    return pa.table({name: values * times for name, values in COLUMNS.items()})


@pytest.mark.parametrize(("place", "usable"), [(0, 5), (1, 5), (2, 5), (3, 5)])
def test_values_become_reports_and_others_are_counted(parted, place, usable) -> None:
    reports, counted = ClientReports(parted, place, open_rng=open_rng).report([table(), table()])
    assert len(reports) == 2 * usable
    assert set(reports.records["metric"]) == {place}
    assert parted.mechanisms[place].valid(reports.records["message"]).all()
    assert len(np.unique(reports.records["report_id"], axis=0)) == 2 * usable
    assert counted["rows read"] == 10
    assert sum(counted.values()) - 10 == 10 - 2 * usable


def test_of_a_user_one_value_is_reported_and_any_of_them(parted, permanent) -> None:
    """200 devices: each of three values, and none, is missed with probability 0.8^200 < 1e-19."""
    secret, seen = bytes(32), set()
    for seed in range(200):
        device = ClientReports(permanent, 0, secret, True, lambda seed=seed: SeededRandom(seed))
        reports, _ = device.report([table()])
        assert len(reports) == 1
        seen.update(reports.records["message"].tolist())
    alone = [
        ClientReports(permanent, 0, secret).report([pa.table({"value": [text]})])[0]
        for text in ("a", "b", "c", None)
    ]
    assert seen == {int(each.records["message"][0]) for each in alone}
    assert len(ClientReports(parted, 0, one=True, own=secret).report([])[0]) == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_noise_is_permanent_and_a_window_has_one_id_of_a_user(permanent, place) -> None:
    """Of each user one report a day; each of 60 users' is one message with probability < 0.7.

    At an epsilon below 1.5 over three values and none the likeliest message has probability 0.6;
    all alike below 0.7^60 < 1e-9.
    """
    same = pa.table({"value": ["b"] * 40, "real": [5.0] * 40})
    days = [
        [ClientReports(permanent, place, bytes([k] * 32)).report([same])[0] for k in range(60)]
        for _ in range(2)
    ]
    first, again = (np.concatenate([each.records for each in day]) for day in days)
    assert first.size == again.size == 60
    assert np.array_equal(first["message"], again["message"])
    assert np.array_equal(first["report_id"], again["report_id"])
    assert len(np.unique(first["report_id"], axis=0)) == 60
    assert len(np.unique(first["message"])) > 1


def test_rows_that_are_reported_each_by_itself_have_no_permanent_noise(parted) -> None:
    """With it equal rows of a user would give equal messages, and others hardly ever."""
    rows = parted.job.plan.model_copy(update={"unit": "row", "user_column": None})
    with pytest.raises(RequestError, match="names no user_column, so each row is reported"):
        ClientReports(split(rows, "all"), 0, bytes(32))
    assert len(ClientReports(split(rows, "all"), 0).report([table()])[0]) == 5


def test_what_permanent_noise_costs_over_time_is_told(permanent) -> None:
    device = ClientReports(permanent, 0, bytes(32))
    once = permanent.mechanisms[0].local.epsilon
    assert device.over_time(1).epsilon == once
    assert device.over_time(5).epsilon == pytest.approx(5 * once)
    assert device.over_time(1).unit.startswith("user, over all time")


def test_fresh_noise_is_fresh(parted) -> None:
    """2,000 reports of one value at epsilon 4: all alike with probability 0.95^2000."""
    reports, _ = ClientReports(parted, 0).report([pa.table({"value": ["a"] * 2000})])
    assert len(np.unique(reports.records["message"])) > 1


def test_what_is_drawn_anew_by_its_protocol_cannot_be_permanent(parted, permanent) -> None:
    plan = parted.job.plan.model_copy(update={"noise": "permanent", "distinct_values": 3})
    match = r"strings: noise cannot be permanent: .*anew"
    with pytest.raises(RequestError, match=match):
        split(plan, "all")
    with pytest.raises(ValueError, match="32 bytes"):
        ClientReports(permanent, 0, bytes(5)).report([table()])


def test_noise_is_what_the_plan_says(parted, permanent) -> None:
    """Its price depends on it; and what is made under one kind carries the fingerprint of it."""
    with pytest.raises(RequestError, match="the plan says noise: fresh, and prices"):
        ClientReports(parted, 0, bytes(32))
    with pytest.raises(RequestError, match="the plan says permanent: each user's client draws it"):
        ClientReports(permanent, 0, one=True, own=bytes(32))
    fresh = permanent.job.plan.model_copy(update={"noise": "fresh", "distinct_values": None})
    four = permanent.job.plan.model_copy(update={"distinct_values": 4})
    marks = {each.fingerprint for each in (permanent, split(fresh, "all"), split(four, "all"))}
    assert len(marks) == 3


def test_a_secret_is_not_shown(permanent) -> None:
    assert "secret" not in repr(ClientReports(permanent, 0, b"\x07" * 32))


# ---- rows of several columns ---------------------------------------------------------------------

ROWS = {"x": [1.0, 9.0, None], "v": [[0.0, 5.0, 10.0], [5.0, 5.0, 5.0], [1.0, 2.0]], "k": [0, 1, 2]}
OF_ROWS = [
    {"kind": "vector-mean", "number": ["x=0,10"], "vector": ["v=3:0,10"]},  # of coordinates
    {"kind": "vector-mean", "number": ["x=0,10"], "category": ["k=0..2"]},  # of whole rows
    {"kind": "mean", "column": "x", "bounds": "0,10", "group_by": "k", "groups": "0..2"},
]


@pytest.fixture(scope="module", params=range(len(OF_ROWS)))
def of_rows(request: pytest.FixtureRequest) -> ClientReports:
    """A device for one metric of rows, which reports every row."""
    plan = PlanDocument(
        collection="device", version=1, input="x", output="y", epsilon=1.5, model="local",
        unit="user", user_column="user", min_reports=100,
        metrics=[{"name": "rows", **OF_ROWS[request.param]}],
    )  # fmt: skip
    return ClientReports(split(plan, "all"), 0)


def rows(*chosen: int) -> pa.Table:
    return pa.table({name: [column[k] for k in chosen] for name, column in ROWS.items()})


def test_rows_become_reports(of_rows) -> None:
    reports, counted = of_rows.report([rows(0, 1), rows(2, 0)])
    assert counted["rows read"] == 4
    assert len(reports) + sum(counted.values()) - 4 == 4
    assert of_rows.parted.mechanisms[0].valid(reports.records["message"]).all()


def test_equal_rows_of_a_user_get_equal_messages_for_ever(of_rows) -> None:
    """Of 60 users, each twice; were noise fresh, all would agree with probability < 0.9^60."""
    permanent = lasting(of_rows.parted)
    devices = [ClientReports(permanent, 0, bytes([k] * 32)) for k in range(60)]
    first, again = (
        np.concatenate([device.report([rows(0)])[0].records for device in devices])
        for _ in range(2)
    )
    assert np.array_equal(first["message"], again["message"])
    assert len(np.unique(first["message"])) > 1
    assert np.array_equal(first["report_id"], again["report_id"])
    assert len(np.unique(first["report_id"], axis=0)) == 60


def test_a_user_reports_one_coordinate_for_ever_and_users_all_alike() -> None:
    """Counts of four coordinates among 400 users stay within 6.5 standard deviations (1e-10)."""
    plan = PlanDocument(
        collection="device", version=1, input="x", output="y", epsilon=1, model="local",
        unit="user", user_column="user", min_reports=100,
        metrics=[{"name": "rows", **OF_ROWS[0]}],
    )  # fmt: skip
    parted = lasting(split(plan, "all"))
    size = parted.mechanisms[0].codes // 4
    for user in range(20):
        device = ClientReports(parted, 0, bytes([user] * 32))
        days = [device.report([rows(k)])[0].records["message"] for k in (0, 1)]
        assert len({int(message) // size for message in np.concatenate(days)}) == 1
    choice, users = parted.metrics[0].sampled, 400
    clients = (
        MemoisedClient(user.to_bytes(32, "big"), bytes(16), 0, choice) for user in range(users)
    )
    counts = np.bincount([int(client.choose()[0, 0]) for client in clients], minlength=4)
    assert counts.size == 4
    assert np.all(np.abs(counts - users / 4) < 6.5 * np.sqrt(users * 3 / 16))
