"""Sums by split and mix: right, hidden, and withheld where a share is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mechanisms.counters.split_mix import LOST_SHARE, ONE_LIAR
from pipelines.errors import RequestError
from pipelines.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.counting.split_mix import MixedSum
from pipelines.parties.split import split
from pipelines.plan.loading import load
from pipelines.requests import request
from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release
from tests.oracles.transforms import fresh_stream, restart
from transforms.collect_counts import Counted
from transforms.mix import SplitAbsentDoFn, SplitNoiseDoFn

ASKED: dict[str, Any] = {
    "column": "number", "bounds": "-3,5", "whole_numbers": True, "epsilon": 2.0, "enrolled": 2500,
    "mechanism": "split-mix",
}  # fmt: skip


def words(log: str, **changes: Any) -> list[str]:
    return canaries.words("sum", ASKED | {"input": log, "output": "out"} | changes, joined=True)


def metric(log: str, **changes: Any) -> MixedSum:
    asked = ASKED | {"input": (log,), "output": "elsewhere"} | changes
    options = request(registry.options("sum"), asked)
    found = registry.find_for(options).resolve(options, ALONE, fresh_stream)
    assert isinstance(found, MixedSum)
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
    assert row["standard_error"] < 1.42 * 8 / 2  # ranges over epsilon
    statement = release.statement
    said = " ".join(statement["in_words"])
    assert LOST_SHARE in said
    assert ONE_LIAR in said
    assert statement["poisoning"]["per_liar"] is None
    assert statement["published_exactly"] == "nothing"
    guarantee = statement["guarantees"]["release"]
    assert (guarantee["neighbours"], guarantee["epsilon"]) == ("add or remove", 2.0)
    assert "at least 2,250 people split honestly" in guarantee["how"]


def test_a_lost_or_doubled_share_withholds(log: str) -> None:
    some = metric(log)
    design = some.design
    restart(3)
    reports = design.reports(np.ones(design.most, np.int64), fresh_stream())
    mixed, number = design.mix(reports, fresh_stream())
    assert number == design.most + 1

    def content(messages: np.ndarray, invalid: int = 0) -> Any:
        counted = Counted(some.mechanism.count(messages), messages.size, invalid)
        return some.content(counted, {})

    published = content(mixed)
    assert published is not None
    assert "reports" not in json.dumps(published.statement["asked"])
    for broken in (mixed[1:], np.append(mixed, mixed[0]), mixed[: -design.shares]):
        assert content(broken) is None
    assert content(mixed, invalid=1) is None
    other = mixed.copy()  # one lost, another doubled: a sum that cannot be true, but for luck
    other[0] = (other[0] + design.modulus // 2) % design.modulus
    assert content(other) is None
    # A whole report that never came: what is left adds up to a total that might well be.
    fewer, _ = design.mix(design.reports(np.ones(design.most - 1, np.int64), fresh_stream()),
                          fresh_stream())  # fmt: skip
    design.decode(int(some.mechanism.count(fewer)[0]) % design.modulus)
    assert content(fewer) is None
    # A report more than are enrolled changes nothing: or a missing release would tell of it.
    more = design.reports(np.zeros(1, np.int64), fresh_stream()).ravel()
    assert content(np.concatenate([mixed, more])).files == published.files


@pytest.mark.parametrize("step", [SplitAbsentDoFn, SplitNoiseDoFn])
def test_shares_that_an_engine_loses_make_no_release(
    step: Any, run, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "process", lambda *_: iter(()))
    outcome = run(words(log))
    assert outcome.code == 1
    assert "the shares that came are not all of those" in outcome.said
    assert not Path("out").exists()


def test_a_plan_settles_it_and_keeps_it_from_clients(run, log: str) -> None:
    words = "kind: sum, column: number, bounds: '-3,5', mechanism: split-mix, enrolled: 2500"
    Path("plan.yaml").write_text(
        f"collection: total\nversion: 1\ninput: {log}\noutput: out\nepsilon: 2.0\n"
        f"delta: 1.0e-6\nhonest_share: 0.8\nmetrics:\n  - {{name: much, {words}}}\n"
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
        ({"epsilon": 1e-6}, "--enrolled, --bounds, --epsilon, --delta: a range of 8 units"),
        ({"bounds": "5,-3"}, "--bounds: the first must be below the second"),
        ({"dummies": "devices"}, "--dummies: with --mechanism split-mix the shuffler draws"),
        ({"group_by": "value", "groups": "0..3"}, "--group-by: with --mechanism split-mix"),
        ({"max_messages": 3}, "--max-messages: 2,500 devices have to send"),
        ({"delta": 1e-13}, "is below what sigma 40 takes"),
        ({"mechanism": "counters"}, "--enrolled: says something of --dummies devices"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    changes: dict[str, Any], complaint: str, refused, log: str
) -> None:
    refused(words(log, **changes), complaint)
