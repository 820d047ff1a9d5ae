"""`experiment`: the effect of a treatment, with intervals that cover chance and noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.counters.arms import ArmTotals
from mechanisms.mean.effects import ArmMeans, Noise, arm_means, sample_ratio
from mechanisms.mean.looks import ErrorParts, Looks
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import read_bounds
from pipelines.metrics.counting.design import declared
from pipelines.metrics.experiment.options import ARMS, TABLE, ExperimentOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import with_labels
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.views.headline import EFFECT, EFFECTS
from transforms.columns import is_numeric, value_type
from transforms.encoders.arms import ArmEncoder, HashedArms, Outcome

_ERRORS = ErrorTerms(
    "A difference is the mean of an arm less that of the first one, both noisy sums over noisy "
    "counts; a rate is the mean of what is 1 or 0. A lift is the difference in parts of the first "
    "arm's mean, with Fieller's interval.",
    "chance among {unit}s, as if those of the log were drawn from many alike, the noise, and "
    "roundings; not what was clipped",
    of=" of a difference, in parts of an outcome's range,",
    divides=True,
)
_UNEVEN = 0.001  # p-value of arms that do not have their shares: rare enough to stop and look
_ODDS, _SCATTER, _AWAY = 0.25, 0.16, 0.5  # usual variances: a rate's, a number's; and its middle
_WHEN = "Intervals hold for {}."


@dataclass(frozen=True, kw_only=True)
class ArmEvidence(Evidence):
    """What is known of a batch; its totals are how many units each arm has, by bins.

    Attributes:
        found: all totals.
        noises: of each level of counters, in the units of these.
        rounding: the variance that rounding gives a number.
    """

    found: ArmTotals
    noises: tuple[Noise, ...]
    rounding: float

    @cached_property
    def outcomes(self) -> list[ArmMeans]:
        """Rates first, then numbers on the scale of [-1, 1]."""
        found, numbers = self.found, len(self.found.squares)
        rates = len(found.totals) - numbers
        means = []
        for place, totals in enumerate(found.totals):
            number = place - rates
            of = self.noises[:2] if number < 0 else (self.noises[0], *self.noises[-2:])
            squares = None if number < 0 else found.squares[number]
            means.append(arm_means(found.units, totals, squares, of, self.rounding))
        return means

    @property
    def units(self) -> tuple[np.ndarray, float]:
        """((arms,) how many units there are, the variance of the noise of each)."""
        bins = self.found.units.shape[1]
        return self.found.units.sum(axis=1), bins * self.noises[0].variance


@dataclass(frozen=True, kw_only=True)
class Experiment(Statistic):
    """Differences of rates and means between arms.

    Attributes:
        arm_encoder: of rows.
        arms: what they are called, the one first that others are compared with.
        shares: of all units, of each arm.
        outcomes: rates, then numbers.
        edges: of the bins of the covariate; none without one.
    """

    kind = "experiment"

    options: ExperimentOptions
    arm_encoder: ArmEncoder
    arms: tuple[str, ...]
    shares: tuple[float, ...]
    outcomes: tuple[Outcome, ...]
    edges: tuple[float, ...]

    @classmethod
    def read(
        cls, options: ExperimentOptions, source: inputs.Source
    ) -> tuple[Experiment, inputs.Telemetry]:
        _require_sense(options)
        telemetry = source.open(options, empty=True)
        names = [name.strip() for name in options.arms.split(",")]
        if not (len(names) >= 2 and all(names) and len({*names}) == len(names)):
            raise RequestError("--arms: name two or more, as in control,treatment")
        shares = _shares(options.shares, len(names))
        outcomes = tuple(_outcomes(options))
        covariate, edges = _covariate(options.covariate)
        columns = (*covariate, *(one.column for one in outcomes))
        if len({*columns}) < len(columns):
            raise RequestError("--rate, --mean, --total, --covariate: name each column once")
        for column in columns:
            kind = telemetry.column_type(column, "--rate, --mean, --total, --covariate")
            if not (telemetry.unseen or is_numeric(kind) or pa.types.is_boolean(value_type(kind))):
                raise RequestError(
                    f"--rate, --mean, --total, --covariate: {column!r} holds {kind}; numbers or "
                    f"booleans are needed{telemetry.hint(column)}"
                )
        if options.salt is not None:
            drawn = HashedArms(options.salt, shares)
            encoder = ArmEncoder(str(options.user_column), drawn, columns)
        else:
            whole = pa.types.is_integer(
                value_type(telemetry.column_type(str(options.arm), "--arm"))
            )
            values: list[Any] = [int(x) if whole and x.isdecimal() else x for x in names]
            pair = ("--arm", options.arm, "--arms", json.dumps(values))
            [(column, domain)] = declared(telemetry, pair)
            encoder = ArmEncoder(column, domain, columns)
        return cls(
            options=options, arm_encoder=encoder, arms=tuple(names), shares=shares,
            outcomes=outcomes, edges=edges,
        ), telemetry  # fmt: skip

    @property
    def workload(self) -> Workload:
        return Workload(len(self.arms), people="groups", shape="arms")

    @property
    def encoder(self) -> ArmEncoder:  # type: ignore[override]
        return self.arm_encoder

    @property
    def looks(self) -> Looks:
        """How often it is looked at."""
        return Looks(self.options.looks, self.options.look, self.options.always_valid)

    # What is said of it.

    @property
    def heading(self) -> Heading:
        outcomes = ", ".join(one.column for one in self.outcomes[:3])
        more = ", ..." * (len(self.outcomes) > 3)
        title = f"{outcomes}{more}: effect of {', '.join(self.arms[1:])}"
        labels = {"group": "arm", "value": "outcome"}
        headline = {"table": TABLE, "rows": "first", "picture": EFFECTS}
        return Heading(title, {TABLE: EFFECT, ARMS: "mean"}, labels, headline)

    @property
    def wording(self) -> Wording:
        unit, options = self.options.unit, self.options
        rows = (
            f"All rows of a {unit} in its arm count together: any of them for a rate, their "
            "average for a mean, what they add up to for a total, clipped to bounds. A user whose "
            "rows name several arms counts in none of them. "
        ) * (unit == "user")
        looks = "one look; who looks again and again until something is beyond "
        looks += "chance needs --looks or --always-valid"
        if options.always_valid:
            looks = "any number of looks, each with the next --look, whatever the reason to stop"
        elif options.looks > 1:
            looks = (
                f"all of {options.looks} planned looks together, of which this is {options.look}"
            )
        words = (
            f"{rows}Rows of no declared arm count for nothing. A number that is missing counts as "
            "0, within its bounds. Arms are compared as if they had been drawn at random, each "
            f"{unit} for itself. {_WHEN.format(looks)}"
        )
        return Wording(_ERRORS._replace(covers=_ERRORS.covers.format(unit=unit)), [words])

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a difference to the first arm, of the smallest other one."""
        rates = self.outcomes[0].how == "rate"
        variance, scale = (_ODDS, 1.0) if rates else (_SCATTER, 0.5)
        others = accuracy.people
        noise = accuracy.total.sigma * accuracy.total.unit
        n = [people * share for share in (self.shares[0], min(self.shares[1:]))]
        of_noise = sum((noise**2 + (_AWAY * others) ** 2) / one**2 for one in n)
        of_chance = sum(variance / one for one in n)
        noise, error = scale * math.sqrt(of_noise), scale * math.sqrt(of_noise + of_chance)
        return Forecast(1.0, noise, error, f"difference ± {error:.2g} of the range, of {people:,}")

    def statement(self, evidence: ArmEvidence) -> dict[str, Any]:  # type: ignore[override]
        units, noise = evidence.units
        every = {"estimate": float(units.sum()), "standard_error": math.sqrt(units.size * noise)}
        counts = dict(zip(self.arms, units.tolist(), strict=True))
        return {
            "took_part": every,
            "sample_ratio": {
                "declared": dict(zip(self.arms, self.shares, strict=True)),
                f"{self.options.unit}s": counts,
                "standard_error": math.sqrt(noise),
                "p_value": self._ratio(evidence),
            },
            "in_several_arms": {
                "estimate": evidence.found.several,
                "standard_error": math.sqrt(evidence.noises[0].variance),
            },
        }

    def _ratio(self, evidence: ArmEvidence) -> float:
        units, noise = evidence.units
        return sample_ratio(units, self.shares, noise)

    def cautions(self, evidence: ArmEvidence) -> Sequence[str]:  # type: ignore[override]
        p_value = self._ratio(evidence)
        if not p_value < _UNEVEN:
            return ()
        return (
            f"arms do not have the declared shares of the {self.options.unit}s (p = {p_value:.1g} "
            "with noise): some were lost, or drawn otherwise, so that differences may be theirs; "
            "find out why before they are read, or say other --shares",
        )

    # What is published.

    def tables(self, evidence: ArmEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        confidence = float(self.options.confidence)
        effects = self.columns(evidence, confidence)
        return {TABLE: with_labels({}, effects), ARMS: with_labels({}, self._arms(evidence))}

    def _scaled(self, evidence: ArmEvidence) -> Iterator[tuple[Outcome, ArmMeans]]:
        """Each outcome in its own units."""
        for outcome, means in zip(self.outcomes, evidence.outcomes, strict=True):
            bounds = outcome.bounds
            yield outcome, means if bounds is None else means.scaled(bounds.unscale(0), bounds.half)

    def columns(self, evidence: ArmEvidence, confidence: float) -> dict[str, Any]:  # type: ignore[override]
        risk = 1 - confidence
        together = risk / (len(self.outcomes) * (len(self.arms) - 1))  # Bonferroni
        rows = [
            self._effect(outcome, means, arm, (risk, together), evidence)
            for outcome, means in self._scaled(evidence)
            for arm in range(1, len(self.arms))
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _effect(
        self,
        outcome: Outcome,
        means: ArmMeans,
        arm: int,
        risks: tuple[float, float],
        evidence: ArmEvidence,
    ) -> dict[str, Any]:
        """One row: an arm beside the first."""
        effect, error = float(means.mean[arm] - means.mean[0]), means.error(0, arm)
        part = float(evidence.units[0].sum()) / self.options.usual
        half, wide = (self.looks.half(risk, error, max(part, 1e-9)) for risk in risks)
        lift, least, most = means.lift(arm, half / error.standard_error)
        once = self.looks == Looks()
        return {
            "group": self.arms[arm], "value": outcome.column,
            "estimate": effect, "standard_error": error.standard_error,
            "lower": effect - half, "upper": effect + half,
            "lower_simultaneous": effect - wide, "upper_simultaneous": effect + wide,
            "lift": lift,
            "lift_lower": least if math.isfinite(least) else math.nan,
            "lift_upper": most if math.isfinite(most) else math.nan,
            "p_value": _p_value(error, effect) if once else math.nan,
            "noise_standard_error": math.sqrt(error.noise),
            "beyond_chance": abs(effect) > wide,
            "outcome_kind": outcome.how, "compared_with": self.arms[0],
        }  # fmt: skip

    def _arms(self, evidence: ArmEvidence) -> Mapping[str, Any]:
        """Each outcome of each arm, looked at once."""
        unit, (units, noise) = f"{self.options.unit}s", evidence.units
        rows = []
        for outcome, means in self._scaled(evidence):
            for arm, name in enumerate(self.arms):
                mean, error = float(means.mean[arm]), means.error(arm)
                half = Looks().half(1 - float(self.options.confidence), error)
                rows.append({
                    "group": name, "value": outcome.column, "estimate": mean,
                    "standard_error": error.standard_error, "lower": mean - half,
                    "upper": mean + half, "noise_standard_error": math.sqrt(error.noise),
                    unit: float(units[arm]), f"{unit}_standard_error": math.sqrt(noise),
                })  # fmt: skip
        return {name: [row[name] for row in rows] for name in rows[0]}


def _p_value(error: ErrorParts, effect: float) -> float:
    return error.p_value(effect) if math.isfinite(effect) else math.nan


def _require_sense(options: ExperimentOptions) -> None:
    """Refuse options that do not go together.

    Raises:
        RequestError: with what to do.
    """
    if (options.arm is None) == (options.salt is None):
        raise RequestError(
            "--arm, --salt: name the column that says the arm, or the salt by which users' ids "
            "draw it, and not both"
        )
    if options.salt is not None and options.user_column is None:
        raise RequestError("--salt: draws the arm of a user: name the --user-column")
    if options.rows_per_user != 1:
        raise RequestError("--rows-per-user: all rows of a user count here: leave it out")
    if options.always_valid and options.looks > 1:
        raise RequestError("--looks: with --always-valid there may be any number: leave it out")
    if options.always_valid and options.expected is None:
        raise RequestError("--expected is missing: say for about how many users to be narrowest")
    if not options.always_valid and options.look > options.looks:
        raise RequestError("--look: is beyond the --looks that are planned: say how many are")


def _shares(text: str | None, arms: int) -> tuple[float, ...]:
    """The shares of all units that arms are to have."""
    try:
        parts = [1.0] * arms if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if not (len(parts) == arms and all(0 < part < math.inf for part in parts)):
        raise RequestError(f"--shares: {arms} numbers above 0 are needed, one an arm, as in 9,1")
    return tuple(part / sum(parts) for part in parts)


def _outcomes(options: ExperimentOptions) -> Iterator[Outcome]:
    """Rates, then numbers.

    Raises:
        RequestError: one is malformed, or there is none.
    """
    if not (options.rate or options.mean or options.total):
        raise RequestError("--rate, --mean, --total: name an outcome, as in --rate bought")
    for column in options.rate:
        yield Outcome(column, "rate")
    for how, texts in (("mean", options.mean), ("total", options.total)):
        for text in texts:
            column, _, limits = text.rpartition("=")
            if not column:
                raise RequestError(f"--{how}: a column and its bounds, as in seconds=0,600")
            try:
                bounds = read_bounds(limits)
            except RequestError as error:
                raise RequestError(str(error).replace("--bounds", f"--{how} {column}", 1)) from None
            yield Outcome(column, "mean" if how == "mean" else "total", bounds)


def _covariate(text: str | None) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The column, if one is named, and the edges of its bins."""
    if text is None:
        return (), ()
    column, _, limits = text.rpartition("=")
    try:
        edges = [float(part) for part in limits.split(",")]
    except ValueError:
        edges = []
    rising = all(low < high for low, high in zip(edges, edges[1:], strict=False))
    if not (column and edges and rising and all(map(math.isfinite, edges))):
        raise RequestError(
            "--covariate: a column and rising numbers to cut at, as in spend=0,10,50"
        )
    return (column,), tuple(edges)
