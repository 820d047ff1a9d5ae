"""The options that all requests to `hushbeam size` share, and how their answers are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field
from rich import box
from rich.console import Console
from rich.table import Table

from mechanisms.planner.search import Design, search
from mechanisms.targets.rules import Task
from pipelines.errors import RequestError
from pipelines.metrics.options import CLIENTS_SHARE
from pipelines.metrics.terms import target_terms
from pipelines.request import answers
from pipelines.request.requests import RequestOptions, Whole
from pipelines.wording import one_line, upward


class SizeRequest(RequestOptions):
    """The options that every request has."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Literal["local", "shuffle"] = "shuffle"
    epsilon: float | None = Field(None, gt=0)
    delta: float | None = Field(None, ge=0, lt=1)
    reports: Whole | None = Field(None, ge=1, le=1 << 40)
    epsilon_local: float | None = Field(None, gt=0)
    honest_share: float = Field(CLIENTS_SHARE, gt=0, le=1)

    def terms(self, reports: int | None = None) -> dict[str, Any]:
        """What targets have in common.

        Args:
            reports: a stand-in for a number that is being looked for.

        Raises:
            RequestError: it is not known how many to expect.
        """
        n = self.reports or reports
        if n is None:
            raise RequestError("--reports is missing: say how many reports to expect at the least")
        return target_terms(self, self.model, n, unit="user")


def designs_table(title: str, caption: str, numbers: Sequence[str]) -> Table:
    """An empty table, a row a mechanism.

    Args:
        title: above it.
        caption: what its columns are.
        numbers: headings of the columns after those of a mark and of the mechanism's name.
    """
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    # Where a screen is too narrow, the text is broken over lines, and nothing of it is lost.
    for heading in ("", "mechanism"):
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def facts(design: Design[Any], **more: Any) -> dict[str, Any]:
    """A design's row as programs read it: `local` and `release` are epsilons.

    Args:
        design: a row of the table.
        more: of the kind of request.
    """
    costs = {"bits": design.bits, "sent": design.mechanism.messages}
    local = None if design.local.model == "none" else design.local.epsilon
    return {"mechanism": design.name, **more, **costs, "local": local,
            "release": design.release.epsilon}  # fmt: skip


def losses(design: Design[Any]) -> list[str]:
    """The two epsilons of a design, rounded up: of one report, and of the release."""
    local = design.local
    return [
        "none" if local.model == "none" else f"{upward(local.epsilon, 4):g}",
        f"{upward(design.release.epsilon, 4):g}",
    ]


def absence(screen: Console, best: Design[Any], hiding: Task[Any]) -> None:
    """Print what each choice of --unusable costs.

    Args:
        screen: to print on.
        best: the design that is best without any.
        hiding: the same task, where absence is hidden.
    """
    try:
        best_hiding = search(best.target.asking(hiding))
    except ValueError as error:
        said = f"cannot be had here ({error})"
        answers.tell(hide={"refused": str(error)})
    else:
        cost = 100 * max(math.sqrt(best_hiding.published_error / best.published_error) - 1, 0)
        answers.tell(hide={"adds_percent": cost, "mechanism": best_hiding.name})
        said = f"adds {cost:.2g} % to the standard error" if cost >= 0.005 else "costs nothing"
        said += "" if best_hiding.name == best.name else f", by {best_hiding.name}"
    screen.print(
        f"whether a value is missing: --unusable hide, the default, {said}; fill=VALUE and count "
        "cost no noise",
        highlight=False,
    )


def promise(screen: Console, design: Design[Any]) -> None:
    """Print the guarantee of a design, and how it is known."""
    answers.tell(best=design.name, guarantee=design.release.as_dict())
    for line in (one_line(design.release), f"how it is known: {design.release.how}"):
        screen.print(line, highlight=False)
