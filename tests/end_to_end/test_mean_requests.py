"""Whatever is wrong with a request for a mean: one line, exit code 2, nothing written or leaked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import build
from mechanisms.planner.design import Design
from mechanisms.planner.search import search
from mechanisms.planner.target import Target
from pipelines import inputs
from tests.fakes import canaries

USABLE_USERS = (canaries.ROWS - canaries.NULL_USERS) // 4


def words(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes."""
    asked = {"column": "real", "domain": None, "bounds": "0,300", "cells": "16"} | changes
    return ["mean", *canaries.request(log, **asked)[1:]]


@pytest.fixture
def refuse(refused, log) -> Callable[..., None]:
    """A request that is right but for the changes is refused."""

    def refuse(expected: str, more: tuple[str, ...] = (), **changes: object) -> None:
        refused([*words(log, **changes), *more], expected)

    return refuse


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        pytest.param(expected, changes, id=f"{'-'.join(changes)}-{number}")
        for number, (expected, changes) in enumerate(
            [
                *(
                    ("--bounds must be two numbers with a comma", {"bounds": b})
                    for b in ("5", "0,1,2", "a,b", "", "0;5", "0..5", ",", "1,")
                ),
                ("--bounds: the first must be below the second", {"bounds": "5,1"}),
                ("--bounds: the first must be below the second", {"bounds": "5,5"}),
                *(
                    ("--bounds must be finite", {"bounds": b})
                    for b in ("nan,5", "0,nan", "0,inf", "0,1e999", "0,-inf")
                ),
                ("--bounds must be finite, and so must be their distance",
                 {"bounds": None, "--bounds=-1e308,1e308": True}),
                ("--bounds is missing", {"bounds": None}),
                ("--bounds and --choose-bounds exclude each other", {"choose_bounds": True}),
                ("--choose-bounds serves one mean",
                 {"bounds": None, "choose_bounds": True, "group_by": "number", "groups": "1..3"}),
                ("900 reports are too few to be divided between two rounds",
                 {"bounds": None, "choose_bounds": True, "min_reports": "900"}),
                # columns
                *(
                    (f"--column: '{c}' holds", {"column": c})
                    for c in ("value", "user", "flag", "kind", "moment", "tags", "raw")
                ),
                ("--column: ", {"column": "city"}),
                ("--user-column: 'real' holds double", {"user_column": "real"}),
                ("--min-reports is missing", {"user_column": "user"}),
                # groups
                ("--group-by and --groups go together", {"group_by": "number"}),
                ("--group-by and --groups go together", {"groups": "1..3"}),
                ("--groups-public says something of --group-by", {"groups_public": True}),
                ("--groups: 3..1 is empty", {"group_by": "number", "groups": "3..1"}),
                ("--groups: needed are at least 2 v", {"group_by": "number", "groups": "3..3"}),
                ("--groups: no.txt is neither", {"group_by": "number", "groups": "no.txt"}),
                ("--groups: the column holds", {"group_by": "real", "groups": "1..3"}),
                ("--group-by: ", {"group_by": "city", "groups": "1..3"}),
                ("with --groups-public, say how many reports",
                 {"group_by": "number", "groups": "1..3", "groups_public": True}),
                ("--mechanism: pm does not hide groups",
                 {"group_by": "number", "groups": "1..3", "mechanism": "pm"}),
                ("declare fewer groups",
                 {"group_by": "number", "groups": "1..9000000", "model": "local",
                  "groups_public": True, "cells": "1024"}),
                # privacy
                *(
                    ("--epsilon must be", {"epsilon": e})
                    for e in ("0", "-1", "nan", "inf", "much", "")
                ),
                ("epsilon is missing", {"epsilon": None}),
                *(("--delta must be ", {"delta": d}) for d in ("1", "nan", "tiny")),
                ("delta must lie strictly between 0 and 1", {"delta": "0"}),
                ("--min-reports must be ", {"min_reports": "0"}),
                ("--epsilon-local must be ", {"epsilon_local": "nan"}),
                ("invalid choice: 'central'", {"model": "central"}),
                ("unknown mechanism 'magic'; there are: optimal", {"mechanism": "magic"}),
                ("gaussian needs a delta of every single report, which is 0 here in the shuffle",
                 {"mechanism": "gaussian"}),
                ("name a --delta", {"mechanism": "gaussian", "model": "local"}),
                ("the nearest that works is 8", {"mechanism": "optimal", "model": "local",
                                                 "epsilon": "9"}),
                # how, and where to
                *(("--cells must be ", {"cells": c}) for c in ("0", "-3", "1.5", "many")),
                ("cells must lie in", {"cells": "99999999"}),
                ("invalid choice: 'wide'", {"interval": "wide"}),
                ("--confidence must be ", {"confidence": "1"}),
                ("knows --colour red", {"colour": "red"}),
                ("no file matches", {"input": "no-such.parquet"}),
                ("the following arguments are required: --output", {"output": None}),
                ("/ already holds files", {"output": "/"}),
            ]
        )
    ],
)  # fmt: skip
def test_refuses(refuse, expected: str, changes: dict[str, object]) -> None:
    more = tuple(key for key in changes if key.startswith("--"))
    refuse(expected, more, **{k: v for k, v in changes.items() if not k.startswith("--")})


