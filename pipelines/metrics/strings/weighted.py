"""`hushbeam strings --search weighted`: strings that enough users hold, of many of each user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mechanisms.counters.amounts import WholeAmounts
from mechanisms.heavy_hitters.crowds import MOST
from mechanisms.heavy_hitters.group_selection import GroupSelection
from pipelines.metrics.counting.result import FigureError, columns
from pipelines.metrics.counting.shapes.shape import ReportShape
from pipelines.metrics.counting.undeclared import OfUndeclaredGroups
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.strings import StringEvidence
from pipelines.metrics.strings.threshold import LENGTH, StringsAboveThreshold
from transforms.encoders.strings import StringEncoder, texts_of, width_of
from transforms.encoders.undeclared import GroupSums


@dataclass(frozen=True, kw_only=True)
class StringsByWeight(OfUndeclaredGroups):
    """The strings whose noisy weight passes a threshold; for a part of the price, their holders."""

    what: ClassVar[str] = "string"

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        cls.require_job(options)
        StringsAboveThreshold.require(options, kind)

    @classmethod
    def least(cls, statistic: Any, sealed: bool = False) -> tuple[GroupSelection, GroupSums]:
        options = statistic.options
        k, alone = options.strings_per_user, options.selection_share == 1
        amounts = None if alone else WholeAmounts(MOST, k)
        design = cls.meeting(options, k, () if amounts is None else amounts.parts)
        return design, GroupSums(design, amounts)

    @property
    def shape(self) -> ReportShape:  # type: ignore[override]
        return ReportShape()

    @property
    def accuracy(self) -> Accuracy:
        law, unit = self.design.law, 1.0 if self.design.laws else 1 / self.design.grid
        return Accuracy(FigureError(law, math.sqrt(law.var()), unit, least=0))

    @property
    def influence(self) -> float:
        return 1.0

    @property
    def width(self) -> int:
        return width_of(self.encoder().most)

    def encoder(self, coins: Any = None) -> StringEncoder:  # type: ignore[override]
        return StringEncoder(self.options.column, self.options.max_length or LENGTH)

    @property
    def heading(self) -> Heading:
        usual = super().heading
        return usual if self.design.laws else usual._replace(figures={"strings.parquet": "weight"})

    def _evidence(self, estimate: Any) -> StringEvidence:
        totals = estimate.totals[:, 0] if self.design.laws else estimate.weights / self.design.grid
        order = np.argsort(-totals, kind="stable")
        texts, whole = texts_of(estimate.groups[order])
        figures = columns(totals[order], self.accuracy.total, self.options.confidence)
        return StringEvidence.of(texts, whole, figures)

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))

    @property
    def request(self) -> dict[str, Any]:
        return self.usual_request | {
            "max_length": self.encoder().most,
            "strings_per_user": self.design.most_groups,
        }

    @property
    def error_statement(self) -> dict[str, Any]:
        reading = "Figures are the noisy weights by which strings were chosen: rather too large."
        if self.design.laws:
            reading = f"Figures are how many {self.unit}s hold a string, unbiased."
        covers = "the noise; not what was left out of users with more strings"
        return {"standard_error": self.error, "covers": covers, "reading": reading}
