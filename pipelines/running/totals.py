"""Running totals that are kept: paid once, each window drawn once, through kills and restarts.

Their folder is a release like any other, with the totals of all windows so far. What is drawn from
day to day stands in a secret file elsewhere: with it and the totals, more is known than was paid
for. It holds noise, the totals, and, under a key of its own, a digest of the last window's numbers,
which tells a window that was drawn and not shown from one that is asked for with other numbers; and
what each window was made of (`sources`).
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats, Guarantee
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import RandomSource
from pipelines.errors import RequestError
from pipelines.ledger.paying import Payment, ReleasePrice, paid
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.releases import release
from pipelines.releases.statement import head, parquet, versions
from pipelines.running.kept import KIND, Design, KeptTotals, Place, locked, read
from pipelines.running.sources import NONE, Sources
from pipelines.running.view import TABLE, page
from pipelines.storage.paths import beside, new_file
from transforms.files.systems import escaped

_AGAIN = (
    "window {} was drawn before, and its totals stand: drawn again, or for other numbers, it would "
    "tell more than was paid for"
)
KEY = 4  # words
_LARGEST = 1 << 48  # that is added in a window: totals of 20,000 then fit into 64 bits


def begun(
    place: Place, request: Mapping[str, Any], design: Design, names: Sequence[str],
    payment: Payment | None, rng: RandomSource,
) -> KeptTotals:  # fmt: skip
    """Running totals that stand somewhere; begun there, and paid for, if nothing does.

    Args:
        place: where.
        request: what they were begun with, or are.
        design: of new ones.
        names: of the totals.
        payment: the ledger that pays for the whole horizon, and whose budget; None for none, or
            for what was paid before.
        rng: of this process.

    Raises:
        RequestError: others stand there, or a part is missing, or another ledger was to pay, or it
            cannot be used.
        WithheldError: too little budget is left.
    """
    if len({*names}) < len(names):
        raise RequestError("two totals have the same name: each needs one of its own")
    with locked(place):
        kept = read(place)
        if kept is None or not (kept.windows or release.holds_release(place.output)):
            key = rng.words(KEY).tobytes().hex()
            kept = kept or KeptTotals(
                request, design, tuple(names), key, (), (), "", design.begin(), _payer(payment),
                place.output,
            )  # fmt: skip
            require_same(place.output, kept, request, names)
            # Or what one run reserved would be published by the next, which names no ledger, free.
            _require_payer(place, kept, _payer(payment))
            _begin(place, kept, payment)
        require_same(place.output, kept, request, names)
        if payment is not None:
            _require_payer(place, kept, _payer(payment))
        _catch_up(place, kept)
    return kept


def _begin(place: Place, kept: KeptTotals, payment: Payment | None) -> None:
    """Pay for the whole horizon, and publish totals of no window yet."""
    if kept.output != place.output:
        raise RequestError(
            f"{place.secret} is what running totals of {kept.output} are drawn from: each folder "
            "needs a secret of its own"
        )

    def price() -> ReleasePrice:
        return ReleasePrice(KIND, kept.guarantee, kept.design.profile, place.output, None)

    lost = (
        f"{place.output}: running totals were begun there, and their secret is not at "
        f"{place.secret}: bring it back; without it nothing can be added, so name a new folder, "
        "and pay for it"
    )
    if release.holds_release(place.output):
        raise RequestError(lost)
    release.require_vacant(place.output)
    with paid(payment, price) as right:
        if right.published:
            raise RequestError(lost)
        # First what is drawn from: without it a folder would only look like running totals.
        kept.write(place)
        said = statement(kept) | right.stamp
        none = table(kept)
        release.publish(
            place.output, {TABLE: parquet(none), release.REPORT: page(none, said)}, said
        )
        right.conclude(True)


def words(kept: KeptTotals) -> list[str]:
    """Whom the promise is about, of how many windows, and what it rests on."""
    request, promise, design = kept.request, kept.guarantee, kept.design
    return [
        f"The promise covers all that any one {promise.whose} adds to the totals: whether it is "
        "there or not.",
        f"It holds of {design.horizon:,} windows together, charged once, if a "
        f"{request['unit']} adds to {design.contribution.days:,} of them at the most, and no more "
        "in a window than was declared.",
        "Noise of one window is not independent of that of the next: a secret file holds what it "
        "follows from. Whoever has that file and these totals knows more than is said here.",
    ]


def statement(kept: KeptTotals) -> dict[str, Any]:
    """What a release says of all windows, whichever it has."""
    design, request, promise = kept.design, kept.request, kept.guarantee
    first, *more = words(kept)
    nobody = Guarantee.none("the job sees exact numbers, and adds noise to totals alone")
    error = [design.standard_error(day) for day in (0, design.horizon - 1)]
    return {
        **head(KIND, (promise, nobody), first, more, 0, design),
        "neighbours": f"all that a {promise.whose} adds is there or not",
        "published_exactly": "the names of windows, and how many there are",
        "request": request,
        "secret_id": kept.id,
        "mechanism": design.constants,
        "error": {"first": error[0], "last": error[1], "covers": "all noise, and roundings of it",
                  "confidence": request["confidence"], "intervals": "each holds alone"},
        "versions": versions(),
    }  # fmt: skip


def same(kept: KeptTotals, request: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether totals were begun with these terms."""
    # What nobody has said may be an option that there was not yet at the begin; a file has lists
    # where options have tuples.
    begun_with, request_now = (
        {name: said for name, said in json.loads(json.dumps(terms)).items() if said is not None}
        for terms in (kept.request, request)
    )
    return (begun_with, kept.names) == (request_now, tuple(names))


