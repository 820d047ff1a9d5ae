"""A guarantee in words that a reader without the mathematics can hold us to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import ROUND_CEILING, Context

from mechanisms.channel import Guarantee

# What becomes of those of whom that does not hold which must.
ALIKE, LEFT_OUT, RAISING_NONE = (
    "Others report like one without a value, and are in n: nobody learns who they are.",
    "Other rows were left out, and how many there were is published as it is.",
    "Others raise no counter, so that nobody learns who they are.",
)

CHANGES = "changes the probability of any outcome by a factor of at most"
"""Stands in the one sentence that says who is protected, and by which factor."""

# What no guarantee of a job that reads the log itself can say, so every one of its releases does.
RAW_ROWS = (
    "The job that made this release read the rows as they were recorded. These promises are about "
    "what left the job. They say nothing about who can read the log itself, or who operates the "
    "machines on which the job ran."
)

FUSED = (
    "Nothing was shuffled on the way: the job that held the log counted reports as they came, and "
    "sent on numbers. What is published depends on how many there are of each alone, which no "
    "shuffle changes, so the release has the law of a shuffled one. The promise is about this "
    "release: there are no shuffled messages for anybody to see."
)

ONE_ROW = "one, drawn uniformly"
"""Which rows of a user count, where one does."""

FUSED_HERE = (
    "shuffler: fused is for one job that holds the log and counts its reports as they come; leave "
    "it out"
)

_MOMENT = re.compile(r"\s*\d{4}-\d\d-\d\d")
_PLAIN = 20.0  # above this epsilon a factor has too many digits to be read


def large_delta(delta: float, reports: int | None = None) -> str:
    """What a large delta still allows.

    Args:
        delta: of the release.
        reports: n, as it was declared, if delta is 1/n or more; None if it is large anyway.
    """
    if reports is None:
        return (
            f"delta {delta:g} is large: to publish each report as it is with that probability "
            "would keep the same promise; 1e-6 or less is usual."
        )
    return (
        f"delta is not small against 1/n: to publish about {delta * reports:,.0f} of "
        f"{reports:,} reports as they are, each with probability {delta:g}, would keep the same "
        f"promise; a delta far below {1 / reports:.1g} rules that out."
    )


def many_messages(name: str, messages: float) -> str:
    """What a mechanism costs whose users send very many messages.

    Args:
        name: of the mechanism.
        messages: that a user sends on average.
    """
    return (
        f"{name} sends about {messages:,.0f} messages a user; `hushbeam size` shows mechanisms "
        "that reach a similar error with fewer"
    )


def protected(unit: str, hidden: bool, fill: str | None) -> str:
    """What the promises cover, in everyday words, and what they do not.

    Args:
        unit: whose contribution is protected.
        hidden: whether a value that cannot be used is reported like any other.
        fill: what is reported in its place, if it is not.
    """
    covers = f"The promise covers which value any one {unit} has"
    if hidden:
        what = f"{covers}, and whether it has a usable one at all."
    elif fill is not None:
        what = f"{covers}; in place of an unusable value, {fill} was reported."
    else:
        what = (
            f"{covers}, not whether it has a usable one: rows without one were left out, and their "
            "exact number is published."
        )
    return (
        f"{what} It does not cover that a {unit} took part: the exact number of {unit}s that "
        "reported is published."
    )


def one_of_many(unit: str, share: float) -> str:
    """That a unit answers one metric of a plan.

    Args:
        unit: whose contribution is protected.
        share: of them, for this metric.
    """
    return (
        f"Each {unit} was asked for one metric of several, by a public draw that knows no value: "
        f"{100 * share:.3g} % of them for this one."
    )


def among(where: Sequence[str], unit: str, otherwise: str) -> list[str]:
    """Whom figures are about, where something must hold of rows.

    Args:
        where: what must.
        unit: whose contribution is protected.
        otherwise: what becomes of those of whom it does not.
    """
    if not where:
        return []
    whom = "rows" if unit == "row" else f"{unit}s with a row"
    return [f"Figures are about {whom} of which this holds: {' and '.join(where)}. {otherwise}"]


def counting_on(honest_share: float | None, unit: str) -> str:
    """Who is counted on by what a shuffler adds, in everyday words.

    Args:
        honest_share: of the users; None where one job draws the noise for every row.
        unit: whose contribution is protected.
    """
    if honest_share is None:
        return (
            "What the shuffler adds to the promise counts on nobody else: this job drew the noise "
            f"for every {unit}."
        )
    share = f"{100 * honest_share:.10g} % of the" if honest_share < 1 else "all"
    return (
        f"What the shuffler adds to the promise counts on {share} users following the protocol; "
        "the others may send what they like, and tell whom they like."
    )


def covered(unit: str) -> str:
    """What standard errors and intervals account for, and what they do not."""
    if unit == "row":
        return "Standard errors and intervals cover the randomisation of the reports."
    return (
        f"Standard errors and intervals cover the randomisation of the reports only, not the draw "
        f"of one row of each {unit}: the shares they hold for are those of the rows drawn."
    )


def distinct_promises(guarantees: Iterable[Guarantee]) -> list[Guarantee]:
    """Guarantees, each once; of single reports only where somebody sends some.

    Args:
        guarantees: of a release, and of one report. A job that draws the noise reads rows, so that
            nothing has to be said of reports.

    >>> whole = Guarantee("central", 1.0, 0.0, "row", "proof")
    >>> distinct_promises([whole, Guarantee.none("the job reads exact numbers")]) == [whole]
    True
    """
    own = [*dict.fromkeys(guarantees)]
    by_job = any(one.model == "central" for one in own)
    return [one for one in own if not (by_job and one.model == "none")]


def meaning(guarantee: Guarantee, min_reports: int) -> str:
    """What a guarantee promises: one sentence with the numbers, and how they are known.

    Args:
        guarantee: of one report (local), of a batch (shuffle), of a release (central), or none.
        min_reports: the least batch for which a shuffle guarantee was computed.
    """
    if guarantee.model == "none":
        return f"Nothing is promised about a single report by itself: {guarantee.how}."
    seen = {
        "local": "the randomised reports, even knowing whose each one is",
        "central": "this release",
        "shuffle": f"this release, or the shuffled {_batch(min_reports)} it was made from",
    }[guarantee.model]
    trusted = " Whoever runs the job counted the exact values." * (guarantee.model == "central")
    return promised(changed(guarantee.neighbours, guarantee.whose), seen, guarantee) + trusted


def condition_of(unit: str, days: int, horizon: int, apart: bool, first: str | None) -> str:
    """Of which units a promise about many windows holds: nothing cuts what a unit adds in others.

    Args:
        unit: "row" or "user".
        days: the most windows in which a unit is counted on to be.
        horizon: how many windows there are.
        apart: whether rows of a time are held to be in one window.
        first: the column of users' first times, if they count in the window of that alone.
    """
    if first is not None:
        return f"whose rows all have one value in {first!r}"
    if days == horizon or (apart and (unit, days) == ("row", 1)):
        return ""
    who = "that" if unit == "row" else "who"
    if (unit, days) == ("row", 1):
        return f"{who} is in one window"
    return f"{who} is in at most {days:,} of {horizon:,} windows"


def changed(neighbours: str, whose: str) -> str:
    """What makes a neighbour of an input, as a promise begins.

    Args:
        neighbours: as of a guarantee.
        whose: the unit, with its condition.

    >>> changed("replace", "user"), changed("add or remove", "row")
    ('Changing the value of any one user', 'Adding or removing any one row')
    >>> changed("zero-out", "user")
    'Counting any one user with all rows or not, at unchanged row counts,'
    """
    if neighbours == "zero-out":
        return f"Counting any one {whole_row(whose)} or not, at unchanged row counts,"
    if neighbours == "replace":
        return f"Changing the value of any one {whose}"
    return f"Adding or removing {'' if whose.startswith('row') else 'all rows of '}any one {whose}"


def promised(change: str, seen: str, guarantee: Guarantee) -> str:
    """A guarantee in one sentence; against whom it holds, and how it is known, in others.

    Args:
        change: of the input.
        seen: by whom it holds against.
        guarantee: of which the numbers are.

    >>> central = Guarantee("central", 1.0, 0.0, "row", "proof", "add or remove")
    >>> promised("Adding a row", "it", central).partition(". ")[0]
    'Adding a row changes the probability of any outcome by a factor of at most 2.72'
    """
    delta = guarantee.delta
    unless = f", except with probability {plain(upward(delta, 3))}" if delta else ""
    return (
        f"{change} {CHANGES} {factor(guarantee.epsilon)}{unless}. This is epsilon "
        f"{upward(guarantee.epsilon, 6):g}, delta {plain(upward(delta, 6))}, and holds "
        f"against anyone who sees {seen}. How this is known: {guarantee.how}."
    )


def whole_row(unit: str) -> str:
    """Whose gradient is counted or not, "row" or "user".

    >>> whole_row("user")
    'user with all rows'
    """
    return unit if unit == "row" else f"{unit} with all rows"


def counted_or_not(guarantee: Guarantee) -> str:
    """What training by a curator promises, where numbers of rows are public."""
    change = changed(guarantee.neighbours, guarantee.unit)
    return promised(change, "this release, but the curator, who held the rows", guarantee)


def _batch(least: int) -> str:
    """What a shuffler lets through; nothing is withheld where dummies hide how many there are."""
    return f"batch of {least:,} or more reports" if least else "messages"


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> factor(1.0), factor(12.0), factor(100.0)
    ('2.72', '163,000', 'e^100')
    """
    if epsilon > _PLAIN:
        return f"e^{upward(epsilon, 6):g}"
    return f"{upward(math.exp(epsilon), 3):,.10g}"


