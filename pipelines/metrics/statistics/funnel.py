"""`funnel`: how many users reach each of several steps, and which share goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.steps import MOST
from mechanisms.postprocess.simplex import project
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.reading import named, view_of
from pipelines.metrics.counting.design import declared, require_moments
from pipelines.metrics.counting.options import require_bounded, require_pairs
from pipelines.metrics.funnel.options import CONVERSION, TABLE, TIMES, TIMES_SHARE, FunnelOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.labels import value_group, with_labels
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.summed import OfSums, SumEvidence
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.releases.schema import LABELS
from pipelines.request.spans import seconds_of
from pipelines.views.headline import ONE, STEPS
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.steps import StepEncoder, StepReporting
from transforms.expressions.view import View

ALL, THEN = "all", " → "
_CODES = 1 << 32  # of a row's segment and steps
_ERRORS = ErrorTerms(
    "Every number of users is the truth plus noise of a known law; the table has the standard "
    "error of each, and noise of a step is in all steps before it. Estimates are unbiased, so some "
    "lie below 0, or above the step before; `fitted` numbers do not, and segments add up to all. "
    "Shares are quotients of estimates, with Fieller's intervals.",
    "the noise of the dummies",
    of=" of how many begin, of a segment where there are any,",
)


class _Users(NamedTuple):
    """How many users reached a step, or took so long to it, in some segments: their counters."""

    cells: tuple[int, ...]
    level: int = 0


@dataclass(frozen=True, kw_only=True)
class Funnel(OfSums):
    """How many users reach each step.

    Attributes:
        steps: (name, what must hold of a row) of each, in their order.
    """

    kind = "funnel"

    options: FunnelOptions
    steps: tuple[tuple[str, View], ...]

    @classmethod
    def read(cls, options: FunnelOptions, source: inputs.Source) -> tuple[Funnel, inputs.Telemetry]:
        if options.user_column is None:
            raise RequestError("--user-column is missing: name the column that tells users apart")
        require_bounded(options, 1)
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        require_pairs(pair)
        if options.within is not None and seconds_of(options.within) == 0:
            raise RequestError("--within: a span above 0 is needed, or all steps are at one moment")
        if not (names := named("--steps", options.steps, "pay=paid > 0")) or len(names) > MOST:
            raise RequestError(f"--steps: 1 to {MOST} steps are needed, and not {len(names)}")
        telemetry = source.open(options, empty=True)
        require_moments(telemetry, options.time)
        steps = tuple((name, _step(name, text, telemetry)) for name, text in names.items())
        funnel = cls(options=options, domains=declared(telemetry, pair), steps=steps)
        if any(ALL in domain.labels().to_pylist() for _, domain in funnel.domains):
            raise RequestError(f"--groups: {ALL!r} is the row of everybody: rename that segment")
        _ = funnel.bounds  # refused here, if some leave a bin empty
        if funnel.size[1] << len(steps) > _CODES:
            most = _CODES >> len(steps)
            raise RequestError(f"--groups: of {len(steps)} steps at most {most - 1:,} values")
        return funnel, telemetry

    @property
    def size(self) -> tuple[int, int]:
        """How many steps, and how many segments, there are."""
        return len(self.steps), self._segments.size

    @property
    def within(self) -> float:
        """How long a funnel may take, in microseconds."""
        return math.inf if self.options.within is None else 1e6 * seconds_of(self.options.within)

    @cached_property
    def bounds(self) -> tuple[tuple[str, float], ...]:
        """(as it was written, in microseconds) of each bound of times.

        Raises:
            RequestError: one is no span; they leave a bin empty; or there is one step.
        """
        if self.options.times is None:
            return ()
        texts = [text.strip() for text in self.options.times.split(",")]
        try:
            ends = [1e6 * seconds_of(text) for text in texts]
        except ValueError:
            raise RequestError("--times: spans are needed, as in 1min,5min,1h") from None
        if len(self.steps) < 2:
            raise RequestError("--times: are from step to step, and there is one: leave them out")
        if not (sorted({0.0, *ends}) == [0.0, *ends] and ends[-1] < self.within):
            raise RequestError("--times: spans must rise, from above 0 to below --within")
        return tuple(zip(texts, ends, strict=True))

    @property
    def workload(self) -> Workload:
        return Workload(len(self.shown), shape="steps")

    @property
    def _segments(self) -> GroupEncoder:
        return GroupEncoder(self.domains)

    @property
    def encoder(self) -> StepEncoder:  # type: ignore[override]
        return StepEncoder(self.options.time, tuple(step for _, step in self.steps), self._segments)

    @property
    def heading(self) -> Heading:
        ends = dict.fromkeys(self.steps[place][0] for place in (0, -1))
        by = "".join(f" by {column}" for column, _ in self.domains)
        title = f"{THEN.join(ends)}: users{by}"
        figures = {TABLE: "users"} | ({CONVERSION: "share"} if self._pairs else {})
        headline = {"table": [*figures][-1], "rows": ONE, "picture": STEPS}
        figures |= {TIMES: "users by time"} if self.bounds else {}
        return Heading(title, figures, value_group(self.domains), headline)

    # What is published.

    @property
    def reporting(self) -> StepReporting:
        ends = tuple(end for _, end in self.bounds)
        return StepReporting(*self.size, within=self.within, bounds=ends)

    @cached_property
    def shown(self) -> list[_Users]:
        """Everybody's steps, and then those of each segment; and so the times to later steps."""
        steps, segments = self.size
        bins = (steps - 1) * (len(self.bounds) + 1) * bool(self.bounds)
        parts = [range(segments), *([own] for own in range(segments) if self.domains)]
        return [
            _Users(tuple(own * steps + k for own in part for k in range(step, steps)))
            for part in parts
            for step in range(steps)
        ] + [
            _Users(tuple(own * bins + place for own in part), level=1)
            for part in parts
            for place in range(bins)
        ]

    @property
    def longest(self) -> _Users:
        return self.shown[0]

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """(a step, of which its users are a share), of all who began the last first."""
        last = len(self.steps) - 1
        began = [(step, 0) for step in (last, *range(1, last)) if step]
        return began + [(step, step - 1) for step in range(2, last + 1)]

    def tables(self, evidence: SumEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        names, pairs = [name for name, _ in self.steps], self._pairs
        columns = self.columns(evidence, self.options.confidence)
        many = sum(one.level == 0 for one in self.shown)
        own = {name: figures[:many] for name, figures in columns.items()}
        own |= {"fitted": self._fitted(evidence.totals[:many])}
        tables = {TABLE: self._labelled(names, own)}
        if pairs:
            starts = range(0, many, len(names))
            figures = [(self.shown[at + a], self.shown[at + b]) for at in starts for a, b in pairs]
            texts = [f"{names[whole]}{THEN}{names[part]}" for part, whole in pairs]
            tables[CONVERSION] = self._labelled(texts, self.shares(evidence, figures))
        if self.bounds:
            ends = [text for text, _ in self.bounds]
            spans = [f"{low} to {high}" for low, high in pairwise(ends)]
            bins = [f"up to {ends[0]}", *spans, f"over {ends[-1]}"]
            texts = [f"{a}{THEN}{b}, {end}" for a, b in pairwise(names) for end in bins]
            took = {name: figures[many:] for name, figures in columns.items()}
            tables[TIMES] = self._labelled(texts, took)
        return tables

    def _fitted(self, totals: Floats) -> Floats:
        """(figures,) the nearest that fall from step to step, not below 0, and add up."""
        steps, segments = self.size
        reached = totals[-segments * steps :].reshape(segments, steps)
        counters = -np.diff(reached, axis=1, append=0)
        number = max(counters.sum(), 0)
        shares = project(counters.ravel() / max(number, 1)) if number else np.zeros(counters.size)
        behind = number * shares.reshape(segments, steps)[:, ::-1].cumsum(axis=1)[:, ::-1]
        return np.concatenate([behind.sum(axis=0), behind.ravel()])[: totals.size]

    def _labelled(self, values: Sequence[str], columns: dict[str, Any]) -> pa.Table:
        """Figures behind what they are of: everybody first, then segment by segment."""
        rows = [(group, value) for group in self._groups() for value in values]
        arrays = (pa.array(texts, pa.string()) for texts in zip(*rows, strict=True))
        labels = dict(zip(LABELS, arrays, strict=True))
        return with_labels(labels if self.domains else {"value": labels["value"]}, columns)

    def _groups(self) -> Iterator[str | None]:
        """Everybody, each declared value, and all others."""
        yield ALL
        for _, domain in self.domains:
            yield from domain.labels().cast(pa.string()).to_pylist()
            yield None

    # What is said of it.

    def statement(self, evidence: SumEvidence) -> dict[str, Any]:  # type: ignore[override]
        if not self.bounds:
            return {}
        known = {"counters": len(self.steps) - 1, "share": TIMES_SHARE}
        return {"times": known | {"standard_error": evidence.sum_error(1, 1).standard_error}}

    @property
    def wording(self) -> Wording:
        within, names = self.options.within, dict(named("--steps", self.options.steps, ""))
        words = (
            "A user counts once, by the furthest step: it reaches the first by any row that holds "
            "it, and each other by a row later than that of the step before; rows of one moment "
            "are one row, and rows without a time do not count. Where several rows begin, that one "
            "counts from which the user comes farthest, and of several the first."
        )
        if within is not None:
            words += f" All steps lie within {within} of the first."
        if self.bounds:
            words += (
                f" Times are counted beside, at a share of {TIMES_SHARE:g} of the price: a user "
                f"raises a counter for each later step that it reached, at most {len(names) - 1}."
            )
        segments = "A user's segment is that of the first row that holds the first step."
        return Wording(_ERRORS, [words, *[segments] * bool(self.domains)], {"steps": names})

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of who has begun in a segment."""
        error = accuracy.total.standard_error / math.sqrt(self.size[1])
        words = f"begun{' of a segment' * bool(self.domains)} ± {error:.3g}"
        return Forecast(people / self.size[1], error, error, words)


def _step(name: str, text: str, telemetry: inputs.Telemetry) -> View:
    """What must hold of a row of a step.

    Raises:
        RequestError: it is no expression, or does not fit the columns.
    """
    try:
        step = view_of((), [text])
        telemetry.seen(step)
    except RequestError as error:
        raise RequestError(f"--steps: {name}: {str(error).removeprefix('--where: ')}") from None
    return step