def require_same(
    where: str, kept: KeptTotals, request: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Refuse to go on under other terms.

    Raises:
        RequestError: they are.
    """
    if not same(kept, request, names):
        raise RequestError(
            f"{where} holds running totals that were begun with other terms; they cannot "
            "change: name a new folder, and pay for it"
        )


def _payer(payment: Payment | None) -> tuple[str, str] | None:
    """Who pays, wherever a command is typed."""
    return payment and (beside("", payment.ledger), payment.population)


def _require_payer(place: Place, kept: KeptTotals, payer: tuple[str, str] | None) -> None:
    """Refuse a ledger that would not be charged, for all windows are paid for at the begin."""
    if payer == kept.paid:
        return
    if kept.paid is None:
        raise RequestError(
            f"--ledger: {place.output} holds running totals that were begun without a ledger, and "
            "none can be charged for them now: name none, or a new folder"
        )
    raise RequestError(
        f"--ledger: the running totals of {place.output} were begun at the expense of "
        f"{kept.paid[1]} in {kept.paid[0]}, once for all windows: name these, or a new folder"
    )


def add(
    place: Place, window: str, numbers: Mapping[str, Any], rng: RandomSource,
    sources: Sources = NONE,
) -> KeptTotals:  # fmt: skip
    """Add a window's numbers to the totals, and publish them with noise.

    What is drawn stands on the disk before anybody sees it. The same window with the same numbers
    may be asked for again, until another is: nothing more is drawn.

    Args:
        place: of running totals.
        window: its name.
        numbers: name -> what it adds, exactly.
        rng: of this process.
        sources: what it is made of, if that are files.

    Returns:
        What stands there now.

    Raises:
        RequestError: the window is not a new one, the horizon is over, a number is missing, or the
            secret is older than the totals; or rows of it are in them already.
    """
    with locked(place):
        kept = read(place)
        if kept is None:
            raise RequestError(f"{place.output} and {place.secret} must both be there, and are not")
        _catch_up(place, kept)
        ordered = _ordered(kept.names, numbers)
        kept = kept.made(window, sources)
        after = drawn(kept, window, ordered, rng)
        if after is not kept:
            after.write(place)
            _catch_up(place, after)
        return after


def add_counted(
    place: Place, window: str, names: Sequence[str], metric: ByCounters, sources: Sources,
    levels: Sequence[Floats], rng: RandomSource,
) -> None:  # fmt: skip
    """The same of what a job has counted: levels of a count or a sum, for each name."""
    exact = np.rint(metric.shape.totals(metric, levels)).astype(np.int64).tolist()
    add(place, window, dict(zip(names, exact, strict=True)), rng, sources)


def _catch_up(place: Place, kept: KeptTotals) -> None:
    """Publish what is drawn and is not shown yet: by a job, say, that was killed in between.

    Raises:
        RequestError: what is shown is not there, or is newer, or was drawn from another secret.
    """
    if not release.holds_release(place.output):
        raise RequestError(f"{place.output} and {place.secret} must both be there, and are not")
    said = release.statement_of(place.output)
    if said.get("secret_id") != kept.id:
        raise RequestError(
            f"{place.output} is drawn from another secret than {place.secret}: name its own, or a "
            "new folder"
        )
    shown = _shown(place.output)
    if shown != [*kept.windows[: len(shown)]]:
        raise RequestError(
            f"{place.secret} is older than {place.output}, which has windows that it does not "
            "know: drawn again they would tell more than was paid for; bring the newest back"
        )
    if len(shown) < len(kept.windows):
        made = table(kept)
        files = {release.REPORT: page(made, said), TABLE: parquet(made)}
        release.sign_again(place.output, files)
        # The table comes last: it says what is shown.
        for name, content in files.items():
            with new_file(os.path.join(place.output, name)) as stream:
                stream.write(content)


def _shown(folder: str) -> list[str]:
    """The windows that are published."""
    try:
        windows: list[str] = release.read_table(folder, TABLE)["window"].unique().to_pylist()
    except (ValueError, KeyError):
        raise RequestError(
            f"{folder}/{TABLE} is damaged, or no table of running totals: restore it from a copy"
        ) from None
    return windows


def again(kept: KeptTotals, window: str) -> None:
    """Refuse a window that was followed by others, before its numbers are looked at.

    Raises:
        RequestError: it was.
    """
    if window in kept.windows[:-1]:
        raise RequestError(_AGAIN.format(window))


def drawn(kept: KeptTotals, window: str, ordered: list[int], rng: RandomSource) -> KeptTotals:
    """With one more window; the same where it is the last one again."""
    digest = kept.digest(window, ordered)
    if window in kept.windows:
        if window == kept.windows[-1] and hmac.compare_digest(digest, kept.last):
            return kept
        raise RequestError(_AGAIN.format(window))
    kept.design.require_priced(kept.request["epsilon"], kept.request["delta"])
    try:
        moved, state = kept.design.added(kept.state, ordered, rng)
    except ValueError as error:
        raise RequestError(f"window {window}: {error}") from None
    before = kept.totals[-1] if kept.totals else (0,) * len(kept.names)
    now = zip(before, moved, strict=True)
    totals = (*kept.totals, tuple(sum(parts) for parts in now))
    return replace(kept, windows=(*kept.windows, window), totals=totals, last=digest, state=state)


def table(kept: KeptTotals, last: int | None = None, confidence: float | None = None) -> pa.Table:
    """Totals after each window, with their errors.

    Args:
        kept: what stands in the folder.
        last: of so many windows each, where there are as many; of all so far where it is None.
        confidence: of intervals, each of which holds alone; None for what they were begun with.
    """
    width = normal_quantile(kept.request["confidence"] if confidence is None else confidence)
    rows = []
    for day, (window, totals) in enumerate(zip(kept.windows, kept.totals, strict=True)):
        if last is not None and day + 1 < last:
            continue
        before = kept.totals[day - last] if last is not None and day >= last else None
        error = kept.design.standard_error(day, last)
        half = width * error
        for place, (name, total) in enumerate(zip(kept.names, totals, strict=True)):
            estimate = total - (before[place] if before else 0)
            rows.append({
                "window": window, "value": name, "estimate": estimate, "standard_error": error,
                "lower": estimate - half, "upper": estimate + half,
            })  # fmt: skip
    kinds = [("window", pa.string()), ("value", pa.string()), ("estimate", pa.int64())]
    kinds += [(name, pa.float64()) for name in ("standard_error", "lower", "upper")]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def _ordered(names: Sequence[str], numbers: Mapping[str, Any]) -> list[int]:
    """Whole numbers in the order of the totals; what is wrong is said by name, never by number."""
    if {*names} != {*numbers}:
        raise RequestError(f"there are {len(names):,} totals, and a number must come for each")
    for name in names:
        number = numbers[name]
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not (whole and -_LARGEST <= number <= _LARGEST):
            raise RequestError(f"what is added to {name!r} must be a whole number within 2^48 of 0")
    return [int(numbers[name]) for name in names]


WINDOW = "{window}"

_LOOKED_AT = 20  # of the newest releases


def opened(
    series: str, window: str, request: Mapping[str, Any], design: Design,
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
        if said := kept.design.over(kept.state):
            raise RequestError(
                f"horizon: {said} of {series} were drawn: begin others in another output, and pay "
                "for them"
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
