"""Releases of a statistic, whoever hides the people in it: what the statistic says of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mechanisms.randomness import SecureRandom
from pipelines.logs.inputs import ALONE, Source
from pipelines.metrics import registry
from pipelines.metrics.heading import Heading
from pipelines.metrics.metric import Metric
from pipelines.metrics.statistics.evidence import Evidence

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class OfStatistic(Metric, ABC):
    """A release of one statistic.

    Attributes:
        statistic: what is asked.
    """

    statistic: Any

    @classmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        made: Self = registry.find_for(options).resolve(options, source, open_rng)
        return made

    def published_in(self, folder: str, window: str) -> Self:
        made = super().published_in(folder, window)
        return replace(made, statistic=replace(made.statistic, options=made.options))

    @abstractmethod
    def evidence(self, estimate: Any) -> Evidence:
        """What is known of a batch.

        Args:
            estimate: of the collector.
        """

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(self.statistic.kind)

    @property
    def heading(self) -> Heading:
        heading: Heading = self.statistic.heading
        return heading

    @property
    def request(self) -> dict[str, Any]:
        return super().request | dict(self.statistic.wording.request)

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))
