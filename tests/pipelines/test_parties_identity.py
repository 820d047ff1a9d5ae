"""A user counts once in a window, however often, and with whatever values, they are reported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from pipelines.errors import Caution, RequestError
from pipelines.parties.device import ClientReports
from pipelines.plan.document import PlanDocument
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from pipelines.storage import secrets

N = 1200
# At so large an epsilon each user answers both metrics; at a usual one, either.
PLAN = """\
collection: once
version: 1
unit: user
user_column: user
input: none.parquet
output: out
epsilon: 12
model: local
min_reports: 500
metrics:
  - {name: city, kind: histogram, column: city, domain: 0..3, mechanism: grr}
  - {name: again, kind: histogram, column: city, domain: 0..3, mechanism: grr}
"""


def log(name: str, users: pa.Array, seed: int = 0) -> str:
    cities = (np.arange(len(users)) + seed) % 4
    pq.write_table(pa.table({"user": users, "city": cities}), name)
    return name


def client(run, *words: str, out: str) -> np.ndarray:
    outcome = run(["parties", "client", "plan.yaml", *words, "--output", out])
    assert outcome.code == 0, outcome.err
    return records(out)


def records(name: str, sealed: bool = False) -> np.ndarray:
    expected = split(load("plan.yaml"), "all").expected(Form(sealed=sealed))
    return binary.decode(Path(name).read_bytes(), expected).reports.records


@pytest.fixture
def plan(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("plan.yaml").write_text(PLAN)
    monkeypatch.setenv("XDG_STATE_HOME", str(workspace / "state"))


@pytest.mark.parametrize("sealed", [False, pytest.param(True, marks=pytest.mark.verify)])
def test_two_runs_over_the_same_users_are_one_report_of_each(run, plan, sealed) -> None:
    """2,400 reports of 1,200 users, of other rows, types and carriers: 1,200 are sent on."""
    first = log("first.parquet", pa.array(range(N), pa.int64()))
    second = log("second.parquet", pa.array(map(str, range(N))).dictionary_encode(), seed=1)
    keys: list[str] = []
    if sealed:
        assert run(["parties", "keys", "new", "keys"]).code == 0
        keys = ["--seal", str(next(Path("keys").glob("*.public.pem")))]
    words = ["--metric", "city", *keys]
    for source, out in ((first, "a.bin"), (second, "b.parquet")):
        assert (
            run(["parties", "client", "plan.yaml", "--input", source, *words, "--output", out]).code
            == 0
        )
    outcome = run(["parties", "shuffle", "plan.yaml", "--input", "a.bin", "b.parquet",
                   "--output", "mixed", *keys])  # fmt: skip
    assert outcome.code == 0, outcome.err
    summary = json.loads(Path("mixed/shuffle.json").read_text())
    assert summary["metrics"]["city"] == {"min_reports": 500, "reports": N, "sent_on": N}
    assert summary["dropped"] == {"duplicate": N}


def require_ordered(sent: np.ndarray) -> None:
    """A place in a file says nothing but the id, which is another one in each metric and window.

    Users' rows are bounded in an order that is always the same: by it they were linked.
    """
    order = np.lexsort((sent["report_id"][:, 0], sent["metric"]))
    assert np.array_equal(order, np.arange(len(sent)))


@pytest.mark.parametrize("one", [True, False], ids=["users", "rows"])
def test_reports_stand_in_the_order_of_their_ids(run, plan, one) -> None:
    if not one:
        Path("plan.yaml").write_text(PLAN.replace("unit: user\nuser_column: user\n", ""))
    source = log("log.parquet", pa.array(range(N)))
    sent = client(run, "--input", source, out="a.bin")
    assert len(sent) == 2 * N
    require_ordered(sent)


@pytest.mark.verify
def test_ids_are_of_users_and_not_of_what_they_say(run, plan) -> None:
    source = log("log.parquet", pa.array([f"user {k}" for k in range(N)]))
    twice = [client(run, "--input", source, out=f"{k}.bin") for k in range(2)]
    ids = [{record["report_id"].tobytes() for record in sent} for sent in twice]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 2 * N  # another one in each metric: nothing links a user's two
    of_first = [np.sort(sent["report_id"][sent["metric"] == 0], axis=0) for sent in twice]
    assert np.array_equal(*of_first)


@pytest.mark.verify
def test_another_secret_makes_other_ids(run, plan) -> None:
    source = log("log.parquet", pa.array(range(N)))
    own = client(run, "--input", source, "--metric", "city", out="a.bin")["report_id"]
    other = client(run, "--input", source, "--metric", "city", "--report-secret", "mine",
                   out="b.bin")["report_id"]  # fmt: skip
    assert not {one.tobytes() for one in own} & {one.tobytes() for one in other}
    assert os.stat("mine").st_mode & 0o777 == 0o600


@pytest.mark.verify
def test_a_secret_is_made_once_and_said_once(run, plan) -> None:
    source = log("log.parquet", pa.array(range(9)))
    words = ["parties", "client", "plan.yaml", "--input", source, "--output"]
    first, second = run([*words, "a.bin"]), run([*words, "b.bin"])
    assert "made " in first.err
    assert "keep it" in first.err
    assert second.err == ""
    file = Path("state/hushbeam/report-secret")
    assert (file.stat().st_mode & 0o777, file.stat().st_size) == (0o600, 32)
    assert [path.name for path in file.parent.iterdir()] == ["report-secret"]


@pytest.mark.verify
def test_rows_that_are_nobodys_are_not_named(run, plan) -> None:
    """Equal rows are different rows; and a secret would have nothing to name."""
    Path("plan.yaml").write_text(PLAN.replace("unit: user\nuser_column: user\n", ""))
    pq.write_table(pa.table({"city": [1] * N}), "log.parquet")
    sent = client(run, "--input", "log.parquet", "--metric", "city", out="a.bin")
    assert len(np.unique(sent["report_id"], axis=0)) == N
    assert not Path("state").exists()
    outcome = run(["parties", "client", "plan.yaml", "--input", "log.parquet",
                   "--report-secret", "mine", "--output", "b.bin"])  # fmt: skip
    assert (outcome.code, "names no user_column" in outcome.err) == (2, True)
    assert not Path("mine").exists()


@pytest.mark.parametrize("content", [b"", bytes(31), bytes(33)])
def test_what_is_no_secret_is_refused(run, plan, content) -> None:
    Path("mine").write_bytes(content)
    source = log("log.parquet", pa.array(range(9)))
    outcome = run(["parties", "client", "plan.yaml", "--input", source, "--report-secret", "mine",
                   "--output", "b.bin"])  # fmt: skip
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "--report-secret: mine must hold 32 random bytes" in outcome.err
    assert not Path("b.bin").exists()


def test_a_secret_that_another_process_made_first_stays(plan, monkeypatch) -> None:
    """Between the look and the making of it another one was faster."""
    Path("mine").write_bytes(b"x" * 32)
    monkeypatch.setattr(secrets.os.path, "exists", lambda _: False)
    with pytest.warns(Caution, match="made mine"):
        assert secrets.made_once(secrets.REPORTS, "mine") == "mine"
    assert Path("mine").read_bytes() == b"x" * 32
    assert not [path for path in Path().iterdir() if path.name.startswith("tmp") and
                path.is_file()]  # fmt: skip


# ---- devices -------------------------------------------------------------------------------------


def parted(**more: object) -> Split:
    plan = PlanDocument(
        collection="device", version=1, input="x", output="y-{window}", epsilon=2, model="local",
        unit="user per window", user_column="user", min_reports=100,
        metrics=[{"name": "city", "kind": "histogram", "column": "city", "domain": "0..3"}],
        **more,
    )  # fmt: skip
    return split(plan, "stream" if "stream" in more else "2026-11-20")


def report(of: Split, secret: bytes) -> Reports:
    device = ClientReports(of, 0, one=True, own=secret)
    return device.report([pa.table({"city": [1, 2, 3]})])[0]


def test_a_device_has_one_id_in_a_window() -> None:
    ids = [report(parted(), bytes([k]) * 32).records["report_id"] for k in (1, 1, 2)]
    assert np.array_equal(ids[0], ids[1])
    assert not (ids[0] == ids[2]).any()


def test_a_stream_has_windows_by_the_clock(monkeypatch) -> None:
    """One fingerprint serves them all, so the id must tell them apart, and no other thing does."""
    stream = {"stream": {"window": "1h", "state": "state"}}
    ids, marks = [], set()
    for minute in (6, 54, 66):
        moment = minute * 60_000_000
        monkeypatch.setattr("pipelines.plan.split.now", lambda moment=moment: moment)
        sent = report(parted(**stream), bytes(32))
        ids.append(sent.records["report_id"])
        marks.add(sent.fingerprint)
    assert len(marks) == 1
    assert np.array_equal(ids[0], ids[1])
    assert not (ids[0] == ids[2]).any()


def test_a_users_report_without_a_secret_is_refused() -> None:
    with pytest.raises(RequestError, match="named under a secret"):
        ClientReports(parted(), 0, one=True)