def test_refuses_a_log_without_rows(refuse, workspace) -> None:
    pq.write_table(canaries.table().slice(0, 0), workspace / "none.parquet")
    refuse("no rows in 1 file(s)", input="none.parquet")


def test_a_design_that_falls_short_is_refused(refuse, monkeypatch) -> None:
    def careless(target: Target[Any], name: str) -> Design[Any]:
        return search(replace(target, epsilon=2 * target.epsilon), name)

    monkeypatch.setattr("pipelines.metrics.mean.design.search", careless)
    refuse("--epsilon: 0.5 is less than what can be proven of these reports", epsilon="0.5")


def test_bounds_below_zero_are_taken_with_an_equals_sign(run, log, workspace) -> None:
    outcome = run([*words(log, bounds=None, model="local"), "--bounds=-5,5"])
    assert outcome.code == 0, outcome.said


def test_help_says_that_values_are_clipped_and_not_counted(run) -> None:
    outcome = run(["mean", "--help"])
    assert outcome.code == 0
    assert "clipped" in outcome.out
    assert "how many were is not published" in " ".join(outcome.out.split())


# ---- too little to publish -----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["local", "shuffle"])
def test_withholds_a_batch_that_is_too_small(run, log, workspace, model) -> None:
    before = canaries.names(workspace)
    outcome = run(words(log, model=model, min_reports="2001"))
    assert (outcome.code, outcome.out) == (1, "")
    expected = "hushbeam: withheld: 2,000 reports came, fewer than --min-reports 2,001\n"
    assert outcome.err == expected
    assert canaries.names(workspace) == before


def test_withholds_a_batch_of_too_few_users(run, log, workspace) -> None:
    outcome = run(words(log, user_column="user", min_reports="1000"))
    assert outcome.code == 1
    assert f"{USABLE_USERS} reports came, fewer than --min-reports 1,000" in outcome.err
    assert f"{canaries.NULL_USERS} rows: null user" in outcome.err
    assert not canaries.found(outcome.said)


def test_withholds_where_no_public_group_is_large_enough(run, log, workspace) -> None:
    asked = {"group_by": "number", "groups": "0..1", "groups_public": True, "min_reports": "500"}
    outcome = run(words(log, **asked))
    assert outcome.code == 1
    assert "no group has --min-reports 500 of them" in outcome.err
    assert not (workspace / "out").exists()


def test_withholds_where_the_first_round_is_too_small(run, log, workspace) -> None:
    asked = {"bounds": None, "choose_bounds": True, "min_reports": "30000"}
    outcome = run(words(log, **asked))
    assert outcome.code == 1
    assert "reports came in two rounds, which need" in outcome.err
    assert not (workspace / "out").exists()


