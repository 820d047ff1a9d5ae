"""Windows under one noise: their price is of all of them together, and is paid once.

A window more shows no more of a value that is reported again, and a value more was paid for with
the first window, up to as many as the plan declares. What it does show, that somebody's value
changed, has no price: statements say so.

So it is of running totals, whose noise goes on from window to window, from one secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pipelines.ledger.entries import Loss, Noise


class Priced(Protocol):
    """A release, made or wanted."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def design(self) -> str | None: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def noise(self) -> Noise: ...
    @property
    def records(self) -> tuple[Loss, ...]: ...


Release = TypeVar("Release", bound=Priced)


def once(releases: Iterable[Release]) -> list[Release]:
    """Those of some releases that count: of windows under one permanent noise the first.

    Args:
        releases: of one collection.
    """
    counted, known = list[Release](), set[object]()
    for release in releases:
        # Another version, design or choice of metrics draws noise anew, and where the design is not
        # known nobody can tell.
        name: object = release.fingerprint, release.design, release.metrics, release.records
        if release.noise == "running":  # its design is that of the secret which both are drawn from
            name = release.design
        if release.noise == "fresh" or release.design is None or name not in known:
            counted.append(release)
            known.add(name)
    return counted
