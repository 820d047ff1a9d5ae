"""Integers that the job adds to exact totals: what is published, and whom one is told to trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mechanisms.counters.noise import published_law
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.counting.by_job import ByJob, noisy
from pipelines.metrics.resolving import resolve
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.request.requests import request
from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release
from transforms.collector.collect_counts import Counted

TRUST = "Nothing is hidden from whoever runs the job"


def asked(log: str, domain: str, kind: str) -> dict[str, Any]:
    values = {"column": "value", "domain": domain}
    numbers = {"column": "number", "bounds": "-3,5"}
    return {
        "count": values, "histogram": values, "sum": numbers | {"whole_numbers": True},
        "mean": numbers, "distribution": numbers,
    }[kind] | {"input": log, "output": "out", "epsilon": 0.5, "drawn_by": "job"}  # fmt: skip


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run."""
    with fixed_randomness():
        yield


def test_counts_have_noise_and_say_whom_one_trusts(run, log: str, domain: str) -> None:
    outcome = run(canaries.words("count", asked(log, domain, "count"), joined=True))
    assert outcome.code == 0, outcome.said
    release = Release(Path("out"))
    rows = release.table("count.parquet").to_pylist()
    true = Counter(row["value"] for row in canaries.table().to_pylist())
    off = [row["estimate"] - true[row["value"]] for row in rows if row["value"] is not None]
    assert any(off)  # nothing exact is published
    assert all(abs(x) <= 30 * row["standard_error"] for x, row in zip(off, rows, strict=False))
    statement = release.statement
    guarantee = statement["guarantees"]["release"]
    assert (guarantee["model"], guarantee["epsilon"], guarantee["delta"]) == ("central", 0.5, 0.0)
    assert guarantee["neighbours"] == "add or remove"
    law = statement["error"]["law"]
    assert (law["name"], law["falls"]) == ("discrete Laplace", [1 / law["scale"], 0.0])
    published = published_law(law["farthest"], law["falls"])
    assert published.var() == pytest.approx(statement["error"]["standard_error"] ** 2)
    assert statement["request"]["delta"] == 0.0
    assert statement["published_exactly"] == "nothing"
    assert any(line.startswith(TRUST) for line in statement["in_words"])
    assert TRUST in release.page
    assert "the job sees the rows" in outcome.out
    assert "central: epsilon 0.5, delta 0" in outcome.out
    everything = release.read("statement.json").decode()
    assert "dummies it" not in everything
    assert "shuffler" not in everything


def test_every_release_draws_noise_of_its_own(log: str, domain: str) -> None:
    options = request(registry.options("count"), asked(log, domain, "count") | {"input": (log,)})
    metric = resolve(options, ALONE)
    exact = Counted(np.zeros(metric.design.codes, np.int64), 0, 0)
    seeds = iter([5, 6])

    def drawn() -> list[int]:
        counted = noisy(metric.design, exact, SeededRandom(next(seeds)))
        return [*map(int, counted.counts)]

    expected = [metric.design.noisy(exact.counts, SeededRandom(seed)).tolist() for seed in (5, 6)]
    assert [drawn(), drawn()] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("kind", ["count", "histogram", "sum", "mean"])
def test_a_total_errs_no_more_than_among_dummies(kind: str, log: str, domain: str) -> None:
    words = asked(log, domain, kind) | {"input": (log,)}
    errors = {}
    for drawer in ("job", "shuffler"):
        options = request(registry.options(kind), words | {"drawn_by": drawer})
        metric = resolve(options, ALONE)
        assert isinstance(metric, ByJob) == (drawer == "job")
        errors[drawer] = metric.error
    assert 0 < errors["job"] < 1.02 * errors["shuffler"]


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        ("count", {"enrolled": 9}, "--enrolled: says something of dummies, and --drawn-by job has"),
        ("count", {"max_messages": 9}, "--max-messages: says something of dummies"),
        ("mean", {"honest_share": 0.9}, "--honest-share: with --drawn-by job no report is random"),
        ("mean", {"min_reports": 9}, "--min-reports: with --drawn-by job no report is randomised"),
        ("sum", {"shuffler": "fused"}, "--shuffler fused: nothing is shuffled where the job adds"),
        ("sum", {"mechanism": "split-mix", "enrolled": 99}, "the shuffler adds the noise"),
    ],
)
def test_what_means_nothing_beside_it_is_refused(
    kind: str, changes: dict[str, Any], complaint: str, refused, log: str, domain: str
) -> None:
    refused(canaries.words(kind, asked(log, domain, kind) | changes, joined=True), complaint)


@pytest.mark.verify
def test_a_plan_may_have_it_and_three_parties_may_not(run, log: str, domain: str) -> None:
    Path("plan.yaml").write_text(
        f"collection: total\nversion: 1\ninput: {log}\noutput: out\nepsilon: 2.0\ndelta: 1.0e-6\n"
        "metrics:\n  - {name: much, kind: count, drawn_by: job, column: value, "
        f"domain: {domain}}}\n"
        "  - {name: usual, kind: sum, column: number, bounds: '-3,5'}\n"
    )
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    with pytest.raises(RequestError, match="has to see exact totals, and here no party does"):
        split(load("plan.yaml"), "d1")
    assert run(["run", "plan.yaml"]).code == 0
    assert any(TRUST in line for line in Release(Path("out/much")).statement["in_words"])
