"""`experiment`: the effect of a treatment, with intervals that cover chance and noise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from mechanisms.channel import Floats
from mechanisms.counters.arms import ArmTotals
from mechanisms.mean.effects import ArmMeans, arm_means, arm_quantiles, sample_ratio
from mechanisms.mean.looks import Looks
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import of_squares, read_bounds
from pipelines.metrics.counting.design import declared
from pipelines.metrics.experiment.options import TABLE, ExperimentOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import with_labels
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.views.headline import EFFECT, EFFECTS, FIRST
from transforms.columns import is_numeric, value_type
from transforms.encoders.arms import ArmEncoder, ArmOutcome, HashedArms
from transforms.encoders.bins import edges_of
from transforms.encoders.bounds import Bounds

_ERRORS = ErrorTerms(
    "A difference is the mean of an arm less that of the first one, both noisy sums over noisy "
    "counts; a rate is the mean of what is 1 or 0. A lift is the difference in parts of the first "
    "arm's mean, with Fieller's interval. A quantile is that of the units with a number, to within "
    "a bin, and its interval is made of both arms' own. The table says which part of an error is "
    "the noise's.",
    "chance among those who take part, as if they were drawn from many alike, the noise, and "
    "roundings; not what was clipped",
    of=" of a difference, in parts of an outcome's range,",
    divides=True,
)
_UNEVEN = 0.001  # p-value of arms that do not have their shares: rare enough to stop and look
_SEVERAL = 0.01  # of those in one arm: so many in several bias what is compared
_CLEAR = 30  # standard errors: so many units in one arm, and none in another, is no chance
_OF_RATE, _OF_NUMBER, _AWAY = 0.25, 0.16, 0.5  # usual variances, and how far a mean is from 0
_COLUMNS = "--rate, --mean, --total, --quantile, --covariate, --before"


@dataclass(frozen=True, kw_only=True)
class ArmEvidence(Evidence):
    """What is known of a batch; its totals are how many units each cell has.

    Attributes:
        arm_totals: all totals.
        noises: as of `ArmCounters.noises`.
        rounding: the variance that rounding gives a number.
        below_noise: a probability -> as `ArmCounters.below_variances`.
    """

    arm_totals: ArmTotals
    noises: tuple[float, ...]
    rounding: float
    below_noise: Callable[[float], Floats]

    @property
    def errors(self) -> np.ndarray:
        return np.full(self.totals.size, math.sqrt(self.noises[0]))

    def means(self, outcomes: Sequence[ArmOutcome]) -> Iterator[ArmMeans]:  # type: ignore[override]
        """Those of each outcome's figures, in its own units."""
        known, numbers = self.arm_totals, len(self.arm_totals.totals)
        rates = numbers - len(known.squares)
        for place, outcome in enumerate(outcomes):
            if outcome.bounds is None:
                yield arm_means(known.units, known.totals[place], None, self.noises)
                continue
            if outcome.levels:
                below = known.below[place - numbers]
                edges = edges_of(outcome.bounds, below.shape[1] - 1)
                for p in outcome.levels:
                    yield arm_quantiles(below, p, edges, self.below_noise(p))
                continue
            noises, squares = (self.noises[0], *self.noises[-2:]), known.squares[place - rates]
            means = arm_means(known.units, known.totals[place], squares, noises, self.rounding)
            yield means.scaled(outcome.bounds.unscale(0), outcome.bounds.half)

    @property
    def units(self) -> tuple[np.ndarray, float]:
        """((arms,) how many units there are, the variance of the noise of each)."""
        return self.arm_totals.units.sum(axis=1), self.arm_totals.units.shape[1] * self.noises[0]


