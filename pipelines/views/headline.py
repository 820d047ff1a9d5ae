"""What a reader meets first of a release: its title, its figure, and what is promised.

Which figure that is the kind says, in its statement: `headline` names a table, and which of its
rows come first. Pages of releases, of plans and of sites read it from there, so that they agree.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.releases import schema
from pipelines.views import effects, selected
from pipelines.views.digits import between, digits, spread
from pipelines.views.facts import cell, paragraphs, prose, unbroken, value_label
from pipelines.wording import CHANGES, moment_of, number_of, of_moments, upward

LARGEST, FIRST, ONE, TOTAL, MIDDLE = "largest", "first", "one", "total", "median"
"""Which rows come first: the largest beyond noise (of means, the best known), the first few, the
first alone, or which is of all, or the one whose probability is nearest to a half."""

OTHER, MISSING = "(other or missing)", "(missing)"
OTHER_IN_WORDS = f"The row {OTHER} holds all values that are not declared, or are missing."
EFFECT = "effect"  # a figure: the difference of an arm of an experiment and the first one
QUANTILE = "quantile"  # a figure: a number of the column, at the probability that is its label

DATED = frozenset({"mean", QUANTILE})
"""Figures that are numbers of the column, and so moments where these are."""

BARS, LINE, HEAT, TRIANGLE, STEPS, EFFECTS = "bars", "line", "heat", "triangle", "steps", "effects"
"""Which picture a release has, as its `headline` says; without a word there are bars."""

_MOST = 3
KNOWN = schema.AVERAGES
"""Figures of which the largest are those that noise knows least of."""
_UNITS = {"share": "%"} | dict.fromkeys((*KNOWN, "sum", QUANTILE, EFFECT), "")  # else: own name


class Line(NamedTuple):
    """One figure in words.

    Attributes:
        number: with its error, or its interval where no error is known.
        unit: of the number; "" for that of the column.
        label: what it is of; "" if of everything.
        key: (group, value) by which tables and sites know it.
    """

    number: str
    unit: str
    label: str
    key: tuple[str | None, str | None]


class Headline(NamedTuple):
    """The figures that come first.

    Attributes:
        lines: of them, at most three.
        which: of how many they are, and why these; "" where there are no others.
        about: how many took part, as far as it is known; "" if it is not.
    """

    lines: Sequence[Line]
    which: str
    about: str


class Head(NamedTuple):
    """How a page begins.

    Attributes:
        title: as text.
        body: as HTML.
    """

    title: str
    body: str


def unit_of(figure: str) -> str:
    """What stands behind a number.

    >>> unit_of("share"), unit_of("users"), unit_of("quantile")
    ('%', 'users', '')
    """
    return _UNITS.get(figure, figure)


def order(table: pa.Table, figure: str, most: int, among: np.ndarray | None = None) -> list[int]:
    """Where the rows are that a reader looks for, the first of them first.

    Means are sorted by their errors: the largest of many are those of the fewest, mostly noise.

    Args:
        table: with estimates.
        figure: what they are.
        most: at most so many.
        among: (rows,) which are looked at, if not all.
    """
    rows = np.arange(len(table)) if among is None else np.flatnonzero(among)
    if figure == QUANTILE:
        return list(rows[:most].tolist())
    estimate = _floats(table, "estimate")
    if figure in KNOWN:
        keys = _floats(table, "standard_error"), -estimate
    else:  # of shares that are moved to one number, as to 0, the unbiased ones still differ
        keys = -estimate, -_floats(table, "unbiased")
    first = _first(keys, rows, most)
    return list(first[np.lexsort([key[first] for key in keys[::-1]])].tolist())


def _first(keys: Sequence[np.ndarray], rows: np.ndarray, most: int) -> np.ndarray:
    """The first rows by ascending keys, NaN last, in their own order.

    A page sorts seven times: all of a million rows took 2 CPU seconds, and these take 0.1.
    """
    if not keys or rows.size <= most:
        return rows[:most]
    key = keys[0][rows]
    last = np.partition(key, most - 1)[most - 1] if most else -np.inf
    before, like = (~np.isnan(key), np.isnan(key)) if np.isnan(last) else (key < last, key == last)
    some = _first(keys[1:], rows[like], most - int(before.sum()))
    return np.sort(np.concatenate([rows[before], some]))


def first_word(figure: str) -> str:
    """What the first rows of that order are called."""
    return "best known" if figure in KNOWN else "largest"


def chosen(statement: Mapping[str, Any]) -> Mapping[str, str]:
    """What a statement says of the figure that comes first: its "table", and which "rows"."""
    table = next(iter(statement.get("figures", {})), "")
    return {"table": table, "rows": LARGEST} | statement.get("headline", {})


def figure_of(statement: Mapping[str, Any]) -> str:
    """What the figures are that come first."""
    return str(statement.get("figures", {}).get(chosen(statement)["table"], ""))


def headline(table: pa.Table | None, statement: Mapping[str, Any]) -> Headline:
    """What comes first of a release.

    Args:
        table: that the statement's headline names, as its kind made it or with the columns of all
            kinds.
        statement: of the release.
    """
    said, figure = chosen(statement), figure_of(statement)
    if table is None or not len(table):
        return Headline([], "", _about({}, statement))
    if figure == EFFECT and (rows := effects.rows_of(table, _MOST)):
        confidence = float(statement.get("request", {}).get("confidence", 0.95))
        parts = [effects.line(row, confidence, len(table)) for row in rows]
        keys = [(row["group"], row["value"]) for row in rows]
        lines = [Line(*part, key) for part, key in zip(parts, keys, strict=True)]
        which = f"the {len(rows)} clearest of {len(table):,}" * (len(rows) < len(table))
        return Headline(lines, which, _about({}, statement))
    figures = schema.figures_of(table, statement, figure)
    places, which = _chosen(figures, figure, said["rows"])
    rows = figures.take(pa.array(places, pa.int64())).cast(schema.FIGURE).to_pylist()
    several = len(table) > 1
    names, moments = statement.get("labels", {}), are_moments(statement) and figure in DATED
    lines = [_line(row, figure, several, names, moments) for row in rows]
    if several and said["rows"] == TOTAL:
        lines = [line._replace(label="in all") for line in lines]
    return Headline(lines, which, _about(rows[0] if len(table) == 1 else {}, statement))


def _chosen(table: pa.Table, figure: str, rows: str) -> tuple[list[int], str]:
    """The places of the rows that come first, and which these are."""
    many = len(table)
    if many == 1 or rows in (ONE, TOTAL):
        return [0], ""
    if rows == MIDDLE:
        middle = nearest_half(table["value"].to_pylist())
        widths = _floats(table, "upper") - _floats(table, "lower")
        known = [place for place in middle if table["group"][place].is_valid] or middle
        widths[np.isnan(widths)] = np.inf  # an end is open
        first = sorted(known, key=lambda place: widths[place])[:_MOST]
        which = f"the {len(first)} {first_word('mean')} of {len(middle):,}"
        return first, which * (len(middle) > len(first))
    if rows == FIRST:
        shown = min(_MOST, many)
        return [*range(shown)], "" if shown == many else f"the first {shown} of {many:,}"
    among = np.any([pc.is_valid(table[name]).to_numpy() for name in ("group", "value")], axis=0)
    among &= pc.is_valid(table["estimate"]).to_numpy() if figure in KNOWN else _beyond(table)
    first = order(table, figure, _MOST, among)
    if not first:
        return [], f"Of {many:,} figures nothing stands out of the noise"
    several = f"{len(first)} " if len(first) > 1 else ""
    return first, f"the {several}{first_word(figure)} of {many:,}"


def _beyond(table: pa.Table) -> np.ndarray:
    """(rows,) which figures are other than 0, whatever the noise of all of them was."""
    ends = []
    for wide, alone in ((selected.LOWER, "lower"), (selected.UPPER, "upper")):
        end = _floats(table, wide)
        none = np.isnan(end)
        ends.append(np.where(none, _floats(table, alone), end) if none.any() else end)
    low, high = ends
    # What has no interval says nothing of noise, and hides none.
    return np.asarray((low > 0) | (high < 0) | np.isnan(low))


def _floats(table: pa.Table, name: str) -> np.ndarray:
    """A column of numbers, NaN where there is none."""
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    return table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)


def are_moments(statement: Mapping[str, Any]) -> bool:
    """Whether numbers are seconds since 1970, which people read as dates."""
    bounds = statement.get("request", {}).get("bounds")
    return "timestamps" in statement or (isinstance(bounds, str) and of_moments(bounds))


def dated(
    estimate: float | None, error: float | None, low: float | None, high: float | None
) -> str:
    """The same as `written`, of seconds since 1970.

    >>> dated(86400.25, 12.3, None, None), dated(0.0, None, -60.0, None)
    ('1970-01-02T00:00:00Z ± 12 s', '1970-01-01T00:00:00Z (1969-12-31T23:59:00Z or later)')
    """
    if estimate is None or math.isnan(estimate):
        return "unknown"
    number = moment_of(estimate)
    if error is not None and math.isfinite(error) and error > 0:
        return f"{number} ± {digits(error, error)} s"
    interval = moments_between(low, high)
    return f"{number} ({interval})" if interval else number


def moments_between(low: float | None, high: float | None) -> str:
    """An interval of moments, as `between` has one of numbers."""
    if low is None:
        return "" if high is None else f"{moment_of(high)} or earlier"
    return (
        f"{moment_of(low)} or later" if high is None else f"{moment_of(low)} to {moment_of(high)}"
    )


def _line(
    row: Mapping[str, Any], figure: str, several: bool, names: Mapping[str, str], moments: bool
) -> Line:
    share = figure == "share"
    estimate, error, low, high = (
        None if row[name] is None else row[name] * (100 if share else 1)
        for name in ("estimate", "standard_error", "lower", "upper")
    )
    if not (share or moments) and estimate is not None and float(estimate).is_integer():
        # Counts and whole numbers have no digits behind a point, and their intervals have none.
        estimate, low, high = map(whole, (estimate, low, high))
    key = (row["group"], row["value"])
    number = (dated if moments else written)(estimate, error, low, high)
    return Line(number, unit_of(figure), label(key, figure, several, names), key)


def whole(number: float | None) -> float | None:
    """The same, as an integer if it is one.

    >>> whole(870.0), whole(2.5), whole(None)
    (870, 2.5, None)
    """
    return int(number) if number is not None and float(number).is_integer() else number


def written(
    estimate: float | None, error: float | None, low: float | None, high: float | None
) -> str:
    """A number with its error, or, where none is known, with its interval.

    >>> written(475.0, 0.19, 474.0, 476.0), written(142.7513, None, 140.6, 145.3)
    ('475.00 ± 0.19', '142.8 (140.6 to 145.3)')
    >>> written(872, None, 870, 874)
    '872 (870 to 874)'
    >>> written(180, None, 180, None), written(99.95, None, 99.9, None)
    ('180 or more', '99.95 (99.9 or more)')
    """
    if estimate is None or (isinstance(estimate, float) and math.isnan(estimate)):
        return "unknown"
    if error is not None and math.isfinite(error) and error > 0:
        return f"{digits(estimate, error)} ± {digits(error, error)}"
    wide = spread(low, high)
    number, interval = digits(estimate, wide), between(low, high, wide)
    if (low is None) != (high is None):
        # What lies at a bound may lie anywhere beyond it.
        return interval if interval.startswith(f"{number} or") else f"{number} ({interval})"
    return number if wide is None else f"{number} ({interval})"


def nearest_half(levels: Sequence[Any]) -> list[int]:
    """Where those quantiles are that are nearest to the median, one of each group.

    >>> nearest_half(["0.25", "0.75", "0.9"]), nearest_half([0.5, 0.9, 0.5])
    ([0], [0, 2])
    """
    away = [abs(_level(str(level)) - 0.5) for level in levels]
    best = levels[away.index(min(away))]
    return [place for place, level in enumerate(levels) if level == best]


def _level(value: str | None) -> float:
    """Of which quantile a row is; infinite where it says none, as only a stranger's row does.

    >>> _level("0.5"), _level("a"), _level(None), _level("nan")
    (0.5, inf, inf, inf)
    """
    try:
        level = float(value or math.inf)
    except ValueError:
        return math.inf
    return level if math.isfinite(level) else math.inf


def label(
    key: tuple[str | None, str | None],
    figure: str = "",
    several: bool = True,
    names: Mapping[str, str] = {},
) -> str:
    """What a figure is of, in characters that are a command to nobody.

    Args:
        key: group and value.
        figure: what it is.
        several: whether there are others beside it.
        names: `group` and `value` -> the column that it is of; numbers are said with it.

    >>> label((None, "0.5"), "quantile"), label(("a", "b")), label((None, None)), label((None, ""))
    ('median', 'a · b', '(other or missing)', '(empty)')
    """
    if figure == QUANTILE and math.isfinite(level := _level(key[1])):
        which = "median" if level == 0.5 else f"{100 * level:.10g} % quantile"
        group = "" if key[0] is None else valued(value_label(key[0]), names.get("group"))
        return " · ".join(filter(None, (group, which)))
    parts = [
        valued(value_label(part), names.get(name))
        for name, part in zip(("group", "value"), key, strict=True)
        if part is not None
    ]
    return " · ".join(parts) or (OTHER if several else "")


def valued(text: str, column: str | None) -> str:
    """A value; a number with the column that it is of, for by itself it says nothing.

    >>> valued("15", "hour"), valued("oslo", "home"), valued("15", None)
    ('hour = 15', 'oslo', '15')
    """
    number = column is not None and re.fullmatch(r"-?[\d.]+", text)
    return f"{cell(column)} = {text}" if number else text


def _about(row: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    unit, known = _unit(statement), "n" in statement and "n_standard_error" not in statement
    sent = f"from {number_of(statement['n'], 'report')}" if known else ""
    if row.get("n_standard_error"):
        n, error = row["n"], row["n_standard_error"]
        about = f"about {digits(n, error)} ± {digits(error, error)} {unit}s"
        return ", ".join(part for part in (about, sent) if part)
    if sent:
        return sent
    if took_part := statement.get("took_part"):
        n, error = took_part["estimate"], took_part["standard_error"]
        return f"about {digits(n, error)} ± {digits(error, error)} {unit}s took part"
    return ""


def _unit(statement: Mapping[str, Any]) -> str:
    """Who takes part, without what must hold of them."""
    promised = statement["guarantees"]["release"]["unit"]
    return str(statement.get("request", {}).get("unit", promised))


def loss(promised: Mapping[str, Any]) -> str:
    """What a guarantee costs, as people quote it; its delta stands in the promise.

    >>> loss({"epsilon": 0.30000001, "delta": 1e-6, "unit": "user"})
    'epsilon 0.3001 per user'
    """
    epsilon = promised["epsilon"]
    epsilon_text = "unbounded" if epsilon is None else f"{upward(epsilon, 4):g}"
    return f"epsilon {epsilon_text} per {promised['unit']}"


def promise(statement: Mapping[str, Any]) -> str:
    """Who is protected, and by which factor: one sentence of what a release promises.

    >>> promise({"in_words": ["Beware.", f"A row {CHANGES} 2. More.", "And more."]})
    'A row changes the probability of any outcome by a factor of at most 2.'
    """
    words = promised_words(statement) or [""]
    # Before it stand warnings, of a plan each with the name of its metric.
    said = next((text for text in words if CHANGES in text), words[0])
    first, dot, _ = said.partition(". ")
    return first + "." * bool(dot)


def promised_words(statement: Mapping[str, Any]) -> list[str]:
    """What a release promises, without what a reader must beware of, which stands before it."""
    before = cautions(statement)
    return [text for text in statement.get("in_words", ()) if text not in before]


def cautions(statement: Mapping[str, Any]) -> list[str]:
    """What a reader must beware of: why a metric is withheld, and what is odd in it."""
    withheld, said = statement.get("withheld"), statement.get("cautions")
    if isinstance(said, Mapping):  # of a whole plan: metric -> its own
        said = [f"{name}: {text}" for name, texts in said.items() for text in texts]
    return [
        *([withheld] if isinstance(withheld, str) else []),
        *(said if isinstance(said, list) else []),
    ]


def title(statement: Mapping[str, Any]) -> str:
    """What a release is of."""
    return str(statement.get("title") or statement.get("metric") or statement["release"])


def head(
    table: pa.Table | None,
    statement: Mapping[str, Any],
    lead: str = "",
    since: str = "Published",
    first: Headline | None = None,
) -> Head:
    """How the page of a release begins: title, figure, and what is promised, in full in a fold.

    Args:
        table: as of `headline`.
        statement: of the release.
        lead: what is said before when it was made, as HTML.
        since: what was done when it was created.
        first: the figures that come first, where no table has them.
    """
    said, named = first or headline(table, statement), title(statement)
    lost = loss(statement["guarantees"]["release"])
    lines = "".join(_item(line) for line in said.lines)
    people = said.about or _hidden(statement)
    about = " · ".join(part for part in (said.which, people, lost) if part)
    withheld = statement.get("withheld")
    beware = "".join(
        f'<p class="caution">{"Withheld: " * (text == withheld)}{prose(text)}</p>\n'
        for text in cautions(statement)
    )
    sentence = f'<span class="first">{prose(promise(statement))}</span>'
    return Head(named, (
        f"<header>\n<h1>{html.escape(named)}</h1>\n"
        f'<p class="lead">{lead} {since} {moment(statement)}.</p>\n</header>\n'
        + (f'<ul class="headline">\n{lines}</ul>\n' if lines else "")
        + f'<p class="about">{unbroken(about[:1].upper() + about[1:])}</p>\n{beware}'
        f'<details class="promise">\n<summary>{sentence} <span class="more">Exactly what is '
        f"promised</span></summary>\n{paragraphs(promised_words(statement))}\n</details>\n"
    ))  # fmt: skip


def _item(line: Line) -> str:
    unit = f" {unbroken(line.unit)}" if line.unit else ""
    of = f" <small>{html.escape(line.label)}</small>" if line.label else ""
    return f"<li><strong>{unbroken(line.number)}</strong>{unit}{of}</li>\n"


def _hidden(statement: Mapping[str, Any]) -> str:
    """That nobody is told how many took part, where that is promised."""
    promised = statement["guarantees"]["release"]
    kept = "n" not in statement and promised.get("neighbours") == "add or remove"
    return f"the exact number of {_unit(statement)}s is hidden" * kept


def moment(statement: Mapping[str, Any]) -> str:
    """When a release was made, in UTC.

    >>> moment({"created": "2026-11-21T03:00:00+00:00"})
    '2026-11-21 03:00:00 UTC'
    """
    return str(statement["created"]).replace("T", " ").replace("+00:00", " UTC")
