"""Means and distributions whose bounds a first round chooses, against the truth and the price."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hushbeam
from hushbeam.releases import Release
from mechanisms.mean.magnitudes import bin_of, bins
from mechanisms.randomness import SeededRandom
from pipelines.command import rounds
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.counting.by_job import noisy
from pipelines.metrics.first_round import chosen_of
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.resolving import resolve
from tests.contract.laws import reach
from transforms.collector.collect_counts import Counted

USERS = 4000


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Two rows a user."""
    rng, user = np.random.default_rng(8), np.repeat(np.arange(USERS), 2)
    city = np.where(user % 2, "Oslo", "Bern")
    return pd.DataFrame({"user": user, "seconds": rng.gamma(4.0, 150.0, 2 * USERS), "city": city})


def widened(high: float, least: float) -> float:
    """How many times as high as twice the least a chosen bound is.

    Next to what is sure noise alone widens bounds by a power of two once in 70: five times in a row
    less than once in 10^9.
    """
    assert high in least * 2 ** np.arange(7)
    return max(1.0, high / least / 2)


def near(figures: Any, truth: Any, wide: float) -> None:
    for estimate, error, true in zip(*figures, truth, strict=True):
        assert abs(estimate - true) <= reach(error)
        assert abs((1 + 0.3 * wide) * true - estimate) > reach(error)


@pytest.mark.usefixtures("workspace")
def test_both_rounds_keep_one_promise_and_are_paid_for_once(run: Any, log: Any) -> None:
    log.to_parquet("log.parquet")
    Path("cities.txt").write_text("Oslo\nBern\n")
    begin = ["ledger", "init", "--ledger", "l.sqlite", "--population", "p", "--unit", "user"]
    assert run([*begin, "--budget", "5.0001,1e-6"]).code == 0
    words = ["mean", "--input", "log.parquet", "--user-column", "user", "--column", "minutes"]
    words += ["--derive", "minutes=seconds / 60", "--group-by", "city", "--groups", "cities.txt"]
    words += ["--choose-bounds", "--epsilon", "5", "--output", "out"]
    paid = [*words, "--ledger", "l.sqlite", "--population", "p"]
    outcome = run(paid)
    assert outcome.code == 0, outcome.said
    assert "central: epsilon 5, delta 9e-07, per user" in outcome.out
    assert "magnitude" not in outcome.out
    said = json.loads(Path("out/statement.json").read_text())
    assert said["guarantees"]["release"]["epsilon"] == pytest.approx(5)
    assert said["first_round"]["guarantee"]["epsilon"] == pytest.approx(0.5)
    assert (said["request"]["epsilon"], said["request"]["choose_bounds"]) == (5, True)
    low, high = said["first_round"]["bounds"]["minutes"]
    assert low <= 2
    for text in (" ".join(said["in_words"]), Path("out/report.html").read_text()):
        assert "published in out-bounds, at epsilon 0.5 of the whole: minutes" in text
        assert "may lie beyond and are clipped, which intervals do not cover" in text
    table = Release("out").table.slice(0, 2)
    clipped = (log.seconds / 60).groupby([log.city, log.user]).mean().clip(low, high)
    figures = table["estimate"].to_pylist(), table["standard_error"].to_pylist()
    near(figures, clipped.groupby("city").mean()[["Oslo", "Bern"]], widened(high, 32))
    spent = run(["ledger", "show", "--ledger", "l.sqlite", "--json"])
    assert [one["state"] for one in json.loads(spent.out)] == ["committed", "committed"]
    again = run(paid)
    assert (again.code, again.err.count("out already holds a release")) == (2, 1)
    # A first round that stands there is not made again, if it is the one that is needed.
    shutil.rmtree("out")
    refused = run(paid)
    assert (refused.code, refused.err.count("budget")) == (1, 1)
    assert run(words).code == 0
    shutil.rmtree("out")
    other = run(["4" if word == "5" else word for word in words])
    assert other.code == 2
    assert "out-bounds already holds a release" in other.err
    assert not Path("out").exists()


def test_quantiles_have_chosen_bounds_too(log: Any) -> None:
    made = hushbeam.distribution(
        log, column="seconds", choose_bounds=True, epsilon=1, quantiles="0.5"
    )
    (row,) = made.tables["quantiles"].to_pylist()
    wide = widened(made.statement["first_round"]["bounds"]["seconds"][1], 2048)
    assert row["estimate"] == pytest.approx(log.seconds.median(), rel=0.05 * wide)


def test_where_there_is_one_round_bounds_are_named(run: Any, log: Any, workspace: Path) -> None:
    log.to_parquet("log.parquet")
    plan = "collection: c\nversion: 1\nunit: row\ninput: log.parquet\noutput: out\nepsilon: 1\n"
    metric = "metrics:\n- {name: m, kind: mean, column: seconds, choose_bounds: true"
    for more in ("", ", model: local, min_reports: 9", ", drawn_by: shuffler"):
        Path("plan.yaml").write_text(f"{plan}{metric}{more}}}\n")
        refused = run(["run", "plan.yaml"])
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "metric m: choose_bounds: this is one round" in refused.err


LAWS = {
    "exponential": (lambda rng: rng.exponential(600, USERS), (0.0, 5000.0)),
    "normal": (lambda rng: rng.normal(600, 100, USERS), (200.0, 1000.0)),
    "centred": (lambda rng: rng.normal(0, 100, USERS), (-400.0, 400.0)),
}
ASKED = MeanOptions(input=("-",), output="-", column="v", user_column="u", epsilon=1.0,
                    expected=USERS, choose_bounds=True)  # fmt: skip


@cache
def noise(asked: MeanOptions) -> float:
    return float(resolve(asked, Source(UNREAD)).error)  # type: ignore[attr-defined]


@pytest.mark.parametrize("law", LAWS)
def test_chosen_bounds_cost_a_fifth_of_the_error_at_the_most(law: str) -> None:
    """At 4,000 users and epsilon 1, of 300 logs: one round that is far off would spoil the figure.

    What a mean is off by is noise, by the release's own forecast, and what clipping takes away.
    """
    draw, good = LAWS[law]
    first, rng = resolve(rounds._counts(ASKED), Source(UNREAD)), SeededRandom(9)
    draws, alone = np.random.default_rng(10), {"bounds": "{},{}".format(*good)}
    known = noise(ASKED.model_copy(update=alone | {"choose_bounds": False}))
    errors = []
    for _ in range(300):
        held, exact = draw(draws), np.zeros(first.mechanism.codes, np.int64)
        exact[: bins()] = np.bincount(bin_of(held), minlength=bins())
        (table,) = first.tables(noisy(first.design, Counted(exact, USERS, 0), rng)).values()
        low, high = chosen_of(table)
        bias = [held.clip(*pair).mean() - held.mean() for pair in ((low, high), good)]
        errors.append((noise(rounds._within(ASKED, (low, high))), known, *bias))
    own, others, bias, gone = np.array(errors).T
    for runs in (30, 300):
        chosen = np.hypot(own, bias)[:runs]
        print(
            law, runs, np.sqrt(np.mean(chosen**2)) / np.sqrt(np.mean((others**2 + gone**2)[:runs]))
        )
        assert np.sqrt(np.mean(chosen**2)) < 1.2 * np.sqrt(np.mean((others**2 + gone**2)[:runs]))
    # Bounds that are a power of two too wide, or too narrow, would not pass.
    assert 2 * np.median(own) > 1.2 * known
