"""What a party expects of the reports it reads; everything else is counted by reason, and dropped.

An unusable report may be an attack: no byte of it reaches a log, an error or a file.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.wire.report import Form, Reports

# Why something was dropped. Nothing but these words and counts is ever said of it.
NOT_REPORTS = "not a report file"
OTHER_VERSION = "other format version"
OTHER_PLAN = "other plan"
OTHER_FORM = "other form of report"
OTHER_COLUMNS = "other columns"
OTHER_WIDTH = "other width"
TRUNCATED = "truncated"
NO_FRAMES = "framing lost"
OVERFULL = "more rows than its bytes can hold"
OTHER_CODEC = "other compression"
NULL = "null field"
UNKNOWN_METRIC = "unknown metric"
IMPOSSIBLE = "impossible code"
UNKNOWN_KEY = "unknown key"
UNOPENED = "seal does not open"
DUPLICATE = "duplicate"

REASONS = (
    NOT_REPORTS, OTHER_VERSION, OTHER_PLAN, OTHER_FORM, OTHER_COLUMNS, OTHER_WIDTH, TRUNCATED,
    NO_FRAMES, OVERFULL, OTHER_CODEC, NULL, UNKNOWN_METRIC, IMPOSSIBLE, UNKNOWN_KEY, UNOPENED,
    DUPLICATE,
)  # fmt: skip


class Screened(NamedTuple):
    """What is left of a block, and how many were dropped for which reason.

    Attributes:
        reports: those that can be what they claim to be.
        dropped: reason -> how many; never zero.
    """

    reports: Reports
    dropped: dict[str, int]


class Alphabet(Protocol):
    """What screening needs of a metric's mechanism: which messages it could have sent."""

    def valid(self, messages: Messages) -> NDArray[np.bool_]: ...


@dataclass(frozen=True)
class Expected:
    """What a party expects of the reports it reads; the rest is dropped by reason.

    Attributes:
        fingerprint: of its plan.
        alphabets: (metrics,) their mechanisms, in the order of the plan.
        form: what it accepts; with slots, of any number.
        slots: (metrics,) how many each one's reports have, if they are to noisy counters.
    """

    fingerprint: bytes
    alphabets: tuple[Alphabet, ...]
    form: Form
    slots: tuple[int, ...] = ()

    def none(self) -> Reports:
        """No reports, of what is expected."""
        return Reports(self.fingerprint, self.form, self.form.empty(0))

    def refused(self, reason: str, size: int) -> Screened:
        """Nothing kept, and why."""
        return Screened(self.none(), tallied({reason: size}))

    def screen(self, reports: Reports) -> Screened:
        """Drop what this plan's clients cannot have sent; each report for one reason at most.

        Args:
            reports: n of any plan and form.

        Returns:
            Those that can be; codes inside a seal are judged when it has been opened.
        """
        if reports.fingerprint != self.fingerprint:
            return self.refused(OTHER_PLAN, len(reports))
        if reports.form.kind != self.form.kind:
            return self.refused(OTHER_FORM, len(reports))
        if self.form.slots:
            return self._screen_slots(reports)
        known: NDArray[np.bool_] = reports.records["metric"] < len(self.alphabets)
        # Inside a seal there is nothing to be read yet.
        possible = known if self.form.sealed else known & self._possible(reports)
        return _screened(reports, known, possible, IMPOSSIBLE)

    def _screen_slots(self, reports: Reports) -> Screened:
        """Of as many slots as their metric has; which codes are possible, the counters know."""
        metrics = reports.records["metric"]
        known: NDArray[np.bool_] = metrics < len(self.slots)
        slots = np.array([*self.slots, 0])[np.where(known, metrics, -1)]
        fits = known & ((not reports.form.wide) | (slots == reports.form.slots))
        return _screened(reports, known, fits, OTHER_WIDTH)

    def _possible(self, reports: Reports) -> NDArray[np.bool_]:
        """Which messages the mechanism of their metric could have sent."""
        metrics, messages = reports.records["metric"], reports.records["message"]
        possible = np.zeros(len(reports), np.bool_)
        for metric, alphabet in enumerate(self.alphabets):
            mine = metrics == metric
            possible[mine] = alphabet.valid(messages[mine])
        return possible


def _screened(
    reports: Reports, known: NDArray[np.bool_], kept: NDArray[np.bool_], reason: str
) -> Screened:
    """Those that are kept; the others are of no known metric, or dropped for a reason."""
    if kept.all():  # an endpoint screens reports one by one
        return Screened(reports, {})
    unknown = len(reports) - int(np.count_nonzero(known))
    others = len(reports) - unknown - int(np.count_nonzero(kept))
    return Screened(reports.where(kept), tallied({UNKNOWN_METRIC: unknown, reason: others}))


def tallied(*counts: dict[str, int]) -> dict[str, int]:
    """Counts by reason added up, without the reasons that did not occur."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return {reason: size for reason, size in total.items() if size}


def merged(expected: Expected, parts: Iterable[Screened]) -> Screened:
    """Several blocks as one, in their order."""
    blocks = [expected.none().records]
    dropped: dict[str, int] = {}
    for part in parts:
        blocks.append(part.reports.records)
        dropped = tallied(dropped, part.dropped)
    return Screened(replace(expected.none(), records=np.concatenate(blocks)), dropped)
