"""Whatever is wrong with a request for a mean: one line, exit code 2, nothing written or leaked."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes import canaries


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
                ("--bounds: the first must be below the second", {"bounds": "5,5.0"}),
                ("--bounds: '0.1,0.10000000000000000001' is one number in 64 bits",
                 {"bounds": "0.1,0.10000000000000000001"}),
                *(
                    ("--bounds must be finite", {"bounds": b})
                    for b in ("nan,5", "0,nan", "0,inf", "0,1e999", "0,-inf")
                ),
                ("--bounds must be finite, and so must be their distance",
                 {"bounds": None, "--bounds=-1e308,1e308": True}),
                ("--bounds is missing", {"bounds": None}),
                ("--bounds and --choose-bounds exclude each other", {"choose_bounds": True}),
                *(
                    ("--choose-bounds: the job's own noise alone serves it",
                     {"bounds": None, "choose_bounds": True} | more)
                    for more in ({"model": "local"}, {"cells": None, "drawn_by": "shuffler"})
                ),
                ("--bounds: 'moment' holds timestamps",
                 {"bounds": None, "choose_bounds": True, "cells": None, "column": "moment"}),
                # columns
                *(
                    (f"--column: '{c}' holds", {"column": c})
                    for c in ("value", "user", "flag", "kind", "tags", "raw")
                ),
                ("--bounds: 'moment' holds timestamps: name the first and the last",
                 {"column": "moment"}),
                ("--column: ", {"column": "city"}),
                ("--user-column: 'real' holds double", {"user_column": "real"}),
                ("--min-reports is missing", {"user_column": "user"}),
                # groups
                ("groups that nobody declared are found by the job alone", {"group_by": "number"}),
                ("--group-by and --groups go together", {"groups": "1..3"}),
                ("--groups-public says something of --group-by", {"groups_public": True}),
                ("--groups: 3..1 is empty", {"group_by": "number", "groups": "3..1"}),
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
                ("unknown option: --colour red", {"colour": "red"}),
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


def test_bounds_below_zero_are_taken_with_an_equals_sign(run, log, workspace) -> None:
    outcome = run([*words(log, bounds=None, model="local"), "--bounds=-5,5"])
    assert outcome.code == 0, outcome.said


# ---- too little to publish -----------------------------------------------------------------------


def test_withholds_where_no_public_group_is_large_enough(run, log, workspace) -> None:
    asked = {"group_by": "number", "groups": "0..1", "groups_public": True, "min_reports": "500"}
    outcome = run(words(log, **asked))
    assert outcome.code == 1
    assert "no group has --min-reports 500 of them" in outcome.err
    assert not (workspace / "out").exists()


def test_withholds_where_nothing_can_be_used(run, workspace) -> None:
    pq.write_table(pa.table({"real": pa.array([None] * 9, pa.float64())}), "nulls.parquet")
    outcome = run(words("nulls.parquet", model="local", unusable="count"))
    assert outcome.code == 1
    assert outcome.err == (
        "hushbeam: withheld: 0 reports came, fewer than --min-reports 1; 9 rows: null value\n"
    )
