"""What the keys of a plan must be to each other, said at the key that would have to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from pipelines.plan.document import PlanDocument

ELSEWHERE = "elsewhere"  # the type of a complaint that says itself where it belongs

_ROUNDING = 1e-9  # by which shares written as decimals may add up to more than 1


def about(text: str, *place: int | str) -> PydanticCustomError:
    """A complaint about several keys, at the one that would have to change.

    Args:
        text: what is wrong.
        place: of that key, from where the complaint is made inwards.
    """
    return PydanticCustomError(ELSEWHERE, "{text}", {"text": text, "place": place})


def require_consistent(plan: PlanDocument, window: str) -> None:
    """Refuse keys that do not go together.

    Args:
        plan: as it was written.
        window: what stands for the window in it.

    Raises:
        PydanticCustomError: with the place of one of them.
    """
    _require_names(plan)
    if (plan.unit != "row") != (plan.user_column is not None):
        raise about(
            "user_column and a unit of users go together; without, unit is row",
            "unit" if plan.user_column is None else "user_column",
        )
    if (plan.ledger is None) != (plan.budget is None):
        raise about(
            "ledger and budget go together: where it is kept, and how much",
            "ledger" if plan.budget is None else "budget",
        )
    _require_noise(plan)
    if plan.tokens is not None and plan.user_column is None:
        text = "a user has so many reports: name a user_column, with a unit of users"
        raise about(text, "tokens")
    if plan.merge_small and plan.unit == "user":
        raise about(
            "merge_small could put a user into one release twice; the unit must be another",
            "merge_small",
        )
    if plan.stream is not None and window not in plan.output:
        raise about(f"each window has a release of its own: name a folder with {window}", "output")
    _require_shares(plan)


def require_looking_back(plan: PlanDocument, back: Sequence[bool], window: str) -> None:
    """Refuse keys that do not go with metrics that take rows of earlier windows, too.

    Args:
        plan: as it was written.
        back: of each metric, whether it does.
        window: what stands for the window in it.

    Raises:
        PydanticCustomError: with the place of one of them.
    """
    if not all(back):
        raise about(
            "takes the rows of its own window, and others here those of earlier ones, too: give "
            "them a plan each, of one population",
            "metrics", back.index(False), "kind",
        )  # fmt: skip
    if plan.unit != "user":
        raise about(
            "a user's days count in many windows, and all of them are paid for: say user, with a "
            "user_column",
            "unit",
        )
    if plan.stream is not None:
        raise about(
            "a stream keeps no rows, and these metrics look at those of earlier days: "
            "`hushbeam run` releases a day",
            "stream",
        )
    if window not in plan.output:
        raise about(f"each day has a release of its own: name a folder with {window}", "output")


def require_running(plan: PlanDocument, running: Sequence[bool], window: str) -> None:
    """Refuse keys that do not go with totals that go on from window to window.

    Args:
        plan: as it was written.
        running: of each metric, whether it is one.
        window: what stands for the window in it.

    Raises:
        PydanticCustomError: with the place of one of them.
    """
    if not all(running):
        raise about(
            "is paid for in every window, and running totals here once for all of them: give them "
            "a plan each, of one population",
            "metrics", running.index(False), "kind",
        )  # fmt: skip
    if window not in plan.output:
        raise about(f"each window has a release of its own: name a folder with {window}", "output")
    if plan.scope == "user" and plan.unit != "user":
        raise about(
            f"the same rows would be added to a total in every window: name files with {window}",
            "input",
        )


def _require_noise(plan: PlanDocument) -> None:
    permanent = plan.noise == "permanent"
    if permanent != (plan.distinct_values is not None):
        raise about(
            "noise: permanent and distinct_values go together: each value that a user ever reports "
            "is paid for once",
            "noise" if permanent else "distinct_values",
        )
    if permanent and plan.unit != "user":
        raise about("permanent noise links a user's windows: the unit must be user", "noise")


def _require_names(plan: PlanDocument) -> None:
    seen: set[str] = set()
    for index, metric in enumerate(plan.metrics):
        if metric.name in seen:
            text = "two metrics have one name; their releases need a folder each"
            raise about(text, "metrics", index, "name")
        seen.add(metric.name)


def _require_shares(plan: PlanDocument) -> None:
    claimed = 0.0
    for index, metric in enumerate(plan.metrics):
        claimed += metric.share or 0.0
        if not claimed <= 1 + _ROUNDING:
            text = "the shares of the metrics add up to more than 1"
            raise about(text, "metrics", index, "share")
    for index, metric in enumerate(plan.metrics):
        if not plan.shares[metric.name] > 0:
            raise about("the other metrics' shares leave nothing for it", "metrics", index)
