"""Unknown strings in three parties: sealed alike, counted unread, and published beyond a crowd."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import public_key
from mechanisms.wire.strings import seal_strings, string_inputs
from pipelines.errors import FailedError
from pipelines.metrics.metric import slots
from pipelines.parties import drawing
from pipelines.parties.device import ClientReports
from pipelines.parties.string_keys import StringKeys
from pipelines.parties.submit import SubmitStringsDoFn
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.end_to_end.test_release_contract import losing
from tests.fakes import parties
from tests.fakes.parties import collect, key, made_keys, shuffle, without_noise
from transforms.encoders.strings import words_of
from transforms.shuffle.crowds import PartitionStringsDoFn, PublishCrowdsDoFn
from transforms.shuffle.sealed_crowds import OpenCrowdsDoFn

PLAN = """\
collection: heard
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
epsilon: 2
delta: 1e-6
metrics:
  - {name: heard, kind: strings, search: threshold, column: word, rows_per_user: 4, max_length: 20}
  - {name: places, kind: strings, search: threshold, column: place, max_length: 40}
"""
COUNT = "  - {name: people, kind: count, drawn_by: shuffler}\n"
TABLE = "strings.parquet"
N, LARGE = 2000, 700
KEPT = 10  # strings that more users hold than any threshold here, or more


def log(users: int = N) -> pa.Table:
    """Three rows of each user: the k-th word is held by about a k-th of them."""
    rng = np.random.default_rng(4)
    held = rng.zipf(1.3, (N, 3))[:users]
    words = [f"word {k}" if k < 10**6 else f"own {n}" for n, k in enumerate(held.ravel())]
    who = np.arange(users).repeat(3)
    places = [f"日本 {user % 5}" for user in who]
    return pa.table({"user": who, "word": words, "place": places})


@pytest.fixture(autouse=True)
def files(workspace: Path) -> None:
    parties.prepared(PLAN, log(), "d0", "d1", "w1", "w2")


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)


def client(source: str, into: str, *words: str, window: str = "d1") -> list[str]:
    words = words or ("--strings", "party")
    return parties.client("--input", source, "--output", into, *words, window=window)


def table(window: str = "d1", name: str = "heard") -> pa.Table:
    whole = pq.read_table(f"released/{window}/{name}/{TABLE}")
    names = whole.column_names
    return whole.select(names[names.index("value") :])  # before it stands which release it is


def values(window: str = "d1", name: str = "heard") -> dict[str, int]:
    columns = table(window, name)
    return dict(zip(columns["value"].to_pylist(), columns["estimate"].to_pylist(), strict=True))


def road(run, *sources: str, window: str = "d1") -> None:
    """Shuffle and collect some files of reports."""
    assert run(shuffle(*sources, into=f"out-{window}", window=window)).code == 0
    outcome = run(collect(f"out-{window}", window))
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.usefixtures("exact")
def test_three_parties_release_what_one_job_does(run) -> None:
    """Without noise, to the last row; from a log in two files and from a device."""
    whole = log()
    pq.write_table(whole.slice(0, 3000), "one.parquet")
    pq.write_table(whole.slice(3000), "two.parquet")
    own = whole.slice(len(whole) - 3)
    pq.write_table(whole.slice(3000, len(whole) - 3003), "two.parquet")
    for name in ("one", "two"):
        assert run(client(f"{name}.parquet", f"{name}.bin")).code == 0
    parted = split(load("plan.yaml"), "d1")
    pem = public_key(Path(key()).read_bytes())
    keys = StringKeys("party", "d1", parted.fingerprint, b"", "", 4)
    for place in (0, 1):
        device = ClientReports(parted, place, one=True, own=bytes(32))
        block, counted = device.sealed([own], pem, keys)
        assert (len(block), counted) == (1, {"rows read": 3})
        assert block.form.slots == slots(parted.metrics[place])
        assert not len(device.sealed([], pem, keys)[0])
        Path(f"own{place}.bin").write_bytes(binary.encode(block))
    outcome = run(shuffle("one.bin", "two.bin", "own*.bin", "one.bin", into="out-d1"))
    assert f"{2 * N:,} reports came; keep these numbers from the collector" in outcome.out
    outcome = run(collect("out-d1"))
    assert (outcome.code, outcome.err) == (0, "")
    assert run(["run", "plan.yaml", "--window", "d2"]).code == 0
    for name in ("heard", "places"):
        assert table("d1", name).equals(table("d2", name))
    true: dict[str, set[int]] = {}
    for row in whole.to_pylist():
        true.setdefault(row["word"], set()).add(row["user"])
    threshold = parted.metrics[0].crowds.threshold
    assert values() == {w: len(users) for w, users in true.items() if len(users) > threshold}
    assert values("d1", "places") == {f"日本 {k}": N // 5 for k in range(5)}


@pytest.mark.verify
def test_whoever_carries_reports_reads_nothing_and_all_are_of_one_size(run) -> None:
    assert run(client("log.parquet", "log.bin", "--metric", "heard", "--strings", "party"))
    parted = split(load("plan.yaml"), "d1")
    data = Path("log.bin").read_bytes()
    assert not re.search(rb"word \d|own \d|\xe6\x97\xa5\xe6\x9c\xac", data)
    block = binary.decode(data, parted.expected(parted.form(True, [0])))
    assert (len(block.reports), block.dropped) == (N, {})
    sealed = block.reports.records["sealed"].reshape(N * 4, -1)
    _, sizes = np.unique(sealed, axis=0, return_counts=True)
    # Equal strings are equal seals; what is left over, and rare, is alike once each.
    assert sizes.max() == max(len({*u}) for u in _holders().values())
    assert (sizes == 1).sum() >= N
    assert run(shuffle("log.bin")).code == 0
    handed = b"".join(path.read_bytes() for path in Path("out").iterdir())
    assert not re.search(rb"word \d|own \d|\xe6\x97\xa5\xe6\x9c\xac", handed)


def _holders() -> dict[str, list[int]]:
    held: dict[str, list[int]] = {}
    for row in log().to_pylist():
        held.setdefault(row["word"], []).append(row["user"])
    return held


@pytest.mark.verify
@pytest.mark.usefixtures("exact")
def test_two_logs_that_differ_by_one_user_are_handed_on_alike(run) -> None:
    """All that collector and public see is the same but for seals, times and figures."""
    told, rows = [], []
    for window, users in (("w1", N), ("w2", N - 1)):
        pq.write_table(log(users), f"{window}.parquet")
        assert run(client(f"{window}.parquet", f"{window}.bin", window=window)).code == 0
        road(run, f"{window}.bin", window=window)
        seen: dict[str, Any] = {}
        for path in sorted(
            [*Path(f"out-{window}").iterdir(), *Path(f"released/{window}").rglob("*")]
        ):
            name = str(path).replace(window, "window")
            if path.suffix == ".parquet":
                seen[name] = pq.read_schema(path).names, pq.read_schema(path).types
            elif path.suffix == ".json" and path.name != "signature.json":  # of digests of noise
                seen[name] = _masked(path.read_text(), window)
        told.append(seen)
        handed = [pq.read_table(path) for path in sorted(Path(f"out-{window}").glob("reports*"))]
        assert len(handed) == drawing.FILES
        rows.append(pa.concat_tables(handed))
    assert told[0] == told[1]
    one, two = (np.sort(part["value"].to_numpy())[::-1].astype(int) for part in rows)
    assert one.size == two.size > KEPT
    assert 0 < np.abs(one - two).sum() <= 5  # of five strings that the one user may have


def _masked(text: str, window: str) -> str:
    drawn = r'"(created|release_id|shuffle_id|fingerprint)": "[^"]*"'
    return re.sub(drawn, '"drawn"', text.replace(window, "window"))


@pytest.mark.verify
def test_devices_that_asked_another_party_are_a_crowd_of_their_own(run, monkeypatch) -> None:
    whole = log()
    pq.write_table(whole.slice(0, 30), "few.parquet")
    pq.write_table(whole.slice(30), "rest.parquet")
    made_keys("d1", folder="other")
    assert run(client("few.parquet", "few.bin", "--strings", "other")).code == 0
    assert run(client("rest.parquet", "rest.bin")).code == 0
    with monkeypatch.context() as patch:
        without_noise(patch)
        road(run, "few.bin", "rest.bin", window="d1")
    users = {v for word, held in _holders().items() for v in held if word == "word 1" and v >= 10}
    assert values()["word 1"] == len(users)


@pytest.mark.verify
@pytest.mark.usefixtures("exact")
def test_words_that_are_forged_come_to_nothing(run) -> None:
    """A crowd of seals that do not open, and one of a string that no client writes."""
    assert run(client("log.parquet", "log.bin")).code == 0
    parted = split(load("plan.yaml"), "d1")
    words = words_of(pa.array(["forged"], pa.large_string()), 20)
    padded = np.repeat(words[:, None], 4, axis=1)
    padded[..., -1] = 7
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 1 << 63, (200, 2)).astype(np.uint64)
    rows, pem = padded.repeat(200, axis=0), public_key(Path(key()).read_bytes())
    outputs = dict.fromkeys(string_inputs(parted.fingerprint, 0, rows, pem), bytes(64))
    block = seal_strings(parted.fingerprint, 0, rows, ids, outputs, pem)
    noise = Reports(parted.fingerprint, block.form, block.records.copy())
    noise.records["sealed"], noise.records["report_id"] = 9, ids + np.uint64(1)
    for name, made in (("padded", block), ("noise", noise)):
        Path(f"{name}.bin").write_bytes(binary.encode(made))
    assert run(shuffle("log.bin", "padded.bin", "noise.bin", into="out-d1")).code == 0
    outcome = run(collect("out-d1"))
    assert (outcome.code, outcome.err) == (0, "")
    heard = values()
    assert "forged" not in heard
    assert heard["word 1"] == len({*_holders()["word 1"]})
    said = json.loads(Path("released/d1/heard/statement.json").read_text())
    assert said["search"]["strings"] == len(heard)
    assert not re.search(r"\b(200|400)\b|not open", json.dumps(said))


@pytest.mark.verify
def test_a_window_is_drawn_once_however_often_it_is_killed(run, monkeypatch) -> None:
    assert run(client("log.parquet", "log.bin")).code == 0
    draws, publish = [], Crowds.publish
    monkeypatch.setattr(
        Crowds, "publish", lambda self, sizes, rng: draws.append(1) or publish(self, sizes, rng)
    )

    def killed(*_: object) -> None:
        raise FailedError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(drawing, "_copy", killed)
        assert run(shuffle("log.bin")).code == 3
    drawn = len(draws)
    assert drawn > 0
    pq.write_table(log(10), "late.parquet")
    assert run(client("late.parquet", "late.bin")).code == 0
    assert run(shuffle("log.bin", "late.bin")).code == 0
    handed = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    outcome = run(shuffle("log.bin"))
    assert (outcome.code, "shuffled before, and not again: out" in outcome.out) == (0, True)
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == handed
    assert run(shuffle("log.bin", into="elsewhere")).code != 0
    assert len(draws) == drawn
    assert run(collect()).code == 0


@pytest.mark.verify
def test_an_empty_window_and_rows_that_are_nobodys(run) -> None:
    Path("plan.yaml").write_text(
        PLAN.replace("user_column: user\nunit: user", "unit: row").replace("rows_per_user: 4, ", "")
    )
    rmtree("party")
    made_keys("d1")
    road(run, "nobody*.bin", window="d0")
    assert values("d0") == {}
    assert run(client("log.parquet", "log.bin")).code == 0
    road(run, "log.bin", window="d1")
    rows = log()["word"].to_pylist().count("word 1")
    assert abs(values()["word 1"] - rows) < 40


@pytest.mark.verify
@pytest.mark.parametrize(
    ("step", "name"),
    [
        (PartitionStringsDoFn, "finish_bundle"),
        (PublishCrowdsDoFn, "process"),
        (SubmitStringsDoFn, "process"),
        (OpenCrowdsDoFn, "process"),
    ],
)
def test_what_an_engine_loses_is_handed_to_nobody(run, monkeypatch, step: Any, name: str) -> None:
    """Whichever party's: a block less, and the command says so."""
    with monkeypatch.context() as patch:
        # Of the 64 files of a batch some hold no string.
        empty = (lambda block: not block.messages) if step is OpenCrowdsDoFn else (lambda _: False)
        patch.setattr(step, name, losing(getattr(step, name), empty))
        codes = [run(client("log.parquet", "log.bin")).code]
        if not codes[-1]:
            codes.append(run(shuffle("log.bin")).code)
        if not codes[-1]:
            codes.append(run(collect()).code)
    assert codes[-1] == 3
    done = {SubmitStringsDoFn: "log.bin", OpenCrowdsDoFn: f"released/d1/heard/{TABLE}"}
    assert not Path(done.get(step, "out/shuffle.json")).exists()


