"""What counters a request comes to: the values they are divided by, and the least noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from mechanisms.channel import Neighbours
from mechanisms.counters.amounts import Amounts, WholeAmounts
from mechanisms.counters.choose import NoisyCounters, least_error
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Beside, Correlated, Dummies, Independent, dummies_of
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.masks import MOST_DUMMIES, coarsening
from mechanisms.counters.noise import ShufflerNoise, recorded
from mechanisms.counters.solve import errs_as_alike, errs_no_more
from mechanisms.wire.report import MOST_SLOTS
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.options import DELTA, grouped, require_drawn, require_pairs
from pipelines.metrics.options import CLIENTS_SHARE, JOB, GroupedOptions, SeveralOptions
from pipelines.storage.solved import keep, recall
from transforms.columns import is_moment, type_name
from transforms.encoders.domain import Domain
from transforms.encoders.reports import Reporting
from transforms.encoders.undeclared import UNDECLARED, is_group

MOST_MASKED = 4_000_000
"""Dummies of a figure whose digits share one noise, where one job draws and counts them: each
counter's are one number, whatever it is. With more, a sum would err by 1 to 5 % less, and tables
that are drawn from be longer."""

MOST_SEALED = 1 << 18
"""The same of all figures together, where dummies are sealed one by one, each of which takes a
thousand times as long as to draw a number. Beyond so few, digits get noise of their own, which is
two or three times as large and a thousandth of them."""


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
    domains, flags = [], list[str]()
    for flag, column, declares, values in pairs:
        if column is None or values is None:
            continue
        flags.append(flag)
        kind = telemetry.column_type(column, flag)
        try:
            domains.append((column, inputs.read_domain(values, kind, other=False, least=1)))
        except RequestError as error:
            text = str(error)
            raise RequestError(declares + text.removeprefix("--domain")) from None
    if len({column for column, _ in domains}) < len(domains):
        raise RequestError(f"{flags[-1]}: name another column than {flags[0]}")
    return tuple(domains)


def divided(
    telemetry: inputs.Telemetry,
    options: GroupedOptions,
    *pairs: tuple[str, str | None, str, str | None],
) -> tuple[tuple[str, Any], ...]:
    """The columns that totals are divided by, with values that are declared or yet to be found.

    Args:
        telemetry: the files.
        options: of the request.
        pairs: as of `options.require_pairs`.

    Raises:
        RequestError: as `declared`; or a column holds what is no group.
    """
    undeclared, more = options.undeclared_columns, grouped(options)
    if not undeclared:
        if "selection_share" in options.model_fields_set:
            raise RequestError(
                "--selection-share: says something of groups that nobody declared: leave it out"
            )
        require_pairs(*pairs)
        return declared(telemetry, *pairs, *more)
    known = (
        values or column not in (None, *undeclared) for _, column, _, values in (*pairs, *more)
    )
    if any(known) or len({*undeclared}) < len(undeclared):
        raise RequestError(
            "--group-by: the values of all columns are declared or of none, and each is named "
            f"once; {undeclared[0]!r} has none"
        )
    if options.user_column in undeclared:
        raise RequestError(
            f"--group-by: {options.user_column!r} says who a user is, and a group that is found is "
            "published: name another column"
        )
    for column in undeclared:
        kind = telemetry.column_type(column, "--group-by")
        if not (telemetry.unseen or is_group(kind)):
            raise RequestError(
                f"--group-by: {column!r} holds {type_name(kind)}; text, whole numbers, dates or "
                "truths are needed: derive one, as in --derive 'hour=extract(...)'"
            )
    return tuple((column, UNDECLARED) for column in undeclared)


def require_moments(telemetry: inputs.Telemetry, column: str) -> None:
    """Refuse a column that does not say when a row happened.

    Raises:
        RequestError: a file lacks it, or it holds something else.
    """
    kind = telemetry.column_type(column, "--time")
    if not (telemetry.unseen or is_moment(kind)):
        raise RequestError(
            f"--time: {column!r} holds {type_name(kind)}; moments or dates are needed (of a file "
            f"of text: --types {column}=timestamp, or date)"
        )


def designed(
    options: Any,
    reporting: Reporting,
    sealed: bool = False,
    correlated: bool = True,
    **more: Any,
) -> NoisyCounters:
    """The counters of a request, with the least noise.

    Args:
        options: of the request.
        reporting: what users send.
        sealed: whether each message is sealed by itself.
        correlated: whether digits may share one noise.
        **more: further arguments of `least_error`.

    Raises:
        RequestError: the target is out of reach.
    """
    amounts = reporting.amounts
    more["rows"] = reporting.rows or 1
    if isinstance(amounts, WholeAmounts):
        return meeting(
            options, amounts.levels, reporting.sides, sealed, parts=amounts.parts, **more
        )
    more |= {
        "correlated": correlated and amounts.most > 1,
        "most_masked": most_masked(amounts.groups, sealed),
    }
    return meeting(options, amounts.levels, reporting.sides, sealed, **more)


def most_masked(groups: int, sealed: bool = False) -> int:
    """How many dummies may be spent on digits that share one noise.

    Args:
        groups: how many figures there are.
        sealed: whether each dummy is sealed by itself.
    """
    return MOST_SEALED if sealed else MOST_MASKED * groups


def rounded(
    options: Any,
    wanted: int,
    least: int,
    reporting: Callable[[int, bool], Reporting],
    sealed: bool = False,
) -> tuple[NoisyCounters, Reporting]:
    """The counters of a sum of numbers, and the units that these are rounded to, that err least.

    Args:
        options: of the request.
        wanted: units that are fine enough.
        least: the fewest that there may be: as many, where nothing is to be rounded.
        reporting: (units, whether digits are to share one noise) -> what users send.
        sealed: as of `designed`.

    Raises:
        RequestError: the target is out of reach.
    """
    exact = least == wanted
    sizes = [wanted >> i for i in range(wanted.bit_length()) if wanted >> i >= least]

    def variance(units: int, of_sum: float, amounts: Amounts) -> float:
        return (of_sum + (not exact) * amounts.coin * options.usual) / units**2

    def likely(units: int) -> float:
        amounts = reporting(units, True).amounts
        target = options.neighbours, options.epsilon, options.delta or DELTA
        grown = coarsening(amounts.levels, *target, most_masked(amounts.groups, sealed))
        alone = 2 * (grown * amounts.most_groups * units / options.epsilon) ** 2
        return variance(units, amounts.variance(alone), amounts)

    tried = [(wanted, False)]
    if options.drawn_by == "shuffler" and options.epsilon is not None and wanted > 1:
        tried = [(min(sizes, key=likely), True), *tried]
    candidates, why = [], RequestError("")
    for units, shared in tried:
        encoder = reporting(units, shared)
        try:
            design = designed(options, encoder, sealed, shared)
        except RequestError as refused:
            why = refused
            continue
        own = encoder.amounts.variance(design.column_variance)
        candidates.append((variance(units, own, encoder.amounts), design, encoder))
    if not candidates:
        raise why
    return min(candidates, key=lambda candidate: candidate[0])[1:]


def target_of(options: SeveralOptions) -> tuple[Neighbours, float, float]:
    """(neighbours, epsilon, delta) that a request is to keep.

    Raises:
        RequestError: it does not say which epsilon.
    """
    if options.epsilon is None:
        raise RequestError("--epsilon is missing: say what the release may reveal, as in 1")
    delta = options.delta or DELTA
    if options.delta == 0 and getattr(options, "drawn_by", None) == JOB:
        delta = 0.0  # its noise need not have any
    return options.neighbours, options.epsilon, delta


# It is searched for wherever a plan is looked at: by the shuffler, the collector and every client.
@lru_cache(maxsize=64)
def _least_error(*target: Any, **more: Any) -> NoisyCounters:
    search = partial(least_error, *target, **more)
    if more["drawers"] != ("shuffler",):
        return search()
    levels, beside = target[0], more["beside"]
    whole = ((*levels, *beside), *target[1:])
    digits = levels if more.get("correlated") else ()
    names = ("beside", "share", "most_dummies", "releases")
    terms = {name: more[name] for name in names if name in more}

    def good(dummies: Dummies) -> bool:
        return errs_no_more(dummies, *target, **terms)

    return _known((target, sorted(more.items())), search, whole, len(beside), digits, good)


@lru_cache(maxsize=64)  # of metrics of one shape
def another(design: Counters | JobTotals, epsilon: float, delta: float) -> NoisyCounters:
    """`design.meeting_another`, searched for once.

    Raises:
        ValueError: no such noise meets the target.
    """
    search = partial(design.meeting_another, epsilon, delta)
    if not isinstance(design, Counters):
        return search()
    target, beside = (design.levels, design.neighbours, epsilon, delta), design.beside
    alone = _built(design.dummies, ())
    digits = () if alone else design.levels[: len(design.levels) - beside]
    met, wanted = (design.epsilon, design.delta), (epsilon, delta)

    def good(dummies: Dummies) -> bool:
        return errs_as_alike(dummies, design.dummies, design.levels, beside, met, wanted)

    return _known((design, epsilon, delta), search, target, beside, digits, good)


def _known(
    question: object,
    search: Callable[[], Any],
    target: tuple[Any, ...],
    beside: int,
    digits: Sequence[Level],
    good: Callable[[Dummies], bool],
) -> Counters:
    """The shuffler's counters as an earlier search has met them, or as this one does.

    Whoever writes into the cache could have figures err more than need be: no more than is `good`.
    """
    with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        levels, neighbours, epsilon, delta = target
        dummies = dummies_of(recall(question))
        known = Counters(levels, dummies, neighbours, epsilon, delta, beside)
        # The guarantee is evaluated exactly, for the target that is asked for now.
        if _built(dummies, digits) and good(dummies) and known.guarantee:
            return known
    made: Counters = search()
    keep(question, recorded(made.dummies))
    return made


def _built(dummies: object, digits: Sequence[Level]) -> bool:
    """Whether a search builds such dummies, whatever the numbers of their laws.

    A price believes of levels that share one noise that they are digits, of these weights.

    Args:
        dummies: that were read.
        digits: levels that may share a noise: all of them or none.
    """
    match dummies:
        case Beside(blocks=(first, *others)):
            return _built(first, digits) and all(_built(block, ()) for block in others)
        case Independent(laws=laws):
            return all(isinstance(law, ShufflerNoise) and type(law.mu) is int for law in laws)
        case Correlated(weights=weights, total=total, mask=mask):
            alike = len({level[:2] for level in digits}) == 1
            own = tuple(int(level.weight) for level in digits)
            return alike and weights == own and {type(total.mu), type(mask.mu)} == {int}
    return False


def meeting(
    options: Any,
    levels: Sequence[Level],
    beside: Sequence[Level],
    sealed: bool = False,
    **more: Any,
) -> NoisyCounters:
    """Counters that keep what a request promises.

    Args:
        options: of the request.
        levels: of the statistic.
        beside: what else is told.
        sealed: as in `designed`; reports are then of one size, and have room for so much.
        **more: further arguments of `least_error`.

    Raises:
        RequestError: the target is out of reach.
    """
    require_drawn(options)
    target = (tuple(levels), *target_of(options))
    # A kind that sends one randomised report may have a limit of its own for that.
    named = "max_messages" in options.model_fields_set
    most = (options.max_messages if named else None) or math.inf
    limits: dict[str, Any] = {"most_messages": most}
    if sealed and options.drawn_by == "devices":
        limits = {"most_messages": min(MOST_SLOTS, most), "slotted": True}
    devices = {"enrolled": options.enrolled, "honest_share": options.honest_share or CLIENTS_SHARE}
    if sealed:  # one job draws a number for each counter, however large
        limits["most_dummies"] = MOST_DUMMIES
    rest: Any = {"drawers": (options.drawn_by,), "beside": tuple(beside), **limits, **devices}
    # What errs least alone is seldom what errs least at the same price of many.
    more = {"releases": options.together} | more
    try:
        return _least_error(*target, **(rest | more))
    except ValueError as error:
        known = "--enrolled, " * (options.drawn_by == "devices") + "--max-messages, " * named
        raise RequestError(f"{known}--epsilon, --delta: {error}") from None
