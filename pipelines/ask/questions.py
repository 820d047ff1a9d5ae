"""What can be asked, how it is answered from exact numbers, and what answers tell together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from mechanisms.central.exponential import ExponentialMechanism, FirstAbove
from mechanisms.channel import Counts, Floats
from mechanisms.counters.amounts import Ends
from mechanisms.mean.fieller import quotients
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.privacy.gaussian_filter import gaussian_of_range, range_of_gaussian
from mechanisms.randomness import RandomSource
from mechanisms.sampling.rounded_normal import RoundedNormal
from pipelines.errors import RequestError, reason
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.exactly import names

_LARGEST = float(1 << 52)  # whole numbers up to it are exact in doubles: totals are clipped there
_SURE = 0.95


@dataclass(frozen=True)
class Question(ABC):
    """Something that is asked of a log.

    Attributes:
        metric: the release whose exact numbers tell.
        request: in words of its options, as a statement shows them.
    """

    how: ClassVar[str]

    metric: ByCounters
    request: Mapping[str, Any]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the answer is about: the values of a column, or "all"."""
        return names(self.metric)

    @property
    def units_raised(self) -> tuple[int, int]:
        """(how many numbers a unit changes, by how much each) at the most."""
        amounts = self.metric.reporting.amounts
        return amounts.most_groups, amounts.most

    @abstractmethod
    def mechanism(self, mu: float) -> Any:
        """What is drawn from, to reveal no more than a Gaussian mechanism of that mu."""

    @abstractmethod
    def mu(self, mechanism: Any) -> float:
        """The same the other way round: of any of these, by how much a unit changes the log."""

    def answer(self, levels: Sequence[Floats], mechanism: Any, rng: RandomSource) -> dict[str, Any]:
        """What is told.

        Args:
            levels: what a job has counted, exactly.
            mechanism: of `mechanism`.
            rng: the generator of this process.
        """
        amounts = self.metric.reporting.amounts
        return self.drawn(_whole(amounts.estimate(levels)), levels, mechanism, rng)

    @abstractmethod
    def drawn(
        self, exact: Counts, levels: Sequence[Floats], mechanism: Any, rng: RandomSource
    ) -> dict[str, Any]:
        """The same, of (groups,) totals."""

    @abstractmethod
    def distance(self, mu: float) -> float:
        """How far its sampler is from what it is priced as, in total variation."""

    @property
    def norm(self) -> float:
        """By how much a unit changes the totals, at the most (Euclidean)."""
        changed, most = self.units_raised
        return most * math.sqrt(changed)

    def worse(self, mu: float) -> bool:
        """Whether a count of each value would tell the same at that price, and more surely."""
        return False


@dataclass(frozen=True)
class FiguresQuestion(Question):
    """Counts or sums, each with Gaussian noise.

    A unit changes k of them by b at the most, so the noise of each is sqrt(k) b / mu.
    """

    how = "Gaussian noise, rounded to whole numbers"

    @property
    def numbers(self) -> int:
        """How many numbers get noise."""
        return len(self.names)

    def mechanism(self, mu: float) -> RoundedNormal:
        """The noise of each number."""
        return RoundedNormal(self.norm / mu * (1 + 1e-12))

    def mu(self, mechanism: RoundedNormal) -> float:
        return self.norm / mechanism.sigma

    def distance(self, mu: float) -> float:
        return self.numbers * self.mechanism(mu).farthest

    def drawn(
        self, exact: Counts, levels: Sequence[Floats], mechanism: RoundedNormal, rng: RandomSource
    ) -> dict[str, Any]:
        noisy, variance = exact + mechanism.draw(exact.size, rng), mechanism.sigma**2 + 1 / 12
        return {"noisy": noisy.tolist(), "variance": variance, "scale": self.scale}

    @property
    def scale(self) -> dict[str, float]:
        """What a number is in the words of the question, and what rounding adds to its variance."""
        return {"unit": 1.0, "rounding": 0.0}


@dataclass(frozen=True)
class Sums(FiguresQuestion):
    """Sums of clipped numbers."""

    @property
    def scale(self) -> dict[str, float]:
        total = self.metric.accuracy.total
        return {"unit": self.metric.worth, "rounding": (total.rounding / total.unit) ** 2}