def test_withholds_where_nothing_can_be_used(run, workspace) -> None:
    pq.write_table(pa.table({"real": pa.array([None] * 9, pa.float64())}), "nulls.parquet")
    outcome = run(words("nulls.parquet", model="local"))
    assert outcome.code == 1
    assert outcome.err == (
        "hushbeam: withheld: 0 reports came, fewer than --min-reports 1; 9 rows: null value\n"
    )


# ---- a job that dies -----------------------------------------------------------------------------

STEPS = [
    "transforms.encoders.numbers.NumberEncoder.encode",
    "transforms.encoders.bounds.Bounds.scale",
    "transforms.encoders.users.UserDigest.__call__",
    "transforms.contributions.choose_one_per_user",
    "mechanism.encode",
    "mechanism.perturb",
    "transforms.collect_counts.CountMessages.add_input",
    "pipelines.metrics.mean.result.mean_table",
    "pipelines.metrics.mean.metric.Mean.own_statement",
    "pipelines.metrics.mean.view.page",
    "pipelines.release.publish",
    "pipelines.release.os.rename",
]


@pytest.mark.verify
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_nothing_and_says_nothing(step, run, log, workspace, monkeypatch) -> None:
    before = canaries.names(workspace)
    owner, _, name = step.rpartition(".")
    if owner == "mechanism":
        monkeypatch.setattr(type(build("pm", epsilon=1.0)), name, canaries.crash)
    else:
        monkeypatch.setattr(step, canaries.crash)
    asked = {"mechanism": "pm", "epsilon": None, "epsilon_local": "2"}
    outcome = run(words(log, user_column="user", min_reports="100", **asked))
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("hushbeam: the run failed with ")
    assert outcome.err.count("\n") == 1
    assert not canaries.found(outcome.said)
    assert canaries.names(workspace) == before


def test_files_that_change_while_they_are_read_are_named(run, log, workspace, monkeypatch) -> None:
    honest = inputs.open_telemetry
    monkeypatch.setattr(
        inputs, "open_telemetry", lambda files: replace(honest(files), rows=canaries.ROWS + 1)
    )
    outcome = run(words(log, model="local"))
    assert outcome.code == 3
    assert "the files changed while they were read: 2,000 rows came" in outcome.err
    assert not (workspace / "out").exists()


def test_a_job_whose_workers_wrote_elsewhere_is_not_called_withheld(
    run, log, workspace, monkeypatch
) -> None:
    monkeypatch.setattr("pipelines.release.publish", lambda *_: None)
    outcome = run(words(log, model="local"))
    assert outcome.code == 3
    assert "name a folder that they share" in outcome.err


def test_a_job_that_was_only_handed_over_is_done(run, log, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.publishing.run_beam", lambda *_: None)
    outcome = run(words(log, model="local"))
    assert (outcome.code, outcome.err) == (0, "")
    assert "handed over" in outcome.out


# ---- nothing leaks, and other commands are not slowed down ---------------------------------------


def test_nothing_leaks_into_a_log_that_keeps_everything(run, log, workspace) -> None:
    (workspace / "values.txt").write_text("\n".join(canaries.DECLARED))
    asked = {"user_column": "user", "min_reports": "100", "epsilon": "4"}
    grouped = {"group_by": "value", "groups": "values.txt", "output": "grouped"}
    for changes in (asked, asked | grouped, {"column": "code", "model": "local", "output": "c"}):
        outcome = run(words(log, **changes), loud=True)
        assert outcome.code == 0, outcome.err
        assert len(outcome.log) > 10_000  # it did keep everything
        assert not canaries.found(outcome.err + outcome.log, declared=False)
    kept = [path for path in (workspace / "tmp").rglob("*") if path.is_file()]
    assert not canaries.found(" ".join(path.read_bytes().decode("latin-1") for path in kept))
