"""A plan, from Python: what `hushbeam check` and `hushbeam run` do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hushbeam.calls import HANDED_OVER, called, warn
from hushbeam.releases import Release
from pipelines.errors import FailedError


class Plan:
    """One reviewed YAML file with all metrics of a collection.

    Attributes:
        path: of the file, local or gs://.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def check(self, window: str | None = None) -> dict[str, Any]:
        """What it promises, costs and can know; no data is touched.

        Args:
            window: whose fingerprint clients need, if they do.

        Returns:
            What `hushbeam check --json` prints; under "refused" why a run would be, or None.

        Raises:
            RequestError: it is wrong, or cannot be served.
        """
        with called():
            from pipelines.plan.check import summary

            return summary(self.path, window)

    def run(
        self, window: str | None = None, *, beam: Sequence[str] = (), debug: bool = False
    ) -> dict[str, Release]:
        """Publish all its metrics, within its budget; a window that is out is not made again.

        Args:
            window: which part of the time, where the plan has windows.
            beam: options for Beam, as on its command lines.
            debug: whether Beam's log and strangers' exceptions are shown, which may quote the data.

        Returns:
            The release of each metric by name. One that was withheld is not there, and a warning
            says so, as one does of each alarm.

        Raises:
            RequestError: the plan or its input is wrong.
            WithheldError: too few reports came to every metric, or the budget is spent.
            FailedError: the job ended without a release.
        """
        with called(debug=debug) as cautions:
            from pipelines.plan.run import run, unusable, watched

            folder = run(self.path, window, [*beam])
            alarms, problems = watched(folder)
            cautions += [*(f"alarm: {alarm['line']}" for alarm in alarms), *problems]
        warn(cautions, 2)
        if folder is None:
            raise FailedError(HANDED_OVER)
        whole = Release(folder)
        # Of one without a value that can be used the run has said so.
        said = unusable(whole.statement)
        few = [name for name in whole.statement["withheld"] if name not in said]
        warn([f"withheld, too few reports: {name}" for name in few], 2)
        return whole.metrics

    def __repr__(self) -> str:
        return f"hushbeam.Plan({self.path!r})"
