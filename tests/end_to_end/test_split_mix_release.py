"""Sums and means by split and mix: right, hidden, and withheld where a share is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.counters.split_mix import LOST_SHARE, ONE_LIAR
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.counting.split_mix import BySplitMix
from pipelines.metrics.resolving import resolve
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.request.requests import request
from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release
from tests.oracles.transforms import fresh_stream, restart
from transforms.collector.collect_counts import Counted
from transforms.shuffle.mix import DrawEnrolledDoFn, SplitAbsentDoFn, SplitNoiseDoFn, SplitUnitsDoFn

ASKED: dict[str, Any] = {
    "column": "number", "bounds": "-3,5", "whole_numbers": True, "epsilon": 2.0, "enrolled": 2500,
    "mechanism": "split-mix",
}  # fmt: skip


MEAN: dict[str, Any] = {
    "column": "number", "bounds": "-3,5", "drawn_by": "shuffler", "epsilon": 2.0, "enrolled": 2500,
    "mechanism": "split-mix",
}  # fmt: skip
OF = {"sum": ASKED, "mean": MEAN}


def words(log: str, kind: str = "sum", **changes: Any) -> list[str]:
    return canaries.words(kind, OF[kind] | {"input": log, "output": "out"} | changes, joined=True)


def metric(log: str, kind: str = "sum", **changes: Any) -> BySplitMix:
    asked = OF[kind] | {"input": (log,), "output": "elsewhere"} | changes
    options = request(registry.options(kind), asked)
    found = resolve(options, ALONE, fresh_stream)
    assert isinstance(found, BySplitMix)
    return found


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run."""
    with fixed_randomness():
        yield


def test_the_sum_is_off_by_central_noise(run, log: str) -> None:
    """And who reads it is told what could spoil it; 20 standard errors of Laplace noise."""
    assert run(words(log)).code == 0
    release = Release(Path("out"))
    [row] = release.table("sum.parquet").to_pylist()
    true = sum(row["number"] for row in canaries.table().to_pylist())
    assert abs(row["estimate"] - true) < 20 * row["standard_error"]
    assert row["standard_error"] < 1.42 * 5 / 2  # larger bounds over epsilon
    statement = release.statement
    said = " ".join(statement["in_words"])
    assert LOST_SHARE in said
    assert ONE_LIAR in said
    assert statement["poisoning"]["per_liar"] is None
    assert statement["published_exactly"] == "nothing"
    guarantee = statement["guarantees"]["release"]
    assert (guarantee["neighbours"], guarantee["epsilon"]) == ("add or remove", 2.0)
    assert "at least 2,250 people split honestly" in guarantee["how"]


@pytest.mark.verify
def test_a_mean_of_users_is_of_their_averages(run, log: str) -> None:
    """Users of whom nobody has a usable number send zeros, and count for neither."""
    table = canaries.table()
    numbers = np.where(np.arange(table.num_rows) % 4 < 2, np.nan, 2.0)
    numbers[::4] = 4.0  # with the next row, which cannot be used, or none
    users = np.arange(table.num_rows) // 4
    pq.write_table(pa.table({"user": users, "number": numbers}), "users.parquet")
    assert run(words("users.parquet", "mean", user_column="user")).code == 0
    [row] = Release(Path("out")).table("mean.parquet").to_pylist()
    assert abs(row["estimate"] - 8 / 3) < 20 * row["standard_error"]
    assert abs(row["users"] - table.num_rows / 4) < 20 * row["users_standard_error"]


def test_intervals_of_means_hold(log: str) -> None:
    """Of 4,000 releases 95 % cover; five standard deviations of that share."""
    some = metric(log, "mean")
    assert some.kind == "mean"
    design, n, times = some.design, 300, 4000
    restart(4)
    units = np.arange(n) % (design.high + 1)
    truth = some.statistic.bounds.low + units.mean() / design.high * 2 * some.statistic.bounds.half
    exact, rng, covered = int(units.sum()) + n * design.base * design.grain, fresh_stream(), 0
    for _ in range(times):
        added = np.array([(exact + int(design.draw(rng)[0])) % design.modulus], np.uint64)
        [row] = some.tables(Counted(added, 1, 0))["mean.parquet"].to_pylist()
        covered += row["lower"] <= truth <= row["upper"]
    # Errors allow for roundings of as many as are enrolled, of which there are none here.
    assert 0.95 - 5 * 0.0035 < covered / times < 0.985


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_a_lost_or_doubled_share_withholds(kind: str, log: str) -> None:
    some = metric(log, kind)
    design = some.design
    restart(3)
    told = design.summands(np.ones(design.most, np.int64), np.ones(design.most, np.bool_))
    reports = design.reports(told, fresh_stream())
    mixed, number = design.mix(reports, fresh_stream())
    assert number == design.most + 1

    def content(messages: np.ndarray, invalid: int = 0) -> Any:
        counted = Counted(some.mechanism.count(messages), messages.size, invalid)
        return some.content(counted, {})

    published = content(mixed)
    assert published is not None
    assert "reports" not in json.dumps(published.statement["request"])
    for broken in (mixed[1:], np.append(mixed, mixed[0]), mixed[: -design.shares]):
        assert content(broken) is None
    assert content(mixed, invalid=1) is None
    other = mixed.copy()  # one lost, another doubled: a sum that cannot be true, but for luck
    past = design.totals[1] + 1 - some.total(Counted(some.mechanism.count(mixed), mixed.size, 0))
    other[0] = (int(other[0]) + past) % design.modulus
    assert content(other) is None
    # A whole report that never came: what is left adds up to a total that might well be.
    fewer, _ = design.mix(design.reports(told[1:], fresh_stream()), fresh_stream())
    design.decode(int(some.mechanism.count(fewer)[0]) % design.modulus)
    assert content(fewer) is None
    # One report too many: units beyond those that are enrolled were left out before.
    more = design.reports(np.zeros(1, np.int64), fresh_stream()).ravel()
    assert content(np.concatenate([mixed, more])) is None


