"""Counts and sums: figures that are right, of nobody, and of which nothing is exact."""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.pvalue import TaggedOutput
from scipy import stats

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.metric import PAGE
from pipelines.metrics.resolving import resolve
from pipelines.request.requests import request
from tests.end_to_end.examples import DOMAIN
from tests.fakes import canaries
from tests.fakes.few import few
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.pages import require_alone
from tests.oracles.releases import Release, require_nobody, require_whole
from tests.oracles.transforms import fresh_stream, restart
from tests.oracles.transforms import run as run_pipeline
from transforms.collector.collect_counts import Counted
from transforms.elements.conservation import ADDED
from transforms.elements.numbers import amount, is_numbered
from transforms.elements.progress import ROWS
from transforms.encoders.encoder import Rows
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.dummies import AddDummies, DrawDummiesDoFn
from transforms.shuffle.group_codes import AddUpDoFn
from transforms.units.units import ReportDoFn, ReportUsersDoFn

LACKING, WITHOUT = canaries.NULL_VALUES + canaries.STRAY_VALUES, canaries.NULL_VALUES // 4
"""Rows without a declared value, four to a user; and users who have nothing but nulls."""

FAR = 6.2  # standard errors
USERS = {"user_column": "user"}
VALUES = {"column": "value", "domain": DOMAIN}
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"kind": "count"},
    "users": {"kind": "count"} | USERS,
    "values": {"kind": "count"} | VALUES,
    "users by value": {"kind": "count", "rows_per_user": 3} | VALUES | USERS,
    "events": {"kind": "count", "rows_per_user": 2, "per_value": 3} | VALUES | USERS,
    "pairs": {"kind": "count", "by": "number", "by_domain": "-3..3"} | VALUES,
    "sum": {"kind": "sum", "column": "number", "bounds": "-3,3", "whole_numbers": True},
    "sum of users": {"kind": "sum", "column": "real", "bounds": "0,1000", "expected": 500} | USERS,
    "sums": {
        "kind": "sum", "column": "real", "bounds": "0,300", "group_by": "value", "groups": DOMAIN,
        "expected": 2000,
    },
    "mean": {
        "kind": "mean", "column": "number", "bounds": "-3,3", "drawn_by": "shuffler",
        "expected": 2000,
    },
    "mean of users": {
        "kind": "mean", "column": "real", "bounds": "0,300", "drawn_by": "shuffler",
        "expected": 500,
    } | USERS,
    "means": {
        "kind": "mean", "column": "real", "bounds": "0,300", "group_by": "value", "groups": DOMAIN,
        "drawn_by": "shuffler", "expected": 2000,
    },
    "sum of devices": {
        "kind": "sum", "column": "real", "bounds": "0,1000", "drawn_by": "devices", "enrolled": 600,
    } | USERS,
    "means of devices": {
        "kind": "mean", "column": "real", "bounds": "0,300", "group_by": "value", "groups": DOMAIN,
        "drawn_by": "devices", "enrolled": 3000, "honest_share": 0.8,
    },
    "row": {
        "kind": "vector-mean", "number": ("number=-3,3", "real=0,200"),
        "category": (f"value={DOMAIN}",), "drawn_by": "shuffler", "expected": 2000,
    },
    "row of users": {
        "kind": "vector-mean", "number": ("number=-3,3", "real=0,300"), "drawn_by": "shuffler",
        "expected": 500,
    } | USERS,
}  # fmt: skip
FIGURES = dict(ASKED)
SHARES = {"kind": "histogram", "drawn_by": "shuffler", "expected": 500} | VALUES
ASKED["shares"] = SHARES
ASKED["shares of users"] = SHARES | {"out_of_domain": "other", "rows_per_user": 3} | USERS
ASKED["distribution"] = {
    "kind": "distribution", "column": "number", "bounds": "-3,4", "bins": 14,
    "drawn_by": "shuffler",
}  # fmt: skip
ASKED["distribution of users"] = {
    "kind": "distribution", "column": "real", "bounds": "0,300", "drawn_by": "shuffler",
} | USERS  # fmt: skip
ASKED["active users"] = {"kind": "active-users", "time": "moment", "day": "2026-11-22"} | USERS
ASKED["funnel"] = {
    "kind": "funnel", "time": "moment", "steps": ("came=real >= 0",), "group_by": "value",
    "groups": DOMAIN,
} | USERS  # fmt: skip
TABS = {
    "kind": "cross-tab", "columns": ("value", "number"),
    "domains": (f"value={DOMAIN}", "number=-3..3"),
}  # fmt: skip
ASKED["tabs"] = TABS
ASKED["tabs of users"] = TABS | USERS
STRINGS = {
    "kind": "strings", "search": "levels", "column": "value",
    "alphabet": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", "max_length": 20,
    "drawn_by": "shuffler", "expected": 500,
} | USERS  # fmt: skip
for _asked in (*ASKED.values(), TABS):
    _asked.setdefault("drawn_by", "shuffler")
