"""A metric of numbers, and the first round that chooses its bounds if that is what is asked."""

from __future__ import annotations

import json
import os
from typing import Any

from pipelines.command.single import publish_one
from pipelines.errors import RequestError
from pipelines.ledger.paying import Payment
from pipelines.logs.inputs import Source
from pipelines.metrics.counting.options import DELTA, CountOptions
from pipelines.metrics.file_options import FileOptions
from pipelines.metrics.first_round import SHARE, ChosenBounds, chosen_of, first_metrics
from pipelines.metrics.options import JOB, NumberOptions
from pipelines.metrics.resolving import resolve
from pipelines.releases import release
from pipelines.request import answers
from pipelines.storage.paths import beside

_SHARED = {"input", "user_column", "large_delta", "neighbours", "expected", "confidence"}


def publish(
    name: str, options: NumberOptions, beam_arguments: list[str], payment: Payment | None = None
) -> int:
    """As `publish_one`, after a first round if bounds are to be chosen."""
    if not options.choose_bounds:
        return publish_one(name, options, beam_arguments, payment)
    if options.bounds is not None:
        raise RequestError("--bounds and --choose-bounds exclude each other")
    if options.drawn_by != JOB:
        raise RequestError(
            f"--choose-bounds: the job's own noise alone serves it: say --drawn-by {JOB} and no "
            "option of reports, or name --bounds"
        )
    # What is wrong with the second round is refused before the first is paid for.
    resolve(_within(options, (0.0, 1.0)), Source(paid=payment is not None))
    if release.holds_release(options.output):
        release.require_vacant(options.output)
    first = _first(options, beam_arguments, payment)
    (bounds,) = first.bounds.values()
    return publish_one(name, _within(options, bounds), beam_arguments, payment, first)


def _first(
    options: NumberOptions, beam_arguments: list[str], payment: Payment | None
) -> ChosenBounds:
    """The first round; one that stands there already is not made again."""
    asks = _counts(options)
    metric, folder = resolve(asks, Source(paid=True)), asks.output
    if not (release.holds_release(folder) and _paid(folder, payment)):
        with answers.apart():
            publish_one("count", asks, beam_arguments, payment, quiet=True)
    if not release.holds_release(folder):
        raise RequestError(f"--choose-bounds: {folder} is made elsewhere: run this again after it")
    if release.statement_of(folder).get("request") != json.loads(json.dumps(metric.request)):
        release.require_vacant(folder)
    chosen = chosen_of(release.read_table(folder, "count.parquet"))
    return ChosenBounds(
        {options.column: chosen}, {options.column: options.column}, os.path.basename(folder),
        metric.guarantees[0], metric.design, options.epsilon,
    )  # fmt: skip


def _paid(folder: str, payment: Payment | None) -> bool:
    """Whether a release that stands there was paid for where this one is to be."""
    if payment is None:
        return True
    from pipelines.ledger.ledger import CollectionLedger

    stamp = release.statement_of(folder).get("ledger") or {}
    known = CollectionLedger.open(beside("", payment.ledger)).read().seen
    return (stamp.get("id"), stamp.get("population")) == (known.ledger, payment.population)


def _counts(options: NumberOptions) -> CountOptions:
    """What the first round asks: how large the numbers of the same rows are."""
    names = options.model_fields_set & (_SHARED | FileOptions.model_fields.keys())
    said = {name: getattr(options, name) for name in names}
    (metric,) = first_metrics([f"`{options.column}`"], options.user_column is not None, ())
    more = {key: value for key, value in metric.items() if key not in ("name", "kind")}
    derived = (f"{name}={text}" for name, text in more.pop("derive").items())
    output = f"{options.output.rstrip('/')}-bounds"
    more |= {"derive": (*options.derive, *derived), "output": output, "drawn_by": JOB}
    return CountOptions(**(said | more | _part(options, SHARE)))


def _within(options: NumberOptions, bounds: tuple[float, float]) -> NumberOptions:
    """What the second round asks, with the rest of what may be spent."""
    more = {"bounds": "{!r},{!r}".format(*bounds), "choose_bounds": False}
    return options.model_copy(update=more | _part(options, 1 - SHARE))


def _part(options: NumberOptions, share: float) -> dict[str, Any]:
    delta = DELTA if options.delta is None else options.delta
    return {"epsilon": options.epsilon and share * options.epsilon, "delta": share * delta}