@dataclass(frozen=True)
class Means(FiguresQuestion):
    """Sums from the middle of the bounds, and how many have a number: of k groups of each unit.

    In halves of the range a unit moves a sum by 1 and a count by 1, at the most.
    """

    @property
    def numbers(self) -> int:
        return 2 * len(self.names)

    @property
    def norm(self) -> float:
        return math.sqrt(2) * super().norm

    def drawn(
        self, exact: Counts, levels: Sequence[Floats], mechanism: RoundedNormal, rng: RandomSource
    ) -> dict[str, Any]:
        people = _whole(cast(Ends, self.metric.reporting.amounts).number(levels))
        return super().drawn(np.concatenate([exact, people]), levels, mechanism, rng)

    @property
    def scale(self) -> dict[str, float]:
        bounds, most = self.metric.statistic.bounds, self.units_raised[1]
        rounding = self.metric.accuracy.rounding(self.metric.expected)
        return {
            "low": bounds.low, "half": bounds.half, "people": most,
            "rounding": float(rounding * most) ** 2,
        }  # fmt: skip


@dataclass(frozen=True)
class SelectionQuestion(Question):
    """The name of a value, of those that are declared; never how many have it.

    Scores are counts, which a unit moves one way alone, by b at the most.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        return names(self.metric)[:-1]  # the last is of all other rows

    def drawn(
        self, exact: Counts, levels: Sequence[Floats], mechanism: Any, rng: RandomSource
    ) -> dict[str, Any]:
        place = self.selected(exact[: len(self.names)], mechanism, rng)
        return {"value": None if place is None else self.names[place], **self.terms(mechanism)}

    def mu(self, mechanism: Any) -> float:
        # Its losses span as many times more as a unit moves counts farther than it says.
        apart = self.units_raised[1] / mechanism.sensitivity
        return gaussian_of_range(apart * self.span(mechanism))

    @abstractmethod
    def span(self, mechanism: Any) -> float:
        """Of the losses of a unit that moves counts by its sensitivity."""

    @abstractmethod
    def selected(self, exact: Counts, mechanism: Any, rng: RandomSource) -> int | None:
        """Which value; None if none is."""

    @abstractmethod
    def terms(self, mechanism: Any) -> dict[str, float]:
        """How far the answer may be off."""


@dataclass(frozen=True)
class MostCommon(SelectionQuestion):
    """The value that most have, by the exponential mechanism.

    Where all scores move one way, its losses span half its epsilon.
    """

    how = "exponential mechanism (McSherry, Talwar 2007, Theorem 6), of counts that move one way"

    def mechanism(self, mu: float) -> ExponentialMechanism:
        most = self.units_raised[1]
        return ExponentialMechanism(2 * range_of_gaussian(mu), sensitivity=most, resolution=most)

    def span(self, mechanism: ExponentialMechanism) -> float:
        return mechanism.epsilon / 2

    def selected(self, exact: Counts, mechanism: ExponentialMechanism, rng: RandomSource) -> int:
        return int(mechanism.select(exact, rng)[0])

    def distance(self, mu: float) -> float:
        _ = self.mechanism(mu).weights(np.zeros(len(self.names)))  # refuses what 64 bits cannot
        return 0.0

    def terms(self, mechanism: ExponentialMechanism) -> dict[str, float]:
        # Each worse one is chosen with e^(-span gap / b) of the best one's probability, or less.
        gap = mechanism.sensitivity / self.span(mechanism)
        return {"within": gap * math.log(len(self.names) / (1 - _SURE)), "confidence": _SURE}

    def worse(self, mu: float) -> bool:
        # Between two counts there are two noises.
        apart = math.sqrt(2) * self.norm / mu * normal_quantile(_SURE, len(self.names))
        return apart < self.terms(self.mechanism(mu))["within"]


@dataclass(frozen=True)
class First(SelectionQuestion):
    """The first value that more than a threshold have, by the sparse vector.

    Attributes:
        threshold: public.
    """

    how = "sparse vector (Lyu, Su, Li 2017, Algorithm 1), of counts that move one way"

    threshold: int = 0

    def mechanism(self, mu: float) -> FirstAbove:
        return FirstAbove(range_of_gaussian(mu), self.units_raised[1])

    def span(self, mechanism: FirstAbove) -> float:
        return mechanism.span

    def selected(self, exact: Counts, mechanism: FirstAbove, rng: RandomSource) -> int | None:
        # Above is at least one more.
        return mechanism.choose(exact, self.threshold + 1, rng)

    def distance(self, mu: float) -> float:
        return self.mechanism(mu).distance(len(self.names))

    def terms(self, mechanism: FirstAbove) -> dict[str, float]:
        error = mechanism.standard_error
        return {"threshold": self.threshold, "standard_error": error}

    def worse(self, mu: float) -> bool:
        return self.norm / mu < self.terms(self.mechanism(mu))["standard_error"]


def question(kind: str, metric: ByCounters, request: Mapping[str, Any], threshold: int) -> Question:
    """What is asked, of the exact numbers of a release."""
    if kind == "first-above":
        return First(metric, {**request, "threshold": threshold}, threshold)
    kinds: dict[str, type[Question]] = {"most-common": MostCommon, "sum": Sums, "mean": Means}
    return kinds.get(kind, FiguresQuestion)(metric, request)


def distance(question: Question, mu: float) -> float:
    """`Question.distance`, or why there is no answer at such a price.

    Raises:
        RequestError: the noise would leave the range of its tables.
    """
    try:
        return question.distance(mu)
    except ValueError as error:
        raise RequestError(f"--share: {reason(error)}: take a larger share") from None


def rows(answers: Sequence[Mapping[str, Any]], confidence: float) -> list[dict[str, Any]]:
    """What answers to one question tell together.

    Args:
        answers: as they are kept, of one question, in their order.
        confidence: of intervals, each of which holds alone.

    Returns:
        A figure each, combined with the inverses of their variances; or the value that was told
        last.
    """
    last = answers[-1]["answer"]
    if "noisy" not in last:
        return [last]
    parts_of_answers = [_in_units(answer["answer"]) for answer in answers]
    weights = np.array([1 / variance for _, variance, _ in parts_of_answers])
    parts = weights / weights.sum()
    noisy = parts @ np.array([numbers for numbers, _, _ in parts_of_answers])
    variance, scale = 1 / weights.sum(), last["scale"]
    # Each answer has rounded numbers anew.
    error = math.sqrt(
        variance + float(parts**2 @ [rounding for _, _, rounding in parts_of_answers])
    )
    of = answers[-1]["names"]
    far = normal_quantile(confidence)
    if "people" in scale:
        sums, people = noisy.reshape(2, -1)
        mean = quotients(sums, people, error, math.sqrt(variance), far)
        estimates = {
            "estimate": np.clip(mean.ratio, -1, 1),
            "lower": mean.lower,
            "upper": mean.upper,
        }
        columns = {name: scale["low"] + (x + 1) * scale["half"] for name, x in estimates.items()}
        columns |= {"standard_error": mean.error * scale["half"], "count": people}
    else:
        columns = {
            "estimate": noisy, "standard_error": np.full_like(noisy, error),
            "lower": noisy - far * error, "upper": noisy + far * error,
        }  # fmt: skip
    lists = {name: np.asarray(column).tolist() for name, column in columns.items()}
    return [
        {"of": name} | {key: column[place] for key, column in lists.items()}
        for place, name in enumerate(of)
    ]


def _in_units(answer: Mapping[str, Any]) -> tuple[Floats, float, float]:
    """Numbers in the words of their question, with the variances of noise and of rounding.

    Two answers may have been told in different units: these follow from what was expected.
    """
    scale = answer["scale"]
    unit = 1 / scale["people"] if "people" in scale else scale["unit"]
    numbers = unit * np.array(answer["noisy"], float)
    return numbers, unit**2 * answer["variance"], unit**2 * scale["rounding"]


def _whole(totals: Floats) -> Counts:
    """Totals as integers; clipped, by which none moves farther than before."""
    return np.rint(np.clip(totals, -_LARGEST, _LARGEST)).astype(np.int64)
