"""A small request of every registered kind, on the log of canaries: what contracts are tried on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mechanisms.targets.rules import MODELS
from pipelines.metrics import registry
from tests.fakes import canaries

DOMAIN = "values.txt"  # in the current folder, with the declared values


@dataclass(frozen=True)
class Example:
    """What is asked of the log, and what is true of it.

    Attributes:
        asked: the kind's own options, by name.
        tables: what a release holds beside its statement and its page.
        unusable: reason -> rows whose value cannot be used.
        filled: a value in the place of theirs, or None if none can stand there.
    """

    asked: Mapping[str, Any]
    tables: frozenset[str]
    unusable: Mapping[str, int] = field(default_factory=dict)
    filled: str | None = None


_NULLS = {"null value": canaries.NULL_VALUES}
_REAL = {"column": "real", "bounds": "0,300"}

EXAMPLES = {
    "histogram": Example(
        {"column": "value", "domain": DOMAIN, "out_of_domain": "drop"},
        frozenset({"histogram.parquet"}),
        _NULLS | {"outside the domain": canaries.STRAY_VALUES},
        canaries.DECLARED[0],
    ),
    "strings": Example(
        {"search": "levels", "column": "value", "max_length": 4},
        frozenset({"strings.parquet"}),
        _NULLS,
        "none",
    ),
    "mean": Example(_REAL, frozenset({"mean.parquet"}), filled="7.5"),
    "distribution": Example(
        _REAL | {"bins": 8},
        frozenset({"distribution.parquet", "quantiles.parquet"}),
        filled="7.5",
    ),
    "vector-mean": Example(
        {"number": ["real=0,300", "number=-3,3"]}, frozenset({"vector-mean.parquet"})
    ),
}


class Case(NamedTuple):
    """An example in one model, with one unit.

    Attributes:
        kind: of the metric.
        model: that is asked for.
        unit: "row" or "user".
    """

    kind: str
    model: str
    unit: str

    @property
    def example(self) -> Example:
        return EXAMPLES[self.kind]

    @property
    def rejects(self) -> Counter[str]:
        """Reason -> rows that are left out, as far as that is told: not how many have no user."""
        return Counter({} if self.hidden else self.example.unusable)

    @property
    def rows_read(self) -> int | None:
        """How many rows there are, where that is told: of users it is not."""
        return canaries.ROWS if self.unit == "row" else None

    @property
    def hidden(self) -> bool:
        """Whether values that cannot be used are reported like others, by default."""
        return bool(registry.options(self.kind).model_fields["unusable"].default == "hide")

    @property
    def n(self) -> int:
        """How many report: rows, or users, of whom each has four of a kind."""
        nobody = canaries.NULL_USERS if self.unit == "user" else 0
        usable = canaries.ROWS - nobody - self.rejects.total()
        return usable // 4 if self.unit == "user" else usable

    @property
    def min_reports(self) -> int:
        """The least batch: of users it must be named, and here all just suffice."""
        if self.model != "shuffle" or self.unit == "user":
            return self.n if self.unit == "user" else 1
        return 1980 if self.hidden else 1800

    @property
    def asked(self) -> dict[str, Any]:
        """All options that are given, but for input and output."""
        users = {"user_column": "user", "min_reports": self.n} if self.unit == "user" else {}
        return {**self.example.asked, "model": self.model, "epsilon": 4.0} | users

    def words(self, log: str, **changes: object) -> list[str]:
        """The command, but for the changes."""
        asked = {"input": log, "output": "out"} | self.asked | changes
        repeated = asked.pop("number", ())  # an option for each
        return [*canaries.words(self.kind, asked), *(f"--number={one}" for one in repeated)]


def models(kind: str) -> tuple[str, ...]:
    """Those that a kind offers."""
    offered = registry.options(kind).model_fields["model"].annotation
    return tuple(model for model in MODELS if repr(model) in str(offered))


# Kinds to which each unit may send one randomised report; the others, and tables that have to
# agree, have a contract of their own.
RANDOMISED = tuple(
    kind
    for kind in registry.names()
    if "model" in registry.options(kind).model_fields and kind != "cross-tab"
)
CASES = [
    Case(kind, model, unit)
    for kind in RANDOMISED
    for model in models(kind)
    for unit in ("row", "user")
]
