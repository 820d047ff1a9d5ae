"""Beam's options, each group of them parsed once.

Beam asks for the group about types several times a step, and builds a parser for it every time:
in a plan of ten metrics thousands of parsers, a tenth of what the whole run costs.
"""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from mechanisms.compat.switch import on


class ViewedOptions(PipelineOptions):
    """Options that keep the views Beam takes of them; all views share one dictionary of values.

    >>> from apache_beam.options.pipeline_options import StandardOptions
    >>> options = ViewedOptions(["--runner=FnApiRunner"])
    >>> options.view_as(StandardOptions) is options.view_as(StandardOptions)
    True
    """

    def view_as(self, cls: type[PipelineOptions]) -> Any:
        """The options of one group, and what is set in it holds for all.

        Args:
            cls: the group's class.
        """
        if not on():
            return super().view_as(cls)
        # Beam's options refuse attributes of their own.
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_views"}
