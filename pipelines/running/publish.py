"""`hushbeam count --horizon`, and `sum`: one window is added to running totals."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from apache_beam.io.filesystems import FileSystems
from rich.text import Text

from mechanisms.randomness import SecureRandom
from pipelines.errors import DONE, Caution, RequestError
from pipelines.ledger.paying import Payment
from pipelines.logs.inputs import Source, open_telemetry
from pipelines.metrics.counting.design import target_of
from pipelines.metrics.counting.exactly import counted_here, take
from pipelines.metrics.counting.exactly import names as names_of
from pipelines.metrics.resolving import resolve
from pipelines.releases.release import REPORT
from pipelines.request import answers
from pipelines.running.kept import KeptTotals, Place
from pipelines.running.metric import Running
from pipelines.running.options import TotalOptions
from pipelines.running.sources import sources_of, span_of_rows
from pipelines.running.totals import add_counted, again, begun, table
from pipelines.views.console import Screen, numbers_table
from pipelines.views.digits import digits
from pipelines.views.facts import cell
from pipelines.wording import one_line

_SHOWN = 10  # windows on the screen


def publish(
    name: str, options: TotalOptions, beam_arguments: list[str], payment: Payment | None = None
) -> int:
    """Add one window to running totals, and show them.

    Args:
        name: of the kind of metric.
        options: of the request.
        beam_arguments: what is for Beam.
        payment: where all windows are paid for, if they are.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong, or the window is not a new one.
        WithheldError: too little budget is left to begin.
        FailedError: the job ended without totals.
    """
    for_beam = counted_here(beam_arguments)
    FileSystems.set_options(for_beam)
    place = Place.of(options.output, options.secret)
    telemetry = open_telemetry(options.input, True, options.reading)
    counted: Any = options.counted_as
    counted.require_dated()
    metric: Any = resolve(counted, Source(telemetry=telemetry))
    names = names_of(metric)
    time, span = options.time_column, None
    if time is not None:  # what is wrong with it is said before anything is begun, or paid for
        span = span_of_rows(telemetry, time, metric.options.view)
    terms, rng = _terms(name, options, metric), SecureRandom()
    kept = begun(place, terms, metric.noise, names, payment, rng)
    again(kept, options.window)
    sources = sources_of(telemetry, kept.key, [*kept.sources.values()], span)
    kept.made(options.window, sources)  # refused before it is counted
    _caution(metric)
    screen = Screen()
    adds = partial(add_counted, place, options.window, names, metric, sources)
    refused = take(metric, for_beam, adds, screen)
    kept = begun(place, terms, kept.design, names, payment, rng)
    _require_added(kept, options.window, refused)
    answers.tell(
        release=options.output, window=options.window, windows=len(kept.windows),
        guarantee=kept.guarantee.as_dict(),
        rows=table(kept).to_pylist()[-len(names) :],
    )  # fmt: skip
    _show(kept, options, screen)
    return DONE


def _require_added(kept: KeptTotals, window: str, reasons: list[str]) -> None:
    """Say of a window that a job has not added why, and what there is now."""
    drawn = window in kept.windows
    if reasons or not drawn:
        why = "; ".join(reasons) or "the job ended without it"
        stands = "it stands as it was first drawn" if drawn else "what was published before stands"
        raise RequestError(f"window {window} was not added by this run: {why}; {stands}")


def _terms(name: str, options: TotalOptions, metric: Running) -> dict[str, Any]:
    """What is the same in all windows: a statement shows it, and of files what they declare."""
    files = {*metric.options.files} & metric.request.keys()
    declared = {file: metric.request[file] for file in sorted(files)}
    _, epsilon, delta = target_of(metric.options)
    return {"kind": name, **options.terms, **declared, "epsilon": epsilon, "delta": delta}


def _caution(metric: Running) -> None:
    """Say where noise that is drawn anew in each window would come to less."""
    for line in metric.dearer:
        warnings.warn(line, Caution, stacklevel=2)


def _show(kept: KeptTotals, options: TotalOptions, screen: Any) -> None:
    """The newest totals of the first names, and what holds."""
    for last in dict.fromkeys((None, options.last)):
        if last is not None and last > len(kept.windows):
            continue
        rows = table(kept, last).to_pylist()
        title = "total so far" if last is None else f"of the last {last:,} windows"
        shown = numbers_table(("window", "of"), ("estimate", "standard error"), title)
        for row in rows[-_SHOWN:]:
            error = row["standard_error"]
            shown.add_row(
                *(Text(cell(row[name])) for name in ("window", "value")),  # no markup
                digits(row["estimate"], error),
                f"{error:.3g}",
            )
        screen.print(shown)
    screen.print(one_line(kept.guarantee), highlight=False)
    line = f"all totals: {options.output}/totals.parquet, and to read {options.output}/{REPORT}"
    screen.say(line)
