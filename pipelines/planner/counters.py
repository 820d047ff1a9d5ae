"""`hushbeam plan --counts`, `--bounds` and the like: how exact counters are, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
)
from pydantic_core import PydanticCustomError
from rich import box
from rich.console import Console
from rich.table import Table

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.choose import least_error
from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.rows import MOST_DIGITS, RowCounters
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.vector.rows import LARGEST_DIMENSION
from pipelines import answers
from pipelines.errors import DONE, RequestError
from pipelines.metrics.counting.options import DELTA, MOST_MASKED, TRUSTED
from pipelines.options import flag
from pipelines.planner import activity, tables
from pipelines.requests import Neighbours, Whole, request

SENT = 82
"""Bytes of a sealed word, see docs/wire.md."""

_SEALING = 0.25  # milliseconds of a core for a word: `python -m benchmarks sealing`


def _separated(written: object) -> object:
    return tuple(written.split(",")) if isinstance(written, str) else written


def _positive(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if not (numbers and min(numbers) >= 1):
        raise PydanticCustomError("numbers", "name whole numbers of at least 1, as in 1,10")
    return numbers


Several = Annotated[tuple[Whole, ...], BeforeValidator(_separated), AfterValidator(_positive)]
"""Whole numbers of at least 1, with commas between them."""


class NoiseRequest(BaseModel):
    """What a person asks any plan of counters for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    neighbours: Neighbours = "add or remove"
    epsilon: float = Field(gt=0)
    delta: float = Field(DELTA, gt=0, lt=1)


class CountersRequest(NoiseRequest):
    """What a person asks a plan of counts for."""

    counts: Whole = Field(ge=1, le=1 << 24)
    rows_per_user: Several = (1, 3, 10, 30, 100)
    per_value: Several = (1, 2, 8, 32)


class AveragesRequest(NoiseRequest):
    """What a person asks a plan of average rows for."""

    averages: Whole = Field(ge=1, le=LARGEST_DIMENSION)
    reports: Whole = Field(1_000_000, ge=1, le=1 << 40)
    digits: Several = (1, 2, 3, 4, 5, 6)

    @field_validator("digits")
    @classmethod
    def _few(cls, digits: tuple[int, ...]) -> tuple[int, ...]:
        if max(digits) > MOST_DIGITS:
            raise PydanticCustomError("digits", f"a number has at most {MOST_DIGITS} digits")
        return digits


class StringsRequest(NoiseRequest):
    """What a person asks a plan of unknown strings for."""

    unknown_strings: bool
    rows_per_user: Several = (1, 2, 3, 5, 10, 30, 100)


class NumbersRequest(NoiseRequest):
    """What a person asks a plan of a sum and a mean for."""

    bounds: str
    reports: Whole = Field(1_000_000, ge=1, le=1 << 40)


class ReleasesRequest(NoiseRequest):
    """What a person asks a plan of active users for."""

    releases: Several


class TablesRequest(NoiseRequest):
    """What a person asks a plan of a cross-tab for."""

    tables: Several


# What is asked for, by the option that says so.
_KINDS: Mapping[str, type[NoiseRequest]] = {
    "counts": CountersRequest, "bounds": NumbersRequest, "averages": AveragesRequest,
    "releases": ReleasesRequest, "tables": TablesRequest, "unknown_strings": StringsRequest,
}  # fmt: skip
_SHARED = {"epsilon", "delta", "reports"}
OWN = tuple(sorted({name for kind in _KINDS.values() for name in kind.model_fields} - _SHARED))