@dataclass(frozen=True, kw_only=True)
class Experiment(Statistic):
    """Differences of rates and means between arms.

    Attributes:
        arm_encoder: of rows.
        arms: what they are called, the one first that others are compared with.
        shares: of all units, of each arm.
        outcomes: rates, then numbers, then those of which quantiles are compared.
        edges: of the bins of the covariate; none without one.
    """

    kind = "experiment"

    options: ExperimentOptions
    arm_encoder: ArmEncoder
    arms: tuple[str, ...]
    shares: tuple[float, ...]
    outcomes: tuple[ArmOutcome, ...]
    edges: tuple[float, ...]

    @classmethod
    def read(
        cls, options: ExperimentOptions, source: inputs.Source
    ) -> tuple[Experiment, inputs.Telemetry]:
        _require_sense(options)
        telemetry = source.open(options, empty=True)
        names = tuple(name.strip() for name in options.arms.split(","))
        if not (len({*names}) == len(names) >= 2 and all(names)):
            raise RequestError("--arms: name two or more, as in control,treatment")
        shares, outcomes = _shares(options.shares, len(names)), tuple(_outcomes(options))
        covariate, edges = _covariate(options.covariate)
        columns = (*covariate, *(one.column for one in outcomes))
        levelled = [one.column for one in outcomes if one.levels]
        others = [one.column for one in outcomes if not one.levels]
        known = () if options.before else covariate  # of other rows it may be an outcome
        if any(len({*own}) < len(own) for own in ((*known, *others), (*known, *levelled))):
            raise RequestError(f"{_COLUMNS}: name each column once, and once among --quantile")
        before = (options.before,) if options.before else ()
        for column in (*columns, *before):
            kind = telemetry.column_type(column, _COLUMNS)
            if not (telemetry.unseen or is_numeric(kind) or pa.types.is_boolean(value_type(kind))):
                why = f"{column!r} holds {kind}; numbers or booleans are needed"
                raise RequestError(f"{_COLUMNS}: {why}{telemetry.hint(column)}")
        if options.salt is not None:
            drawn = HashedArms(options.salt, shares)
            encoder = ArmEncoder(str(options.user_column), drawn, columns, options.before)
        else:
            pair = ("--arm", options.arm, "--arms", json.dumps(names))
            encoder = ArmEncoder(*declared(telemetry, pair)[0], columns, options.before)
        return cls(
            options=options, arm_encoder=encoder, arms=names, shares=shares, outcomes=outcomes,
            edges=edges,
        ), telemetry  # fmt: skip

    @property
    def workload(self) -> Workload:
        return Workload(len(self.arms), people="groups", shape="arms")

    @property
    def encoder(self) -> ArmEncoder:  # type: ignore[override]
        return self.arm_encoder

    @property
    def heading(self) -> Heading:
        outcomes = ", ".join([*dict.fromkeys(one.column for one in self.outcomes)][:3])
        title = f"{outcomes}: effect of {', '.join(self.arms[1:])}"
        headline = {"table": TABLE, "rows": FIRST, "picture": EFFECTS}
        return Heading(title, {TABLE: EFFECT}, {"group": "arm", "value": "outcome"}, headline)

    @property
    def wording(self) -> Wording:
        unit, options = self.options.unit, self.options
        rows = (
            "All rows of a user in its arm count together: any of them for a rate, their average "
            "for a mean, what they add up to for a total. A user whose rows name several arms "
            "counts in none of them. "
        ) * (unit == "user")
        if options.before:
            rows += "The price covers rows of before the start, too: bins are made of these. "
        looks = "one look: whoever looks again until something shows needs --looks"
        if options.always_valid:
            looks = "any number of looks, each with the next --look, whatever the reason to stop"
        elif options.looks > 1:
            looks = f"all {options.looks} planned looks together, of which this is {options.look}"
        words = (
            f"{rows}Rows of no declared arm count for nothing. A number that is missing counts as "
            "0; all are clipped to their bounds. Arms are compared as if they had been drawn at "
            f"random, for each {unit} by itself. Intervals hold for {looks}."
        )
        return Wording(_ERRORS, [words])

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of the difference between the smallest arm and the first, of the first outcome."""
        rate = self.outcomes[0].how in ("rate", "quantile")  # of numbers that lie evenly
        n = [people * share for share in (self.shares[0], min(self.shares[1:]))]
        per_total = accuracy.noise**2 + (_AWAY * accuracy.people) ** 2
        noise = (1.0 if rate else 0.5) * math.sqrt(sum(per_total / one**2 for one in n))
        chance = (_OF_RATE if rate else _OF_NUMBER / 4) * sum(1 / one for one in n)
        error = math.hypot(noise, math.sqrt(chance))
        words = f"difference ± {error:.2g} of the range"
        return Forecast(1.0, noise, error, words, of=f"{people:,}")

    def statement(self, evidence: ArmEvidence) -> dict[str, Any]:  # type: ignore[override]
        (units, noise), of_one = evidence.units, math.sqrt(evidence.noises[0])
        error = math.sqrt(units.size * noise)
        several = {"estimate": evidence.arm_totals.several, "standard_error": of_one}
        ratio = {
            "declared": dict(zip(self.arms, self.shares, strict=True)),
            f"{self.options.unit}s": dict(zip(self.arms, units.tolist(), strict=True)),
            "standard_error": math.sqrt(noise), "p_value": self._ratio(evidence),
        }  # fmt: skip
        took_part = {"estimate": max(float(units.sum()), 0.0), "standard_error": error}
        return {"took_part": took_part, "sample_ratio": ratio, "in_several_arms": several}

    def _ratio(self, evidence: ArmEvidence) -> float:
        units, noise = evidence.units
        return sample_ratio(units, self.shares, noise)

    def cautions(self, evidence: ArmEvidence) -> Sequence[str]:  # type: ignore[override]
        p_value, unit = self._ratio(evidence), self.options.unit
        said = f"= {p_value:.1g}" if p_value > 0 else "< 1e-300"  # too small for a double
        several, known = evidence.arm_totals.several, 3 * math.sqrt(evidence.noises[0])
        lost = several - known > _SEVERAL * float(evidence.units[0].sum())
        missing = self._missing(evidence)
        cautions = {
            f"about {several:,.0f} {unit}s, give or take {known:,.0f}, have rows of several arms "
            "and count in none: find out why, and use --where for rows after the start": lost,
            f"arms do not have the declared shares of the {unit}s (p {said}, "
            "noise included): some were lost, or drawn otherwise, and that may make the "
            "differences; find out why before you read them, or say other --shares": p_value
            < _UNEVEN,
            f"no more {unit}s than noise in arm {', '.join(map(repr, missing))}: does --arms spell "
            "it as the column does?": bool(missing),
        }
        return [line for line, applies in cautions.items() if applies]

    def _missing(self, evidence: ArmEvidence) -> list[str]:
        """Arms that nobody seems to be in, beside one with many; told by noisy counts alone."""
        units, noise = evidence.units
        if self.options.salt is not None or not units.max() > _CLEAR * math.sqrt(noise):
            return []
        return [self.arms[place] for place in np.flatnonzero(units < 3 * math.sqrt(noise))]

    def tables(self, evidence: ArmEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        return {TABLE: with_labels({}, self.columns(evidence, self.options.confidence))}

    def columns(self, evidence: ArmEvidence, confidence: float) -> dict[str, Any]:  # type: ignore[override]
        alone, arms = 1 - confidence, range(1, len(self.arms))
        figures = [(one.how, name) for one in self.outcomes for name in one.figures]
        risks = alone, alone / (len(figures) * len(arms))  # Bonferroni
        rows = [
            {"group": self.arms[arm], "value": name}
            | self._effect(means, arm, risks, float(evidence.units[0].sum()))
            | {"outcome_kind": how, "compared_with": self.arms[0]}
            for (how, name), means in zip(figures, evidence.means(self.outcomes), strict=True)
            for arm in arms
        ]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _effect(
        self, means: ArmMeans, arm: int, risks: tuple[float, float], people: float
    ) -> dict[str, Any]:
        """The figures of an arm beside the first."""
        effect, options = float(means.mean[arm] - means.mean[0]), self.options
        chance, noise = (float(part[[0, arm]].sum()) for part in (means.sampling, means.noise))
        looks, error = Looks(options.looks, options.look, options.always_valid), chance + noise
        part = max(people / options.usual, 1e-9)
        far = [looks.half(risk, chance, noise, part) / math.sqrt(error) for risk in risks]
        (below, above), (under, over) = (means.reach(arm, one) for one in far)
        errors = np.sqrt(means.sampling + means.noise)
        lift, least, most = means.lift(arm, far[1])
        towards = below if effect > 0 else above
        p_value = float(f"{2 * ndtr(-far[0] * abs(effect) / max(towards, 1e-300)):.3g}")
        return {
            "estimate": effect, "standard_error": math.sqrt(error),
            "lower": effect - below, "upper": effect + above,
            "lower_simultaneous": effect - under, "upper_simultaneous": effect + over,
            "lift": lift, "lift_lower": least, "lift_upper": most,
            "first_mean": float(means.mean[0]), "first_mean_standard_error": float(errors[0]),
            "own_mean": float(means.mean[arm]), "own_mean_standard_error": float(errors[arm]),
            "p_value": p_value if looks == Looks() else math.nan,  # of one look alone
            "noise_standard_error": math.sqrt(noise),
            "beyond_chance": not -over <= effect <= under and math.isfinite(effect),
        }  # fmt: skip


def _require_sense(options: ExperimentOptions) -> None:
    """Refuse options that do not go together."""
    salted, always = options.salt is not None, options.always_valid
    refusals = {
        "--arm, --salt: name the column that says the arm, or the salt by which users' ids draw "
        "it, and not both": salted == (options.arm is not None),
        "--salt: draws a user's arm: name the --user-column": salted and not options.user_column,
        "--before: is of users' rows: name the --user-column and the --covariate": bool(
            options.before
        )
        > bool(options.user_column and options.covariate),
        "--rows-per-user: all rows of a user count here: leave it out": options.rows_per_user != 1,
        "--looks: means nothing beside --always-valid: leave it out": always and options.looks > 1,
        "--expected is missing: say for how many users intervals are to be narrowest": always
        and options.expected is None,
        "--look: is beyond the --looks that are planned: say how many are": not always
        and options.look > options.looks,
    }
    for why, wrong in refusals.items():
        if wrong:
            raise RequestError(why)


def _numbers(text: str) -> list[float]:
    """Those of a text, commas between; none of a text that holds anything else."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


