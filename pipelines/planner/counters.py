"""`hushbeam plan --counts`: how exact counts are, for how many values and rows of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError
from rich import box
from rich.console import Console
from rich.table import Table

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from pipelines.errors import DONE, RequestError
from pipelines.metrics.counting.options import DELTA
from pipelines.options import flag
from pipelines.requests import Whole, request

_SENT = 82  # bytes of a sealed word, see docs/wire.md


class CountersRequest(BaseModel):
    """What a person asks a plan of counts for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    counts: Whole = Field(ge=1, le=1 << 24)
    rows_per_user: tuple[Whole, ...] = (1, 3, 10, 30, 100)
    per_value: tuple[Whole, ...] = (1, 2, 8, 32)
    neighbours: Literal["add or remove", "replace"] = "add or remove"
    epsilon: float = Field(gt=0)
    delta: float = Field(DELTA, gt=0, lt=1)

    @field_validator("rows_per_user", "per_value", mode="before")
    @classmethod
    def _separated(cls, written: object) -> object:
        return tuple(written.split(",")) if isinstance(written, str) else written

    @field_validator("rows_per_user", "per_value")
    @classmethod
    def _positive(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if not (numbers and min(numbers) >= 1):
            raise PydanticCustomError("numbers", "name whole numbers of at least 1, as in 1,10")
        return numbers


OWN = tuple(CountersRequest.model_fields.keys() - {"epsilon", "delta"})


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
    group.add_argument("--neighbours", choices=("add or remove", "replace"))


def run(typed: Mapping[str, Any]) -> int:
    """Print the noise of counts.

    Raises:
        RequestError: what was asked is out of range.
    """
    fields = CountersRequest.model_fields
    for name, given in typed.items():
        if name not in fields and given is not None and not (name, given) == ("model", "shuffle"):
            raise RequestError(f"{flag(name)} means nothing beside --counts")
    options = request(CountersRequest, {name: typed[name] for name in fields})
    Console().print(_table(options))
    return DONE


def _table(options: CountersRequest) -> Table:
    """A row for each K, a column for each B."""
    ks = [k for k in options.rows_per_user if k <= options.counts]
    table = Table(
        title=f"counts of {options.counts:,} values, epsilon {options.epsilon:g}, delta "
        f"{options.delta:g}, {options.neighbours}",
        caption="standard error of a count, and bytes that a user seals and sends; one per cent "
        "of epsilon tells how many users were cut",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("--rows-per-user")
    for b in options.per_value:
        table.add_column(f"--per-value {b:,}", justify="right")
    for k in ks:
        table.add_row(f"{k:,}", *(_cell(options, k, b) for b in options.per_value))
    return table


def _cell(options: CountersRequest, k: int, b: int) -> str:
    levels = Amounts(options.counts, k, b).levels
    target = options.neighbours, options.epsilon, options.delta
    try:
        design = Counters.meeting(levels, *target, correlated=b > 1)
    except ValueError:
        return "out of reach"
    return f"{design.column_variance**0.5:,.4g}\n{_SENT * design.layout.types.size:,} B"
