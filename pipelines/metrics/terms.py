"""The terms that a request for a release of any column names, whatever is made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from mechanisms.channel import Guarantee
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design
from mechanisms.targets.rules import M, Target, Task, default_delta
from pipelines.errors import RequestError
from pipelines.wording import factor, large_delta, upward

if TYPE_CHECKING:
    from pipelines.logs.inputs import Telemetry
    from pipelines.metrics.metric import Metric

_MEANINGLESS = 20.0  # of epsilon: beyond it a promise is none
_LARGE_DELTA = 1e-4  # beyond it one row in ten thousand may be shown


class LossTerms(Protocol):
    """How much may be lost."""

    @property
    def epsilon(self) -> float | None: ...
    @property
    def delta(self) -> float | None: ...
    @property
    def epsilon_local(self) -> float | None: ...
    @property
    def honest_share(self) -> float | None: ...


class Crowd(Protocol):
    """Among how many."""

    @property
    def user_column(self) -> str | None: ...
    @property
    def min_reports(self) -> int | None: ...
    @property
    def hides(self) -> bool: ...
    @property
    def fill(self) -> str | None: ...


class Terms(LossTerms, Crowd, Protocol):
    """All that a target needs beside its task."""

    @property
    def model(self) -> Any: ...
    @property
    def unit(self) -> str: ...


def best_design(
    options: Terms, task: Task[M], rows: int, name: str = AUTO, model: str = "", **more: Any
) -> tuple[int, Design[M]]:
    """The least batch of a request, and the design with the least predicted error for it.

    Args:
        options: of the request.
        task: what is to be estimated.
        rows: of the input; 0 if nobody has counted them.
        name: of a mechanism that serves the task, or "auto".
        model: in which it is to hold, if the options leave that open.
        **more: of the target: `seed`, `bound`.

    Raises:
        RequestError: the target is out of reach, or nobody says how many reports there are.
    """
    from mechanisms.planner.search import search  # what is refused before needs no accountant

    model = model or options.model
    least = least_reports(options, model, rows)
    try:
        terms = target_terms(options, model, least, options.unit)
        design = search(Target(**terms, task=task, **more), name)
        released = design.release
    except ValueError as error:
        raise RequestError(str(error)) from None
    require_proven(options, released)
    return least, design


def hiding_cost(design: Design[Any], plain: Task[Any]) -> float:
    """By which factor a standard error is larger because unusable values are hidden.

    Args:
        design: that hides them.
        plain: the task without that.
    """
    from mechanisms.planner.search import search

    return math.sqrt(design.error / search(design.target.asking(plain), design.name).error)


def target_terms(request: LossTerms, model: str, n: int, unit: str) -> dict[str, Any]:
    """What targets have in common, whatever their task.

    Args:
        request: how much may be lost.
        model: in which it is to hold.
        n: the least number of reports.
        unit: whose value is protected.
    """
    return {
        "model": model,
        "epsilon": request.epsilon,
        "delta": default_delta(model, n) if request.delta is None else request.delta,
        "n": n,
        "epsilon_local": request.epsilon_local,
        "unit": unit,
        "honest_share": counted_share(request.honest_share),
    }


def counted_share(honest_share: float | None) -> float:
    """The share of the users that a promise counts on, as requested.

    Args:
        honest_share: None where one job draws the noise for every row: nobody can fail it.
    """
    return 1.0 if honest_share is None else honest_share


def least_batch(options: Crowd, rows: int, why: str) -> int:
    """The least number of reports: as requested, or nearly as many as there are rows.

    Where every row is a report, that is 99 % of the rows to three figures, for each client's
    epsilon follows from it: what is left unused of the noise is at most 2 %. Where rows that
    cannot be used are left out, it is nine tenths, to two figures.

    Args:
        options: of the request.
        rows: of the input; 0 if nobody has counted them.
        why: it has to be known, for a refusal.

    Raises:
        RequestError: users are protected and nobody says how many there are at the least.
    """
    if options.min_reports is not None:
        return options.min_reports
    if options.user_column is not None:
        raise RequestError(
            "--min-reports is missing: with --user-column, say how many users at the least the "
            f"release must stand on ({why})"
        )
    if not rows:
        raise RequestError(
            "--min-reports is missing: nobody has counted the rows here, so say how many reports "
            f"at the least the release must stand on ({why})"
        )
    part, figures = (0.99, 3) if options.hides or options.fill is not None else (0.9, 2)
    unit = 10 ** max(math.floor(math.log10(part * rows)) - figures + 1, 0)
    return max(2, int(part * rows) // unit * unit)


def rows_needed(options: Crowd, telemetry: Telemetry) -> int:
    """The input's rows, where the least batch follows from them; else nobody counts them."""
    said = options.min_reports is not None or options.user_column is not None
    return 0 if said else telemetry.rows


