"""What each road costs beside the main one: CPU seconds and memory, beside limits and a peer.

    python -m benchmarks speed
    python -m benchmarks.speed WORD ...     # rows whose names have all of the words

A command runs as it is typed, workers and start-up included. Of several runs the median counts.
DuckDB answers the same question without privacy, in the same run; figures must agree, so that no
row was lost. HUSHBEAM_PYTHON names a Python in whose environment hushbeam is installed alone, as
users have it: Beam imports what it finds, and what tests need costs each start some 0.3 s.
HUSHBEAM_PIPELINEDP names one that has pipeline-dp, to be held against it. It ends with an error
where a target is missed.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import cores, sealing, speed_logs, stream

REPEATS, FASTER = 3, 5.5  # than PipelineDP
_HUSHBEAM = [os.environ.get("HUSHBEAM_PYTHON", sys.executable), "-m", "pipelines.cli.cli"]
_TOLERANCE = 0.02  # of a figure, beside its truth: noise is a tenth of it


# A count by value with both bounds enforced, in memory, which is its fastest way.
_PIPELINE_DP = """
import sys
import pipeline_dp as dp
import pyarrow.parquet as pq
log = pq.read_table(sys.argv[1], columns=["user", "category"])
rows = [*zip(log["user"].to_pylist(), log["category"].to_pylist())]
budget = dp.NaiveBudgetAccountant(1.0, 1e-6)
bounds = {"max_partitions_contributed": 4, "max_contributions_per_partition": 2}
metrics = dp.AggregateParams(metrics=[dp.Metrics.COUNT], noise_kind=dp.NoiseKind.LAPLACE, **bounds)
who, where, what = lambda row: row[0], lambda row: row[1], lambda row: 0
columns = dp.DataExtractors(
    privacy_id_extractor=who, partition_extractor=where, value_extractor=what)
