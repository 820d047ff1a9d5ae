"""From a plan and a window to jobs: every metric held against one input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from mechanisms.wire.fingerprint import (
    Json,
    agreed,
    described,
    described_loss,
    fingerprint,
    of_design,
    of_window,
)
from pipelines.errors import RequestError
from pipelines.logs.inputs import LARGEST_DOMAIN_FILE, Source, Telemetry, of_rows
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import ADDED, ReleaseOptions
from pipelines.metrics.resolving import resolve as resolve_one
from pipelines.plan.document import PlanDocument
from pipelines.plan.joint import settled
from pipelines.plan.parts import MetricRequest
from pipelines.request.options import undashed
from pipelines.storage.stores import require_reachable
from transforms.encoders.part import Part
from transforms.files.systems import FileSystems

_WORD = re.compile(r"[a-z][a-z0-9_-]*")


def resolve(
    plan: PlanDocument, window: str, telemetry: Telemetry, clients: bool = False
) -> tuple[Metric, ...]:
    """All metrics of a plan.

    Args:
        plan: what is collected.
        window: the part of the time.
        telemetry: the window's files, opened once; `inputs.UNREAD` where there are none to see.
        clients: whether each user's own client draws the noise, and not one job for all.

    Raises:
        RequestError: a metric cannot be served as the plan says; the metric is named,
            and where the plan came from a file its line.
    """
    source = Source(telemetry, public_seed(plan, window))
    shuffled = sum(plan.model_of(metric) == "shuffle" for metric in plan.metrics)

    def options_of(
        request: MetricRequest, scale: float, divided: bool, alone: bool
    ) -> ReleaseOptions:
        options = plan.options(request, window, scale, divided, clients)
        among = shuffled if plan.model_of(request) == "shuffle" and not alone else 1
        return options.among(among, sealed=clients).placed(plan.place)

    def at(
        scale: float, divided: bool, like: Sequence[Metric] = (), alone: bool = False
    ) -> tuple[Metric, ...]:
        parts = _parts(plan, public_seed(plan, window)) if divided else {}
        metrics = []
        for place, request in enumerate(plan.metrics):
            options = options_of(request, scale, divided, alone)
            anew = not like or (alone and options.hidden_by == ADDED)  # other noise takes seconds
            metric = None if anew else like[place].rescaled(options)
            if metric is None:
                metric = _resolved(plan, place, options, source, parts.get(request.name))
                metric = _divided(metric) if clients else metric
            metrics.append(metric)
        return tuple(metrics)

    return settled(plan, at, partial(mark_of_design, plan, window))


def _parts(plan: PlanDocument, seed: int) -> dict[str, Part]:
    """Which units answer each metric of the local model, if units are divided among those."""
    names = [metric.name for metric in plan.metrics if plan.model_of(metric) == "local"]
    parts = Part.of([plan.shares[name] for name in names], seed)
    return dict(zip(names, parts, strict=True))


def _resolved(
    plan: PlanDocument, place: int, options: ReleaseOptions, source: Source, part: Part | None
) -> Metric:
    request, telemetry = plan.metrics[place], source.telemetry
    if part is not None and telemetry is not None:  # it is planned for those who answer
        counts = of_rows(int(telemetry.rows * part.share))
        whole = telemetry.whole("units are divided among metrics")  # of rows that are counted
        source = source._replace(telemetry=replace(whole, counts=counts))
    try:
        metric = resolve_one(options, source)
    except RequestError as error:
        refusal = undashed(str(error))
        where = plan.where("metrics", place, *_about(request, refusal))
        if not where:  # of a query that was typed, and not of a file
            refusal = str(error)
        raise RequestError(f"{where}metric {request.name}: {refusal}") from None
    reason = plan.permanent and (
        metric.options.one_job_only or metric.undivided or metric.fresh_only
    )
    if reason:
        where = plan.where("noise")
        raise RequestError(f"{where}metric {request.name}: noise cannot be permanent: {reason}")
    if getattr(options, "before", None) and plan.scope != "user":
        why = f"rows of two windows are read, and a {plan.unit} pays for one: say unit: user"
        raise RequestError(f"{plan.where('unit')}metric {request.name}: before: {why}")
    if telemetry is not None:
        metric = replace(metric, telemetry=telemetry)
    return replace(metric, name=request.name, permanent=plan.permanent, part=part)


def _divided(metric: Metric) -> Metric:
    """A metric as clients, a shuffler and a collector serve it."""
    try:
        return metric.divided()
    except RequestError as error:
        raise RequestError(f"metric {metric.name}: {undashed(str(error))}") from None


def _about(metric: MetricRequest, refusal: str) -> tuple[int | str, ...]:
    """Where in a metric the option stands that a refusal is about; nowhere if it is missing."""
    options, words = metric.options, _WORD.findall(refusal)
    values = {written: name for name, written in options.items() if isinstance(written, str)}
    named = [word for word in words if word in options] + [values[w] for w in words if w in values]
    if not named:
        return ()
    several = options[named[0]] if isinstance(options[named[0]], list) else []
    return (named[0], *(i for i, part in enumerate(several) if _quoted(str(part), refusal)))[:2]


def _quoted(written: str, refusal: str) -> bool:
    """Whether one of several texts, as in fare=0,60, is the one that a refusal speaks of."""
    return written in refusal or repr(written.partition("=")[0]) in refusal


def mark(plan: PlanDocument) -> bytes:
    """The plan's fingerprint: what it says that its reports mean, and nothing of where they are.

    What a planner makes of it is not in it (`design.mark_of_design`): the same window of the same
    plan is the same release, whichever version of hushbeam has made it. Files of declared values
    count with what is in them: another list gives codes another meaning.

    Returns:
        16 bytes.

    Raises:
        RequestError: two plans would not be told apart, or a number fits no JSON.
    """
    said = plan.model_dump(
        mode="json", include={"collection", "version", "unit", "epsilon", "delta", "model"}
    )
    if plan.user_column is not None:  # who a user is: the promise is about them
        said["user_column"] = plan.user_column
    if plan.stream is not None:  # of a user per window it is a part of the promise
        said["window"] = plan.stream.window
    if plan.permanent is not None:  # said of it alone, so that older plans keep their fingerprint
        said |= {"noise": plan.noise, "distinct_values": plan.distinct_values}
    if plan.tokens is not None:
        said["tokens"] = plan.tokens
    try:
        return fingerprint(said | {"metrics": [_said(plan, metric) for metric in plan.metrics]})
    except ValueError as error:
        raise RequestError(str(error)) from None


def _said(plan: PlanDocument, metric: MetricRequest) -> dict[str, Any]:
    """What one metric asks, with digests of the files that it names."""
    try:
        options = plan.options(metric, "")
    except ValidationError:
        raise RequestError(f"metric {metric.name}: its kind does not understand it") from None
    digests = [_digest(file) for file in options.placed(plan.place).declared_files]
    return {"name": metric.name, "kind": metric.kind, "asked": options.meaning, "declared": digests}


def _digest(file: str) -> str | None:
    """What a file holds; None if it is none, as with ranges of integers."""
    require_reachable([file])
    try:
        with FileSystems.open(file) as stream:
            content = stream.read(LARGEST_DOMAIN_FILE + 1)  # some files never end
    except (OSError, ValueError):
        return None
    if len(content) > LARGEST_DOMAIN_FILE:
        raise RequestError(
            f"{file} is larger than {LARGEST_DOMAIN_FILE >> 20} MiB: no declared values"
        )
    return hashlib.sha256(content).hexdigest()


def public_seed(plan: PlanDocument, window: str) -> int:
    """What hashes and sketches of a window are drawn from, alike for clients and collector.

    Returns:
        0 .. 2^63 - 1: public, and settled before any value is looked at.
    """
    return int.from_bytes(of_window(mark(plan), window)[:8], "big") >> 1


# The plan is the request; `mechanism: auto` and everything else that it leaves open is settled by
# the planner of the hushbeam that reads it. What reports carry covers both, so that parties who
# disagree find out.
_OF_WINDOW = "of the window"  # in the place of a seed that is drawn from the plan and the window


def design_of(seed: int, metric: Metric) -> Json:
    """What a metric has come to: its mechanism, its parameters, its codes and what they promise.

    The window's own random draws are left out, being settled by the plan.

    Args:
        seed: `public_seed` of its plan and window.
        metric: one of the plan.
    """
    design = {
        "name": metric.name,
        "kind": metric.kind,
        "made": described(metric.protection.made),
        "local": described_loss(metric.guarantees[1]),
    }
    if metric.part is not None:
        design["asked"] = described([metric.part.first, metric.part.last])
    return _without(str(seed), design)


def mark_of_design(plan: PlanDocument, window: str, metrics: Sequence[Metric]) -> bytes:
    """The fingerprint of a plan and of what it has come to; the same in every window.

    Args:
        plan: what is collected.
        window: any; that of the metrics.
        metrics: all of the plan, or those that the fingerprint is to be of.

    Returns:
        16 bytes.
    """
    seed = public_seed(plan, window)
    designs = [design_of(seed, metric) for metric in metrics]
    return of_design(mark(plan), agreed(designs))


def mark_of_reports(plan: PlanDocument, window: str, metrics: Sequence[Metric]) -> bytes:
    """What reports of one window carry: a report of another is dropped like one of another plan.

    A client and a shuffler that speak of different windows would draw different hashes, a report
    of yesterday must not be sent again today, and a code means nothing to who has resolved the
    plan to another mechanism.

    Returns:
        16 bytes.
    """
    return of_window(mark_of_design(plan, window, metrics), window)


def _without(seed: str, part: Any) -> Json:
    """A description with a name in the place of the window's seed."""
    if isinstance(part, dict):  # JSON's own shapes
        return {name: _without(seed, value) for name, value in part.items()}
    if isinstance(part, list):
        return [_without(seed, value) for value in part]
    return _OF_WINDOW if part == seed else part
