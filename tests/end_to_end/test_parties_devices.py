"""Counts in three parties whose devices draw the dummies: every one of them sends, rows or not."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.wire import binary
from mechanisms.wire.report import Form
from mechanisms.wire.sealing import KeyRing, create_key, public_key
from pipelines.parties.device import ClientReports
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.fakes.parties import client, collect, key, masked, shuffle
from transforms.shuffle.slots import CountWords

PLAN = """\
collection: drawn
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
epsilon: 9
delta: 1e-6
honest_share: 0.5
metrics:
  - {name: cities, kind: count, column: city, domain: 0..2, rows_per_user: 2, ABOUT}
  - {name: much, kind: sum, column: city, bounds: "0,2", whole_numbers: true, ABOUT}
""".replace("ABOUT", "drawn_by: devices, enrolled: 40")
OTHERS = """\
  - {name: avg, kind: mean, column: city, bounds: "0,2", ABOUT}
  - {name: shape, kind: distribution, column: city, bounds: "0,2", bins: 4, ABOUT}
  - {name: valued, kind: histogram, column: city, domain: 0..1, rows_per_user: 2, ABOUT}
""".replace("ABOUT", "drawn_by: devices, enrolled: 40")
# What depends on what is drawn, or on the window's name.
DRAWN = "created|release_id|shuffle_id|fingerprint|design|plan"
FULL = 6.5  # standard errors: noise is near enough to normal for a false alarm below 1e-9


@pytest.fixture
def parted(workspace: Path) -> Split:
    """A plan, a log of 30 users, two rows each, a list of 40 devices, theirs among them, a key."""
    Path("plan.yaml").write_text(PLAN)
    users = np.arange(60) // 2
    pq.write_table(pa.table({"user": users, "city": np.arange(60) % 3}), "log.parquet")
    Path("devices.txt").write_text("".join(f"{user}\n" for user in range(40)))
    Path("keys").mkdir()
    create_key(workspace / "keys")
    return split(load("plan.yaml"), "d1")


def gateway(log: str, output: str, window: str = "d1") -> list[str]:
    words = ["--input", log, "--devices", "devices.txt", "--output", output]
    return client(*words, window=window)


def estimates(name: str, file: str, window: str = "d1") -> list[float]:
    return pq.read_table(f"released/{window}/{name}/{file}")["estimate"].to_pylist()


def sent(path: str, parted: Split):
    """All reports of a file, in their order."""
    with open(path, "rb") as stream:
        blocks = [*binary.read(stream, parted.expected(Form(sealed=True, slots=1)))]
    assert not any(block.dropped for block in blocks)
    return [block.reports for block in blocks]


@pytest.mark.verify
def test_the_road_of_devices_from_a_gateway_and_from_a_device(run, parted) -> None:
    """What is published lies within the noise of the devices; a report that is lost spoils none."""
    assert run(gateway("log.parquet", "log.bin")).code == 0
    assert sum(map(len, sent("log.bin", parted))) == 2 * 40
    outcome = run(shuffle("log.bin", into="out"))
    assert outcome.code == 0, outcome.said
    assert "80 reports came" in outcome.out
    outcome = run(collect("out"))
    assert (outcome.code, outcome.err) == (0, "")
    cities = parted.metrics[0]
    for found, truth in zip(estimates("cities", "count.parquet"), [20, 20, 20, 0], strict=True):
        assert abs(found - truth) <= FULL * cities.error
    assert abs(estimates("much", "sum.parquet")[0] - 50) <= FULL * parted.metrics[1].error
    said = json.loads(Path("released/d1/cities/statement.json").read_text())
    assert said["devices"] == {"enrolled": 40, "counted_on": 20, "sent": 40}
    assert said["mechanism"]["drawn_by"] == "devices"
    whole = json.dumps(said)
    assert "all that it was sent; it counts on 20 devices" in whole
    assert "No exact counts are published, except how many devices sent" in whole
    assert "the job that read the log" not in whole
    slots = parted.counters[0].layout.poisoning
    assert said["poisoning"]["per_liar"] == slots[0]
    assert "20 of 40 are counted on" in said["guarantees"]["release"]["how"]


@pytest.mark.verify
def test_the_collector_is_handed_whole_batches_of_enough_devices(run, parted) -> None:
    """Fewer than draw the noise are withheld, and may be shuffled again with those that lacked."""
    names = Path("devices.txt").read_text().split()
    for file, part in (("few", names[:19]), ("more", names[19:35])):
        Path("devices.txt").write_text("\n".join(part))
        outcome = run(gateway("log.parquet", f"{file}.bin"))
        assert outcome.code == 0
        strangers = 11 if file == "few" else 19
        assert f"left out: {2 * strangers} users who are not enrolled" in outcome.out
    outcome = run(shuffle("few.bin", into="out"))
    assert outcome.code == 1
    assert "withheld: 1 more device has to send" in outcome.err
    assert not Path("out").exists()
    assert run(shuffle("few.bin", "more.bin", "few.bin", into="out")).code == 0
    outcome = run(collect("out"))
    assert outcome.code == 0, outcome.said
    assert json.loads(Path("released/d1/much/statement.json").read_text())["devices"]["sent"] == 35
    assert abs(estimates("much", "sum.parquet")[0] - 50) <= FULL * parted.metrics[1].error


@pytest.mark.verify
def test_what_is_sent_does_not_tell_who_has_rows(run, parted) -> None:
    """Of two logs that differ by all of their rows: names, their order, sizes and slots."""
    pq.write_table(pq.read_table("log.parquet").slice(0, 0), "none.parquet")
    views = []
    for log in ("log", "none"):
        assert run(gateway(f"{log}.parquet", f"{log}.bin")).code == 0
        reports = sent(f"{log}.bin", parted)
        # Which metric's reports come first is the runner's, run by run.
        names = sorted(block.records["report_id"].tolist() for block in reports)
        views.append((Path(f"{log}.bin").stat().st_size, names))
    assert views[0] == views[1]
    # A device by itself, too, whose values come one a line.
    pem = public_key(Path(key()).read_bytes())
    for place in (0, 1):
        device = ClientReports(parted, place, one=True, own=bytes(32))
        busy, idle = (device.sealed(tables, pem)[0] for tables in ([lines(1, 2)], []))
        assert len(busy) == len(idle) == 1
        assert busy.form == idle.form
        assert busy.records["report_id"].tolist() == idle.records["report_id"].tolist()


def lines(*cities: int) -> pa.Table:
    return pa.table({"city": [*cities]})


@pytest.mark.verify
def test_the_statements_of_two_logs_that_differ_by_one_user_are_the_same(run, parted) -> None:
    """And of nobody's: all that is handed over and said, but for ids, times and estimates."""
    pq.write_table(pq.read_table("log.parquet").slice(0, 58), "less.parquet")
    pq.write_table(pq.read_table("log.parquet").slice(0, 0), "none.parquet")
    told = []
    for window, log in (("w1", "log"), ("w2", "less"), ("w3", "none")):
        assert run(gateway(f"{log}.parquet", f"{log}.bin", window)).code == 0
        assert run(shuffle(f"{log}.bin", into=f"out-{window}", window=window)).code == 0
        outcome = run(collect(f"out-{window}", window))
        assert outcome.code == 0
        # Of so few devices noise alone may call for a caution, once in some twenty windows.
        assert all("that cannot be used" in line for line in outcome.err.splitlines())
        texts = [
            *Path("released", window).rglob("statement.json"),
            Path(f"out-{window}/shuffle.json"),
        ]
        told.append([masked(path.read_text(), window, DRAWN) for path in sorted(texts)])
        told[-1].append(str(sorted(path.name for path in Path("released", window).rglob("*"))))
    assert told[0] == told[1] == told[2]
    assert abs(estimates("much", "sum.parquet", "w3")[0]) <= FULL * parted.metrics[1].error