engine = dp.DPEngine(budget, dp.LocalBackend())
figures = engine.aggregate(rows, metrics, columns, public_partitions=[*range(915)])
budget.compute_budgets()
print(sum(row[1].count for row in figures))
"""


class Work(NamedTuple):
    """What is to be fast.

    Attributes:
        name: in the table.
        words: of the command, in a folder of its own; "release" is what it writes, and {day} is
            another one for each of several runs.
        seconds: of CPU, at most.
        log: of `speed_logs`, which it reads.
        figure: a number of the release, in SQL.
        truth: the same number, in SQL over the log.
        megabytes: of memory, at most.
    """

    name: str
    words: str
    seconds: float
    log: str
    figure: str = ""
    truth: str = ""
    megabytes: float = math.inf


class Cost(NamedTuple):
    """CPU seconds and the most megabytes of all processes together."""

    seconds: float
    megabytes: float


def _metric(kind: str, more: str) -> str:
    return f"{kind} --epsilon 1 --output release {more}"


def _total(kind: str, column: str = "estimate") -> str:
    return f"SELECT sum({column}) FROM 'release/{kind}.parquet'"


_ROWS, _BIG = "SELECT count(*) FROM '{log}'", "--input {log}/*.parquet"
_DUMMIES = "--drawn-by shuffler"


def _texts() -> Iterator[Work]:
    known = "--column category --domain 0..914 --types category=int"
    for name, ending, seconds in (
        ("JSON lines", "jsonl", 2.4), ("CSV", "csv", 1.9), ("CSV, gzip", "csv.gz", 2.2),
        ("Avro", "avro", 2.2),
    ):  # fmt: skip
        words = _metric("count", f"--input {{log}}/log.{ending} {known}")
        truth = _ROWS.replace("{log}", "{log}/log.parquet")
        yield Work(f"{name}, 10^6 rows", words, seconds, "texts", _total("count"), truth)
    words = _metric("count", f"{_BIG} --column category --domain 0..914")
    truth = _ROWS.replace("{log}", "{log}/*.parquet")
    yield Work("5,000 files of 200 rows", words, 2.8, "files", _total("count"), truth)


def _large() -> Iterator[Work]:
    rows = _ROWS.replace("{log}", "{log}/*.parquet")
    users, values = "--user-column user", "--column category --domain 0..914"
    counted, mean = _total("count"), "SELECT estimate FROM 'release/mean.parquet'"
    average = "SELECT avg(least(greatest(value, 0), 3)) FROM '{log}/*.parquet'"
    added = average.replace("avg", "sum")
    for name, more, seconds, log, most in (
        ("declared strings, d = 10^6; 1,000 rows", "--column word --domain {log}/words.txt",
         4.0, "few words", math.inf),
        ("the same, 10^7 rows", "--column word --domain {log}/words.txt", 7.0, "big", 500),
        ("declared integers, d = 10^6; 10^7 rows", "--column place --domain 0..999999", 3.0,
         "big", math.inf),
    ):  # fmt: skip
        # The noise of a million values is more than a thousand rows.
        figure = counted if log == "big" else ""
        yield Work(name, _metric("count", f"{_BIG} {more}"), seconds, log, figure, rows, most)
    numbers = "--column value --bounds 0,3"
    words = _metric("mean", f"{_BIG} {numbers} {_DUMMIES}")
    yield Work("mean with dummies, 10^7 rows", words, 2.6, "big", mean, average, 350)
    words = _metric("cross-tab", f"{_BIG} --columns hour category --domains hour=0..19 "
                    "category=0..914")  # fmt: skip
    # A row is in four tables: of all rows, of each column, and of both.
    cells = "SELECT sum(estimate) / 4 FROM 'release/cross-tab.parquet'"
    yield Work("cross-tab 20 x 915, 10^7 rows", words, 2.6, "big", cells, rows, 350)
    total = "SELECT estimate FROM 'release/sum.parquet'"
    words = _metric("sum", f"{_BIG} {numbers}")
    yield Work("sum, 10^7 rows", words, 2.6, "big", total, added, 350)
    words = _metric("mean", f"{_BIG} {numbers} --group-by group --groups 0..99999 {users}")
    means = "SELECT avg(estimate) FROM 'release/mean.parquet' WHERE \"group\" IS NOT NULL"
    yield Work("mean by 10^5 groups with users, 10^7 rows", words, 5, "big", means, average, 500)
    words = _metric("count", f"{_BIG} {values} {users}")
    people = "SELECT count(DISTINCT user) FROM '{log}/*.parquet'"
    yield Work("10^7 rows of 2.45 M users", words, 3.0, "big", counted, people, 420)
    known = "SELECT sum(n) FROM (SELECT count(*) AS n FROM '{log}/*.parquet' GROUP BY word) " \
        "WHERE n > 100"  # fmt: skip
    seen = f"{counted.replace('count', 'strings')} WHERE estimate > 100"
    words = _metric("strings", f"{_BIG} --column word --delta 1e-6")
    yield Work("unknown strings, 10^7 rows", words, 3.5, "big", seen, known)
    words = _metric("strings", f"{_BIG} --column word --delta 1e-6 {users}")
    yield Work("the same with 2.45 M users", words, 7, "big", "", known, 700)
    words = _metric("strings", "--input {log}/log.parquet --column category --search levels")
    peak = "SELECT max(estimate) FROM 'release/strings.parquet'"
    share = "SELECT max(n) FROM (SELECT count(*) AS n FROM '{log}/log.parquet' GROUP BY category)"
    yield Work("heavy hitters, 10^6 rows", words, 2.2, "texts", "", share)
    yield Work("the same with dummies", f"{words} {_DUMMIES}", 4, "texts", peak, share)


def _rows_of_numbers() -> Iterator[Work]:
    words = _metric("vector-mean", f"--input {{log}}/log.parquet --number f*=0,1 {_DUMMIES}")
    first = "SELECT avg(estimate) FROM 'release/vector-mean.parquet'"
    truth = f"SELECT ({' + '.join(f'avg(f{i})' for i in range(speed_logs.WIDTH))}) / " \
        f"{speed_logs.WIDTH} FROM '{{log}}/log.parquet'"  # fmt: skip
    yield Work(
        "vector-mean of 400, with dummies, 10^5 rows", words, 3, "vectors", first, truth, 500
    )
    numbers = " ".join(f"--number x{i}=0,1" for i in range(speed_logs.FEATURES))
    words = f"--input {{log}}/log.parquet {numbers} --target y=0,8 --loss linear"
    yield Work("train by sums, 10^6 rows of 8 columns", _metric("train", words), 3, "examples",
               megabytes=500)  # fmt: skip


def _plans() -> Iterator[Work]:
    for number, seconds, most in ((1, 1.7, 450), (3, 2.0, 450), (10, 2.5, 450), (40, 5, 450)):
        yield Work(f"plan of {number} counters metrics, 1,000 rows", f"run {{log}}/{number}.yaml",
                   seconds, "plans", megabytes=most)  # fmt: skip
    yield Work("check of three metrics", "check {log}/3.yaml", 1.2, "plans")


def _ledgers() -> Iterator[Work]:
    for entries in speed_logs.ENTRIES:
        yield Work(f"run beside {entries:,} entries", "run {log}/plan.yaml --window {day}", 2.2,
                   f"ledger {entries}", megabytes=300)  # fmt: skip
    largest = f"ledger {speed_logs.ENTRIES[-1]}"
    for words in ("show", "explain"):
        command = f"ledger {words} --ledger {{log}}/ledger.sqlite"
        yield Work(f"ledger {words}, the last of them", command, 1, largest)
    for releases, seconds in ((356, 4), (3650, 10)):
        # A year of ten metrics, or of one.
        words = "site {log}/out/* --ledger {log}/ledger.sqlite --output release"
        yield Work(f"site of {releases:,} releases", words, seconds, f"site {releases}")


def works() -> Iterator[Work]:
    """All that is measured."""
    for own in (_texts, _large, _rows_of_numbers, _plans, _ledgers):
        yield from own()


def run(words: list[str], folder: Path) -> Cost:
    """What a process and all that it starts take, in a folder."""
    peak, ended = [0.0], threading.Event()
    environment = speed_logs.environment(folder.parent)
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=said)
        watch = threading.Thread(target=_watch, args=(process.pid, peak, ended))
        watch.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watch.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {(folder / 'said').read_text()[-2000:]}")
    return Cost(used.ru_utime + used.ru_stime, peak[0])


def _watch(root: int, peak: list[float], ended: threading.Event) -> None:
    """Add up what all processes below one have resident, again and again.

    The kernel's own maximum of a process also counts what its parent had when it began.
    """
    while not ended.wait(0.1):
        below = [*_below(root)]
        peak[0] = max(peak[0], sum(map(_megabytes, below)), *map(_highest, below))


def _below(pid: int) -> Iterator[int]:
    yield pid
    try:
        for own in Path(f"/proc/{pid}/task").iterdir():
            for child in (own / "children").read_text().split():
                yield from _below(int(child))
    except OSError:  # it has ended
        return


def _megabytes(pid: int) -> float:
    """Of its own and its part of what it shares, as the kernel tells."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1.024e-3
    except (OSError, StopIteration):
        return 0.0


