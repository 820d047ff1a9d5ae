"""The examples of our kinds, on one log: 1,500 users with two equal rows each.

So what one row of a user says is what the user has, and truths are the same for rows and users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.contract.truth import Example, Form, Key, Log, Truth

USERS, WITHOUT = 1500, 40  # of whom so many lack a value and a number
ROWS = 2 * USERS
VALUES, GROUPS = 64, "abcdefgh"  # declared; some rows have others
TOP, FINE, ROUGH = 63.0, 1024, 16  # the largest number; bins, of which most of the fine are empty
DAY = datetime(2024, 5, 8, tzinfo=timezone.utc)
FILES = {"groups.txt": "".join(f"{name}\n" for name in GROUPS)}
_WORDS = np.array(["ab", "cab", "dad", "a", "bb"])
_FEATURES = 16


def columns() -> Log:
    """The log as numpy has it."""
    user = np.arange(ROWS) // 2
    number = np.where(user < WITHOUT, np.nan, (user * 7919 + user // 64) % 64)
    found = {
        "user": np.array([f"CANARY-USER-{k:04}" for k in user]),  # nowhere in what is published
        "shade": np.where(user < WITHOUT, -1, (user * user + user // 3) % 80),
        "size": number,
        "team": np.array(list(GROUPS + "z"))[(user * user + user // 7) % 9],
        "word": _WORDS[np.minimum(4, user % 16 // 3)],
        "rank": (user // 5) % 4,
        "age": user % 9,  # days before DAY on which a user was active
        "first": user % 9 + user // 9 % 3,  # and the first one
    }
    return found | {f"f{k:02}": user * (k + 3) % 17 / 16 for k in range(_FEATURES)}


def log() -> pa.Table:
    """The log as it is read."""
    made = columns()
    absent = made["shade"] < 0
    first_row = np.arange(ROWS) % 2 == 0
    ages = np.where(first_row, made["first"], made["age"]).tolist()
    table = {
        "user": pa.array(made["user"]),
        "shade": pa.array(made["shade"], mask=absent),
        "size": pa.array(made["size"], mask=absent),
        "at": pa.array([DAY - timedelta(days=age, hours=-1) for age in ages]),
        **{name: pa.array(made[name]) for name in ("team", "word", "rank")},
    }
    return pa.table(table | {f: pa.array(made[f]) for f in made if f.startswith("f0") or "f1" in f})


# ---- truths --------------------------------------------------------------------------------------


def values(log: Log) -> dict[Key, float]:
    """How many rows have each declared value."""
    return {(str(k),): float(np.sum(log["shade"] == k)) for k in range(VALUES)}


def _and_others(rows: Mapping[Key, float]) -> dict[Key, float]:
    return {**rows, (None,): ROWS - sum(rows.values())}


def shares(log: Log) -> dict[Key, float]:
    return {key: rows / ROWS for key, rows in values(log).items()}


def all_values(log: Log) -> dict[Key, float]:
    return _and_others(values(log))


def words(log: Log) -> dict[Key, float]:
    return {(word,): float(np.sum(log["word"] == word)) for word in _WORDS.tolist()}


def word_shares(log: Log) -> dict[Key, float]:
    return {key: rows / ROWS for key, rows in words(log).items()}


def _of_groups(log: Log, what: Callable[[Any], float], others: bool) -> dict[Key, float]:
    team, size = log["team"], log["size"]
    found: dict[Key, float] = {(name,): what(size[team == name]) for name in GROUPS}
    return {**found, (None,): what(size[team == "z"])} if others else found


def mean_of_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.nanmean(x)), False)


def mean_of_all_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.nanmean(x)), True)


def rows_of_all_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.sum(~np.isnan(x))), True)


def rows_of_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.sum(~np.isnan(x))), False)


def sum_of_all_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.nansum(x)), True)


def variance_of_all_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.nanvar(x)), True)


def deviation_of_all_groups(log: Log) -> dict[Key, float]:
    return _of_groups(log, lambda x: float(np.nanstd(x)), True)


def ratio_of_all_groups(log: Log) -> dict[Key, float]:
    sizes, ranks = (
        _of_groups({**log, "size": log[name]}, lambda x: float(np.nansum(x)), True)
        for name in ("size", "rank")
    )
    return {key: size / ranks[key] for key, size in sizes.items()}


def mean(log: Log) -> dict[Key, float]:
    return {(None,): float(np.nanmean(log["size"]))}


def total(log: Log) -> dict[Key, float]:
    return {(None,): float(np.nansum(log["size"]))}


def _ends(steps: int) -> NDArray[Any]:
    """Of bins of one width between the bounds."""
    return np.arange(1, steps + 1) * TOP / steps


def _middles() -> NDArray[Any]:
    """Of bins around whole numbers, those at the ends half as wide."""
    return np.append(np.arange(TOP) + 0.5, TOP)


def _below(log: Log, ends: NDArray[Any]) -> dict[Key, float]:
    """The share of the numbers up to each end."""
    numbers = log["size"][~np.isnan(log["size"])]
    return {(f"{end:.9g}",): float(np.mean(numbers <= end)) for end in ends.tolist()}


def below_ends(log: Log) -> dict[Key, float]:
    return _below(log, _ends(FINE))


def below_rough_ends(log: Log) -> dict[Key, float]:
    return _below(log, _ends(ROUGH))


def below_middles(log: Log) -> dict[Key, float]:
    return _below(log, _middles())


def _between(below: Mapping[Key, float], times: float = 1) -> dict[Key, float]:
    steps = np.diff([0.0, *below.values()]) * times
    return dict(zip(below, steps.tolist(), strict=True))


def between_middles(log: Log) -> dict[Key, float]:
    return _between(below_middles(log))


def rows_between_ends(log: Log) -> dict[Key, float]:
    return _between(below_ends(log), np.sum(~np.isnan(log["size"])))


def rows_between_rough_ends(log: Log) -> dict[Key, float]:
    return _between(below_rough_ends(log), np.sum(~np.isnan(log["size"])))


def quantiles(log: Log) -> dict[Key, float]:
    numbers = np.sort(log["size"][~np.isnan(log["size"])])
    levels = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    return {(str(p),): float(numbers[int(np.ceil(p * numbers.size)) - 1]) for p in levels}


def median(log: Log) -> dict[Key, float]:
    return {key: value for key, value in quantiles(log).items() if key == ("0.5",)}


def features(log: Log) -> dict[Key, float]:
    return {(f"f{k:02}",): float(np.mean(log[f"f{k:02}"])) for k in range(_FEATURES)}


def tabs(log: Log) -> dict[Key, float]:
    """Two tables of one column, one of both, and how many there are in all."""
    rank, team, others = log["rank"], log["team"], "(other or missing)"
    ranks = {str(k): rank == k for k in range(4)} | {others: rank > 3}
    teams = {name: team == name for name in GROUPS} | {others: team == "z"}
    found: dict[Key, float] = {("all", "all"): float(ROWS)}
    for name, column in (("rank", ranks), ("team", teams)):
        found |= {(name, value): float(np.sum(rows)) for value, rows in column.items()}
    return found | {
        ("rank \u00d7 team", f"{one} \u00d7 {other}"): float(np.sum(ranks[one] & teams[other]))
        for one in ranks
        for other in teams
    }


def active(log: Log) -> dict[Key, float]:
    """Users by the days on which they were active."""
    age, first = log["age"][::2], log["first"][::2]
    on = [(age == k) | (first == k) for k in range(12)]
    spans = {"last day": 1, "last 7 days": 7, "last 28 days": 12}
    found: dict[Key, float] = {
        ("active", name): float(np.sum(np.any(on[:days], axis=0))) for name, days in spans.items()
    }
    earlier = np.any(on[2:4], axis=0)
    now = {
        "new": on[0] & ~on[1] & ~earlier,
        "returning": on[0] & on[1],
        "resurrected": on[0] & ~on[1] & earlier,
    }
    return found | {("active in the last day", name): float(np.sum(x)) for name, x in now.items()}


def effects(log: Log) -> dict[Key, float]:
    """Team b beside team a; a number that is missing is 0."""
    sides = [log["team"] == name for name in "ab"]
    outcomes = {"rank": log["rank"] > 0, "size": np.nan_to_num(log["size"])}
    means = {name: [float(np.mean(x[side])) for side in sides] for name, x in outcomes.items()}
    return {("b", name): other - first for name, (first, other) in means.items()}


def funnel(log: Log) -> dict[Key, float]:
    """Users who come with a shade of 20 on, and of these on another day those of lower ranks."""
    came, team = log["shade"][::2] >= 20, log["team"][::2]
    again = came & (log["age"][::2] != log["first"][::2]) & (log["rank"][::2] < 2)
    places = {"all": came >= 0, **{name: team == name for name in GROUPS}, None: team == "z"}
    steps = {"came": came, "again": again}
    return {
        (group, step): float(np.sum(some & where))
        for group, where in places.items()
        for step, some in steps.items()
    }


def took(log: Log) -> dict[Key, float]:
    """Of these, who comes again within 30 hours, and who after two days."""
    came, team = log["shade"][::2] >= 20, log["team"][::2]
    later = (log["first"] - log["age"])[::2]  # days
    places = {"all": came, **{name: came & (team == name) for name in GROUPS}}
    places |= {None: came & (team == "z")}
    return {
        (group, f"came → again, {bin_} 30h"): float(np.sum(some & (log["rank"][::2] < 2) & held))
        for group, some in places.items()
        for bin_, held in (("up to", later == 1), ("over", later == 2))
    }


def kept(log: Log) -> dict[Key, float]:
    """The share of the former who come again."""
    of = funnel(log)
    shares = {group: of[group, "again"] / of[group, "came"] for group, step in of if step == "came"}
    return {(group, "came → again"): share for group, share in shares.items()}


# ---- the examples --------------------------------------------------------------------------------

_USERS = {"user_column": "user", "min_reports": USERS}
_ROWS = {"min_reports": 2500}
_DEVICES, _EXPECTED = {"enrolled": ROWS}, {"expected": ROWS}
_BOUNDS = {"bounds": f"0,{TOP:g}"}
_BY_GROUP = {"group_by": "team", "groups": "groups.txt"}
# Totals that grow add up whole numbers; those of the log are whole, in a column of doubles.
_WHOLE = {"derive": ["whole=round(size)"], "column": "whole"}
_RANDOM, _COUNTED = {"epsilon": 4}, {"epsilon": 0.5}


def _also(truth: Truth, **changes: Any) -> Truth:
    return replace(truth, **changes)


_UNBIASED = Truth("histogram.parquet", shares, estimate="unbiased", within=False)
_SHARES = (_UNBIASED, _also(_UNBIASED, estimate="estimate", processed=True, within=True))
_COUNTED_SHARES = (
    *_SHARES,
    Truth(
        "histogram.parquet", values, estimate="rows", error="rows_standard_error",
        interval=None, joint=None,
    ),
)  # fmt: skip

_FOUND = Truth("strings.parquet", words)
_FOUND_SHARES = Truth("strings.parquet", word_shares)
_LEVELS = {"alphabet": ("abcd",), "max_length": 3, "false_strings": 1e-12}

_MEAN = Truth("mean.parquet", mean, joint=None)
_PRIVATE_MEANS = (
    Truth("mean.parquet", mean_of_groups, keys=("group",)),
    Truth(
        "mean.parquet", rows_of_groups, keys=("group",), estimate="n",
        error="n_standard_error", interval=None, joint=None,
    ),
)  # fmt: skip
_MEANS = (
    Truth("mean.parquet", mean_of_all_groups, keys=("group",)),
    Truth(
        "mean.parquet", rows_of_all_groups, keys=("group",), estimate="n",
        error="n_standard_error", interval=None, joint=None,
    ),
)  # fmt: skip

_SPREADS = (
    Truth("deviation.parquet", deviation_of_all_groups, keys=("group",), processed=True),
    Truth("variance.parquet", variance_of_all_groups, keys=("group",), processed=True),
    Truth("mean.parquet", mean_of_all_groups, keys=("group",)),
)
_RATIOS = (
    Truth("ratio.parquet", ratio_of_all_groups, keys=("group",)),
    Truth(
        "ratio.parquet", sum_of_all_groups, keys=("group",), estimate="sum",
        error="sum_standard_error", interval=None, joint=None,
    ),
)  # fmt: skip
_UP_TO = Truth(
    "distribution.parquet", below_middles, keys=("high",), estimate="cumulative", error=None,
    interval=("cumulative_lower", "cumulative_upper"),
    joint=("cumulative_lower_sure", "cumulative_upper_sure"), shared=True,
)  # fmt: skip
_QUANTILES = Truth("quantiles.parquet", quantiles, error=None, joint=None, shared=True)
_SHAPE = (
    Truth(
        "distribution.parquet", between_middles, keys=("high",), estimate="unbiased",
        joint=None, shared=True, within=False,
    ),
    Truth(
        "distribution.parquet", between_middles, keys=("high",), joint=None, shared=True,
        processed=True,
    ),
    _UP_TO,
    _QUANTILES,
)  # fmt: skip


def _counted_shape(rows: Callable[[Log], Any], below: Callable[[Log], Any]) -> tuple[Truth, ...]:
    return (
        Truth(
            "distribution.parquet", rows, keys=("high",), estimate="rows",
            error="rows_standard_error", interval=None, joint=None, shared=True,
        ),
        _also(
            _UP_TO, of=below,
            joint=("cumulative_lower_simultaneous", "cumulative_upper_simultaneous"),
        ),
        _QUANTILES,
    )  # fmt: skip


_ROW = (
    Truth("vector-mean.parquet", features),
    Truth("vector-mean.parquet", features, estimate="unbiased", within=False),
    Truth(
        "vector-mean.parquet", features, estimate="shrunk", interval=None, joint=None,
        processed=True,
    ),
)  # fmt: skip
_SUMS = Truth("sum.parquet", sum_of_all_groups, keys=("group",))
_SUM = Truth("sum.parquet", total, joint=None)
_COUNTS = Truth("count.parquet", all_values)
_ACTIVE = Truth("active-users.parquet", active, keys=("group", "value"), shared=True)
_STEPS = Truth("funnel.parquet", funnel, keys=("group", "value"), shared=True)
_TOOK = Truth("times.parquet", took, keys=("group", "value"), shared=True)
_FITTED = replace(_STEPS, estimate="fitted", interval=None, joint=None, processed=True)
_KEPT = Truth("conversion.parquet", kept, keys=("group", "value"), shared=True)
_TABS = Truth("cross-tab.parquet", tabs, keys=("group", "value"), shared=True)
# Errors and intervals cover chance among users, too, which one log over and over has none of.
_EFFECTS = Truth(
    "experiment.parquet", effects, keys=("group", "value"), shared=True, processed=True
)
_EFFECT_NOISE = _also(
    _EFFECTS, error="noise_standard_error", interval=None, joint=None, processed=False
)

EXAMPLES = {
    "histogram": Example(
        {"column": "shade", "domain": "0..63"},
        {
            "local": Form(_RANDOM | _USERS, _SHARES),
            "shuffle": Form(_RANDOM | _USERS, _SHARES),
            "shuffler": Form(_COUNTED, _COUNTED_SHARES),
            "devices": Form(_COUNTED | _DEVICES, _COUNTED_SHARES),
            "job": Form(_COUNTED, _COUNTED_SHARES),
        },
    ),
    "strings": Example(
        {"column": "word"},
        {
            "threshold, the job": Form(_COUNTED, (_FOUND,)),
            "weighted, the job": Form(
                _COUNTED | {"search": "weighted", "rows_per_user": 1}, (_FOUND,)
            ),
            "levels, local": Form(_LEVELS | _RANDOM | _ROWS, (_FOUND_SHARES,)),
            "levels, shuffle": Form(_LEVELS | _RANDOM | _ROWS, (_FOUND_SHARES,)),
            "levels, shuffler": Form(_LEVELS | _COUNTED, (_FOUND,)),
            "levels, devices": Form(_LEVELS | _COUNTED | _DEVICES, refused="only the job knows"),
            "levels, job": Form(_LEVELS | _COUNTED, (_FOUND,)),
        },
    ),
    "mean": Example(
        {"column": "size"},
        {
            "local": Form(_RANDOM | _BOUNDS | _BY_GROUP, _PRIVATE_MEANS),
            "shuffle": Form(_RANDOM | _USERS | _BOUNDS, (_MEAN,)),
            "shuffler": Form(_COUNTED | _BOUNDS | _BY_GROUP | _EXPECTED, _MEANS),
            "devices": Form(_COUNTED | _BOUNDS | _BY_GROUP | _DEVICES, _MEANS),
            "job": Form(_COUNTED | _BOUNDS | _BY_GROUP | _EXPECTED, _MEANS),
            "split-mix": Form(_COUNTED | _BOUNDS | _DEVICES, (_MEAN,)),
        },
    ),
    "variance": Example(
        {"column": "size"} | _BOUNDS | _BY_GROUP,
        {
            "shuffler": Form(_COUNTED | _EXPECTED, _SPREADS),
            "devices": Form({"epsilon": 2} | _DEVICES, _SPREADS),
            "job": Form(_COUNTED | _EXPECTED, _SPREADS),
        },
    ),
    "ratio": Example(
        {"column": "size", "over": "rank", "over_bounds": "0,3"} | _BOUNDS | _BY_GROUP,
        {
            "shuffler": Form({"epsilon": 2} | _EXPECTED, _RATIOS),
            "devices": Form({"epsilon": 4} | _DEVICES, _RATIOS),
            "job": Form({"epsilon": 2} | _EXPECTED, _RATIOS),
        },
    ),
    "distribution": Example(
        {"column": "size"} | _BOUNDS,
        {
            "local": Form(_RANDOM | {"bins": VALUES}, _SHAPE),
            "shuffle": Form(_RANDOM | _ROWS | {"bins": VALUES}, _SHAPE),
            "shuffler": Form(
                _COUNTED | {"bins": FINE}, _counted_shape(rows_between_ends, below_ends)
            ),
            "devices": Form(
                {"epsilon": 2} | _DEVICES | {"bins": ROUGH},
                _counted_shape(rows_between_rough_ends, below_rough_ends),
            ),
            "job": Form(
                _COUNTED | {"bins": FINE}, _counted_shape(rows_between_ends, below_ends)
            ),
            "quantile": Form(_COUNTED, (replace(_QUANTILES, of=median),)),
        },
    ),
    "vector-mean": Example(
        {"number": tuple(f"f{k:02}=0,1" for k in range(_FEATURES))},
        {
            "local": Form(_RANDOM, _ROW),
            "shuffle": Form(_RANDOM | _ROWS, _ROW),
            "shuffler": Form(_COUNTED | _EXPECTED, _ROW[:1]),
            "devices": Form(_COUNTED | _DEVICES, refused="no dummies of devices are known"),
            "job": Form(_COUNTED | _EXPECTED | {"count_each": True}, _ROW[:1]),
        },
    ),
    "count": Example(
        {"column": "shade", "domain": "0..63"},
        {
            "shuffler": Form(_COUNTED, (_COUNTS,)),
            "devices": Form(_COUNTED | _DEVICES, (_COUNTS,)),
            "job": Form(_COUNTED, (_COUNTS,)),
            "running totals": Form(_COUNTED, (_COUNTS,)),
        },
    ),
    "sum": Example(
        {"column": "size"} | _BOUNDS,
        {
            "shuffler": Form(_COUNTED | _BY_GROUP | _EXPECTED, (_SUMS,)),
            "devices": Form(_COUNTED | _BY_GROUP | _DEVICES, (_SUMS,)),
            "job": Form(_COUNTED | _BY_GROUP | _EXPECTED, (_SUMS,)),
            "split-mix": Form(_COUNTED | _DEVICES, (_SUM,)),
            "running totals": Form(_COUNTED | _BY_GROUP | _WHOLE, (_SUMS,)),
        },
    ),
    "active-users": Example(
        {
            "user_column": "user", "time": "at", "day": f"{DAY:%Y-%m-%d}", "before": 3,
            "retention": 0, "begins": "2024-04-01",
        },
        {
            "shuffler": Form(_COUNTED, (_ACTIVE,)),
            "devices": Form(_COUNTED | {"enrolled": USERS}, (_ACTIVE,)),
            "job": Form(_COUNTED, (_ACTIVE,)),
        },
    ),
    "funnel": Example(
        {
            "user_column": "user", "time": "at",
            "steps": ("came=shade >= 20", "again=rank < 2"), "within": "2d",
        } | _BY_GROUP,
        {
            "shuffler": Form(_COUNTED | {"times": "30h"}, (_STEPS, _FITTED, _TOOK)),
            "devices": Form(_COUNTED | {"enrolled": USERS}, (_STEPS, _FITTED)),
            "job": Form(_COUNTED | {"times": "30h"}, (_STEPS, _FITTED, _KEPT, _TOOK)),
        },
    ),
    "cross-tab": Example(
        {"columns": ("rank", "team"), "domains": ["rank=0..3", "team=groups.txt"]},
        {
            "local": Form(_RANDOM, (_TABS,)),
            "shuffle": Form(_RANDOM | _ROWS, (_TABS,)),
            "shuffler": Form(_COUNTED, (_TABS,)),
            "devices": Form(_COUNTED | _DEVICES, (_TABS,)),
            "job": Form(_COUNTED, (_TABS,)),
        },
    ),
    "experiment": Example(
        {"arm": "team", "arms": "a,b", "rate": ["rank"], "mean": [f"size=0,{TOP:g}"]},
        {
            "shuffler": Form(_COUNTED, refused="let the job draw"),
            "devices": Form(_COUNTED | _DEVICES, refused="let the job draw"),
            "job": Form(_COUNTED, (_EFFECTS, _EFFECT_NOISE)),
        },
    ),
}  # fmt: skip