def test_bad_requests_are_one_line(run, refused) -> None:
    refused(client("log.parquet", "r.bin", "--metric", "heard"), "--strings is missing")
    strange = client("log.parquet", "r.bin", "--strings", "nowhere")
    refused(
        strange, "strings.seed holds no seed (No such file or directory): `hushbeam parties keys"
    )
    refused(client("log.parquet", "r.bin", window="d9"), "`hushbeam parties keys strings` makes it")
    more = client("log.parquet", "r.bin", "--strings", "party", "--query-tokens", "paid")
    refused(more, "--query-tokens: --strings is a folder, for a trial: leave it out")
    web = client("log.parquet", "r.bin", "--strings", "https://strings.example")
    refused(web, "--strings: name --query-tokens, --keys and --signer, too")
    refused(client("log.parquet", "r.parquet"), "a Parquet file has room for reports of one width")
    refused([*shuffle("log.parquet")[:-4], "--output", "out"], "--seal is missing")
    Path("plan.yaml").write_text(PLAN + COUNT)
    refused(shuffle("log.parquet"), "metric people: words of counters and strings that are sealed")
    Path("plan.yaml").write_text(PLAN.replace("rows_per_user: 4", "rows_per_user: 700"))
    refused(shuffle("log.parquet"), "a report has room for 1,169 messages, and this one has 1,400")
    Path("plan.yaml").write_text(PLAN.partition("  - {name: heard")[0] + COUNT)
    words = client("log.parquet", "r.bin", "--strings", "party")
    refused(words, "--strings: no metric here seals strings whole")