def of_moments(bounds: str | None) -> bool:
    """Whether bounds are moments and not numbers.

    >>> of_moments("2026-11-20,2026-11-21T12:00"), of_moments("-5,5")
    (True, False)
    """
    parts = (bounds or "").split(",")
    return all(_MOMENT.match(part) is not None for part in parts)


def moment_of(seconds: float) -> str:
    """Seconds since 1970 as people write them, in UTC.

    >>> moment_of(86400.25)
    '1970-01-02T00:00:00Z'
    """
    whole = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=round(seconds))
    return whole.strftime("%Y-%m-%dT%H:%M:%SZ")


def number_of(number: int, noun: str) -> str:
    """A number of things, of which one has no plural.

    >>> number_of(1, "report"), number_of(1_500, "row"), number_of(0, "entry"), number_of(2, "key")
    ('1 report', '1,500 rows', '0 entries', '2 keys')
    """
    if number == 1:
        return f"1 {noun}"
    several = f"{noun}es" if noun.endswith(("s", "ch", "x")) else f"{noun}s"
    if noun.endswith("y") and noun[-2] not in "aeo":
        several = f"{noun[:-1]}ies"
    return f"{number:,} {'leaves' if noun == 'leaf' else several}"


def plain(number: float) -> str:
    """A small number as people write it.

    >>> plain(1e-6), plain(0.25)
    ('1e-6', '0.25')
    """
    return f"{number:g}".replace("e-0", "e-")


