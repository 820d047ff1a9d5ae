"""GoogleSQL's text as a tree: sqlglot's BigQuery, and the clause of private queries that it lacks.

Every call stays as it was written: sqlglot's builders lose named arguments, and its BigQuery splits
quoted names at their dots. A file or glob may stand in quotes behind FROM, as in DuckDB. Where a
node begins is kept in `meta`, for refusals.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import TokenType

LONGEST = 20_000  # characters: queries are written by people
_DEEPEST = 100  # brackets within brackets
_CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION", "AGGREGATION_THRESHOLD")
_AT = "at"


class SqlError(Exception):
    """A text is no query.

    Attributes:
        offset: of the sign where that shows, from 0 on.
    """

    def __init__(self, why: str, offset: int) -> None:
        super().__init__(why)
        self.offset = offset


class _GoogleSqlParser(BigQueryParser):
    # Each is `exp.Anonymous`, with its arguments in their order, the named ones as PropertyEQ.
    FUNCTIONS = {}  # noqa: RUF012 (so sqlglot names and reads it)
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: BigQueryParser.FUNCTION_PARSERS[name] for name in ("CAST", "SAFE_CAST", "EXTRACT")
    }

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        instance = super().expression(instance, token, comments)
        instance.meta.setdefault(_AT, (token or self._prev or self._curr).start)
        return instance

    def _parse_hint(self) -> exp.Hint | None:
        """The clause behind SELECT; comments that are hints are none here."""
        for clause in _CLAUSES:
            if self._match_text_seq("WITH", clause):
                options = []
                if self._match_text_seq("OPTIONS"):
                    options = self._parse_wrapped_csv(self._parse_conjunction, optional=True)
                return self.expression(exp.Hint(expressions=[exp.var(clause), *options]))
        return None

    def _parse_function_call(self, *args: Any, **more: Any) -> Any:
        name = self._curr.text.upper() if self._curr else ""
        if name.startswith("ANON_") and self._next and self._next.token_type == TokenType.L_PAREN:
            plain = name.removeprefix("ANON_").replace("QUANTILES", "APPROX_QUANTILES")
            raise SqlError(
                f"{name} is an older form: write {plain}(..., contribution_bounds_per_group => "
                "(low, high))", self._curr.start,
            )  # fmt: skip
        return super()._parse_function_call(*args, **more)

    def _parse_table_parts(self, *args: Any, **more: Any) -> Any:
        token = self._curr
        if token and token.token_type == TokenType.STRING:
            self._advance()
            return self.expression(exp.Table(this=exp.Literal.string(token.text)), token)
        # Without BigQuery's own: a quoted name with a dot in it is one name.
        return Parser._parse_table_parts(self, *args, **more)

    def _parse_lambda(self, alias: bool = False) -> Any:
        if not self._match(TokenType.DISTINCT):
            return super()._parse_lambda(alias)
        # One expression: behind a comma stand named arguments.
        return self.expression(exp.Distinct(expressions=[self._parse_disjunction()]))

    def _parse_column(self) -> Any:
        return Parser._parse_column(self)


class _GoogleSql(BigQuery):
    Parser = _GoogleSqlParser


def parsed(text: str) -> exp.Expr:
    """The one statement of a text.

    Raises:
        SqlError: it is none, or holds several; in words of our own, that quote nothing of it.
    """
    if len(text) > LONGEST:
        raise SqlError(f"a query has at most {LONGEST:,} characters", LONGEST)
    depth = 0
    for offset, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth > _DEEPEST:
            raise SqlError(f"brackets stand at most {_DEEPEST} deep", offset)
    dialect = _GoogleSql()
    try:
        tokens = dialect.tokenize(text)
    except (SqlglotError, ValueError, RecursionError, IndexError):
        raise SqlError(
            "a text, a name or a comment has no end, or a sign is none of SQL", 0
        ) from None
    try:
        statements = dialect.parser().parse(tokens, text)
    except SqlError:
        raise
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise SqlError(
            "this is no query of GoogleSQL", _offset(text, first.get("line"), first.get("col"))
        ) from None
    except Exception:  # a stranger's parser, whose words may quote the text
        raise SqlError("this is no query of GoogleSQL", 0) from None
    several = [one for one in statements if one is not None]
    if not several:
        raise SqlError("there is no query", 0)
    if len(several) > 1:
        raise SqlError("a second statement: one query is answered at a time", offset_of(several[1]))
    return several[0]


def place_of(text: str, offset: int) -> str:
    """An offset as people count: lines and columns from 1 on."""
    offset = min(max(offset, 0), len(text))
    begins = text.rfind("\n", 0, offset) + 1
    return f"line {text.count(chr(10), 0, offset) + 1}, column {offset - begins + 1}"


def offset_of(node: exp.Expr) -> int:
    """Where a node begins, as far as that is known."""
    return min((_own(part) for part in node.walk()), default=0)


def _own(node: exp.Expr) -> int:
    start = node.meta.get("start", node.meta.get(_AT))
    return 1 << 40 if start is None else int(start)


def _offset(text: str, line: int | None, column: int | None) -> int:
    """Where sqlglot says an error is; its column is that of a token's last sign."""
    lines = text.split("\n")
    before = sum(len(one) + 1 for one in lines[: (line or 1) - 1])
    return min(before + max((column or 1) - 1, 0), len(text))
