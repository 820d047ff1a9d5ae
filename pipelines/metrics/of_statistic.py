"""Releases of a statistic, whoever hides the people in it: what the statistic says of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipelines.logs.inputs import Source, Telemetry
from pipelines.metrics.heading import Heading
from pipelines.metrics.metric import Metric
from pipelines.metrics.statistics.evidence import Evidence

if TYPE_CHECKING:
    from transforms.elements.blocks import Generator


class Ingredients(NamedTuple):
    """What a release is made of, whatever its noise is.

    Attributes:
        statistic: held against its input.
        telemetry: the files.
        source: what public randomness comes from.
        open_rng: opens generators on workers.
    """

    statistic: Any
    telemetry: Telemetry
    source: Source
    open_rng: Generator

    @property
    def fields(self) -> dict[str, Any]:
        """Of the release."""
        more = {"options": self.statistic.options, "open_rng": self.open_rng}
        return {"statistic": self.statistic, "telemetry": self.telemetry, **more}


@dataclass(frozen=True, kw_only=True)
class OfStatistic(Metric, ABC):
    """A release of one statistic.

    Attributes:
        statistic: what is asked.
    """

    statistic: Any

    @abstractmethod
    def evidence(self, estimate: Any) -> Evidence:
        """What is known of a batch."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(self.statistic.kind)

    @property
    def heading(self) -> Heading:
        return self.statistic.heading

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))
