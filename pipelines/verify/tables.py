"""Tables of a release beside their schema, its statement, and each other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms import designs
from mechanisms.adaptive_rounds import AdaptiveRounds
from mechanisms.counters.split_mean import SplitMean
from mechanisms.counters.split_mix import SplitMix
from pipelines.errors import RequestError
from pipelines.logs.numbers import read_bounds
from pipelines.releases import schema, statements
from pipelines.verify.verdict import Check, fault, holds

_SUBJECT = "tables"
_OF_COUNTERS, _OF_NUMBERS = ("count", "histogram"), ("mean", "variance")
_STRANGE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
_ROUNDED = 1e-9  # relative: what sums in doubles are off by


def of_metric(name: str, folder: str, said: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the tables of one metric agree with its statement.

    Args:
        name: by which lines call it.
        folder: of the metric.
        said: its statement.
    """
    read = dict[str, pa.Table]()
    for file in said.get("figures", {}):
        try:
            read[file] = statements.read_table(folder, file, shared=False)
            statements.require_shared(read[file].schema.remove_metadata())
        except FileNotFoundError:
            continue  # a kind that may publish it, and did not
        except (RequestError, ValueError) as error:
            yield fault(_SUBJECT, f"{name}: {file}: {error}")
            return
    first = said.get("headline", {}).get("table")
    if first and first not in read:
        yield fault(_SUBJECT, f"{name}: {first} is missing, and its page begins with it")
    if first in read and len(read[first]) > _cells(said):
        yield fault(_SUBJECT, f"{name}: {first} has more rows than its design has counters")
    wrong = [f"{file}: {why}" for file, table in read.items() if (why := _wrong(table, file, said))]
    for line in wrong:
        yield fault(_SUBJECT, f"{name}: {line}")
    if not wrong:
        rows = sum(map(len, read.values()))
        agree = "row agrees" if rows == 1 else "rows agree"
        yield holds(_SUBJECT, f"{name}: {rows:,} {agree} with the statement")


def _cells(said: Mapping[str, Any]) -> float:
    """How many counters have noise, of tables that have one for each row."""
    design = said.get("design")
    levels = design.get("levels") if isinstance(design, dict) else None
    if levels is None or said["release"] not in _OF_COUNTERS:
        return math.inf
    return sum(level["counters"] for level in levels)


def _wrong(table: pa.Table, file: str, said: Mapping[str, Any]) -> str:
    """What does not agree in a table; empty if all does."""
    own = schema.of_release(said, said["figures"][file])
    for column, value in own.items():
        cells = set(table[column].unique().to_pylist())
        if cells - {value}:
            return f"column {column} says another thing than the statement"
    written = json.loads((table.schema.metadata or {}).get(b"hushbeam", b"{}"))
    if any(written.get(k) != said["guarantees"]["release"][k] for k in ("epsilon", "delta")):
        return "its metadata promises another thing than the statement"
    columns = {name: _numbers(table, name) for name in schema.FIGURE.names[2:]}
    figure = said["figures"][file]
    return (
        _figures(columns)
        or ("" if figure in schema.AVERAGES else _people(columns, said))
        or (_shares(table, said) if figure == "share" else "")
        or _noise(table, columns, said, figure)
    )


def _numbers(table: pa.Table, name: str) -> Any:
    """(rows,) with NaN where there is none."""
    return table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)


def _figures(columns: Mapping[str, Any]) -> str:
    """What no figure may be."""
    estimate, error = columns["estimate"], columns["standard_error"]
    if np.isinf(estimate).any() or np.isinf(error).any() or (error < 0).any():
        return "an estimate or an error is none"
    slack = _ROUNDED * (np.abs(np.nan_to_num(estimate)) + 1)
    for suffix in ("", "_simultaneous"):
        lower, upper = columns[f"lower{suffix}"], columns[f"upper{suffix}"]
        if np.isinf(lower).any() or np.isinf(upper).any() or (lower > upper + slack).any():
            return "an interval has no two ends, the lower one first"
        if (lower > estimate + slack).any() or (upper < estimate - slack).any():
            return "an interval does not contain its estimate"
        if (lower > columns["lower"] + slack).any() or (upper < columns["upper"] - slack).any():
            return "an interval that holds together is narrower than one that holds alone"
    # An end may be open, but not of what is known exactly, such as how many reports there are.
    ends = [columns[name] for name in ("lower", "upper")]
    if ((error == 0) & ~(np.abs(ends - estimate) <= slack).all(axis=0)).any():
        return "an error of 0 stands beside an interval that is no point"
    return ""


