"""From a plan and a window to jobs: every metric held against one input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from mechanisms.wire.fingerprint import fingerprint, of_window
from pipelines.errors import RequestError
from pipelines.logs.inputs import LARGEST_DOMAIN_FILE, Source, Telemetry
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import ReleaseOptions
from pipelines.metrics.registry import find_for
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

    def options_of(request: MetricRequest, scale: float, divided: bool) -> ReleaseOptions:
        options = plan.options(request, window, scale, divided, clients)
        among = shuffled if plan.model_of(request) == "shuffle" else 1
        return options.among(among, sealed=clients).placed(plan.place)

    def at(scale: float, divided: bool, like: Sequence[Metric] = ()) -> tuple[Metric, ...]:
        parts = _parts(plan, public_seed(plan, window)) if divided else {}
        metrics = []
        for place, request in enumerate(plan.metrics):
            options = options_of(request, scale, divided)
            metric = like[place].rescaled(options) if like else None
            if metric is None:
                metric = _resolved(plan, place, options, source, parts.get(request.name))
                metric = _divided(metric) if clients else metric
            metrics.append(metric)
        return tuple(metrics)

    return settled(plan, at)


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
        rows = int(telemetry.rows * part.share)
        source = source._replace(telemetry=replace(telemetry, rows=rows))
    try:
        metric = find_for(options).resolve(options, source)
    except RequestError as error:
        refusal = undashed(str(error))
        where = plan.where("metrics", place, *_about(request, refusal))
        raise RequestError(f"{where}metric {request.name}: {refusal}") from None
    reason = plan.permanent and (metric.one_job_only or metric.undivided or metric.fresh_only)
    if reason:
        where = plan.where("noise")
        raise RequestError(f"{where}metric {request.name}: noise cannot be permanent: {reason}")
    if telemetry is not None:
        metric = replace(metric, telemetry=telemetry)
    return replace(metric, name=request.name, permanent=plan.permanent, part=part)


def _divided(metric: Metric) -> Metric:
    """A metric as clients, a shuffler and a collector serve it.

    Raises:
        RequestError: they cannot.
    """
    try:
        return metric.divided()
    except RequestError as error:
        raise RequestError(f"metric {metric.name}: {undashed(str(error))}") from None


def _about(metric: MetricRequest, refusal: str) -> tuple[int | str, ...]:
    """Where in a metric the option stands that a refusal is about; nowhere if it is missing.

    Args:
        metric: that was refused.
        refusal: why; by an option's name before anything else, or by what was written there.
    """
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
        mode="json",
        include={"collection", "version", "unit", "epsilon", "delta", "model"},
    )
    if plan.user_column is not None:  # who a user is: the promise is about them
        said["user_column"] = plan.user_column
    if plan.stream is not None:  # of a user per window it is a part of the promise
        said["window"] = plan.stream.window
    if plan.permanent is not None:  # said of it alone, so that older plans keep their fingerprint
        said |= {"noise": plan.noise, "distinct_values": plan.distinct_values}
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
