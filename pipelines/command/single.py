"""One metric from the command line: from what was typed to what is shown at the end."""

from __future__ import annotations

from dataclasses import replace

from pipelines.errors import DONE, WithheldError
from pipelines.jobs.engine import prepared
from pipelines.jobs.publishing import carry_out, conclude, say_cautions, say_where, show_release
from pipelines.ledger.paying import Payment, ReleasePrice, paid
from pipelines.ledger.spans import digests
from pipelines.logs.inputs import Source
from pipelines.metrics.first_round import ChosenBounds
from pipelines.metrics.instead import said
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import ReleaseOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.resolving import resolve
from pipelines.plan.profiles import profile_of
from pipelines.releases import release
from pipelines.request import answers
from pipelines.views.console import Screen


def publish_one(
    name: str, options: ReleaseOptions, beam_arguments: list[str], payment: Payment | None = None,
    first: ChosenBounds | None = None, quiet: bool = False,
) -> int:  # fmt: skip
    """Publish one metric, and show it.

    Args:
        name: of its kind, see `metrics.registry`.
        options: of the request.
        beam_arguments: what is for Beam.
        payment: where it is paid for, if it is.
        first: a first round that was paid for by itself, if there was one.
        quiet: whether people are shown nothing of it.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few reports came, or too little budget is left.
        FailedError: the job ended without a release.
    """
    for_beam = prepared(beam_arguments)
    metric = resolve(options, Source(paid=payment is not None))
    screen, whole = Screen(quiet=quiet), replace(metric, first=first)
    with paid(payment, lambda: _price(name, whole)) as right:
        if right.published:
            say_where(right.output, screen)
            _require_figures(right.output)
            return DONE
        if whole.prospect is not None:  # of what goes on, and not of what is refused
            answers.tell(prospect=whole.prospect)
            screen.print(whole.prospect, highlight=False, soft_wrap=True)
        from pipelines.metrics.release import ReleaseMetric

        step = ReleaseMetric(whole, right.stamp, right.ledger)
        published = carry_out(whole, step, for_beam(), screen)
        right.conclude(published)
    if published:
        _say(whole, screen)
    return DONE


def _say(metric: Metric, screen: Screen) -> None:
    """What was published, and of what in it a reader must beware."""
    folder = metric.options.output
    statement = release.statement_of(folder)
    if "withheld" not in statement:
        show_release(metric.options.output, screen)
    conclude(metric, screen)
    _require_figures(folder)
    for line in said([metric]):
        answers.add("instead", line)
        screen.say(line)
    say_cautions(statement.get("cautions", ()))


def _require_figures(folder: str) -> None:
    if release.holds_release(folder):  # else an operator has moved it
        why = release.statement_of(folder).get("withheld")
        if why is not None:
            raise WithheldError(why)


def _price(name: str, metric: Metric) -> ReleasePrice:
    loss, files = promises(metric)[0], digests(metric.telemetry.files)
    if metric.first is not None:  # which has an entry of its own; the curve follows from its answer
        fixed = replace(loss, epsilon=metric.options.epsilon, delta=metric.options.delta)
        return ReleasePrice(name, fixed, None, metric.options.output, files)
    return ReleasePrice(name, loss, profile_of(metric, loss), metric.options.output, files)
