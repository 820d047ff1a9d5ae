"""What other distributions add to hushbeam, as entry points of its groups."""

import sys
from functools import cache
from importlib import metadata
from typing import Any

_GROUPS, _OURS = "hushbeam.", "hushbeam."  # how our groups, and what we name ourselves, begin


def entry_points(group: str) -> metadata.EntryPoints:
    """The entry points of a group, of all that is installed."""
    points: metadata.EntryPoints = _all(tuple(sys.path)).select(group=group)
    return points


def of_others() -> bool:
    """Whether anything but hushbeam itself has entry points in one of its groups."""
    groups = (group for group in _all(tuple(sys.path)).groups if group.startswith(_GROUPS))
    return any(
        not point.value.startswith(_OURS) for group in groups for point in entry_points(group)
    )


@cache
def _all(path: tuple[str, ...]) -> Any:
    """Those of a search path, of a class that Python 3.12 has changed; every look takes 10 ms."""
    return metadata.entry_points()
