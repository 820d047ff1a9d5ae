"""`hushbeam strings --search levels --dummies shuffler`: by counters of prefixes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mechanisms.counters.design import Counters
from mechanisms.heavy_hitters.counted import BEAM, CountedSearch, noise_of
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting import result
from pipelines.metrics.counting.central import CountedStrings, require_text
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.heavy_hitters.metric import code_of
from pipelines.metrics.heavy_hitters.options import HeavyHittersOptions
from pipelines.metrics.heavy_hitters.result import TABLE
from pipelines.metrics.metric import MetricReports
from pipelines.wording import upward
from transforms.encoders.block import CellBlock
from transforms.encoders.prefixes import PrefixEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class CountedHeavyHitters(CountedStrings):
    """The strings that many units hold, and how many do."""

    kind = "heavy-hitters"
    one_job = (
        "its counters are what earlier levels let stand, so a shuffler would have to be told "
        "them level by level; leave `dummies` out, or run it in one job"
    )
    drawn = "dummies for every counter that it looked at"
    Options = HeavyHittersOptions
    unstated = HeavyHittersOptions.of_reports

    options: HeavyHittersOptions
    design: Counters
    reporting: CountedSearch  # type: ignore[assignment]

    @classmethod
    def resolve(
        cls,
        options: HeavyHittersOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options)
        if options.dummies == "devices":
            raise RequestError(
                "--dummies: devices cannot know which counters earlier levels let stand; take "
                "shuffler"
            )
        telemetry = source.open(options, empty=True)
        kind = require_text(telemetry, options.column)
        seed = int(open_rng().words(1)[0]) if source.seed is None else source.seed
        try:
            search = CountedSearch(code_of(options, kind), seed)
        except ValueError as error:
            raise RequestError(str(error)) from None
        design = cast(Counters, meeting(options, search.levels, ()))
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, design=design,
            reporting=search,
        )  # fmt: skip

    @property
    def limit(self) -> float:
        return self.reporting.detection_limit(self.design, self.options.false_strings)

    @property
    def error(self) -> float:
        return math.sqrt(self.design.variances[-1])

    @property
    def prospect(self) -> str | None:
        return (
            f"every string that at least {math.ceil(self.limit):,} {self.unit}s hold is found with "
            f"probability {1 - MISSED:g} or more, and how many do is told with a standard error of "
            f"{self.error:.3g}"
        )

    @property
    def expected_error(self) -> str:
        return f"finds {math.ceil(self.limit):,} of {self.expected:,}"

    def encoder(self, coins: Any = None) -> PrefixEncoder:  # type: ignore[override]
        search = self.reporting
        return PrefixEncoder(self.options.column, search, search.code.unusable)

    def counted(self, block: CellBlock) -> np.ndarray:
        return self.reporting.keys(block.cells).ravel()  # one a level of each row

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.discover_counted import DiscoverCounted

        false_strings = self.options.false_strings
        step = DiscoverCounted(self.reporting, self.design, false_strings, self.open_rng)
        return reports.messages | "Discover" >> step

    def arrived(self, estimate: Any) -> int:
        return estimate.messages // len(self.reporting.steps)

    def errors(self) -> result.FigureError:
        """Of how many units hold a string."""
        return result.FigureError(noise_of(self.design), self.error, least=0)

    @property
    def labelled(self) -> dict[str, str]:
        return {"value": self.options.column}

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: f"{self.unit}s"}

    @property
    def title(self) -> str:
        return f"{self.options.column}: frequent strings"

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        strings, top = estimate.strings, self.options.top
        columns = result.columns(strings.holders, self.errors(), self.options.confidence)
        first = {"value": pa.array(strings.values, pa.string()), "whole": pa.array(strings.whole)}
        table = pa.table(first | columns | {"expected_false": strings.expected_false})
        return {TABLE: table.slice(0, top)}

    def _cut(self, estimate: Any) -> dict[str, Any]:
        what = f"{self.unit}s whose value is missing, or no string of the alphabet"
        count = float(estimate.strings.unusable)
        return {"unusable": {"what": what, "estimate": count, "standard_error": self.error}}

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        search = {
            "prospect": self.prospect,
            "detection_limit": self.limit,
            "steps": list(self.reporting.steps),
            "public_seed": self.reporting.seed,
            "beam": BEAM,
            "strings": len(estimate.strings.values),
        }
        return super().statement(estimate, tallies) | {"search": search}

    @property
    def error_statement(self) -> dict[str, Any]:
        return super().error_statement | {
            "covers": "the noise of the dummies"
            + "; of each user one string, drawn uniformly among its rows" * (self.unit == "user"),
            "reading": "Strings were chosen by the counts of all levels of a tree of beginnings; "
            f"how many {self.unit}s hold one was counted apart, with noise that had no part in the "
            "choice, and is unbiased.",
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        chance = upward(self.options.false_strings, 3)
        return [
            f"Of strings that nobody holds there are {chance:g} here on average, at the most. "
            f"Candidates of a level were the beginnings that earlier levels had let stand."
        ]

    @property
    def request(self) -> dict[str, Any]:
        code = self.reporting.code
        characters = code.characters or "all text, as UTF-8 bytes"
        return super().request | {"alphabet": characters, "max_length": code.max_length}
