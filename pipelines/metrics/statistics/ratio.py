"""`ratio`: the sum of one column over that of another, or over the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mechanisms.mean.fieller import quotients
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.heading import Heading
from pipelines.metrics.ratio.options import RatioOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.row_evidence import nullable
from pipelines.metrics.statistics.statistic import Workload
from pipelines.metrics.statistics.sum import Sum
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from transforms.encoders.bounds import Bounds
from transforms.encoders.pairs import PairEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

_LARGEST = 1e100  # quotients of numbers up to it are numbers
_ERRORS = ErrorTerms(
    "A ratio is one noisy sum over another; standard errors are the delta method's, intervals "
    "Fieller's: without an end where what it is divided by may be nothing. The expected error is "
    "that of units with half of what may count.",
    divides=True,
)


@dataclass(frozen=True, kw_only=True)
class Ratio(Sum):
    """Two sums of each group, in parts of the largest number that counts of each."""

    kind: ClassVar[str] = "ratio"

    options: RatioOptions  # type: ignore[assignment]

    @classmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        above, below = read_bounds(options.bounds), read_bounds(options.divisor_bounds)
        if not (below.low == 0 and above.low <= 0 < above.high):
            raise RequestError(
                f"--bounds, --over-bounds: a {options.unit} may add nothing, so 0 lies within "
                "both, and the divisor's begin at 0: as in 0,100"
            )
        if not max(above.high, -above.low, below.high) <= _LARGEST:
            raise RequestError(f"--bounds, --over-bounds: they lie within {_LARGEST:g} of 0")
        if options.over is not None:
            divisor = options.model_copy(update={"column": options.over})
            open_numbers(divisor, source, empty=True, moments=False, flag="--over")
        return super().read(options, source)

    @property
    def scales(self) -> tuple[float, float]:
        """What numbers are multiplied by, so that none of either sum is beyond 1."""
        one = max(map(abs, self.bounds))
        return 1 / one, self.bounds.high / one / read_bounds(self.options.divisor_bounds).high

    @property
    def workload(self) -> Workload:
        work, scale = super().workload, self.scales[0]
        bounds = Bounds(self.bounds.low * scale, self.bounds.high * scale)
        twice = 2 * work.most_groups if work.rows is None else 1, work.rows and 2 * work.rows
        return replace(
            work, groups=2 * work.groups, most_groups=twice[0], amount=bounds, rows=twice[1]
        )

    @property
    def encoder(self) -> PairEncoder:
        one = super().encoder
        return PairEncoder(
            one.domains, one.number, drops=one.drops, over=self.options.over, scales=self.scales
        )

    @property
    def heading(self) -> Heading:
        usual, column = super().heading, self.options.column
        by = usual.title.removeprefix(f"{column}: sum")
        title = f"{column} per {self.options.over or 'row'}{by}"
        return usual._replace(title=title, figures={"ratio.parquet": "ratio"})

    @property
    def wording(self) -> Wording:
        words = (
            f"What it is divided by was likewise clipped to {self.options.divisor_bounds}. A "
            "missing number adds nothing. Where a user has more rows or groups than count, those "
            "of either sum are drawn by themselves."
        )
        return Wording(_ERRORS, [*super().wording.words, words])

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        one = evidence.accuracy.total
        a, b = (
            x / scale for x, scale in zip(np.split(evidence.totals, 2), self.scales, strict=True)
        )
        errors, far = [one.standard_error / scale for scale in self.scales], one.far

        def ends(confidence: float) -> tuple[Any, dict[str, Any]]:
            # The tails of one noise are heavier than those of sums of two.
            known = quotients(a, b, errors[0], errors[1], far(confidence), most=math.inf)
            lower = known.lower if self.bounds.low < 0 else np.fmax(known.lower, 0)
            return known, {"lower": np.fmin(lower, known.ratio), "upper": known.upper}

        known, own = ends(confidence)
        made = {"estimate": known.ratio, "standard_error": known.error, **own}
        wide = ends(confidence ** (1 / a.size))[1] if a.size > 1 else {}
        made |= {f"{end}_simultaneous": numbers for end, numbers in wide.items()}
        for name, total, error in zip(("sum", "divisor"), (a, b), errors, strict=True):
            made |= {name: total, f"{name}_standard_error": np.full_like(total, error)}
        return nullable(made)

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of all who are expected, or of a group with its part of them."""
        above, below = (1 / scale for scale in self.scales)
        error = accuracy.total.standard_error * math.sqrt(2) * above / below
        error /= people / self.encoder.size / 2 * self.bounds.high * self.scales[0]
        return Forecast(above / below, error, error, f"ratio ± {error:.3g}", of=f"{people:,}")
