"""What counters a request comes to: the values they are divided by, and the least noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mechanisms.counters.choose import NoisyCounters, least_error
from mechanisms.counters.levels import Level
from mechanisms.counters.solve import MOST_DUMMIES
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.counting.options import DELTA, require_drawn
from pipelines.metrics.options import CLIENTS_SHARE
from transforms.encoders.domain import Domain
from transforms.encoders.reports import Reporting

# Dummies that are sealed one by one take a thousand times as long as others: digits of a sum that
# need more than this get noise of their own, which is twice as large and a thousandth of them.
MOST_SEALED = 1 << 18


def declared(
    telemetry: inputs.Telemetry, *pairs: tuple[str, str | None, str, str | None]
) -> tuple[tuple[str, Domain], ...]:
    """The columns that a statistic is divided by, with their values.

    Args:
        telemetry: the files.
        pairs: as of `options.require_pairs`.

    Raises:
        RequestError: a file lacks a column, or values do not fit it.
    """
    found = []
    for flag, column, declares, values in pairs:
        if column is None or values is None:
            continue
        kind = telemetry.column_type(column, flag)
        try:
            found.append((column, inputs.read_domain(values, kind, other=False, least=1)))
        except RequestError as error:
            text = str(error)
            raise RequestError(declares + text.removeprefix("--domain")) from None
    if len({column for column, _ in found}) < len(found):
        raise RequestError(f"{pairs[-1][0]}: name another column than {pairs[0][0]}")
    return tuple(found)


def designed(
    options: Any, reporting: Reporting, most: int = MOST_DUMMIES, **more: Any
) -> NoisyCounters:
    """The counters of a request, with the least noise.

    Args:
        options: of the request.
        reporting: what users send.
        most: dummies that may be spent on digits that share one noise.
        **more: further arguments of `least_error`.

    Raises:
        RequestError: the target is out of reach.
    """
    levels, sides = reporting.amounts.levels, reporting.sides
    found = meeting(options, levels, sides, correlated=reporting.amounts.most > 1, **more)
    if options.dummies == "shuffler" and found.number > most:
        found = meeting(options, levels, sides, **more)
    return found


def meeting(
    options: Any, levels: Sequence[Level], beside: Sequence[Level], **more: Any
) -> NoisyCounters:
    """Counters that keep what a request promises.

    Args:
        options: of the request.
        levels: of the statistic.
        beside: what else is told.
        **more: further arguments of `least_error`.

    Raises:
        RequestError: the target is out of reach.
    """
    require_drawn(options)
    if options.epsilon is None:
        raise RequestError("--epsilon is missing: say what the release may reveal, as in 1")
    target = (levels, options.neighbours, options.epsilon, options.delta or DELTA)
    # A kind that sends one randomised report may have a limit of its own for that.
    named = "max_messages" in options.model_fields_set
    limits = {"most_messages": options.max_messages} if named else {}
    devices = {"enrolled": options.enrolled, "honest_share": options.honest_share or CLIENTS_SHARE}
    asked: Any = {"drawers": [options.dummies], "beside": beside, **limits, **devices, **more}
    try:
        return least_error(*target, **asked)
    except ValueError as error:
        known = "--enrolled, " * (options.dummies == "devices") + "--max-messages, " * named
        raise RequestError(f"{known}--epsilon, --delta: {error}") from None
