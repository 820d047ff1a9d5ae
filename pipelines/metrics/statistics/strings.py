"""`strings`: the frequent strings, of which none was declared, and how many hold each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.strings.options import StringsOptions
from transforms.columns import type_name
from transforms.encoders.prefixes import accepts

_SHARE = "share"
_COLUMNS = (
    "estimate", "standard_error", "lower", "upper", "lower_simultaneous", "upper_simultaneous",
    "expected_false",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StringEvidence(Evidence):
    """What a search says: the strings that stand out, the most frequent first.

    Attributes:
        strings: (k,) what they are.
        whole: (k,) False for the common beginning of longer strings that were cut.
        figures: column -> (k,) their figures; errors and intervals are those of the request.
    """

    strings: Sequence[str]
    whole: NDArray[np.bool_]
    figures: Mapping[str, Floats]

    @classmethod
    def of(cls, strings: Sequence[str], whole: Any, figures: Mapping[str, Any]) -> StringEvidence:
        """Of totals, errors and people nothing else is known.

        Args:
            strings, whole, figures: as the attributes.
        """
        unknown = Accuracy(FigureError(None, math.nan))
        return cls(
            figures["estimate"], np.empty(0), unknown, lambda *_: None,
            strings=strings, whole=np.asarray(whole, np.bool_), figures=figures,
        )  # fmt: skip

    def columns(self, confidence: float) -> dict[str, Any]:
        return dict(self.figures)


@dataclass(frozen=True, kw_only=True)
class UndeclaredStrings(Statistic):
    """Which strings are frequent: counters and levels follow from the data, so it is no total.

    What searches for them, and hides the people in it, is one of three: a threshold, or levels of
    their beginnings, by randomised reports or by noisy counters.
    """

    kind = "strings"

    options: StringsOptions

    @classmethod
    def read(
        cls, options: StringsOptions, source: inputs.Source
    ) -> tuple[UndeclaredStrings, inputs.Telemetry]:
        telemetry = source.open(options, empty=options.hides_presence)
        kind = telemetry.column_type(options.column, "--column")
        if not (telemetry.unseen or pa.types.is_null(kind) or accepts(kind)):
            raise RequestError(
                f"--column: {options.column!r} holds {type_name(kind)}; text is needed, or integers"
            )
        return cls(options=options), telemetry

    @property
    def workload(self) -> Workload:
        return Workload(1, self.options.rows_per_user, shape="strings")

    @property
    def heading(self) -> Heading:
        figure = f"{self.options.unit}s" if self.options.hides_presence else _SHARE
        title = f"{self.options.column}: frequent strings"
        return Heading(title, {f"{self.kind}.parquet": figure}, {"value": self.options.column})

    @property
    def wording(self) -> Wording:
        return Wording(ErrorTerms(""))  # each search has its own words

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        columns = evidence.columns(confidence)
        # Of one string alone an interval covers all.
        alone = {f"{end}_simultaneous": columns[end] for end in ("lower", "upper")}
        known = alone | columns
        return {name: known[name] for name in _COLUMNS if name in known}

    def tables(self, evidence: Any) -> dict[str, pa.Table]:
        """What is published: one row for each string that was found, the most frequent first.

        Columns: value; whole (false for the common beginning of longer strings that were cut);
        estimate and standard_error, of the share of reports or of how many hold it; lower and upper
        (an interval for each string alone); lower_simultaneous and upper_simultaneous (intervals
        that cover all strings together, however they were chosen); of levels expected_false (how
        many strings that nobody holds would stand out as far, at most, on average).
        """
        columns = self.columns(evidence, self.options.confidence)
        first = {"value": pa.array(evidence.strings, pa.string()), "whole": evidence.whole}
        return {f"{self.kind}.parquet": pa.table(first | columns).slice(0, self.options.top)}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        error = accuracy.total.standard_error  # how many hold one nobody knows
        return Forecast(0.0, error, error, f"holders ± {error:.3g}")
