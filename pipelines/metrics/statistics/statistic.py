"""What a kind of statistic is, whoever hides the people in it: rows, workload, figures, words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.unusable.share import Share
from pipelines.releases.schema import LABELS
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import Domain
from transforms.encoders.groups import GroupEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

    from pipelines.metrics.metric import Metric
    from transforms.elements.blocks import Generator

OF_TOTALS = (
    "Every figure is the truth plus noise of a known law, the same for all of them. Estimates are "
    "unbiased, so where there is little some lie below 0."
)
"""How to read totals."""


Shape = Literal["cells", "prefixes", "tables", "row", "days", "strings"]


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
            "tables" that share cells, the numbers of a "row", "days" on which units were seen, or
            "strings" that nobody declared, which are no totals.
    """

    groups: int
    most_groups: int = 1
    most: int = 1
    amount: Bounds | None = None
    whole: bool = False
    people: Literal["nobody", "all", "groups"] = "nobody"
    limited: bool = False
    shape: Shape = "cells"


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A request for one statistic, held against its input.

    Attributes:
        options: what was asked.
        domains: (column, its declared values), by which it is divided.
    """

    kind: ClassVar[str]
    Options: ClassVar[type[Any]]
    grouped: ClassVar[bool] = False  # whether figures are of groups of rows, and not of values
    divides: ClassVar[bool] = (
        False  # whether figures are quotients, which err by how many there are
    )
    error_of: ClassVar[str] = ""  # what the predicted error is of, if not of all figures
    unstated: ClassVar[frozenset[str]] = frozenset()  # options that its tables say again
    error_key: ClassVar[str] = "standard_error"  # in a statement, of a predicted error
    reading: ClassVar[str]  # how to read its figures and their errors

    options: Any
    domains: tuple[tuple[str, Domain], ...] = ()

    @classmethod
    def resolve(
        cls,
        options: Any,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Metric:
        """The release of a request: its statistic, and the noise that it asks for.

        Args:
            options: of the class `Options`.
            source: the files, and what public randomness comes from.
            open_rng: opens generators on workers.

        Raises:
            RequestError: something is wrong with the request or the input.
        """
        from pipelines.metrics import registry

        noise = registry.noise_for(options)
        noise.require(options, cls.kind)
        statistic, telemetry = cls.read(options, source)
        why = noise.objection(statistic.workload, options.drawn_by)
        if why is not None:
            raise RequestError(f"{noise.option(options)}: {why}")
        made: Metric = noise.of(statistic, telemetry, open_rng, source)
        return made

    @classmethod
    @abstractmethod
    def read(cls, options: Any, source: inputs.Source) -> tuple[Self, inputs.Telemetry]:
        """Hold a request against its input; reads footers only.

        Raises:
            RequestError: as `resolve`.
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
    def line_types(self) -> dict[str, pa.DataType]:
        """Column -> type, of values that come one a line."""
        return {column: domain.kind for column, domain in self.domains}

    @property
    def table(self) -> str:
        """The file of its figures."""
        return f"{self.kind}.parquet"

    @property
    def files(self) -> dict[str, str]:
        """Table -> what its estimates are; as of `Metric.figures`."""
        return {self.table: self.figure}

    @property
    def headline(self) -> dict[str, str]:
        """As of `Metric.headline`; empty for the usual one."""
        return {}

    @property
    def request(self) -> dict[str, Any]:
        """Option -> what a statement says it was, where that is not how it was written."""
        return {}

    @property
    @abstractmethod
    def figure(self) -> str:
        """What its estimates are, as in "share"."""

    @property
    def covers(self) -> str:
        """What its predicted error covers, and what it does not."""
        return "the noise of the dummies, and roundings; not what was cut"

    @property
    @abstractmethod
    def title(self) -> str:
        """What was counted, in the words of the request."""

    @abstractmethod
    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        """Column -> (groups,) figures, with errors and intervals, without the labels.

        Args:
            evidence: what the noise left to be known.
            confidence: of intervals.
        """

    @abstractmethod
    def foretold(self, accuracy: Accuracy, expected: int) -> tuple[float, float]:
        """(a figure if all units are alike, its standard error), as far as that can be said.

        Args:
            accuracy: of the noise.
            expected: about how many units take part.
        """

    def error(self, accuracy: Accuracy, expected: int) -> float:
        """The standard error of one figure; of a quotient, if so many take part."""
        return accuracy.total.standard_error

    @abstractmethod
    def error_in_words(self, error: float, expected: int) -> str:
        """The same, for a table."""

    def cautions(self, accuracy: Accuracy, expected: int) -> list[str]:
        """What should be thought over of its own."""
        return []

    @property
    def exactly(self) -> tuple[str, ...]:
        """What is published as it is, of its input."""
        return ()

    def statement(self, evidence: Evidence) -> dict[str, Any]:
        """What is said of it beside what is said of all statistics."""
        return {}

    def unusable_cautions(self, evidence: Evidence, confidence: tuple[float, float]) -> list[str]:
        """As of `Metric.unusable_cautions`."""
        return []

    def words(self, influence: float) -> list[str]:
        """What a reader must know of what counts.

        Args:
            influence: how far one liar moves a total, at the most.
        """
        return []

    def unusable(self, evidence: Evidence, confidence: float) -> Mapping[str, Share]:
        """As of `Metric.unusable_parts`."""
        return {}

    # What is shown of it.

    @property
    def labelled(self) -> dict[str, str]:
        """`group` or `value` -> the column of the log whose values are there, if there is one."""
        first = 0 if self.grouped else len(LABELS) - len(self.domains)
        names = LABELS[first : first + len(self.domains)]
        return {name: column for name, (column, _) in zip(names, self.domains, strict=True)}

    def labels(self) -> dict[str, pa.Array]:
        """Column -> (groups,) the values that each figure is of; null for all other rows."""
        sizes = [domain.size for _, domain in self.domains]
        whole = np.arange(int(np.prod(sizes, dtype=object))) if sizes else np.zeros(0, np.int64)
        columns: dict[str, pa.Array] = {}
        for place, (name, (_, domain)) in enumerate(zip(self.labelled, self.domains, strict=True)):
            inner = int(np.prod(sizes[place + 1 :], dtype=object))
            values = domain.labels().take(pa.array(whole // inner % domain.size))
            columns[name] = pa.concat_arrays([values, pa.nulls(1, values.type)])
        return columns

    def tables(self, evidence: Evidence) -> dict[str, pa.Table]:
        """What is published, file name -> table."""
        columns = self.columns(evidence, self.options.confidence)
        # Where there is no number, there is a null.
        arrays = {name: pa.array(column, from_pandas=True) for name, column in columns.items()}
        rows = len(next(iter(arrays.values())))
        # Not every noise tells of those that are in no group.
        labels = {name: column.slice(0, rows) for name, column in self.labels().items()}
        return {self.table: pa.table(labels | arrays)}
