"""`hushbeam sum`: the total of a column of numbers, of everybody or of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mechanisms.counters.amounts import LARGEST, Amounts, SignedDigits, units
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import declared, rounded
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import SumOptions, require_bounded, require_pairs
from pipelines.metrics.unusable.share import MANY
from pipelines.views.digits import three_digits
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting, reach

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.elements.blocks import Generator


_LARGEST_BOUND = 1e200  # sums of numbers up to it stay numbers


@dataclass(frozen=True, kw_only=True)
class SumMetric(Counting):
    """How much there is, its numbers clipped to bounds."""

    kind = "sum"
    Options = SumOptions
    grouped = True

    options: SumOptions

    @classmethod
    def resolve(
        cls,
        options: SumOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        require_pairs(pair)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=True, moments=False)
        domains = declared(telemetry, pair)
        groups = GroupEncoder(domains).size
        require_bounded(options, groups)
        design, reporting = cls._least(options, told(options, bounds), groups)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, domains=domains,
            design=design, reporting=reporting,
        )  # fmt: skip

    def redesigned(self) -> Self:
        groups = self.reporting.amounts.groups
        finest = told(self.options, read_bounds(self.options.bounds))
        design, reporting = self._least(self.options, finest, groups, self.sealed)
        return replace(self, design=design, reporting=reporting)

    @classmethod
    def _least(
        cls, options: SumOptions, finest: Clip, groups: int, sealed: bool = False
    ) -> tuple[Any, Any]:
        """What users send, and what hides it, with the least error of a sum.

        Args:
            options: of the request.
            finest: what numbers are clipped to, and the units that are fine enough.
            groups: how many sums there are.
            sealed: as of `rounded`.

        Raises:
            RequestError: the target is out of reach.
        """

        def reporting(units: int, shared: bool) -> Reporting:
            clip, k = replace(finest, units=units), options.rows_per_user
            digits = Amounts(groups, k, units, clip.signed)
            if clip.signed and shared:
                digits = SignedDigits(groups, k, units, least=reach(clip)[0])
            return Reporting(digits, clip, (LIMITED, UNUSABLE))

        least = finest.units if options.whole_numbers else 1
        return rounded(options, finest.units, least, reporting, sealed)

    @property
    def cautions(self) -> list[str]:
        errors = self.errors()
        if errors.rounding <= errors.sigma * errors.unit:
            return super().cautions
        # No refusal: finer units would err more, and nobody knows here how many there will be.
        return [
            *super().cautions,
            f"--expected: the sum of {self.rounded:,} rounded numbers would be off by "
            f"{errors.rounding:.3g}, and noise by {errors.sigma * errors.unit:.3g}: say "
            "--whole-numbers if they are, or how many are expected if they are fewer",
        ]

    @property
    def clip(self) -> Clip:
        """What numbers are clipped to, and told in."""
        return cast(Clip, self.reporting.clip)

    @property
    def title(self) -> str:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        return f"{self.options.column}: sum{by}"

    @property
    def error(self) -> float:
        return self.errors().standard_error

    @property
    def _typical(self) -> Typical:
        of_group = self.expected / self.reporting.amounts.groups
        return Typical(of_group * self.clip.bound, self.error)

    @property
    def expected_error(self) -> str:
        return f"sum ± {three_digits(self.error)}"

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | {self.options.column: pa.float64()}

    def encoder(self, coins: object = None) -> GroupEncoder:
        return GroupEncoder(self.domains, self.options.column, self.options.whole_numbers)

    @property
    def rounded(self) -> int:
        """How many numbers are rounded, at the most, as far as that is public."""
        return self.expected

    @property
    def rounding(self) -> float:
        """The standard deviation of what rounding adds, at the most, in units."""
        # A coin's variance is a quarter of a squared unit at the most.
        return 0.0 if self.options.whole_numbers else math.sqrt(self.rounded) / 2

    def errors(self) -> result.Errors:
        unit = self.clip.bound / self.clip.units
        least, rounding = 0 if self.clip.low >= 0 else None, unit * self.rounding
        taken = int(self.reporting.amounts.signed)
        more = {"unit": unit, "rounding": rounding, "least": least}
        return result.Errors.of(self.design, 1 + taken, taken, **more)

    def totals(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        unit = self.clip.sign * self.clip.bound / self.clip.units
        return np.asarray(unit * self.reporting.amounts.estimate(counts))

    def unusable_cautions(self, estimate: Any, confidence: tuple[float, float]) -> list[str]:
        many, some = (self.beside(UNUSABLE, estimate, sure) for sure in confidence)
        if many is None or some is None:
            return []
        expected = self.options.expected or getattr(self.options, "enrolled", None)
        # Without a number that was declared nobody knows of how many they are.
        count, far = some if expected is None else many
        if not count - far > MANY * (expected or 0):
            return []
        known = (
            f"of {expected:,} that were declared" if expected else "of how many is not published"
        )
        return [
            f"about {count:,.0f} {self.unit}s, give or take {far:,.0f}, have a number that cannot "
            f"be used, which adds nothing to the sum; {known}"
        ]

    @property
    def error_statement(self) -> dict[str, Any]:
        covers = "the noise of the dummies; not what was cut"
        if not self.options.whole_numbers:
            most = f"{self.rounded:,} {self.unit}s at the most"
            covers = f"the noise of the dummies, and roundings of {most}; not what was cut"
        return super().error_statement | {"covers": covers}

    @property
    def influence(self) -> float:
        return super().influence * self.clip.bound / self.clip.units

    @property
    def words(self) -> list[str]:
        whose = "What all rows of a user add up to" if self.unit == "user" else "A row's number"
        where = ", in each of its groups," if self.domains and self.unit == "user" else ""
        return [f"{whose}{where} was clipped to {self.clip.low:g} .. {self.clip.high:g}."]


def told(options: SumOptions, bounds: Bounds) -> Clip:
    """What numbers are clipped to, in units fine enough for the noise; as `_units` refuses."""
    whole = Clip(bounds.low, bounds.high, 1)
    return Clip(bounds.low, bounds.high, _units(options, whole))


def _units(options: SumOptions, clip: Clip) -> int:
    """How many units the bound has: enough that rounding is a hundredth of the noise's variance.

    Raises:
        RequestError: whole numbers are asked for, and bounds are none, or far too large.
    """
    if not clip.bound <= _LARGEST_BOUND:
        raise RequestError(f"--bounds: they must lie within {_LARGEST_BOUND:g} of 0")
    if options.whole_numbers:
        if clip.low != int(clip.low) or clip.high != int(clip.high) or clip.bound > LARGEST:
            raise RequestError(
                f"--bounds: with --whole-numbers they must be whole, and at most {LARGEST:,}"
            )
        return int(clip.bound)
    if options.epsilon is None:
        return 1
    # Of the best noise that there is, so never too few; and all digits full.
    noise = math.sqrt(2) / options.epsilon
    least = units(noise, options.usual, 1.0)
    return min((1 << least.bit_length()) - 1, LARGEST)