@pytest.mark.verify
def test_of_more_than_are_enrolled_as_many_are_drawn(run, workspace: Path) -> None:
    """Whoever comes beyond them changes no number of words; 20 standard errors of noise."""
    many = pa.table({"user": np.arange(3000), "number": np.ones(3000)})
    pq.write_table(many, "many.parquet", row_group_size=700)
    for kind in ("sum", "mean"):
        asked = words("many.parquet", kind, enrolled=500, output=kind)
        assert run(asked).code == 0
        release = Release(Path(kind))
        [row] = release.table(f"{kind}.parquet").to_pylist()
        people = row["estimate"] if kind == "sum" else row["rows"]
        assert (
            abs(people - 500)
            < 20 * row["standard_error" if kind == "sum" else "rows_standard_error"]
        )
        assert "as many are drawn uniformly" in " ".join(release.statement["in_words"])


def test_those_that_report_are_drawn_uniformly(log: str) -> None:
    """Of each block a hypergeometric number; 6.5 standard deviations, by chance in 4 of 10^10."""
    sizes, times = {11: 3, 12: 0, 13: 5, 14: 2}, 4000
    for most in (4, 7):
        design = replace(metric(log).design, most=most, honest=1)
        draw = DrawEnrolledDoFn(design, fresh_stream)
        draw.setup()
        drawn = [dict(draw.process([*sizes.items()])) for _ in range(times)]
        assert {sum(taken.values()) for taken in drawn} == {most}
        for name, size in sizes.items():
            found = np.mean([taken[name] for taken in drawn])
            mean, variance = most * size / 10, most * size * (10 - size) * (10 - most) / 900
            assert abs(found - mean) <= 6.5 * (variance / times) ** 0.5
        assert not [*draw.process([(1, most), (2, 0)])]
        split = SplitUnitsDoFn(design, fresh_stream)
        split.setup()
        (shares,) = split.process((13, np.arange(5) % 2), {13: 3})
        assert shares.size == 3 * design.shares
        (shares,) = split.process((13, np.zeros(5, np.int64)), {})
        assert shares.size == 5 * design.shares


@pytest.mark.parametrize(
    ("kind", "step"), [("sum", SplitAbsentDoFn), ("sum", SplitNoiseDoFn), ("mean", SplitNoiseDoFn)]
)
def test_shares_that_an_engine_loses_make_no_release(
    kind: str, step: Any, run, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "process", lambda *_: iter(()))
    outcome = run(words(log, kind, user_column="user"))  # some rows name none
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()
    assert line.startswith("hushbeam: withheld: the shares that came are not those of as many")
    assert line.endswith("so that they add up to nothing")  # no row that was left out is counted
    assert not Path("out").exists()


def test_a_plan_settles_it_and_keeps_it_from_clients(run, log: str) -> None:
    words = "column: number, bounds: '-3,5', mechanism: split-mix, enrolled: 2500"
    Path("plan.yaml").write_text(
        f"collection: total\nversion: 1\ninput: {log}\noutput: out\nepsilon: 2.0\n"
        f"delta: 1.0e-6\nhonest_share: 0.8\nmetrics:\n  - {{name: much, kind: sum, {words}}}\n"
        f"  - {{name: usual, kind: mean, drawn_by: shuffler, {words}}}\n"
    )
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    assert "presence hidden" in " ".join(outcome.out.split())
    with pytest.raises(RequestError, match="every share of every report is there"):
        split(load("plan.yaml"), "d1")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"enrolled": None}, "--enrolled is missing: with --mechanism split-mix every enrolled"),
        ({"epsilon": 1e-6}, "--enrolled, --bounds, --epsilon, --delta: a range of 5 units"),
        ({"bounds": "5,-3"}, "--bounds: the first must be below the second"),
        ({"drawn_by": "devices"}, "--mechanism split-mix: the shuffler adds the noise"),
        ({"group_by": "number", "groups": "0..3"}, "split-mix: it hides one figure, and not one"),
        ({"max_messages": 3}, "--max-messages: 2,500 devices have to send"),
        ({"delta": 1e-13}, "is below what sigma 40 takes"),
        (
            {"mechanism": "counters", "drawn_by": "shuffler"},
            "--enrolled: says something of --drawn-by devices",
        ),
        ({"kind": "mean", "enrolled": None}, "--enrolled is missing: with --mechanism split-mix"),
        ({"kind": "mean", "drawn_by": "each-report", "enrolled": None}, "say --drawn-by shuffler"),
        ({"kind": "mean", "drawn_by": "devices"}, "--mechanism: with --drawn-by devices no report"),
        ({"kind": "mean", "rows_per_user": 2}, "--rows-per-user: a user has 1 different values"),
        ({"kind": "mean", "group_by": "number", "groups": "0..3"}, "split-mix: it hides one"),
        ({"kind": "mean", "cells": 9}, "--cells: with --drawn-by shuffler no report is randomised"),
        ({"kind": "mean", "enrolled": 10**8}, "a word holds total and count of so many devices in"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    changes: dict[str, Any], complaint: str, refused, log: str
) -> None:
    refused(words(log, **changes), complaint)
