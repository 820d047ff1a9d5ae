"""Running totals of a plan: each window in a release of its own, all drawn from one secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mechanisms.randomness import RandomSource
from mechanisms.running.totals import RunningTotals
from pipelines.errors import RequestError
from pipelines.releases import release
from pipelines.running.kept import KeptTotals, Place, locked, read
from pipelines.running.sources import NONE, Sources
from pipelines.running.totals import KEY, drawn, require_same, same
from transforms.files.systems import escaped

WINDOW = "{window}"

_LOOKED_AT = 20  # of the newest releases


def opened(
    series: str, window: str, request: Mapping[str, Any], design: RunningTotals,
    names: Sequence[str], rng: RandomSource, made: Callable[[str, Sequence[Sources]], Sources],
) -> KeptTotals:  # fmt: skip
    """What a series of windows is drawn from; begun if it has no window yet. Nothing is drawn.

    Args:
        series: the folder of any window, with what stands for its name.
        window: that is to be released.
        request: what all windows were begun with, or are.
        design: of new ones.
        names: of the totals.
        rng: of this process.
        made: (key, what other windows were made of) -> what the window is made of.

    Raises:
        RequestError: windows stand that were drawn from another secret, or from a newer one; or
            they were begun with other terms, or the horizon is over, or rows of the window are in
            the totals already.
    """
    place = Place.of_series(series)
    with locked(place):
        kept = read(place)
        # What no window was drawn from has told nothing, and may be begun on other terms: the
        # budget, say, did not hold the first ones.
        if kept is not None and not (kept.windows or same(kept, request, names)):
            kept = None
        if kept is None:
            key = rng.words(KEY).tobytes().hex()
            begin = design.begin()
            kept = KeptTotals(request, design, tuple(names), key, (), (), "", begin, None, series)
        require_same(series, kept, request, names)
        _require_newest(place, series, kept)
        if window in kept.windows:
            return kept
        if not kept.state.day < design.factors.horizon:
            raise RequestError(
                f"horizon: all {design.factors.horizon:,} windows of {series} were drawn: begin "
                "others in another output, and pay for them"
            )
        others = [one for name, one in kept.sources.items() if name != window]
        kept = kept.made(window, made(kept.key, others))
        kept.write(place)
    return kept


def added(
    series: str, window: str, request: Mapping[str, Any], names: Sequence[str],
    numbers: Sequence[int], rng: RandomSource,
) -> KeptTotals:  # fmt: skip
    """A window's totals, drawn now; as they were drawn, if they have been.

    What is drawn stands on the disk before anybody sees it, and a run that was killed in between is
    given the very same, whatever its numbers are now.

    Args:
        series, window, request, names: as of `opened`.
        numbers: what it adds to each total, exactly.
        rng: of this process.

    Returns:
        What there was when the window had been drawn.
    """
    place = Place.of_series(series)
    with locked(place):
        kept = read(place)
        if kept is None:
            raise RequestError(f"{place.secret} was there when the run began, and is not")
        require_same(series, kept, request, names)  # another run may have begun it anew meanwhile
        if window not in kept.windows:
            kept = kept.made(window, kept.sources.get(window, NONE))
            kept = drawn(kept, window, [*numbers], rng)
            kept.write(place)
    return kept.up_to(window)


def _require_newest(place: Place, series: str, kept: KeptTotals) -> None:
    """Refuse a secret that does not know the newest windows that were published."""
    for folder in release.newest([escaped(series).replace(WINDOW, "*")], _LOOKED_AT):
        said = release.statement_of(folder)
        if "secret_id" not in said:
            continue
        if said["secret_id"] != kept.id:
            raise RequestError(
                f"{folder} is drawn from another secret than {place.secret}, which totals go on "
                "from: bring its own back; without it nothing can be added, so name another "
                "output, and pay for it"
            )
        if (shown := said["window"]["name"]) not in kept.windows:
            raise RequestError(
                f"{place.secret} is older than {folder}, and does not know window {shown}: drawn "
                "again it would tell more than was paid for; bring the newest back"
            )
