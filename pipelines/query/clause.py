"""GoogleSQL's clause of privacy, and what stands beside a query instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sqlglot import exp

from pipelines.query.allowed import refuse
from pipelines.query.public import PublicTable
from pipelines.query.rows import RowValue, literal, whole
from pipelines.query.tables import RowTable

_UNIT, _STRATEGY = "privacy_unit_column", "group_selection_strategy"
_MOST_EPSILON = 60
_FIELDS = {
    "epsilon": "epsilon", "delta": "delta", "max_groups_contributed": "most_groups", _UNIT: "unit",
}  # fmt: skip
STRATEGIES = PUBLIC, THRESHOLD = "PUBLIC_GROUPS", "LAPLACE_THRESHOLD"
_REFUSALS = {
    _STRATEGY: f"groups are declared ({PUBLIC}), or found by a noisy threshold ({THRESHOLD})",
    "min_privacy_units_per_group": "delta alone says how many units a group needs: leave it out, "
    "and filter by HAVING COUNT(DISTINCT unit) >= 100",
}
_KNOWN = (*_FIELDS, *_REFUSALS)


class QueryTerms(NamedTuple):
    """What stands beside a query, on a command line or in a plan.

    Attributes:
        unit: the column of units, if somebody says.
        epsilon, delta: likewise.
        most_groups: how many groups of a unit count.
        rows: how many rows of a unit count, where each counts for itself.
        groups: column -> its declared values, as `read_domain` has them.
        public: name -> a table that everybody may know.
        bounds: expression -> bounds that a first round has chosen; None if nobody asks for that
            round, and False where there can be none.
        of_unit: columns that are derived of the unit's.
        private: whether all aggregates mean what they do in GoogleSQL's clause.
        strategy: by which groups are chosen, if the clause says.
    """

    unit: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    most_groups: int | None = None
    rows: int | None = None
    groups: Mapping[str, str] = {}
    public: Mapping[str, PublicTable] = {}
    bounds: Mapping[str, tuple[float, float]] | Literal[False] | None = False
    of_unit: frozenset[str] = frozenset()
    private: bool = False
    strategy: str = ""

    def reads_unit(self, row: RowValue) -> bool:
        """Whether a row's value depends on whose the row is."""
        return not row.names.isdisjoint({self.unit, *self.of_unit})

    def part(self, share: float) -> QueryTerms:
        """The same with a share of what may be spent; what nobody says is the plan's to say."""
        epsilon, delta = (of and share * of for of in (self.epsilon, self.delta))
        return self._replace(epsilon=epsilon, delta=delta)


def with_clause(terms: QueryTerms, node: exp.Hint | None, table: RowTable) -> QueryTerms:
    """What a query's clause and what stands beside it say together.

    Args:
        terms: what stands beside it.
        node: the clause, if there is one.
        table: behind FROM.

    Raises:
        SqlError: they differ, or the clause says what is not answered.
    """
    said: dict[str, Any] = {}
    if node is not None and node.expressions[0].name != "DIFFERENTIAL_PRIVACY":
        refuse(node, "an older clause: write WITH DIFFERENTIAL_PRIVACY OPTIONS(...)")
    for one in () if node is None else node.expressions[1:]:
        name = one.this.name.lower() if isinstance(one, exp.EQ) else ""
        if name not in _KNOWN or name in said:
            refuse(one, f"the clause takes each once: {', '.join(_KNOWN)}")
        said[name] = one.expression
    for name, value in said.items():
        if name == _STRATEGY and value.name.upper() in STRATEGIES:
            terms = terms._replace(strategy=value.name.upper())
            continue
        if name not in _FIELDS:
            refuse(value, _REFUSALS[name])
        value_said = _value(name, value, table)
        before = getattr(terms, _FIELDS[name])
        if before not in (None, value_said):
            refuse(value, f"{name} is said beside the query, too, and otherwise: say it once")
        terms = terms._replace(**{_FIELDS[name]: value_said})
    if terms.epsilon is not None and not terms.epsilon <= _MOST_EPSILON:
        why = f"an epsilon above {_MOST_EPSILON} promises nothing: take 1, and check errors"
        refuse(said.get("epsilon", exp.null()), why)
    return terms._replace(private=node is not None)


def _value(name: str, node: Any, table: RowTable) -> Any:
    if name == _UNIT:
        row = table.column(node) if isinstance(node, exp.Column) else None
        if row is None or row.plain is None:
            refuse(node, f"{_UNIT} names a column of the log")
        return row.plain
    number = whole(node) if name == "max_groups_contributed" else literal(node)
    if number is None or not (0 <= number < 1 if name == "delta" else number > 0):
        refuse(node, f"{name} is a number, as in epsilon = 1, delta = 1e-6")
    return number