def _shares(text: str | None, arms: int) -> tuple[float, ...]:
    """The shares of all units that arms are to have."""
    parts = [1.0] * arms if text is None else _numbers(text)
    if not (len(parts) == arms and all(0 < part < 1e100 for part in parts)):
        raise RequestError(f"--shares: {arms} numbers above 0 are needed, one an arm, as in 9,1")
    return tuple(part / sum(parts) for part in parts)


def _outcomes(options: ExperimentOptions) -> Iterator[ArmOutcome]:
    """Rates, then numbers."""
    if not (options.rate or options.mean or options.total or options.quantile):
        names = "--rate, --mean, --total, --quantile"
        raise RequestError(f"{names}: name an outcome, as in --rate bought")
    yield from (ArmOutcome(column, "rate") for column in options.rate)
    for how, texts in (("mean", options.mean), ("total", options.total)):
        for column, _, limits in (text.rpartition("=") for text in texts):
            if not column:
                raise RequestError(f"--{how}: a column and its bounds, as in seconds=0,600")
            bounds = _bounds(how, column, limits)
            yield ArmOutcome(column, how, bounds)  # type: ignore[arg-type]
    for text in options.quantile:
        limits, _, levels = text.rpartition("@")
        column, _, limits = limits.rpartition("=")
        probabilities = _numbers(levels)
        if not (column and probabilities and all(0 < p < 1 for p in probabilities)):
            raise RequestError(
                "--quantile: bounds and probabilities, as in latency=0,2000@0.5,0.95"
            )
        bounds = _bounds("quantile", column, limits)
        yield ArmOutcome(column, "quantile", bounds, tuple(dict.fromkeys(probabilities)))


def _bounds(how: str, column: str, limits: str) -> Bounds:
    """Those of an outcome."""
    try:
        return of_squares(read_bounds(limits))
    except RequestError as error:
        raise RequestError(str(error).replace("--bounds", f"--{how} {column}", 1)) from None


def _covariate(text: str | None) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The column and the edges of its bins, if one is named."""
    column, _, limits = (text or "").rpartition("=")
    edges = _numbers(limits)
    if text and not (column and edges and all(low < high for low, high in pairwise(edges))):
        raise RequestError("--covariate: a column, and rising numbers to cut at: spend=0,10,50")
    return (column,) * bool(text), tuple(edges)