def add_to(parser: Any) -> None:
    """Add the options that counts have alone."""
    group = parser.add_argument_group("counts of users and events")
    group.add_argument(
        "--counts", metavar="D",
        help="how many values are counted, 1 for a total: shows the standard error of `hushbeam "
        "count` for several --rows-per-user and --per-value",
    )  # fmt: skip
    group.add_argument(
        "--rows-per-user", metavar="K,K,...", help="values of a user that count (1,3,10,30,100)"
    )
    group.add_argument(
        "--per-value", metavar="B,B,...", help="rows of a value that count (default: 1,2,8,32)"
    )
    group.add_argument("--neighbours", metavar="add-or-remove|replace")
    group.add_argument(
        "--unknown-strings", action="store_true", default=None,
        help="shows how many users must hold a string for `hushbeam unknown-strings` to find it, "
        "for several --rows-per-user",
    )  # fmt: skip
    numbers = parser.add_argument_group("sums and means of one number a user")
    numbers.add_argument(
        "--bounds", metavar="L,U",
        help="of the number: shows what each way to `hushbeam sum` and `mean` costs and errs by, "
        "for as many users as --reports says (10^6)",
    )  # fmt: skip
    tabs = parser.add_argument_group("cross-tabs")
    tabs.add_argument(
        "--tables", metavar="D,D,...",
        help="how many values each column has: shows the standard error of a cell of each table of "
        "`hushbeam cross-tab`",
    )  # fmt: skip
    rows = parser.add_argument_group("average rows over noisy counters")
    rows.add_argument(
        "--averages", metavar="D",
        help="how many numbers a row has: shows what `hushbeam vector-mean --dummies shuffler` "
        "costs and errs by, for several --digits and as many users as --reports says (10^6)",
    )  # fmt: skip
    days = parser.add_argument_group("active users, day after day")
    days.add_argument(
        "--releases", metavar="R,R,...",
        help="how many releases of `hushbeam active-users` are to come to --epsilon and --delta "
        "together, for a user who is in all of them (28 is a month): shows what each may cost, and "
        "how far off it is",
    )  # fmt: skip
    rows.add_argument(
        "--digits", metavar="T,T,...", help="binary digits of a number (default: 1,2,3,4,5,6)"
    )


def asked(typed: Mapping[str, Any]) -> bool:
    """Whether it is counters that are asked for.

    Raises:
        RequestError: options mean nothing without them.
    """
    if any(typed[kind] is not None for kind in _KINDS):
        return True
    for name in OWN:
        if typed[name] is not None:
            needed = next(kind for kind, one in _KINDS.items() if name in one.model_fields)
            raise RequestError(f"{flag(name)} needs {flag(needed)}: it is for noisy counters")
    return False


def run(typed: Mapping[str, Any]) -> int:
    """Print the noise of counts, of a sum and a mean, or of average rows.

    Raises:
        RequestError: what was asked is out of range.
    """
    kind = next(name for name in _KINDS if typed[name] is not None)
    fields = _KINDS[kind].model_fields
    for name, given in typed.items():
        if name not in fields and given is not None and (name, given) != ("model", "shuffle"):
            raise RequestError(f"{flag(name)} means nothing beside {flag(kind)}")
    made: Mapping[str, Callable[[Any], Table]] = {
        "counts": _table, "bounds": _ways, "averages": _rows, "releases": _days,
        "tables": tables.table, "unknown_strings": _strings,
    }  # fmt: skip
    Console().print(made[kind](request(_KINDS[kind], {name: typed[name] for name in fields})))
    return DONE


def _ways(options: NumbersRequest) -> Table:
    from pipelines.planner import numbers  # what it plans brings Beam with it

    return numbers.table(options)


def _strings(options: StringsRequest) -> Table:
    """A row for each K."""
    table = Table(
        title=f"unknown strings, epsilon {options.epsilon:g}, delta {options.delta:g}, "
        f"{options.neighbours}",
        caption="threshold: a string is published if its noisy number of users is above it; found "
        f"from: how many users must hold it so that it is with probability {1 - MISSED:g}; error: "
        "standard error of that number",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
    )  # fmt: skip
    for heading in ("--rows-per-user", "threshold", "found from", "error"):
        table.add_column(heading, justify="right", overflow="fold")
    for k in options.rows_per_user:
        try:
            crowds = Crowds.meeting(k, options.neighbours, options.epsilon, options.delta)
        except ValueError:
            answers.add("rows", {"rows_per_user": k, "refused": "out of reach"})
            table.add_row(f"{k:,}", "out of reach")
            continue
        threshold, found = crowds.threshold, crowds.detection_limit
        error = crowds.design.variances[0] ** 0.5
        row = {"rows_per_user": k, "threshold": threshold, "found_from": found, "error": error}
        answers.add("rows", row)
        table.add_row(f"{k:,}", f"{threshold:,}", f"{found:,}", f"{error:,.3g}")
    return table


