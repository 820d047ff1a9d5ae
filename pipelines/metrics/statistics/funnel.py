"""`funnel`: how many users reach each of several steps, and which share goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.steps import MOST
from mechanisms.postprocess.simplex import project
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.reading import named
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import declared, require_moments
from pipelines.metrics.counting.options import require_bounded, require_pairs
from pipelines.metrics.funnel.options import CONVERSION, TABLE, FunnelOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.active_users import shares
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import value_group, with_labels
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.releases.schema import LABELS
from pipelines.request.spans import seconds_of
from pipelines.views.headline import ONE, STEPS
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.steps import StepEncoder
from transforms.expressions.view import View, ViewError

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

Pair = tuple[int, int]
"""(a step, an earlier one of which it is a share), from 0 on."""
_Figures = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class StepEvidence(Evidence):
    """What is known of the furthest steps of users.

    Attributes:
        counters: (segments, steps) unbiased, each with noise of its own.
        sum_error: how many of them are added up -> how far off that may be.
    """

    counters: Floats
    sum_error: Callable[[int], result.FigureError]

    @property
    def blocks(self) -> list[tuple[Floats, int]]:
        """(counters, of how many segments each is) of everybody, and then of segments."""
        own, many = self.counters, len(self.counters)
        every = own.sum(axis=0, keepdims=True), many
        return [every] if many == 1 else [every, (own, 1)]

    @property
    def fitted(self) -> Floats:
        """(segments, steps) the nearest numbers of users none of which is below 0, of as many."""
        total = max(float(self.counters.sum()), 0.0)
        if not total:
            return np.zeros_like(self.counters)
        return total * project(self.counters.ravel() / total).reshape(self.counters.shape)


def reached_of(counters: Floats) -> NDArray[Any]:
    """(segments, steps) how many users reached each step, whole as such numbers are.

    Sums are rounded, and not what is added up: what is expected of devices' dummies is the same
    part of a one in every counter.
    """
    return np.rint(_behind(counters)).astype(np.int64)


def _behind(counters: Floats) -> Floats:
    return np.asarray(counters[:, ::-1].cumsum(axis=1)[:, ::-1])


@dataclass(frozen=True, kw_only=True)
class Funnel(Statistic):
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
        if not (names := named("--steps", options.steps, "pay=paid > 0")) or len(names) > MOST:
            raise RequestError(f"--steps: 1 to {MOST} steps are needed, and not {len(names)}")
        telemetry = source.open(options, empty=True)
        require_moments(telemetry, options.time)
        steps = tuple((name, _step(name, text, telemetry)) for name, text in names.items())
        funnel = cls(options=options, domains=declared(telemetry, pair), steps=steps)
        if funnel.size[1] << len(steps) > _CODES:
            most = _CODES >> len(steps)
            raise RequestError(f"--groups: of {len(steps)} steps at most {most - 1:,} values")
        return funnel, telemetry

    @property
    def size(self) -> Pair:
        """How many steps, and how many segments, there are."""
        return len(self.steps), self._segments.size

    @property
    def within(self) -> float:
        """How long a funnel may take, in microseconds."""
        return math.inf if self.options.within is None else 1e6 * seconds_of(self.options.within)

    @property
    def workload(self) -> Workload:
        return Workload(math.prod(self.size), shape="steps")

    @property
    def _segments(self) -> GroupEncoder:
        return GroupEncoder(self.domains)

    @property
    def encoder(self) -> StepEncoder:  # type: ignore[override]
        return StepEncoder(self.options.time, tuple(step for _, step in self.steps), self._segments)

    @property
    def heading(self) -> Heading:
        first, last = (self.steps[place][0] for place in (0, -1))
        title = f"{first}{THEN}{last}: users" if len(self.steps) > 1 else f"{first}: users"
        figures = {TABLE: "users"} | ({CONVERSION: "share"} if self._pairs else {})
        headline = {"table": [*figures][-1], "rows": ONE, "picture": STEPS}
        return Heading(title, figures, value_group(self.domains), headline)

    # What is published.

    @property
    def _pairs(self) -> list[Pair]:
        """The shares that are told: of all who began, the last first, and of the step before."""
        last = len(self.steps) - 1
        began = [(step, 0) for step in (last, *range(1, last)) if step]
        return began + [(step, step - 1) for step in range(2, last + 1)]

    def columns(  # type: ignore[override]
        self, evidence: StepEvidence, confidence: float
    ) -> dict[str, Any]:
        size = len(self.steps)

        def figures(counters: Floats, segments: int, confidence: float) -> _Figures:
            errors = [evidence.sum_error(segments * (size - step)) for step in range(size)]
            pairs = zip(reached_of(counters).T, errors, strict=True)
            return [result.columns(*pair, confidence) for pair in pairs]

        known = _together(evidence, size, confidence, figures)
        fitted = _behind(evidence.fitted)
        every = [fitted.sum(axis=0), fitted.ravel()][: len(evidence.blocks)]
        return known | {"fitted": np.concatenate(every)}

    def _shares(self, evidence: StepEvidence) -> dict[str, Any]:
        """Of those who reached a step the shares who came to a later one; null where nobody may."""

        def figures(counters: Floats, segments: int, confidence: float) -> _Figures:
            reached, rows = _behind(counters).T, []
            for pair in self._pairs:
                sizes = (segments * (len(self.steps) - step) for step in pair)
                share = shares(evidence.sum_error, *sizes, *reached[[*pair]], confidence)
                low, high = result.clipped(share.lower, share.upper, share.ratio, 0, 1)
                known = {"estimate": share.ratio, "standard_error": share.error}
                rows.append(known | {"lower": low, "upper": high})
            return rows

        return _together(evidence, len(self._pairs), self.options.confidence, figures)

    def tables(self, evidence: StepEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        names, pairs = [name for name, _ in self.steps], self._pairs
        columns = self.columns(evidence, self.options.confidence)
        tables = {TABLE: self._labelled(names, columns)}
        if pairs:
            texts = [f"{names[whole]}{THEN}{names[part]}" for part, whole in pairs]
            tables[CONVERSION] = self._labelled(texts, self._shares(evidence))
        return tables

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

    @property
    def wording(self) -> Wording:
        within = self.options.within
        words = (
            "A user counts once, by the furthest step: it reaches the first by any row that holds "
            "it, and each other by a row later than that of the step before; rows of one moment "
            "are one row, and rows without a time do not count."
        )
        if within is not None:
            words += (
                f" All steps lie within {within} of the first; where several rows begin, that one "
                "counts from which the user comes farthest."
            )
        segments = "A user's segment is that of the first row that holds the first step."
        request = {"steps": dict(named("--steps", self.options.steps, ""))}
        return Wording(_ERRORS, [words, *[segments] * bool(self.domains)], request)

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        error = accuracy.total.standard_error
        words = f"begun{' of a segment' * bool(self.domains)} ± {error:.3g}"
        return Forecast(people / self._segments.size, error, error, words)


def _together(
    evidence: StepEvidence,
    many: int,
    confidence: float,
    figures: Callable[[Floats, int, float], _Figures],
) -> dict[str, Any]:
    """Column -> all figures, segment by segment, with intervals that hold one by one and together.

    Args:
        evidence: what is known.
        many: how many figures a segment has.
        confidence: of intervals.
        figures: of counters, of how many segments each is, and confidence.
    """
    # Sums of the same counters are not independent: together their risks add up.
    number = many * sum(len(counters) for counters, _ in evidence.blocks)
    parts = []
    for block in evidence.blocks:
        alone, wide = (figures(*block, c) for c in (confidence, 1 - (1 - confidence) / number))
        for one, other in zip(alone, wide, strict=True):
            one |= {f"{end}_simultaneous": other[end] for end in ("lower", "upper")}
        parts.append({name: np.stack([one[name] for one in alone], 1) for name in alone[0]})
    return {name: np.concatenate([part[name].ravel() for part in parts]) for name in parts[0]}


def _step(name: str, text: str, telemetry: inputs.Telemetry) -> View:
    """What must hold of a row of a step.

    Raises:
        RequestError: it is no expression, or does not fit the columns.
    """
    try:
        step = View.read((), [text])
        telemetry.seen(step)
    except ViewError as error:
        raise RequestError(f"--steps: {name}: {error}") from None
    except RequestError as error:
        raise RequestError(f"--steps: {name}: {str(error).removeprefix('--where: ')}") from None
    return step