def _people(columns: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """How many took part, where noise hides it, in a table and by the statement."""
    known = (said.get("took_part") or {}).get("estimate")
    n = columns["n"][~np.isnan(columns["n"])]
    if known is None or np.allclose(n, known, rtol=_ROUNDED):
        return ""
    return "n is another number than the statement's"


def least_noise(said: Mapping[str, Any]) -> float | None:
    """The standard deviation of a total's noise by the design, that errors are held to.

    In units of the figure, of averages from the middle of their bounds; None where no error is
    compared, as where the design is none, which is a fault of its price's.
    """
    try:
        return _least_noise(said)
    except _STRANGE:
        return None


def _least_noise(said: Mapping[str, Any]) -> float | None:
    kind, record = said["release"], said.get("design")
    if kind not in (*_OF_COUNTERS, "sum", *_OF_NUMBERS) or not isinstance(record, dict):
        return None
    design = designs.read(record)
    design = design.rounds[-1] if isinstance(design, AdaptiveRounds) else design
    if isinstance(design, SplitMean):
        # What is left of the total's noise where that of the count is known.
        total, people, covariance = design.moments
        left = math.sqrt(max(total**2 - (covariance / people) ** 2, 0.0))
        return left * design.high / 2 * (design.unit or 0.0)
    variance = design.variance if isinstance(design, SplitMix) else None
    variance = getattr(design, "column_variance", variance)
    if variance is None:
        return None
    if kind == "count":
        return math.sqrt(variance)
    if kind == "histogram":  # of parts of units, where these share one
        parts = getattr(design, "parts", ())
        return math.sqrt(variance) / max((part.high for part in parts), default=1)
    unit = getattr(design, "unit", None) or 0.0
    # The distance from the middle is half of that from both ends, whose noises add up.
    return math.sqrt(variance / 2 if kind in _OF_NUMBERS else variance) * unit


def _noise(table: pa.Table, columns: Mapping[str, Any], said: Mapping[str, Any], what: str) -> str:
    """Errors beside the noise of the design, in units of the size that it says."""
    least: Any = least_noise(said)
    error = columns["standard_error"]
    if least is None:
        return ""
    kind, request, some = said["release"], said["request"], np.ones(len(table), bool)
    if kind == "histogram":
        # What is added to a count may be added to the number of all, too.
        least *= np.clip(1 - _numbers(table, "unbiased"), 0, 1) / columns["n"]
    elif kind in _OF_NUMBERS:
        n = _numbers(table, "rows" if request.get("by_row") else f"{request['unit']}s")
        some = ~(n <= 0)  # of nobody there is no average
        least /= np.where(some, n, 1)
        if what in ("variance", "standard deviation"):
            low, high = read_bounds(request["bounds"])
            least *= (high - low) / 4  # of squares, whatever is known of the number and the mean
        if what == "standard deviation":  # its error takes the variance up by one of that
            error = error * (2 * columns["estimate"] + error)
    if (error >= least * (1 - _ROUNDED))[some].all():
        return ""
    return f"{what}: errors are smaller than the noise of the design"


def _shares(table: pa.Table, said: Mapping[str, Any]) -> str:
    """Shares beside the numbers that they are quotients of, where both are published."""
    count, people = f"{said['guarantees']['release']['unit']}s", said.get("took_part")
    if not people or "unbiased" not in table.column_names or count not in table.column_names:
        return ""
    shares, rows = _numbers(table, "unbiased"), _numbers(table, count)
    if np.allclose(shares * people["estimate"], rows, rtol=1e-6, atol=1e-6, equal_nan=True):
        return ""
    return f"shares are not {count} divided by how many took part"
