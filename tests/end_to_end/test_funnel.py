"""Funnels: as a plain count of every beginning says, at a noise that is 0, and at one that is not.

At epsilon 40 one of a release's counters has noise once in 10^17: figures are then exact.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from hushbeam import beam as private
from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom
from mechanisms.wire.sealing import create_key
from pipelines.errors import Caution
from pipelines.logs import inputs
from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.funnel import Funnel
from pipelines.request.spans import seconds_of
from tests.contract.laws import reach
from tests.oracles import funnels
from transforms.collector.collect_counts import Counted

PAGES = ["home", "cart", "pay"]
STEPS = {"home": "page == 'home'", "cart": "page == 'cart' or page == 'pay'", "pay": "paid > 0"}
PLANS, OTHERS = ["free", "pro"], ["other", None]
N = 300
START = datetime(2026, 11, 20)
WORDS = ["funnel", "--input", "log/*.parquet", "--user-column", "user", "--time", "at"]
WORDS += ["--output", "out"]
WORDS += [f"--steps={name}={text}" for name, text in STEPS.items()]
SEGMENTS = ["--group-by", "plan", "--groups", "plans.txt"]
PLAN = f"""\
collection: shop
version: 1
unit: user
user_column: user
input: log/*.parquet
output: releases/{{window}}
epsilon: 40
delta: 1.0e-6
metrics:
  - name: sales
    kind: funnel
    steps: {json.dumps(STEPS)}
    time: at
    within: 6h
    group_by: plan
    groups: plans.txt
"""


@pytest.fixture
def rows(workspace: Path) -> list[dict[str, Any]]:
    """A log in two files, between which rows of users are divided at random; some lack something.

    Rows are at whole quarters of an hour, so that some are of one moment.
    """
    rng = np.random.default_rng(20)
    made = []
    for _ in range(12 * N):
        lacks = rng.random(2) < 0.03
        user = int(rng.integers(N))
        page = PAGES[rng.choice(3, p=[0.5, 0.3, 0.2]) if user % 10 else 1]  # a tenth never begins
        made.append({
            "user": None if lacks[0] else f"u{user}",
            "at": None if lacks[1] else START + timedelta(minutes=15 * int(rng.integers(192))),
            "page": page,
            "paid": None if rng.random() < 0.1 else int(page == "pay" and rng.random() < 0.7),
            "plan": (PLANS + OTHERS)[rng.integers(4)],
        })  # fmt: skip
    Path("log").mkdir()
    for place in range(2):
        pq.write_table(pa.Table.from_pylist(made[place::2]), f"log/{place}.parquet")
    Path("plans.txt").write_text("\n".join(PLANS) + "\n")
    return made


def truth(rows: list[dict[str, Any]], within: float = math.inf) -> np.ndarray:
    """(segments, steps) who reached each, everybody first."""
    own = np.array(funnels.reached(by_user(rows), 3, 3, within))
    return np.concatenate([own.sum(axis=0, keepdims=True), own])


def by_user(rows: list[dict[str, Any]]) -> list[list[funnels.Row]]:
    """The rows that count, user by user."""
    users: dict[str, list[funnels.Row]] = {}
    for row in rows:
        if row["user"] is None or row["at"] is None:
            continue
        held = {1} if row["page"] == "home" else {2}
        held |= {3} if (row["paid"] or 0) > 0 else set()
        place = PLANS.index(row["plan"]) if row["plan"] in PLANS else len(PLANS)
        users.setdefault(row["user"], []).append((row["at"].timestamp(), held, place))
    return [*users.values()]


def took(rows: list[dict[str, Any]], bounds: list[float], within: float) -> list[int]:
    """How many took so long, in the order of the table."""
    own = np.array(funnels.took(by_user(rows), 3, 3, bounds, within))
    return np.concatenate([own.sum(axis=0, keepdims=True), own]).ravel().tolist()


def require(table: pa.Table, true: np.ndarray) -> None:
    """Figures are the truth, whoever drew noise that is 0."""
    groups = ["all", *PLANS, None] if len(true) > 1 else ["all"]
    if len(true) > 1:
        assert table["group"].to_pylist() == [group for group in groups for _ in STEPS]
    assert table["value"].to_pylist() == [*STEPS] * len(groups)
    assert np.array_equal(table["estimate"].to_numpy(), true.ravel())
    assert np.allclose(table["fitted"].to_numpy(), true.ravel())


@pytest.mark.parametrize("within", [None, "15min", "6h"])
def test_every_step_is_as_counted(within: str | None, rows: list[dict[str, Any]], run) -> None:
    seconds = {None: math.inf, "15min": 900.0, "6h": 21_600.0}[within]
    more = [] if within is None else ["--within", within]
    assert run([*WORDS, *SEGMENTS, *more, "--epsilon", "40"]).code == 0
    true = truth(rows, seconds)
    require(pq.read_table("out/funnel.parquet"), true)
    shares = pq.read_table("out/conversion.parquet")
    pairs = [(2, 0), (1, 0), (2, 1)]
    names = [*STEPS]
    assert shares["value"].to_pylist() == [f"{names[b]} → {names[a]}" for a, b in pairs] * 4
    expected = [row[a] / row[b] for row in true for a, b in pairs]
    assert np.allclose(shares["estimate"].to_numpy(), expected)


@pytest.mark.parametrize(
    ("within", "first", "second"), [(None, "2h", "6h"), ("3h", "30min", "90min")]
)
def test_every_time_is_as_counted(
    within: str | None, first: str, second: str, rows: list[dict[str, Any]], run
) -> None:
    """Of two steps later, three bins each, everybody first; the steps stand as without times."""
    more = [] if within is None else ["--within", within]
    words = [*WORDS, *SEGMENTS, *more, "--times", f"{first}, {second}"]
    assert run([*words, "--epsilon", "80"]).code == 0
    bounds = [float(seconds_of(span)) for span in (first, second)]
    seconds = float(seconds_of(within)) if within else math.inf
    require(pq.read_table("out/funnel.parquet"), truth(rows, seconds))
    times = pq.read_table("out/times.parquet")
    expected = took(rows, bounds, seconds)
    assert times["estimate"].to_pylist() == expected
    assert min(sum(expected[bin_::3]) for bin_ in range(3)) > 20  # so that bins matter
    bins = [f"up to {first}", f"{first} to {second}", f"over {second}"]
    names = [f"{a}, {b}" for a in ("home → cart", "cart → pay") for b in bins]
    assert times["value"].to_pylist() == names * 4
    page = Path("out/report.html").read_text()
    assert page.count('class="bars') == 2  # steps and times


def test_windows_and_ties_matter_in_this_log(rows: list[dict[str, Any]]) -> None:
    """Otherwise the test above would not tell one rule from another."""
    seen = [truth(rows, within)[0] for within in (900.0, 21_600.0, math.inf)]
    assert all((np.diff([one[k] for one in seen]) > 10).all() for k in (1, 2))
    assert {one[0] for one in seen} == {seen[0][0]}


def test_rows_that_do_not_match_do_not_count(rows: list[dict[str, Any]], run) -> None:
    assert run([*WORDS, "--where", "plan == 'pro'", "--epsilon", "40"]).code == 0
    some = [row for row in rows if row["plan"] == "pro"]
    require(pq.read_table("out/funnel.parquet"), truth(some)[:1])


@pytest.mark.verify
def test_a_plan_says_the_same(rows: list[dict[str, Any]], run) -> None:
    Path("plan.yaml").write_text(PLAN)
    assert run(["run", "plan.yaml", "--window", "w"]).code == 0
    require(pq.read_table("releases/w/sales/funnel.parquet"), truth(rows, 21_600.0))


@pytest.mark.verify
def test_three_parties_say_the_same(rows: list[dict[str, Any]], run) -> None:
    """A client has all rows of a user; the shuffler's dummies have next to no variance."""
    more = "    time: at\n    times: 30min,2h\n    drawn_by: shuffler\n"
    drawn = PLAN.replace("    time: at\n", more)
    Path("plan.yaml").write_text(drawn)
    window = ["plan.yaml", "--window", "w"]
    Path("keys").mkdir()
    create_key(Path("keys"))
    public, private = (str(next(Path("keys").glob(f"*.{k}.pem"))) for k in ("public", "private"))
    sealed = [*window, "--seal", public]
    sent = ["parties", "client", *sealed, "--input", "log/*.parquet", "--output", "sent.bin"]
    assert run(sent).code == 0
    mixed = ["parties", "shuffle", *sealed, "--input", "sent.bin", "--output", "mixed"]
    assert run(mixed).code == 0
    assert run(["parties", "collect", *window, "--input", "mixed", "--key", private]).code == 0
    times = took(rows, [1800.0, 7200.0], 21_600.0)
    for name, true in (("funnel", truth(rows, 21_600.0).ravel()), ("times", np.array(times))):
        table = pq.read_table(f"releases/w/sales/{name}.parquet")
        far = np.abs(table["estimate"].to_numpy() - true)
        assert (far <= reach(table["standard_error"].to_numpy())).all()
        assert table["standard_error"].to_numpy().max() < 2


@pytest.mark.verify
def test_functions_and_steps_of_beam_say_the_same(rows: list[dict[str, Any]]) -> None:
    asked: dict[str, Any] = {"steps": STEPS, "time": "at", "epsilon": 40}
    log = pa.concat_tables([pq.read_table(f"log/{k}.parquet") for k in range(2)])
    with pytest.warns(Caution, match="promises next to nothing"):
        release = hushbeam.funnel(log, user_column="user", within="6h", **asked)
    require(release.tables["funnel"], truth(rows, 21_600.0)[:1])
    kinds = {"user": str, "at": pa.timestamp("us"), "page": str, "paid": int}
    some = [{name: row[name] for name in kinds} for row in rows]
    with beam.Pipeline() as pipeline:
        step = private.Statistics("funnel", user="user", types=kinds, within="6h", **asked)
        made = pipeline | beam.Create(some, reshuffle=False) | step
        lines = made | beam.Map(lambda row: f"{row.value} {row.estimate}")
        lines | beam.io.WriteToText("beam", num_shards=1, shard_name_template="")
    said = dict(line.rsplit(" ", 1) for line in Path("beam").read_text().splitlines())
    assert [float(said[name]) for name in STEPS] == truth(rows, 21_600.0)[0].tolist()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--drawn-by", "each-report"], "the order of all rows of a user is needed"),
        (["--steps", "again=paid"], "--steps: again: yes or no is needed"),
        (["--steps", "again=nothing > 1"], "--steps: again: no such column: 'nothing'"),
        (["--steps", "again=paid >"], "--steps: again: "),
        (["--steps", "home=paid > 1"], "--steps: home is there twice; keep one"),
        ([f"--steps=s{k}=paid > {k}" for k in range(14)], "1 to 16 steps are needed, and not 17"),
        (["--within", "soon"], "--within: "),
        (["--within", "0s"], "--within: a span above 0 is needed"),
        (["--times", "soon"], "--times: spans are needed, as in 1min,5min,1h"),
        (["--times", "1h,5min"], "--times: spans must rise, from above 0 to below --within"),
        (["--times", "1h,60min"], "--times: spans must rise"),
        (["--times", "0s"], "--times: spans must rise"),
        (["--times", "1h", "--within", "1h"], "--times: spans must rise"),
        (["--rows-per-user", "2"], "--rows-per-user: "),
        (["--group-by", "plan"], "--group-by and --groups go together"),
        (
            [*(f"--steps=s{k}=paid > {k}" for k in range(13)), "--group-by", "paid", "--groups",
             "0..70000"],
            "--groups: of 16 steps at most 65,535 values",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(words: list[str], why: str, rows, run) -> None:
    outcome = run([*WORDS, *words, "--epsilon", "1"])
    assert outcome.code == 2
    (line,) = outcome.said.strip().splitlines()
    assert why in line
    assert not Path("out").exists()


def test_times_are_moments(rows: list[dict[str, Any]], run) -> None:
    words = ["paid" if word == "at" else word for word in WORDS]
    outcome = run([*words, "--epsilon", "1"])
    assert "--time: 'paid' holds int64; moments or dates are needed" in outcome.said


def test_without_users_there_is_no_order(rows: list[dict[str, Any]], run) -> None:
    words = [word for word in WORDS if word not in ("--user-column", "user")]
    outcome = run([*words, "--epsilon", "1"])
    assert (outcome.code, "--user-column is missing" in outcome.said) == (2, True)


def metric(segments: int = 19, drawn_by: str = "job", times: str | None = None) -> Any:
    """Of eight steps, with one more segment."""
    options = registry.options("funnel").model_validate({
        "input": ["log.parquet"], "output": "out", "user_column": "user", "time": "at",
        "steps": {f"s{k}": f"x == {k}" for k in range(8)}, "group_by": "plan",
        "groups": f"1..{segments}", "epsilon": 1.0, "drawn_by": drawn_by, "times": times,
    })  # fmt: skip
    return resolve(options, inputs.Source(inputs.UNREAD, 1))


def drawn(made: Any, counters: np.ndarray, seed: int) -> pa.Table:
    """The figures of exact counters with a job's noise."""
    counts = np.zeros(made.design.codes, np.int64)
    counts[: counters.size] = counters.ravel()
    noisy = made.design.noisy(counts, SeededRandom(seed))
    return made.tables(Counted(noisy, 0, 0))["funnel.parquet"]


def test_the_noise_is_that_of_one_count_a_user() -> None:
    """Eight steps of 20 segments at epsilon 1: at most 4 a step and segment, 18 of everybody."""
    made = metric()
    errors = drawn(made, np.zeros((20, 8), np.int64), 0)["standard_error"].to_numpy().reshape(21, 8)
    one = math.sqrt(made.design.column_variance)
    assert one == pytest.approx(math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1)))
    behind = np.sqrt(np.arange(8, 0, -1)) * one
    assert np.allclose(errors[1:], behind)
    assert np.allclose(errors[0], behind * math.sqrt(20))
    assert (errors[1:].max() <= 4, errors[0].max() <= 18) == (True, True)


def test_the_price_is_of_all_times_of_a_user(rows: list[dict[str, Any]]) -> None:
    """Whoever comes to the end raises a counter a step later: what all of them lose is epsilon."""
    made = metric(3, times="1min,1h")
    steps = np.arange(8)
    users, cells = np.zeros(8, np.int64), 1 << steps
    (words,) = made.reporting.words(users, cells, steps * 1e9, 1, SeededRandom(0))
    raised = words[words < made.design.layout.starts[-1]]
    levels = made.design.layout.level_of(raised)
    assert levels.tolist() == [0] + [1] * 7
    laws = [made.design.level_law(int(level)) for level in levels]
    assert float(sum(law.decay for law in laws)) == pytest.approx(1.0, rel=1e-9)
    assert float(laws[0].decay) == pytest.approx(0.5, rel=1e-9)  # half is of the steps


@pytest.fixture
def unconverted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without conversions, whose intervals are three quarters of what a release takes."""
    monkeypatch.setattr(Funnel, "_pairs", ())


@pytest.mark.verify
@pytest.mark.usefixtures("unconverted")
def test_figures_err_as_is_said_and_fitted_ones_less() -> None:
    """2,000 releases: a variance errs by 2.3 / sqrt(2000) a sigma, so 1 +- 0.36 at 7 of them."""
    made, runs = metric(4), 2000
    counters = np.random.default_rng(3).poisson(
        np.outer([400, 400, 40, 0, 0], np.exp(-np.arange(8)))
    )
    own = counters[:, ::-1].cumsum(axis=1)[:, ::-1]
    true = np.concatenate([own.sum(axis=0), own.ravel()])
    off, fitted, held = (np.empty((runs, true.size)) for _ in range(3))
    for seed in range(runs):
        table = drawn(made, counters, seed)
        off[seed] = table["estimate"].to_numpy() - true
        fitted[seed] = table["fitted"].to_numpy() - true
        low, high = (table[end].to_numpy() for end in ("lower", "upper"))
        held[seed] = (low <= true) & (true <= high)
        require_order(table)
    errors = drawn(made, counters, 0)["standard_error"].to_numpy()
    assert np.abs(off.mean(axis=0) / errors).max() < 7 / math.sqrt(runs)
    assert np.abs(off.var(axis=0) / errors**2 - 1).max() < 0.36
    assert held.mean(axis=0).min() > 0.95 - 7 * math.sqrt(0.05 * 0.95 / runs)
    assert (fitted**2).mean() < (off**2).mean()


def require_order(table: pa.Table) -> None:
    """What is fitted falls from step to step, is nowhere below 0, and adds up."""
    fitted: Floats = table["fitted"].to_numpy().reshape(-1, 8)
    assert (np.diff(fitted, axis=1) <= 1e-9).all()
    assert fitted.min() >= -1e-9
    assert np.allclose(fitted[0], fitted[1:].sum(axis=0))


@pytest.mark.usefixtures("unconverted")
def test_what_is_fitted_is_ordered_and_adds_up() -> None:
    made = metric()
    for seed in range(50):
        require_order(drawn(made, np.zeros((20, 8), np.int64), seed))
        table = drawn(made, np.arange(160).reshape(20, 8) % 7, seed)
        require_order(table)
        every = table["estimate"].to_numpy().reshape(-1, 8)
        assert np.array_equal(every[0], every[1:].sum(axis=0))


def test_a_user_raises_one_counter(rows: list[dict[str, Any]]) -> None:
    """Whatever its rows are, and whoever else is there: so a price is that of one."""
    reporting = metric(3).reporting
    rng = np.random.default_rng(1)
    size, n = 6000, 200
    users, times = rng.integers(0, n, size), rng.integers(0, 300, size).astype(float)
    cells = rng.integers(0, 4 << 8, size)
    every = np.concatenate([*reporting.words(users, cells, times, n, SeededRandom(0))])
    assert every.shape == (n, 1)
    for user in range(0, n, 17):  # alone, a user is the same as among others
        own = users == user
        nobody = np.zeros(int(own.sum()), np.int64)
        (word,) = reporting.words(nobody, cells[own], times[own], 1, SeededRandom(0))
        assert word[0, 0] == every[user, 0]
