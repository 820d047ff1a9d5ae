"""`hushbeam look`: what is in a log, for whoever owns it, before anything of it is published.

What it says is exact, of a sample, and so it is for nobody else: it is in no release, no statement
and no ledger, and its exit code is the same whatever it has found. It says shares and kinds, and no
cell of the log. Shares below a number are said at steps of 1, 2 and 5 times powers of ten alone:
bounds that were read off the log would tell of the one row that holds the largest number.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timezone
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DONE, RequestError
from pipelines.ledger.spans import Span, span_of
from pipelines.logs.inputs import read_domain
from pipelines.logs.numbers import read_bounds
from pipelines.plan.document import WINDOW, PlanDocument
from pipelines.plan.findings import Finding, findings, numbers_of, percent, spelt
from pipelines.plan.job import open_job, window_of
from pipelines.plan.loading import load
from pipelines.plan.parts import MetricRequest
from pipelines.plan.sample import USER, Sample, sampled, texts_of
from pipelines.request import answers
from pipelines.views.console import Screen
from transforms.columns import is_moment, type_name
from transforms.encoders.domain import Domain
from transforms.encoders.users import UserDigest
from transforms.expressions.view import View, ViewError
from transforms.files.reading import PLAIN, TYPES, parsed

FIRST = (
    "For the owner of the log alone: what follows is exact, of a sample. It is in no release, no "
    "statement and no ledger, and `hushbeam run` does not depend on it."
)
LAST = (
    "This command ends with 0 whatever it finds. Leave out no window, and change no bounds, for "
    "what it says: that would tell an exact fact of the log. A schedule stands on what `hushbeam "
    "run` publishes: its share of values that cannot be used is noisy."
)

_STEPS = (1, 2, 5)
_DATE = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)(?:-?([0-3]\d))?(?!\d)")
_HALF = 0.5
_KINDS = ("float", "timestamp", "bool")  # that texts are tried for


def look(words: Sequence[str], window: str | None = None) -> int:
    """Show what is in a log, and what a plan would find there.

    Args:
        words: files, globs or folders, and perhaps a plan (.yaml) as the last of them; of a plan
            alone its own input is looked at.
        window: that stands in the plan's input.

    Returns:
        0.

    Raises:
        RequestError: the log, or the plan, cannot be read.
    """
    *log, last = words
    plan = load(last) if last.endswith((".yaml", ".yml")) else None
    if plan is None:
        log.append(last)
    elif not log:
        log = [path.replace(WINDOW, window_of(plan, window)) for path in plan.input]
    answers.tell(look=_shown(Look.of(log, plan, window)))
    return DONE


def _shown(report: Look) -> dict[str, Any]:
    """Show it to people; the same for programs."""
    screen, summary = Screen(), report.summary
    for line in (FIRST, *_lines(summary), LAST):
        screen.say(line)
    return summary


def look_too(path: str, window: str | None) -> dict[str, Any]:
    """The same of a plan's own input, once it is what a run would take.

    Returns:
        What was seen, for programs.

    Raises:
        RequestError: the plan, or what a run would refuse of its input.
    """
    plan = load(path)
    window = window_of(plan, window)
    open_job(plan, window)
    inputs = [pattern.replace(WINDOW, window) for pattern in plan.input]
    return _shown(Look.of(inputs, plan, window))


@dataclass(frozen=True)
class Look:
    """What was seen of a log.

    Attributes:
        sample: its rows.
        plan: that is to be run over it, if any.
        window: of the plan.
    """

    sample: Sample
    plan: PlanDocument | None
    window: str | None

    @classmethod
    def of(cls, log: Sequence[str], plan: PlanDocument | None, window: str | None) -> Look:
        """Read the beginning of a log.

        Raises:
            RequestError: it cannot be read.
        """
        reading = PLAIN if plan is None else plan.reading
        sample = sampled(log, reading, guessed=plan is None, empty=True)
        sample.telemetry.counts.count("to tell how many there are")
        return cls(sample, plan, window)

    @property
    def summary(self) -> dict[str, Any]:
        """The same for programs."""
        sample = self.sample
        return {
            "for": FIRST,
            "files": len(sample.telemetry.files),
            "named_after": self._named(),
            "rows": sample.telemetry.rows,
            "sample": sample.rows.num_rows,
            "columns": [self._column(name) for name in sample.columns],
            "users": self._users(),
            "metrics": [*self._metrics()],
            "findings": [*self._findings()],
            "beware": LAST,
        }

    # Columns.

    def _column(self, name: str) -> dict[str, Any]:
        column = self.sample.rows.column(name)
        size, texts = max(len(column), 1), texts_of(column)
        some = len(column) - column.null_count
        facts: dict[str, Any] = {
            "name": self.sample.named[name],
            "type": "text" if texts is not None else type_name(column.type),
            "with_a_value": some / size,
        }
        if texts is not None:
            facts["as"] = {kind: _share_parsed(texts, kind) for kind in _KINDS}
        numbers = numbers_of(column)
        if numbers.size >= _HALF * max(some, 1) and numbers.size:
            facts["below_0"] = float(np.mean(numbers < 0))
            facts["within"] = _within(np.abs(numbers))
        return facts

    def _users(self) -> dict[str, Any]:
        """How many users the sample has, and rows of each; nothing if nobody says whose."""
        column = self._user_column()
        if column is None or column not in self.sample.rows.column_names:
            return {}
        ids = self.sample.rows.column(column).combine_chunks()
        counts = pc.value_counts(pc.drop_null(ids)).field("counts").to_numpy()
        return {
            "column": self.sample.named.get(column, column),
            "rows_without": ids.null_count / max(len(ids), 1),
            "in_the_sample": int(counts.size),
            "rows_a_user": float(counts.mean()) if counts.size else 0.0,
            "with_at_most": _within(counts.astype(float)),
        }

    def _user_column(self) -> str | None:
        if self.plan is not None:
            return self.plan.user_column
        rows = self.sample.rows.schema
        for name in self.sample.columns:
            if USER.fullmatch(name) and UserDigest.accepts(rows.field(name).type):
                return name
        return None

    # What a plan finds.

    def _typed(self) -> pa.RecordBatch:
        """The sample as a plan reads it."""
        table, types = self.sample.rows, {}
        if self.plan is not None:
            types = dict(self.plan.reading.types)
        columns = {}
        for name in table.column_names:
            values = table.column(name).combine_chunks()
            if name in types and pa.types.is_string(values.type):
                values = parsed(values, TYPES[types[name]])
            columns[name] = values
        return pa.RecordBatch.from_pydict(columns)

    def _metrics(self) -> Iterator[dict[str, Any]]:
        """Of each metric of the plan which share of rows it can use."""
        if self.plan is None:
            return
        batch = self._typed()
        for metric in self.plan.metrics:
            shares = _RequestedColumns.of(self.plan, metric, self.window or "").shares(batch)
            yield {"name": metric.name, "kind": metric.kind, "shares": shares}

    def _findings(self) -> Iterator[str]:
        """What is likely wrong, and what to write instead."""
        yield from self._of_files()
        for name in self.sample.columns:
            for one in self._of_column(name):
                yield str(one)
        if self.plan is None:
            return
        batch = self._typed()
        for metric in self.plan.metrics:
            for text in _RequestedColumns.of(self.plan, metric, self.window or "").findings(batch):
                yield f"metric {metric.name}: {text}"

    def _of_column(self, name: str) -> Iterator[Finding]:
        """Not of one that an expression of the plan reads already."""
        if name not in self._derived_from:
            yield from findings(self.sample.rows.column(name), self.sample.named[name])

    @cached_property
    def _derived_from(self) -> frozenset[str]:
        """Columns of which an expression has values: of `hour(at)` over a text it has none."""
        if self.plan is None:
            return frozenset()
        view, batch, columns_read = View(self.plan.view.derived), self._typed(), frozenset[str]()
        for name, _ in view.derived:
            shares = _RequestedColumns(view, (), (), (name,)).shares(batch).values()
            columns = view.needed([name])
            least = min((_share_valued(self.sample.rows, column) for column in columns), default=0)
            if any(share > _HALF * least for share in shares):
                columns_read |= columns
        return columns_read

    def _of_files(self) -> Iterator[str]:
        if self.sample.delimiter:
            sign = "tab" if self.sample.delimiter == "\t" else self.sample.delimiter
            yield f"fields are divided by another sign than the name says: delimiter: {spelt(sign)}"
        if self.sample.encoding:
            yield (
                "text is not UTF-8, and what is not is no value: name how it is written, as in "
                f"encoding: {self.sample.encoding}"
            )
        if self.sample.twice:
            yield (
                f"{', '.join(map(spelt, self.sample.twice))}: the name of several columns, so that "
                "none of them can be asked for"
            )
        if self.sample.unnamed:
            yield (
                "the first line seems to be a row already, and its cells would be the names of "
                f"columns: header: [{', '.join(self.sample.header)}]"
            )
        named = None if self.window is None else span_of(self.window)
        for file, table in self.sample.parts:
            span = _span(file)
            if span is None:
                continue
            if named is not None and not (span.start < named.until and named.start < span.until):
                yield f"a file is named after another time than window {self.window}"
                return
            for name in table.column_names:
                share = _share_in(table.column(name), span)
                if share is not None and share < _HALF:
                    yield (
                        f"{percent(share)} of {spelt(self.sample.named.get(name, name))} lie in "
                        f"{_month(span)}, after which a file is named: are these the files that "
                        "you mean?"
                    )
                    return

    def _named(self) -> str:
        """After which times files are named."""
        spans = [span for file in self.sample.telemetry.files if (span := _span(file))]
        if not spans:
            return ""
        first, last = _month(min(spans, key=_start)), _month(max(spans, key=_start))
        return f", named after {first}" + (f" to {last}" if last != first else "")


@dataclass(frozen=True)
class _RequestedColumns:
    """What a metric asks of rows.

    Attributes:
        view: what is derived, and what must hold.
        numbers: (column, its bounds or None).
        domains: (column, the file or range of its values).
        others: columns of which any value will do.
    """

    view: View
    numbers: tuple[tuple[str, str | None], ...]
    domains: tuple[tuple[str, str], ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, plan: PlanDocument, metric: MetricRequest, window: str) -> _RequestedColumns:
        """By its options: pairs of a column and what its values are."""
        options: Any = plan.options(metric, window)

        def said(name: str) -> Any:
            return getattr(options, name, None) or None

        pairs = (("column", "domain"), ("by", "by_domain"), ("group_by", "groups"))
        domains = [(said(a), said(b)) for a, b in pairs if said(a) and said(b)]
        domains += [_split(text) for text in said("category") or ()]
        numbers = [(said("column"), said("bounds"))] if hasattr(options, "bounds") else []
        numbers += [_split(text) for text in said("number") or ()]
        domains = [(name, plan.place(text)) for name, text in domains]
        taken = {name for name, _ in (*numbers, *domains)}
        others = [name for name in (said("column"),) if name and name not in taken]
        others += [_split(text)[0] for text in said("vector") or ()]
        some = [(name, bounds) for name, bounds in numbers if name]
        return cls(options.view, tuple(some), tuple(domains), tuple(others))

    def _seen(self, batch: pa.RecordBatch) -> pa.RecordBatch | str:
        """The rows as the metric has them; or why it has none."""
        wanted = [name for name, _ in (*self.numbers, *self.domains)] + [*self.others]
        missing = [c for c in self.view.needed(wanted) if c not in batch.schema.names]
        if missing:
            return f"there is no column {', '.join(map(spelt, missing))}"
        try:
            self.view.schema(batch.schema)
        except ViewError as error:
            return f"{error.option}: {error}"
        return self.view.seen(batch, wanted)

    def shares(self, batch: pa.RecordBatch) -> dict[str, float]:
        """What can be used -> of which share of the rows."""
        seen, shares = self._seen(batch), {}
        if isinstance(seen, str):
            return {}
        if self.view.where:
            shares["where holds"] = float(np.mean(self.view.holds(seen))) if len(seen) else 0.0
        for column, bounds in self.numbers:
            numbers = _numbers(seen.column(column))
            shares[f"{spelt(column)} is a number"] = numbers.size / max(len(seen), 1)
            if bounds is not None and numbers.size:
                low, high = read_bounds(bounds)
                low, high = 0.0 - _step(-low), _step(high)  # outside of them
                inside = float(np.mean((numbers >= low) & (numbers <= high)))
                shares[f"and of them within {low:g} to {high:g}, by steps"] = inside
        for column, text in self.domains:
            known = _matches(seen.column(column), text)
            if known is not None:
                shares[f"{spelt(column)} is in the domain"] = known
        for column in self.others:
            some = seen.column(column)
            shares[f"{spelt(column)} has a value"] = 1 - some.null_count / max(len(seen), 1)
        return shares

    def findings(self, batch: pa.RecordBatch) -> Iterator[str]:
        """What is likely wrong with what it asks."""
        seen = self._seen(batch)
        if isinstance(seen, str):
            yield seen
            return
        for column, _ in self.numbers:
            share = _numbers(seen.column(column)).size / max(len(seen), 1)
            if share < _HALF:
                yield f"{percent(share)} of {spelt(column)} are numbers" + _types_hint(
                    seen.column(column), column
                )
        for column, text in self.domains:
            yield from self._of_domain(seen.column(column), column, text, batch.schema.names)

    def _of_domain(
        self, values: pa.Array, column: str, text: str, names: Sequence[str]
    ) -> Iterator[str]:
        share = _matches(values, text)
        domain = _domain(text, values.type)
        if share is None or domain is None:
            yield f"{spelt(column)} holds {values.type}, and its domain declares something else"
            return
        declared = domain.labels().cast(pa.string()).to_pylist()
        if declared and declared[0].strip().lower() in {name.strip().lower() for name in names}:
            yield (
                f"the first line of {os.path.basename(text)} is the name of a column: remove it, "
                "or it is one more value"
            )
        if share >= 1 - _HALF / 10:
            return
        lowered = _lowered(values, declared)
        if lowered is not None and lowered > share + 0.05:
            name = spelt(f"lower(trim(`{column}`))", "'")
            yield (
                f"{percent(share)} of {spelt(column)} are declared, and {percent(lowered)} but for "
                f"capitals and blanks: declare small letters, and derive: {{{column}_: {name}}}"
            )
        elif share < _HALF:
            yield f"{percent(share)} of {spelt(column)} are among the declared values"


def _lines(summary: dict[str, Any]) -> Iterator[str]:
    files, rows = summary["files"], summary["rows"]
    yield (
        f"{rows:,} rows in {files:,} file{'s' * (files != 1)}{summary['named_after']}; "
        f"looked at: {summary['sample']:,}"
    )
    for column in summary["columns"]:
        yield f"{spelt(column['name'])}: {_said(column)}"
    if summary["users"]:
        yield _of_users(summary["users"])
    for metric in summary["metrics"]:
        shares = [f"{what}: {percent(x)}" for what, x in metric["shares"].items()]
        yield f"metric {metric['name']}: {'; '.join(shares) or 'any row will do'}"
    for finding in summary["findings"]:
        yield f"-> {finding}"
    if not summary["findings"]:
        yield "-> nothing that stands out"


def _types_hint(values: pa.Array, column: str) -> str:
    """What to write where numbers were not read as such."""
    texts = texts_of(pa.chunked_array([values]))
    if texts is not None and _share_parsed(texts, "float") > _HALF:
        return f"; they are read as text: types: {{{spelt(column)}: float}}"
    return ""


def _share_valued(rows: pa.Table, column: str) -> float:
    """Which share of rows has a value in a column; 0 if there is no such column."""
    if column not in rows.column_names:
        return 0.0
    return 1 - rows.column(column).null_count / max(rows.num_rows, 1)


def _split(text: str) -> tuple[str, str]:
    name, _, rest = str(text).rpartition("=")
    return name, rest


def _numbers(values: pa.Array) -> np.ndarray:
    """(k,) numbers that a metric can use: of a column of numbers, or of times as seconds."""
    if is_moment(values.type):
        seconds = pc.drop_null(values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()))
        return np.asarray(seconds.to_numpy(zero_copy_only=False) / 1e6)
    if texts_of(pa.chunked_array([values])) is not None:
        return np.empty(0)
    return numbers_of(pa.chunked_array([values]))


def _domain(text: str, kind: pa.DataType) -> Domain | None:
    """The declared values; None if a column of that type cannot hold them."""
    try:
        return read_domain(text, kind, False, 1)
    except RequestError:
        return None


def _matches(values: pa.Array, text: str) -> float | None:
    """Which share of rows has a declared value; None if none can."""
    domain = _domain(text, values.type)
    if domain is None:
        return None
    return float(np.mean(domain.encode(values) >= 0)) if len(values) else 0.0


def _lowered(values: pa.Array, declared: Sequence[str]) -> float | None:
    """The same in small letters and without blanks around; None of what is no text."""
    texts = texts_of(pa.chunked_array([values]))
    if texts is None or not len(values):
        return None
    known = pa.array([text.strip().lower() for text in declared], pa.string())
    small = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    return (pc.sum(pc.is_in(small, value_set=known)).as_py() or 0) / len(values)


def _share_parsed(texts: pa.Array, kind: str) -> float:
    return len(pc.drop_null(parsed(texts, TYPES[kind]))) / max(len(texts), 1)


def _within(numbers: np.ndarray) -> list[list[float]]:
    """(step, share of numbers up to it) at each step where that is another share than before.

    >>> _within(np.array([0.0, 3.0, 3.0, 40.0]))
    [[0.0, 0.25], [5.0, 0.75], [50.0, 1.0]]
    """
    none = float(np.mean(numbers == 0)) if numbers.size else 0.0
    steps, largest = [[0.0, none]] if none else [], float(numbers.max(initial=0.0))
    top = math.ceil(math.log10(largest)) if largest > 0 else 0
    for power in range(min(0, top - 6), top + 1):
        for digit in _STEPS:
            step = digit * 10.0**power
            share = float(np.mean(numbers <= step))
            if share > 0 and (not steps or share > steps[-1][1]):
                steps.append([step, share])
    return steps


def _step(number: float) -> float:
    """The least of all steps, of either sign, that is not below a number.

    >>> _step(60.0), _step(100.0), _step(-3.0), _step(0.0)
    (100.0, 100.0, -2.0, 0.0)
    """
    if number == 0:
        return 0.0
    power = math.floor(math.log10(abs(number)))
    steps = [digit * 10.0**k for k in (power - 1, power, power + 1) for digit in _STEPS]
    if number > 0:
        return min(step for step in steps if step >= number * (1 - 1e-12))
    return -max(step for step in steps if step <= -number * (1 + 1e-12))


def _span(file: str) -> Span | None:
    """The time that a file is named after."""
    dates = _DATE.findall(file)
    if not dates:
        return None
    return span_of("-".join(part for part in dates[-1] if part))


def _start(span: Span) -> Any:
    return span.start


def _month(span: Span) -> str:
    return f"{span.start:%Y-%m}"


def _share_in(column: pa.ChunkedArray, span: Span) -> float | None:
    """Which share of a column's times lies in a time; None if it holds none."""
    values, texts = column.combine_chunks(), texts_of(column)
    if texts is not None:
        if _share_parsed(texts, "timestamp") < _HALF or not len(texts):
            return None
        values = parsed(texts, TYPES["timestamp"])
    if not is_moment(values.type):
        return None
    times = pc.drop_null(values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()))
    if not len(times):
        return None
    start, until = (
        end.replace(tzinfo=timezone.utc).timestamp() for end in (span.start, span.until)
    )
    moments = times.to_numpy(zero_copy_only=False) / 1e6
    return float(np.mean((moments >= start) & (moments < until)))


def _said(column: dict[str, Any]) -> str:
    parts = [str(column["type"]), f"{percent(column['with_a_value'])} have a value"]
    names = {"float": "numbers", "timestamp": "times", "bool": "truths"}
    parts += [
        f"{percent(share)} are {names[kind]}"
        for kind, share in column.get("as", {}).items()
        if share
    ]
    if "within" in column:
        parts.append(f"{percent(column['below_0'])} below 0")
        ends = (f"{percent(share)} up to {step:,g}" for step, share in column["within"])
        parts.append(f"their sizes: {', '.join(ends)}")
    return "; ".join(parts)


def _of_users(users: dict[str, Any]) -> str:
    ends = (f"{percent(share)} have up to {step:,g}" for step, share in users["with_at_most"])
    return (
        f"users, by {spelt(users['column'])}: {users['in_the_sample']:,} in the sample, "
        f"{users['rows_a_user']:.3g} rows each on average; by rows: {', '.join(ends)}; "
        f"{percent(users['rows_without'])} of rows have no user"
    )