def _highest(pid: int) -> float:
    """The most that its own program has ever had resident."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1.024e-3
    except (OSError, StopIteration):
        return 0.0


def _answer(query: str, folder: Path) -> tuple[float, float]:
    """(what DuckDB answers, its CPU seconds), in a process of its own."""
    program = f"import duckdb; print(duckdb.connect().execute({query!r}).fetchone()[0])"
    cost = run([sys.executable, "-c", program], folder)
    return float((folder / "said").read_text().split()[-1]), cost.seconds


def measure(work: Work, logs: Path, repeats: int = REPEATS) -> tuple[Cost, float]:
    """(the medians of several runs of a work, the peer's CPU seconds)."""
    log, costs, peer = speed_logs.made(work.log, logs), [], math.nan
    for turn in range(repeats):
        with tempfile.TemporaryDirectory(dir=logs) as name:
            folder, here = Path(name), str(log)
            if work.log == "plans":  # a run writes beside its plan
                here = str(shutil.copytree(log, folder / "log"))
            day = f"2030-01-{turn + 1:02}"
            words = work.words.replace("{log}", here).replace("{day}", day).split()
            costs.append(run([*_HUSHBEAM, *words], folder))
            if work.figure:
                figure, _ = _answer(work.figure, folder)
            if work.truth:
                truth, peer = _answer(work.truth.replace("{log}", here), folder)
            if work.figure and not abs(figure / truth - 1) <= _TOLERANCE:
                raise SystemExit(f"{work.name}: {figure:g}, and not {truth:g}")
    return Cost(*map(statistics.median, zip(*costs, strict=True))), peer


def beside_pipelinedp(python: str, logs: Path) -> float:
    """How many times as many CPU seconds PipelineDP takes for a million rows of users."""
    log, ratios = speed_logs.made("texts", logs) / "log.parquet", []
    words = f"count --input {log} --column category --domain 0..914 --epsilon 1 --output release"
    bounds = "--user-column user --rows-per-user 8"
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory(dir=logs) as folder:
            ours = run([*_HUSHBEAM, *words.split(), *bounds.split()], Path(folder))
            theirs = run([python, "-c", _PIPELINE_DP, str(log)], Path(folder))
        ratios.append(theirs.seconds / ours.seconds)
    return statistics.median(ratios)


def main(words: tuple[str, ...] = ()) -> None:
    """Print the table; end with an error where a target is missed."""
    screen, missed = Console(width=120), []
    table = Table("work", title=f"medians of {REPEATS} runs, all processes together")
    for heading in ("CPU s", "at most", "MB", "at most", "DuckDB, CPU s"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for work in works():
            if not all(word in work.name for word in words):
                continue
            begun = time.perf_counter()
            cost, peer = measure(work, Path(folder))
            screen.print(f"{work.name}: {cost.seconds:.2f} s, {cost.megabytes:.0f} MB "
                         f"({time.perf_counter() - begun:.0f} s)", style="dim")  # fmt: skip
            most = "" if math.isinf(work.megabytes) else f"{work.megabytes:,.0f}"
            beside = "" if math.isnan(peer) else f"{peer:.2f}"
            table.add_row(work.name, f"{cost.seconds:.2f}", f"{work.seconds:g}",
                          f"{cost.megabytes:,.0f}", most, beside)  # fmt: skip
            over = cost.seconds > work.seconds or cost.megabytes > work.megabytes
            missed += [work.name] * over
        if (python := os.environ.get("HUSHBEAM_PIPELINEDP")) and not words:
            ratio = beside_pipelinedp(python, Path(folder))
            screen.print(f"PipelineDP takes {ratio:.1f} times as long; at least {FASTER:g}")
            missed += ["beside PipelineDP"] * (ratio < FASTER)
    screen.print(table)
    if not words:
        cores.main()
        stream.main()
        sealing.main()
    if missed:
        raise SystemExit(f"targets missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
