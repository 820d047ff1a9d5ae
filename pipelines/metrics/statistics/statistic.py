"""What a kind of statistic is, whoever hides the people in it: rows, workload, figures, words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
from typing_extensions import Self

from pipelines.logs import inputs
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import Domains, label_columns, with_labels
from pipelines.metrics.statistics.wording import Forecast, Wording
from pipelines.metrics.unusable.share import Share
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder

Shape = Literal[
    "cells", "prefixes", "quantile", "tables", "row", "days", "steps", "arms", "strings",
]  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """What a statistic needs of everybody: totals that are linear in what units contribute.

    Attributes:
        groups: how many totals there are.
        most_groups: k, of how many of them a unit has a part.
        most: b, how often a unit counts in one.
        amount: the least and the largest number of a unit that is added up; None where units are
            counted.
        whole: whether numbers are whole.
        people: whose number is needed beside: nobody's, that of all, or that of each group, of
            whom each adds one number.
        limited: whether units are counted of which something was left out.
        shape: what the totals are of: "cells" of one table, "prefixes" of cells in their order,
            one "quantile" of them, "tables" that share cells, the numbers of a "row", "days" on
            which units were seen, "steps" that they reached one after the other, "arms" of an
            experiment, or "strings" that nobody declared, which are no totals.
        rows: how many rows of a unit count, each for itself; None where those of a group are put
            together.
    """

    groups: int
    most_groups: int = 1
    most: int = 1
    amount: Bounds | None = None
    whole: bool = False
    people: Literal["nobody", "all", "groups"] = "nobody"
    limited: bool = False
    shape: Shape = "cells"
    rows: int | None = None
    squares: bool = False


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A request for one statistic, held against its input.

    Attributes:
        options: what was asked.
        domains: (column, its declared values), by which it is divided.
    """

    kind: ClassVar[str]

    options: Any
    domains: Domains = ()

    @classmethod
    @abstractmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        """Hold a request against its input; reads footers only.

        Raises:
            RequestError: something is wrong with the request or the input.
        """

    @property
    @abstractmethod
    def workload(self) -> Workload:
        """What it needs."""

    @property
    def encoder(self) -> GroupEncoder:
        """What takes rows to what a unit contributes."""
        return GroupEncoder(self.domains)

    @property
    @abstractmethod
    def heading(self) -> Heading:
        """How it is shown."""

    @property
    @abstractmethod
    def wording(self) -> Wording:
        """What a statement says of it, whatever the data are."""

    @abstractmethod
    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """How far off its figures will be, as far as that can be said.

        Args:
            accuracy: of the noise.
            people: about how many units take part; for cautions, how many at the most.
        """

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        """Column -> (groups,) figures, with errors and intervals, without the labels.

        Args:
            evidence: what the noise left to be known.
            confidence: of intervals.
        """
        return evidence.columns(confidence)

    def tables(self, evidence: Evidence) -> dict[str, pa.Table]:
        """What is published, file name -> table."""
        columns = self.columns(evidence, self.options.confidence)
        labels = label_columns(self.heading.labels, self.domains)
        return {f"{self.kind}.parquet": with_labels(labels, columns)}

    def statement(self, evidence: Evidence) -> dict[str, Any]:
        """What is said of it beside what is said of all statistics."""
        return {}

    def cautions(self, evidence: Evidence) -> Sequence[str]:
        """What a reader must beware of, by the published figures alone."""
        return ()

    def unusable(self, evidence: Evidence, confidence: float) -> Mapping[str, Share]:
        """As of `Metric.unusable_parts`."""
        return {}