every_case = pytest.mark.parametrize("case", ASKED)
FIRST = {"events", "means", "sum of devices", "row", "tabs", "distribution"}


def words(case: str, log: str, **changes: object) -> list[str]:
    known = ASKED | {"strings of users": STRINGS}
    asked = known[case] | {"epsilon": 2.0, "input": log, "output": "out"} | changes
    return canaries.words(str(asked.pop("kind")), asked, joined="tabs" not in case)


def metric(case: str, log: str, **changes: object) -> Any:
    asked = ASKED[case] | {"epsilon": 2.0, "input": (log,), "output": "elsewhere"} | changes
    options = request(registry.options(str(asked.pop("kind"))), asked)
    return resolve(options, ALONE, fresh_stream)


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run: that it has its law is seen elsewhere, over many draws."""
    with fixed_randomness():
        yield


@pytest.fixture(autouse=True)
def values(workspace: Path) -> None:
    (workspace / DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")


def truth(case: str) -> np.ndarray:
    """What a release of the log of canaries should say, in the order of its table."""
    rows = canaries.table().to_pylist()
    asked = ASKED[case]
    if "user_column" in asked:
        rows = [row for row in rows if row["user"] is not None]
    found: Counter[Any] = Counter()
    places = {value: k for k, value in enumerate(canaries.DECLARED)}
    for row in rows:
        other = len(places)
        group = places.get(row["value"], other) if {"domain", "groups"} & asked.keys() else 0
        if "by" in asked:
            group = 7 * group + row["number"] + 3 if group < other else 28
        found[group] += row[asked["column"]] if asked["kind"] == "sum" else 1
    if case == "users":
        return np.array([len({row["user"] for row in rows})])
    if asked["kind"] == "vector-mean":
        high = 200 if case == "row" else 300
        return np.array([np.mean([row["number"] for row in rows]),
                         np.mean([min(row["real"], high) for row in rows])])  # fmt: skip
    if asked["kind"] == "mean":  # every user has as many rows as every other
        known = "groups" in asked
        group = np.array([places.get(row["value"], len(places)) * known for row in rows])
        numbers = np.array([row[asked["column"]] for row in rows])
        return np.array([numbers[group == k].mean() for k in np.unique(group)])
    sizes = {"pairs": 29, "values": 5, "events": 5, "users by value": 5, "sums": 5}
    return np.array([found[group] for group in range(sizes.get(case, 1))], np.float64)


def require_figures(case: str, release: Release) -> None:
    """All within `FAR` errors of the truth."""
    kind = ASKED[case]["kind"]
    table = release.table(f"{kind}.parquet")
    estimate, error = table["estimate"].to_numpy(), table["standard_error"].to_numpy()
    if case == "row of users":  # one of four rows counts: numbers scatter by 2, and row / 7 by 1
        error = np.hypot(error, np.array([2, 1]) / math.sqrt(494))
    if case in {"events", "users by value"}:  # of more values than count, some are drawn
        k = ASKED[case]["rows_per_user"]
        assert estimate.sum() < truth(case).sum() + FAR * math.sqrt(5) * error[0]
        assert estimate.sum() > k * 400 - FAR * math.sqrt(5) * error[0]
        limited = release.statement["cut"]["limited"]
        assert abs(limited["estimate"] - (494 - LACKING // 4)) < FAR * limited["standard_error"]
        return
    assert (np.abs(estimate - truth(case)) < FAR * error).all()


def test_what_a_row_lacks_is_missing_there_alone(run, log: str) -> None:
    """A number that is missing leaves the others; of a category each value has its share."""
    table = canaries.table()
    real = table["real"].to_numpy().copy()
    real[::4] = np.nan  # as numbers that are none may be written
    gaps = table.set_column(table.schema.get_field_index("real"), "real", pa.array(real))
    files = canaries.write(Path("gaps"), gaps)
    assert run(words("row", files)).code == 0
    release = Release(Path("out"))
    numbers = release.table("vector-mean.parquet").to_pylist()
    kept = np.minimum(real[~np.isnan(real)], 200)
    for row, mean, n in zip(numbers, (0.0, kept.mean()), (2000, 1500), strict=True):
        assert abs(row["estimate"] - mean) < FAR * row["standard_error"] + 0.01
        assert abs(row["rows"] - n) < FAR * row["rows_standard_error"]
        assert row["lower_simultaneous"] < row["lower"] < row["estimate"] < row["upper"]
    cut = release.statement["cut"]
    lacking = {*range(0, 2000, 4), *range(canaries.NULL_VALUES + canaries.STRAY_VALUES)}
    took_part = release.statement["took_part"]
    for part, n in ((took_part, 2000), (cut["lacking"], len(lacking))):
        assert abs(part["estimate"] - n) < FAR * part["standard_error"]
    of_all = 0.25 * (1 - (canaries.NULL_VALUES + canaries.STRAY_VALUES) / 2000)
    for row in release.table("frequencies.parquet").to_pylist():
        assert abs(row["estimate"] - of_all) < FAR * row["standard_error"]


# ---- nothing exact -------------------------------------------------------------------------------


@every_case
def test_what_is_published_depends_on_the_counts_alone(case: str, log: str) -> None:
    """Not on rows read, or left out, on how many messages came, or on what the files hold."""
    some = metric(case, log)
    counts = some.design.simulate(np.full(some.design.layout.codes, 70), fresh_stream())
    one = some.content(Counted(counts, 123, 4), {ROWS: canaries.ROWS, "null user": 7})
    other = some.content(Counted(counts, 99, 0), {ROWS: 5})
    assert one is not None
    assert other is not None
    assert one.files.keys() == other.files.keys()
    assert len(one.files) >= 2
    for name, data in one.files.items():
        same = without_time if name == PAGE else pa.Table.to_pydict
        assert same(data) == same(other.files[name])
    assert one.statement | {"created": ""} == other.statement | {"created": ""}


def without_time(data: bytes) -> bytes:
    return re.sub(rb"\d{4}-\d\d-\d\d[T ][\d:]{8}(\+00:00| UTC)", b"", data)


@pytest.mark.parametrize(
    "case",
    few([*ASKED, "strings of users"], lambda case: case if case in FIRST else None),
)
def test_figures_are_right_and_all_else_the_same_without_one_who_takes_part(
    case: str, run, log: str
) -> None:
    """One run of each log shows both: what it should say, and that no more is said of either."""
    whole = canaries.table()
    last = whole.filter(pa.array(np.arange(len(whole)) >= 4)) if "user" in case else whole.slice(1)
    without = canaries.write(Path("less"), last)
    said: list[Any] = []
    for name, files in (("with", log), ("without", without)):
        with fixed_randomness():
            outcome = run(words(case, files, output=name), loud=case == "rows")
        assert not canaries.found(outcome.out, declared=False)
        assert not canaries.found(outcome.err + outcome.log)
        require_nobody(Release(Path(name)), str(Path(log).parent))
        assert outcome.code == 0, outcome.said
        if name == "with" and case in FIGURES:
            require_figures(case, Release(Path(name)))
        said.append((outcome.out.splitlines()[-1:], sorted(p.name for p in Path(name).iterdir())))
    statements = [json.loads(Path(n, "statement.json").read_text()) for n in ("with", "without")]
    for statement in statements:
        for volatile in ("created", "release_id"):
            statement.pop(volatile)
        for part in statement["cut"].values():
            part.pop("estimate")
        statement.pop("took_part", None)
        statement.pop("unusable", None)
        for caution in statement.pop("cautions", ()):  # by the noisy number of who was cut
            statement["in_words"].remove(caution)
    assert statements[0] == statements[1]
    kind = ASKED[case]["kind"] if case in ASKED else "strings"
    tables = [pq.ParquetFile(f"{n}/{kind}.parquet").read() for n in ("with", "without")]
    assert tables[0].schema == tables[1].schema
    same = {"value", "number", "low", "high", "users_standard_error", "rows_standard_error"}
    same |= {"standard_error"} if kind in {"count", "sum", "active-users", "funnel"} else set()
    names = [name for name in tables[0].column_names if name in same]
    assert tables[0].select(names) == tables[1].select(names)


def test_dummies_have_the_law_that_is_priced() -> None:
    """Drawn by the pipeline, 4,000 counters' dummies fit their table: refused once in 10^9."""
    restart(5)
    design = Counters.meeting(Amounts(4000).levels, "add or remove", epsilon=1.0, delta=1e-6)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        none = pipeline | beam.Create([np.empty(0, np.uint64)])
        return (none | AddDummies(design, fresh_stream)).messages

    drawn = [block for block in run_pipeline(build).elements if is_numbered(block)]
    counts = np.zeros(design.layout.codes, np.int64)
    for block in drawn:  # each counter's dummies are one number
        counts[block["code"].astype(np.int64)] += block["times"]
    law = design.dummies.parts[0].law
    seen = np.bincount(counts[:4000], minlength=2 * law.mu + 1)
    likely = law.pmf * 4000 >= 5
    observed = [*seen[likely], seen[~likely].sum()]
    wanted = [*(4000 * law.pmf[likely]), 4000 * law.pmf[~likely].sum()]
    assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-9
    assert counts[4000] == 0  # nobody sees a report here, so empty slots do not travel