def upward(value: float, digits: int) -> float:
    """A number to so many significant digits, rounded up: what is said is never less than what is.

    >>> upward(0.12341, 3), upward(0.1, 3)
    (0.124, 0.1)
    """
    # By its shortest decimals: the double that stands for 0.1 is a little above it.
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


def shared(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Each sentence once, and of which metrics it is, if not of all of them.

    Args:
        texts: of each metric, by name.

    >>> shared({"a": ["Trust.", "Hide."], "b": ["Trust."]})
    ['Trust.', 'a: Hide.']
    """
    names: dict[str, list[str]] = {}
    for name, own in texts.items():
        for text in own:
            names.setdefault(text, []).append(name)
    return [
        text if len(whose) == len(texts) else f"{', '.join(whose)}: {text}"
        for text, whose in names.items()
    ]


def one_line(guarantee: Guarantee) -> str:
    """A guarantee as people quote it.

    >>> one_line(Guarantee("local", 1.0, 0.0, "row", "enumeration"))
    'local: epsilon 1, delta 0, per row'
    """
    if guarantee.model == "none":
        return f"one report alone: no guarantee ({guarantee.how})"
    return (
        f"{guarantee.model}: epsilon {upward(guarantee.epsilon, 4):g}, "
        f"delta {upward(guarantee.delta, 4):g}, per {guarantee.whose}"
        + (", presence hidden" if guarantee.neighbours == "add or remove" else "")
    )


ONE_QUANTILE = "one quantile is drawn by exact ranks: let the job draw, or say --quantiles"
"""Why no other noise serves it."""
