"""What is paid for once: windows under one noise, and the passes over one batch.

A window more shows no more of a value that is reported again, and a value more was paid for with
the first window, up to as many as the plan declares. What it does show, that somebody's value
changed, has no price: statements say so.

So it is of running totals, whose noise goes on from window to window, from one secret.

Of several passes over a batch (`mechanisms.counters.passes`) those before the last one show what it
shows, and noise besides: the one with the largest share is the price of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pipelines.ledger.entries import Loss, Noise
from pipelines.ledger.spans import PASS


class Priced(Protocol):
    """A release, made or wanted."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def window(self) -> str: ...
    @property
    def files(self) -> tuple[str, ...] | None: ...
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

    And of the passes over one batch the one that tells most.

    Args:
        releases: of one collection.
    """
    counted, known = list[Release](), set[object]()
    for release in _dearest([*releases]):
        # Another version, design or choice of metrics draws noise anew, and where the design is not
        # known nobody can tell.
        name: object = release.fingerprint, release.design, release.metrics, release.records
        if release.noise == "running":  # its design is that of the secret which both are drawn from
            name = release.design
        if release.noise == "fresh" or release.design is None or name not in known:
            counted.append(release)
            known.add(name)
    return counted


def _dearest(releases: list[Release]) -> list[Release]:
    """Releases without those passes over a batch whose price is in that of another one."""
    passes = {_pass(release)[0] for release in releases if PASS in release.window}
    if not passes:
        return releases
    most: dict[object, float] = {}
    for batch, share in map(_pass, releases):
        most[batch] = max(share, most.get(batch, 0.0))
    named = ((release, *_pass(release)) for release in releases)
    return [r for r, batch, share in named if batch not in passes or share == most[batch]]


def _pass(release: Priced) -> tuple[object, float]:
    """(the batch that a release is a pass over, the share of its epsilon)."""
    window, _, share = release.window.partition(PASS)
    batch = (release.fingerprint, release.design, window, release.files)
    return batch, float(share) if share else 1.0