def test_a_range_is_drawn_once_however_often_it_is_read() -> None:
    """Two who read the dummies read the same ones: they come out of a group."""
    design = Counters.meeting(Amounts(50).levels, "add or remove", epsilon=0.5, delta=1e-6)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        none = pipeline | beam.Create([np.empty(0, np.uint64)])
        both = (none | AddDummies(design, fresh_stream)).messages
        sizes = (
            both
            | "Sizes" >> beam.Map(lambda block: amount(block))
            | "All" >> beam.CombineGlobally(sum)
        )
        again = (
            both
            | "Again" >> beam.Map(lambda block: amount(block))
            | "All again" >> beam.CombineGlobally(sum)
        )
        return (sizes, again) | beam.Flatten()

    restart(1)
    one, other = run_pipeline(build).elements
    assert one == other > 0


def test_fewer_messages_are_bought_with_error(log: str) -> None:
    asked = {"drawn_by": "devices", "enrolled": 100}
    free, few = metric("rows", log, **asked), metric("rows", log, **asked, max_messages=2.0)
    assert few.protection.messages <= 2 < free.protection.messages
    assert few.error > free.error


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "changes", "complaint"),
    [
        (
            "rows",
            {"rows_per_user": 2},
            "--rows-per-user: a user has 1 different values",
        ),
        (
            "values",
            {"rows_per_user": 2},
            "--rows-per-user: where rows are protected",
        ),
        ("values", {"per_value": 2}, "--per-value: where rows are protected"),
        ("events", {"rows_per_user": 0}, "--rows-per-user must be a number of at least 1"),
        ("events", {"per_value": 0}, "--per-value must be a number of at least 1"),
        ("values", {"domain": None}, "--column and --domain go together"),
        ("pairs", {"by": None}, "--by and --by-domain go together"),
        ("pairs", {"by": "value", "by_domain": DOMAIN}, "--by: name another column than --column"),
        ("sum", {"bounds": "3,-3"}, "--bounds: the first must be below the second"),
        ("sum", {"bounds": "0.5,3"}, "--bounds: with --whole-numbers they must be whole"),
        ("sum", {"column": "value"}, "--column: 'value' holds string; numbers are needed"),
        ("rows", {"epsilon": None}, "--epsilon is missing"),
        ("rows", {"epsilon": 1e-6}, "needs more than"),
        ("pairs", {"epsilon": 1e-7, "drawn_by": "shuffler"}, "dummies"),
        ("mean", {"min_reports": 9}, "--min-reports: with --drawn-by shuffler no report is random"),
        ("mean", {"mechanism": "hm"}, "--mechanism: with --drawn-by shuffler no report is random"),
        (
            "shares",
            {"min_reports": 9},
            "--min-reports: with --drawn-by shuffler no report is random",
        ),
        ("shares", {"bound": "published"}, "--bound: with --drawn-by shuffler no report is random"),
        ("shares", {"postprocess": "shrinkage"}, "it is auto, none or pop"),
        ("shares of users", {"postprocess": "pop"}, "it is auto, none, for shares of several"),
        (
            "shares",
            {"drawn_by": "each-report"},
            "--expected: says something of totals with noise",
        ),
        (
            "mean",
            {"drawn_by": "each-report", "expected": 9},
            "says something of totals with noise",
        ),
        ("rows", {"drawn_by": "devices"}, "--enrolled is missing: with --drawn-by devices say how"),
        ("rows", {"enrolled": 9}, "--enrolled: says something of --drawn-by devices"),
        ("rows", {"honest_share": 0.5}, "--honest-share: says something of --drawn-by devices"),
        ("mean", {"enrolled": 9}, "--enrolled: says something of --drawn-by devices"),
        (
            "rows",
            {"drawn_by": "devices", "enrolled": 99, "max_messages": 1.01},
            "--enrolled, --max-messages, --epsilon, --delta: these counters need",
        ),
        ("events", {"max_messages": 3}, "a user raises 5 counters, each of them a message"),
        (
            "values",
            {"drawn_by": "devices", "enrolled": 3, "epsilon": 1e-4},
            "--enrolled, --epsilon, --delta:",
        ),
        ("row", {"shrink": "zero"}, "--shrink: with --drawn-by shuffler no report is randomised"),
        ("row", {"unusable": "count"}, "--unusable: with --drawn-by shuffler no report is"),
        ("row", {"rows_per_user": 2}, "--rows-per-user: one row of a user counts here, drawn"),
        (
            "row",
            {"drawn_by": "each-report", "expected": None, "digits": 3},
            "--digits: says something of",
        ),
        ("row", {"digits": 17}, "--digits must be a number of at most 16"),
        ("row", {"number": None}, "--number or --vector is missing"),
        (
            "row",
            {"drawn_by": "devices", "enrolled": 9},
            "--drawn-by devices: no dummies of devices",
        ),
        ("strings of users", {"oracle": "grr"}, "--oracle: with --drawn-by shuffler no report is"),
        ("strings of users", {"rows_per_user": 2}, "--rows-per-user: one row of a user counts"),
        ("strings of users", {"drawn_by": "devices"}, "only the job knows which counters"),
        ("mean", {"drawn_by": "nobody"}, "invalid choice: 'nobody'"),
        ("means", {"rows_per_user": 2}, "--rows-per-user: where rows are protected"),
        ("events", {"per_value": 2_000_000_000}, "--per-value must be a number of at most"),
        ("sum", {"bounds": "0,1e308", "whole_numbers": None}, "--bounds: they must lie within"),
        ("rows", {"delta": 0}, "--delta must be a number greater than 0"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    case: str, changes: dict[str, Any], complaint: str, refused, log: str
) -> None:
    refused(words(case, log, **changes), complaint)


slow = partial(pytest.param, marks=pytest.mark.verify)
MANY = {"column": "number", "domain": "0..914", "rows_per_user": 10, "epsilon": 1} | USERS
GROUPS = {"group_by": "number", "groups": "0..914", "rows_per_user": 10, "epsilon": 1} | USERS


@pytest.mark.parametrize(
    ("case", "changes", "names"),
    [
        ("users by value", MANY | {"expected": 5_000}, ["rows_per_user"]),
        ("users by value", MANY | {"expected": 600}, []),
        ("events", MANY | {"per_value": 8, "expected": 20_000}, ["rows_per_user", "per_value"]),
        ("events", MANY | {"per_value": 32, "expected": 30_000}, ["per_value"]),
        ("events", MANY | {"per_value": 2, "expected": 15_000}, ["rows_per_user", "per_value"]),
        ("events", MANY | {"per_value": 32, "expected": 5_000}, ["both"]),
        ("events", MANY | {"per_value": 9, "expected": 10**6}, None),
        slow("shares of users", MANY | {"expected": 5_000}, ["rows_per_user"]),
        slow(
            "sums",
            GROUPS | {"bounds": "0,9", "expected": 5_000, "whole_numbers": True},
            ["rows_per_user"],
        ),
        slow("means", GROUPS | {"bounds": "-9,9", "expected": 5_000}, ["rows_per_user"]),
        slow("sum of devices", {"expected": 1, "enrolled": 2}, []),
    ],
    ids=str,
)
def test_what_would_do_does(
    case: str, changes: dict[str, Any], names: list[str] | None, log: str
) -> None:
    """The k, b and n that are named: with each of them alone nothing drowns, and one more does."""
    lines = drowning(metric(case, log, **changes))
    if names is None:
        assert not lines
        return
    (line,) = lines
    told = re.findall(r"(--[a-z-]+) ([\d,]+)|([\d,]+) (?:users|rows), or a larger", line)
    values = {(flag or "--expected"): int((k or n).replace(",", "")) for flag, k, n in told}
    smaller = {flag[2:].replace("-", "_"): value for flag, value in values.items()}
    enough = {"expected": smaller.pop("expected")}
    if names == ["both"]:
        assert smaller["per_value"] == 1
        pairs = [smaller]
        more = smaller | {"rows_per_user": smaller["rows_per_user"] + 1}
    else:
        assert list(smaller) == names
        pairs = [{name: value} for name, value in smaller.items()]
        more = None
    for pair in pairs:
        assert not drowning(metric(case, log, **changes | pair))
        larger = more or {name: value + 1 for name, value in pair.items()}
        assert drowning(metric(case, log, **changes | larger))
    if "enrolled" in changes:
        enough["enrolled"] = enough["expected"]
    assert not drowning(metric(case, log, **changes | enough))
    assert drowning(metric(case, log, **changes | {"expected": int(0.85 * enough["expected"])}))


def drowning(some: ByCounters) -> list[str]:
    return [line for line in some.cautions if "noise drowns" in line]


def test_digits_that_round_more_than_they_hide_are_told_before(log: str) -> None:
    few = metric("row", log, digits=1, expected=10**6)
    assert any("--digits 1: rounding errs" in said for said in few.cautions)
    assert any("have 2 or more" in said for said in few.cautions)
    enough = metric("row", log, digits=5, expected=1000)
    assert not any("--digits" in said for said in enough.cautions)


@pytest.mark.verify
def test_roundings_that_err_more_than_noise_are_told_and_not_refused(log: str) -> None:
    """Whoever says nothing of how many there are may have fifty, and no such rounding."""
    some = metric("sum of users", log, expected=10**22)
    errors = some.accuracy.total
    assert errors.rounding > errors.sigma * errors.unit
    assert some.error >= errors.rounding
    assert any("rounded numbers would be off by" in said for said in some.cautions)
    few = metric("sum of users", log, epsilon=0.01, expected=None)
    assert not any("rounded" in said for said in few.cautions)
    # Dummies that parties seal are few, so that their units are coarse; it was refused.
    two = {"group_by": "number", "groups": "1..1", "bounds": "-60,180", "epsilon": 1.0}
    parties = metric("sums", log, expected=None, **two)
    assert any("rounded numbers would be off by" in said for said in parties.divided().cautions)


@pytest.mark.verify
@pytest.mark.parametrize("step", [EncodeDoFn, ReportUsersDoFn, DrawDummiesDoFn, AddUpDoFn])
def test_a_block_that_an_engine_loses_makes_no_release(
    step: Any, run, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.end_to_end.test_release_contract import losing

    monkeypatch.setattr(step, "process", losing(step.process))
    require_lost(run(words("events", log)))


@pytest.mark.parametrize("case", ["rows", "events"])
def test_a_block_that_is_lost_with_what_is_said_of_it_makes_no_release(
    case: str, run, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.end_to_end.test_release_contract import losing

    step = ReportUsersDoFn if "user_column" in ASKED[case] else ReportDoFn
    without_block = losing(step.process)
    lost: list[Any] = []

    @functools.wraps(step.process)
    def without_both(*given: Any) -> Iterator[Any]:
        for element in without_block(*given):
            said = isinstance(element, TaggedOutput) and element.value[0] == ADDED
            if said and not lost:
                lost.append(element)
            else:
                yield element

    monkeypatch.setattr(step, "process", without_both)
    require_lost(run(words(case, log)))


def require_lost(outcome: canaries.Outcome) -> None:
    assert outcome.code == 3, outcome.said
    assert "the engine has lost some, and nothing is published" in outcome.err


# ---- in plans ------------------------------------------------------------------------------------

PLAN = """\
collection: counted
version: 1
unit: user
user_column: user
input: {log}
output: out
epsilon: 2.0
delta: 1.0e-6
ledger: ledger.sqlite
budget: {{epsilon: 4.0, delta: 2.0e-6}}
drawn_by: shuffler
metrics:
  - {{name: users, kind: count}}
  - {{name: much, kind: sum, column: real, bounds: "0,1000", expected: 500}}
"""


def planned(log: str, more: str = "") -> list[str]:
    Path("plan.yaml").write_text(PLAN.format(log=log) + more)
    return ["plan.yaml"]


def test_a_plan_of_counts_hides_who_takes_part_and_is_charged_as_it_is(run, log: str) -> None:
    assert run(["ledger", "init", *planned(log)]).code == 0
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    statement = Release(Path("out")).statement
    said = statement["guarantees"]["release"]
    assert (said["neighbours"], said["epsilon"] <= 2) == ("add or remove", True)
    assert "rows_read" not in json.dumps(statement)
    users = pq.ParquetFile("out/users/count.parquet").read()
    assert abs(users["estimate"][0].as_py() - 494) < FAR * users["standard_error"][0].as_py()


def test_a_plan_that_publishes_how_many_take_part_prices_counts_as_replaced(run, log: str) -> None:
    more = f"  - {{name: values, kind: histogram, column: value, domain: {DOMAIN}, "
    more += "drawn_by: each-report, min_reports: 400}\n"
    assert run(["ledger", "init", *planned(log, more)]).code == 0
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    statement = Release(Path("out")).statement
    assert statement["guarantees"]["release"]["neighbours"] == "replace"
    # What differs between metrics says of which it is.
    exactly = statement["published_exactly"]
    assert exactly.startswith("users, much: nothing; values: the number of reports")
    assert statement["neighbours"].count(": ") == 2
    assert sum("users, much: Nothing that a user sends" in x for x in statement["in_words"]) == 1
    one = json.loads(Path("out/users/statement.json").read_text())
    assert one["guarantees"]["release"]["neighbours"] == "replace"
    assert "It does not cover that there is such a user" in one["in_words"][1]


@pytest.mark.parametrize("case", ["distribution", "distribution of users"])
def test_quantiles_lie_in_their_limits(case: str, run, log: str) -> None:
    """At a confidence that is missed not once in 10^9; and limits are short."""
    assert run(words(case, log, confidence=1 - 1e-10)).code == 0
    numbers = canaries.table()[ASKED[case]["column"]].to_numpy().astype(float)
    if "user" in case:
        numbers = numbers[: canaries.ROWS - canaries.NULL_USERS]  # a user's four rows are near
    release = Release(Path("out"))
    slack = 4 / 7 if "user" in case else 0.0  # any of a user's rows may have been drawn
    for row in release.table("quantiles.parquet").to_pylist():
        true = np.quantile(numbers, row["p"], method="inverted_cdf")
        low = -math.inf if row["lower"] is None else row["lower"]
        high = math.inf if row["upper"] is None else row["upper"]  # numbers beyond were clipped
        assert low - slack <= true <= high + slack
        assert low <= row["estimate"] <= high
    table = release.table("distribution.parquet")
    last = table["cumulative_upper"].to_numpy() - table["cumulative_lower"].to_numpy()
    assert last.max() < (0.6 if "user" in case else 0.15)
    # Of the whole numbers -3 .. 4 there are eight, however many bins were asked for.
    assert table.num_rows == (1024 if "user" in case else 8)


def test_very_many_bins(run, refused, log: str) -> None:
    """More than one randomised report tells apart: a share below errs hardly more for them."""
    asked = {"column": "real", "bounds": "0,300", "bins": 4096}
    outcome = run(words("distribution", log, epsilon=1, **asked))
    assert outcome.code == 0, outcome.said
    found = Release(Path("out")).table("distribution.parquet")
    assert len(found) == 4096
    values = pq.read_table(log.partition("*")[0])["real"].to_pylist()
    numbers = np.clip([x for x in values if x is not None], 0, 300)
    error = Release(Path("out")).statement["error"]["standard_error_of_a_count_up_to_the_middle"]
    below = np.cumsum(found["rows"].to_numpy())
    truth = np.searchsorted(np.sort(numbers), found["high"].to_numpy(), side="left")
    assert np.abs(below - truth)[:-1].max() <= 2 * FAR * error
    refused(words("distribution", log, bins=100_001), "--bins must be a number of at most 100,000")
    randomised = words("distribution", log, bins=4096, drawn_by="each-report", output="other")
    refused(randomised, "at most 1,024, not 4,096: one randomised report tells no more apart")


@pytest.mark.parametrize("case", ["shares", "shares of users"])
def test_shares_lie_in_their_limits(case: str, run, log: str) -> None:
    """At a confidence that is missed not once in 10^9; what has no value is told beside them."""
    assert run(words(case, log, confidence=1 - 1e-10)).code == 0
    release = Release(Path("out"))
    table, statement = release.table("histogram.parquet"), release.statement
    users = "users" in case
    assert table["value"].to_pylist() == [*canaries.DECLARED, *[None] * users]
    n = 494 if users else canaries.ROWS
    unusable = WITHOUT / 494 if users else LACKING / canaries.ROWS
    took_part, none = statement["took_part"], statement["unusable"]
    assert abs(took_part["estimate"] - n) < FAR * 2 * took_part["standard_error"]
    assert none["lower"] <= unusable <= none["upper"]
    if not users:
        true = truth("values")[:-1] / n
        low, high = (table[end].to_numpy() for end in ("lower_simultaneous", "upper_simultaneous"))
        assert ((low <= true) & (true <= high)).all()
        assert (high - low).max() < 0.05
        assert table["estimate"].to_numpy().sum() + none["share"] == pytest.approx(1)
        return
    limited = statement["cut"]["limited"]
    assert abs(limited["estimate"] - (494 - LACKING // 4)) < FAR * 2 * limited["standard_error"]
    assert statement["cut"].keys() == {"limited"}


@pytest.mark.parametrize("size", [4, 915])
def test_shares_of_several_values_divide_by_what_is_known_well(size: int, log: str) -> None:
    """Of 300 users with three values each, a share of 0.7 errs by 0.03 where there are few values.

    A fixed 3 % of epsilon for how many users there are made that 0.25 whatever the values; where
    there are many, a count is what it would be alone.
    """
    Path("few").write_text("".join(f"v{i}\n" for i in range(size)))
    asked = {"domain": "few", "rows_per_user": 3, "epsilon": 1.0, "expected": 300} | USERS
    some = metric("shares", log, **asked)
    count, users = some.accuracy.total.sigma, some.accuracy.others.sigma
    if size == 4:
        assert math.hypot(count, 0.7 * users) / 300 < 0.03
    alone = metric("users by value", log, domain="few", epsilon=1.0).accuracy.total.sigma
    assert count < (1.4 if size == 4 else 1.04) * alone
    assert users < some.design.variances[-1] ** 0.5 / 10  # what was cut is known less well


def test_strings_are_found_and_told_without_bias(run, log: str) -> None:
    """All that there are: no user's rows are of one value, and one of them is drawn."""
    outcome = run(words("strings of users", log))
    assert outcome.code == 0, outcome.said
    release = Release(Path("out"))
    require_whole(release, ["strings.parquet"])
    require_alone(release.read("report.html"))
    table, statement = release.table("strings.parquet"), release.statement
    assert {*table["value"].to_pylist()} == {*canaries.DECLARED}
    error = table["standard_error"][0].as_py()
    assert statement["search"]["detection_limit"] < 115
    # About a quarter each, of all whose rows are of all four.
    quarter = (494 - LACKING // 4) / 4
    assert (np.abs(table["estimate"].to_numpy() - quarter) < FAR * (error + 10)).all()
    unusable = statement["cut"]["unusable"]
    assert abs(unusable["estimate"] - WITHOUT) < FAR * unusable["standard_error"]
    assert statement["guarantees"]["release"]["model"] == "central"
    assert "rows_read" not in json.dumps(statement)


# ---- errors --------------------------------------------------------------------------------------


RUNS = 2500


def require_cover(
    some: Any, raised: np.ndarray, file: str, prefix: str, true: np.ndarray, most: float = 0.976
) -> None:
    """Of so many releases by sums, each interval holds in 92 to 97.6 %, all of them in 92 %.

    What holds in 95 % misses that once in 10^9 runs, by a binomial law (6 deviations of 0.44 %);
    what holds in 90 % or less passes four times in 10^4.

    Args:
        some: the metric.
        raised: as of `raised_by`: what `true` is of, and not of another draw of users' values.
        file: of its release.
        prefix: of the names of limits.
        true: what they are to hold.
        most: how often single ones may hold.
    """
    inside, together = np.zeros(true.size), 0
    for _ in range(RUNS):
        counts = some.design.simulate(raised, fresh_stream())
        table = some.tables(Counted(counts, 0, 0))[file]
        low, high = (table[f"{prefix}{end}"].to_numpy() for end in ("lower", "upper"))
        inside += (low <= true) & (true <= high)
        if true.size > 1:
            ends = (f"{prefix}{end}_simultaneous" for end in ("lower", "upper"))
            low, high = (table[name].to_numpy() for name in ends)
            together += bool(((low <= true) & (true <= high)).all())
    covered = inside / RUNS
    # Within a standard error of the least that may be intervals reach inwards, and hold oftener.
    edge = true < some.error
    assert ((covered >= 0.92) & ((covered <= most) | edge)).all(), covered
    assert true.size == 1 or together >= 0.92 * RUNS, together


@pytest.mark.verify
@pytest.mark.parametrize("case", ["mean", "means", "sum", "sums", "values", "shares", "users"])
def test_intervals_cover_as_often_as_they_say(case: str, log: str) -> None:
    some = metric(case, log, epsilon=0.3)
    restart(11)
    kind = ASKED[case]["kind"]
    true = truth(case)
    if kind == "histogram":
        true = truth("values")[:-1] / canaries.ROWS
    require_cover(some, raised_by(some, log), f"{kind}.parquet", "", true)


@pytest.mark.verify
def test_limits_of_shares_cover_as_often_as_they_say(log: str) -> None:
    """Rather too often: tails are as heavy as those of a level's noise, and counts go in steps."""
    some = metric("distribution", log, bins=70, epsilon=1.0)
    restart(12)
    numbers = canaries.table()["number"].to_numpy()
    true = np.array([(numbers < edge).mean() for edge in range(-2, 6)])  # whole ones from -3 to 4
    require_cover(some, raised_by(some, log), "distribution.parquet", "cumulative_", true, most=1.0)


def raised_by(some: Any, log: str) -> np.ndarray:
    """How many users raise each counter, and how many slots stay empty."""
    rows = pq.read_table(str(Path(log).parent))
    users = some.options.user_column
    if users is not None:
        rows = rows.filter(rows[users].is_valid())
    (batch,) = rows.combine_chunks().to_batches()
    block = some.encoder().encode(batch, Rows(len(rows)), fresh_stream())
    names = np.arange(len(rows)) if users is None else rows[users].to_numpy(zero_copy_only=False)
    owners = np.unique(names, return_inverse=True)[1]
    numbers = getattr(block, "amounts", None)
    words = some.reporting.words(
        owners, block.cells.astype(np.int64), numbers, int(owners.max()) + 1, fresh_stream()
    )
    codes = np.concatenate([part.ravel() for part in words]).astype(np.int64)
    return np.bincount(codes, minlength=some.design.layout.codes)


# ---- what a hostile reader tried -----------------------------------------------------------------


def rows(path: str, **columns: Any) -> str:
    pq.write_table(pa.table(columns), path)
    return path


CALENDAR = """
collection: log
version: 1
input: "{window}/*.parquet"
output: "out/{window}"
unit: row
epsilon: 1.0
min_reports: 10
stream: {window: 1d, state: state, first: 2026-11-20, last: 2026-11-21}
metrics:
  - {name: rows, kind: count}
"""


def test_a_window_of_the_calendar_is_released_without_a_file(run) -> None:
    """Files may exist only where somebody reported: whether a day has some is not to be told."""
    Path("plan.yaml").write_text(CALENDAR)
    outcome = run(["run", "plan.yaml", "--window", "2026-11-21"])
    assert outcome.code == 0, outcome.said
    assert "no file matches" in outcome.err
    assert Release(Path("out/2026-11-21/rows")).table("count.parquet").num_rows == 1


def test_a_name_that_matches_nothing_is_a_mistake_elsewhere(run) -> None:
    Path("plan.yaml").write_text(CALENDAR)
    after = run(["run", "plan.yaml", "--window", "2026-11-22"])
    assert (after.code, "no file matches" in after.err) == (2, True), after.said
    Path("plan.yaml").write_text(re.sub("stream.*\n", "", CALENDAR))
    none = run(["run", "plan.yaml", "--window", "2026-11-21"])
    assert (none.code, "no file matches" in none.err) == (2, True), none.said
    assert run(words("values", "nobody/*.parquet")).code == 2
    assert run(words("values", "nobody.parquet", output="other")).code == 2
    assert not Path("out").exists()


def test_an_interval_of_small_numbers_is_small(run) -> None:
    rows("small.parquet", x=[0.0005] * 50)
    asked = {"input": "small.parquet", "column": "x", "bounds": "0,0.001", "epsilon": 1.0}
    assert run(canaries.words("sum", asked | {"output": "out"}, joined=True)).code == 0
    [row] = Release(Path("out")).table("sum.parquet").to_pylist()
    assert row["upper"] - row["lower"] < 10 * row["standard_error"] < 1


def test_a_fraction_among_whole_numbers_cannot_be_used(run) -> None:
    rows("halves.parquet", x=[0.5] * 4000 + [1.0] * 100)
    asked = {"input": "halves.parquet", "column": "x", "bounds": "0,1", "epsilon": 2.0}
    assert run(canaries.words("sum", asked | {"output": "out", "whole_numbers": True})).code == 0
    [row] = Release(Path("out")).table("sum.parquet").to_pylist()
    assert abs(row["estimate"] - 100) < FAR * 2 * row["standard_error"]
    unusable = Release(Path("out")).statement["cut"]["unusable"]
    assert abs(unusable["estimate"] - 4000) < FAR * unusable["standard_error"]