def _rows(options: AveragesRequest) -> Table:
    """A row for each number of digits."""
    n, users = options.reports, f"{options.reports:,} users"
    table = Table(
        title=f"average of {options.averages:,} numbers, {users}, epsilon {options.epsilon:g}, "
        f"delta {options.delta:g}, {options.neighbours}",
        caption="messages, bytes and seconds to seal them: of a user, one by one, as in three "
        "parties; one job seals nothing. dummies: of the shuffler, and seconds to seal those. "
        "error: standard error of a mean in the middle of its bounds, these being -1 and 1, "
        "rounding included; of which squared: rounding",
        box=box.SIMPLE_HEAD, padding=0, show_edge=False,
    )  # fmt: skip
    for heading in ("--digits", "messages", "bytes", "s", "dummies", "s", "error", "rounding"):
        table.add_column(heading, justify="right", overflow="fold")
    for digits in options.digits:
        rows = RowCounters(options.averages, (1 << digits) - 1)
        target = options.neighbours, options.epsilon, options.delta
        try:
            design = Counters.meeting(rows.levels, *target, beside=(Level(1, 1),))
        except ValueError:
            answers.add("rows", {"digits": digits, "refused": "out of reach"})
            table.add_row(f"{digits}", "out of reach")
            continue
        slots, dummies = int(design.layout.types.size), design.dummies.number(design.levels)
        coins = float(rows.rounding(np.array(n)))
        variance = rows.noise(design.variances).sum ** 2 + coins
        error, rounding = variance**0.5 / n, coins / variance
        answers.add(
            "rows",
            {
                "digits": digits, "messages": slots, "bytes": SENT * slots, "dummies": dummies,
                "error": error, "rounding": rounding,
            },
        )  # fmt: skip
        table.add_row(
            f"{digits}", f"{slots:,}", f"{SENT * slots:,}", f"{_SEALING * slots / 1000:.2g}",
            f"{dummies:,}", f"{_SEALING * dummies / 1000:,.0f}", f"{error:.3g}",
            f"{100 * rounding:.0f} %",
        )  # fmt: skip
    return table


def instead(values: int, n: int, epsilon: float, delta: float) -> list[str]:
    """What counters would give in the place of randomised reports: a line, if they can.

    Args:
        values: how many are counted.
        n: how many send one.
        epsilon: of the release.
        delta: of the release.
    """
    levels = Amounts(values, 1, 1).levels
    try:
        design = Counters.meeting(levels, "add or remove", epsilon, delta)
    except ValueError:  # so many values take too many dummies
        return []
    return [f"{TRUSTED}: standard error {design.column_variance**0.5 / n:.2e}"]


def _table(options: CountersRequest) -> Table:
    """A row for each K, a column for each B."""
    ks = [k for k in options.rows_per_user if k <= options.counts]
    table = Table(
        title=f"counts of {options.counts:,} values, epsilon {options.epsilon:g}, delta "
        f"{options.delta:g}, {options.neighbours}",
        caption="standard error of a count, and bytes that a user seals and sends; one per cent "
        "of epsilon tells how many users were cut",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
    )  # fmt: skip
    table.add_column("--rows-\nper-user", justify="right")
    for b in options.per_value:
        table.add_column(f"--per-value\n{b:,}", justify="right", overflow="fold")
    for k in ks:
        table.add_row(f"{k:,}", *(_cell(options, k, b) for b in options.per_value))
    return table


def _cell(options: CountersRequest, k: int, b: int) -> str:
    # As `hushbeam count` has it: all other rows share one more count, and who was cut is told.
    groups = options.counts + (options.counts > 1)
    amounts = Amounts(groups, k, b)
    sides = (Level(1, 1),) * (b > 1 or groups > k)
    target = options.neighbours, options.epsilon, options.delta
    more: Any = {
        "drawers": ["shuffler"],
        "beside": sides,
        "correlated": b > 1,
        "most_masked": MOST_MASKED,
    }
    place = {"rows_per_user": k, "per_value": b}
    try:
        design = cast(Counters, least_error(amounts.levels, *target, **more))
    except ValueError:
        answers.add("rows", {**place, "refused": "out of reach"})
        return "out of reach"
    error, size = design.column_variance**0.5, SENT * int(design.layout.types.size)
    answers.add("rows", {**place, "error": error, "bytes": size})
    return f"{error:,.4g}\n{size:,} B"


def _days(options: ReleasesRequest) -> Table:
    """A row for each number of releases."""
    return activity.table(options.releases, options.neighbours, options.epsilon, options.delta)
