"""`hushbeam size --dimension`: what every mechanism for rows of numbers would err by."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from rich.console import Console
from rich.table import Table

from mechanisms.planner.rows import Prediction, crossover, predict
from mechanisms.planner.search import Design
from mechanisms.targets.rules import Target
from mechanisms.vector.base import VectorMean
from mechanisms.vector.rows import LARGEST_DIMENSION
from mechanisms.vector.task import VectorTask
from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.requests import Whole, request
from pipelines.size.request import SizeRequest, absence, designs_table, facts, losses, promise

_ERRORS = ("error", "to_zero", "to_mean", "half_width")


class VectorSizeOptions(SizeRequest):
    """A request to size means of rows; squares are on the scale of numbers in [-1, 1]."""

    model: Literal["local", "shuffle"] = "shuffle"
    dimension: Whole = Field(ge=1, le=LARGEST_DIMENSION)
    radius: float | None = Field(None, gt=0)
    mean_square: float | None = Field(None, ge=0, le=1)
    second_moment: float | None = Field(None, gt=0, le=1)
    spread: float | None = Field(None, ge=0, le=1)


def add_to(parser: Any) -> None:
    """Add the options that rows of numbers have alone."""
    rows = parser.add_argument_group("means of rows of numbers, each scaled to [-1, 1]")
    rows.add_argument("--dimension", metavar="D", help="how many numbers a row has")
    rows.add_argument("--radius", metavar="R", help="a length (l2 norm) that no row exceeds")
    rows.add_argument(
        "--mean-square", metavar="M",
        help="a guess: mean square of the coordinates' means (default: the second moment)",
    )  # fmt: skip
    rows.add_argument(
        "--second-moment", metavar="M",
        help="a guess: mean square of all numbers (default: the most there can be)",
    )  # fmt: skip
    rows.add_argument(
        "--spread", metavar="M",
        help="a guess: mean square of the means' distances from their own mean, 0 where all are "
        "alike (default: the mean square)",
    )  # fmt: skip


def run(typed: Mapping[str, Any]) -> int:
    """Print what to expect.

    Args:
        typed: option -> what was typed; None for what was not.

    Raises:
        RequestError: something is wrong with the request.
    """
    _require_rows(typed)
    options = request(VectorSizeOptions, typed)
    try:
        rows = VectorTask(options.dimension, options.radius)
        target = Target(**options.terms(), task=rows, seed=0)
        guess = options.mean_square, options.second_moment, options.spread
        expected = predict(target, *guess)
    except ValueError as error:
        raise RequestError(str(error)) from None
    designs = [row.design for row in expected if row.design is not None]
    if not designs:
        raise RequestError("no mechanism for rows reaches this target; --epsilon is out of range")
    best = min(designs, key=lambda design: design.error)
    screen = Console()
    screen.print(_table(expected, best, target))
    for line in _projected(expected, options, target):
        answers.add("about", line)
        screen.print(line, highlight=False)
    promise(screen, best)
    absence(screen, best, VectorTask(options.dimension, options.radius, hides=True))
    return DONE


def _require_rows(typed: Mapping[str, Any]) -> None:
    """Refuse what means something for values in a domain only."""
    unknown = [name for name in typed if name not in VectorSizeOptions.model_fields]
    for name in unknown:
        if typed[name] is not None:
            flag = "--" + name.replace("_", "-")
            raise RequestError(f"{flag} is for histograms; leave it out, or --dimension")


def _table(
    expected: Sequence[Prediction], best: Design[VectorMean], target: Target[VectorTask]
) -> Table:
    """A row for each mechanism: those that publish no data, then by their errors."""
    table = designs_table(
        f"{target.n:,} reports of {target.task.dimension:,} numbers in -1 to 1",
        "auto: what vector-mean takes, of the least worst-case error without a bias; "
        "error: mean squared error of a coordinate; to 0, to mean: the same after the best "
        "shrinking to 0 and to the mean of all coordinates; ±: half an interval that covers a "
        "coordinate 95 times in 100; sent: messages of a user; local and release: epsilon",
        ("error", "to 0", "to mean", "±", "bits", "sent", "local", "release"),
    )
    for row in expected:
        errors = (row.error, row.to_zero, row.to_mean, row.half_width)
        named = dict(zip(_ERRORS, errors, strict=True))
        answers.add(
            "rows",
            {"mechanism": row.name, **named} if row.design is None else facts(row.design, **named),
        )
        table.add_row(
            "auto" if row.design is best else "",
            row.name,
            *("" if error is None else _short(error) for error in errors),
            *([""] * 4 if row.design is None else _cost(row.design)),
        )
    return table


def _cost(design: Design[VectorMean]) -> list[str]:
    """What a design asks of a user."""
    return [str(design.bits), f"{design.mechanism.messages:.0f}", *losses(design)]


def _short(number: float) -> str:
    """Three digits, in seven characters."""
    text = f"{number:.2e}" if 0 < number < 1e-3 else f"{number:.3g}"
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].replace("+", ""), text)


def _projected(
    expected: Sequence[Prediction], options: VectorSizeOptions, target: Target[VectorTask]
) -> list[str]:
    """Where a random projection pays, and what is better there."""
    errors = {row.name: row for row in expected}
    rphm, hm = errors.get("multi_rphm"), errors.get("multi_hm")
    if rphm is None or hm is None or hm.to_zero is None:
        return []
    second = target.task.mean_square if options.second_moment is None else options.second_moment
    square = second if options.mean_square is None else options.mean_square
    at = crossover(target, square, second)
    where = f"below n* = {at:,.0f} reports" if at < math.inf else "whatever their number"
    said = f"multi_rphm has a smaller error than multi_hm {where}"
    if not hm.to_zero <= rphm.error:
        return [f"{said}."]
    return [
        f"{said}; shrinking dominates it: multi_hm, shrunk to 0, errs by {hm.to_zero:.3g} where "
        f"multi_rphm errs by {rphm.error:.3g}."
    ]