def least_reports(options: Crowd, model: str, rows: int) -> int:
    """The least batch that is published; any at all where nothing is shuffled.

    Raises:
        RequestError: as `least_batch`.
    """
    if options.min_reports is None and model != "shuffle":
        return 1
    return least_batch(options, rows, "each client's epsilon is chosen for that number")


def require_proven(request: LossTerms, released: Guarantee) -> None:
    """Refuse to begin a release above the epsilon of the request.

    Raises:
        RequestError: what can be proven is more.
    """
    if request.epsilon is not None and not released.epsilon <= request.epsilon:
        raise RequestError(
            f"--epsilon: {request.epsilon:g} is less than what can be proven of these reports, "
            f"{upward(released.epsilon, 3):g}; ask for that much, or have more of them"
        )


def cautioned(delta: float, declared: int | None) -> list[str]:
    """What a large delta calls for, or nothing.

    Args:
        delta: of the release.
        declared: how many reports there are, as somebody says who knows; None if nobody does. The
            number that was counted may be private, and a caution would tell it.
    """
    if declared and delta * declared >= 1:
        return [large_delta(delta, declared)]
    return [large_delta(delta)] if delta > _LARGE_DELTA else []


def next_to_nothing(release: Guarantee, report: Guarantee | None = None) -> list[str]:
    """What epsilons call for that are too large to mean anything, or nothing.

    Args:
        release: what it promises.
        report: what a single one does, before it is shuffled, if that is something else.
    """
    lines = _meaningless(release, "", "what anybody sees")
    if report is None or report == release:
        return lines
    return lines + _meaningless(report, " of a single report", "what a shuffler sees of it")


def _meaningless(guarantee: Guarantee, whose: str, seen: str) -> list[str]:
    """That a guarantee is none to speak of, or nothing."""
    epsilon = guarantee.epsilon
    if guarantee.model == "none" or not epsilon > _MEANINGLESS:
        return []
    return [
        f"epsilon {upward(epsilon, 4):g}{whose} promises next to nothing: {seen} may be "
        f"{factor(epsilon)} times likelier with one value than with another"
    ]


def drowned(error: float, reports: int, what: str) -> list[str]:
    """What an error calls for that is larger than all there is to know, or nothing.

    Args:
        error: the predicted standard error, as a share of what a guess may be wrong by.
        reports: that it is predicted for; 0 if nobody knows.
        what: is estimated, and how far off a guess could be.
    """
    if not (reports > 0 and error > 1):
        return []
    return [
        f"noise drowns what is released: with {reports:,} reports the standard error is up to "
        f"{error:.3g} times {what}, and the budget is spent all the same; have more reports, a "
        "larger epsilon, or leave it out"
    ]


def answering_share(metric: Metric) -> float:
    """The share of the units that answer."""
    return 1.0 if metric.part is None else metric.part.share


def answering_rows(metric: Metric) -> int:
    """How many of the files' rows are looked at; 0 if nobody has counted them, or may tell.

    How many rows users have is theirs: a caution about so many would publish it.
    """
    of_rows = metric.options.unit == "row"
    return int(metric.telemetry.rows * answering_share(metric)) if of_rows else 0