@pytest.mark.verify
def test_all_kinds_that_devices_may_draw_for_have_a_way(parted) -> None:
    """A device reports each, with rows and without; and all that it sends is a code."""
    Path("plan.yaml").write_text(PLAN + OTHERS)
    parted = split(load("plan.yaml"), "d1")
    pem, ring = public_key(Path(key()).read_bytes()), KeyRing.read(Path("keys"))
    for place, counters in enumerate(parted.counters):
        own = ClientReports(parted, place, one=True, own=bytes(32))
        for tables in ([lines(1, 2, 1)], [lines()], []):
            block, _ = own.sealed(tables, pem)
            step = CountWords(place, counters.layout)
            opened = ring.open(block.apart(counters.layout.types)).reports
            found = step.add_input(step.create_accumulator(), opened)
            assert (found.counts.sum(), found.invalid) == (counters.messages, 0)
            assert counters.reports(found.counts) == 1
        assert parted.metrics[place].guarantees[0].delta <= 1e-6


@pytest.mark.verify
def test_bad_requests_are_one_line(refused, run, parted, monkeypatch) -> None:
    one = client("--input", "log.parquet", "--output", "r.bin")
    refused(one, "--devices is missing: where devices draw the dummies every enrolled one sends")
    refused([*one, "--devices", "no.txt"], "--devices: no.txt: ")
    Path("many.txt").write_text("\n".join(map(str, range(41))))
    Path("nobody.txt").write_text("\n\n")
    refused([*one, "--devices", "many.txt"], "lists 41 devices, and the plan has 40 enrolled")
    refused([*one, "--devices", "nobody.txt"], "lists 0 devices")
    own = client("--metric", "much", "--input", "-", "--output", "r.bin")
    refused([*own, "--devices", "devices.txt"], "one device sends what it has: leave it out")
    text = Path("plan.yaml").read_text()
    Path("plan.yaml").write_text(
        text.replace("user_column: user\nunit: user", "unit: row").replace("rows_per_user: 2, ", "")
    )
    refused(one, "name a user_column, with a unit of users")
    crowded = text.replace("0..2, rows_per_user: 2", "0..4000, rows_per_user: 100")
    Path("plan.yaml").write_text(crowded)
    refused(one, "of them for its dummies, and may have 1,169")
    Path("plan.yaml").write_text(text.replace("devices, enrolled: 40", "shuffler, expected: 40"))
    refused([*one, "--devices", "devices.txt"], "no metric here says drawn_by: devices")
    Path("plan.yaml").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    outcome = run(own)
    assert outcome.code == 0, outcome.said
    assert "1 report in" in outcome.out  # a device that has nothing to say
    with pytest.raises(Exception, match="every enrolled device sends one report"):
        ClientReports(parted, 0)
