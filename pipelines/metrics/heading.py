"""How a release is shown: what it is called, and what the figures of its tables are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.views.headline import LARGEST


class Heading(NamedTuple):
    """What every page that shows a release begins with.

    Attributes:
        title: what was counted, in the words of the request: the columns, and the statistic.
        figures: table -> what its estimates are, as in "share"; a table of something else is not
            there. In such a table the columns in front of "estimate" say what each row is of.
            None has the name of a column of the log (`schema.LABELS`).
        labels: `group` or `value` -> the column of the log whose values are there, if there is one.
        headline: which figure a reader meets first: its "table", and which of the "rows"; None for
            the largest of the first table.
    """

    title: str
    figures: Mapping[str, str]
    labels: Mapping[str, str] = {}
    headline: Mapping[str, str] | None = None

    @property
    def stated(self) -> dict[str, Any]:
        """What a statement says of it."""
        usual = {"table": next(iter(self.figures), ""), "rows": LARGEST}
        return {
            "figures": dict(self.figures),
            "title": self.title,
            "headline": usual if self.headline is None else dict(self.headline),
            "labels": dict(self.labels),
        }
