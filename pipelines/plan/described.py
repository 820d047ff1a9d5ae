"""`hushbeam check --json`: what a plan has come to, for programs that have to run the very same."""

from __future__ import annotations

from typing import Any

from mechanisms.memoised import law_of
from mechanisms.wire.report import Form
from pipelines.metrics.metric import Metric, enrolled, slots
from pipelines.metrics.permanent import promises
from pipelines.metrics.terms import answering_share
from pipelines.plan.client_schema import FORMAT, ClientMetric, DrawRange, PermanentKeys
from pipelines.plan.design import design_of, mark_of_design, mark_of_reports
from pipelines.plan.job import PlanJob
from pipelines.plan.metrics import mark, public_seed


def described(
    whole: PlanJob, window: str | None, refused: str | None, parted: PlanJob | None
) -> dict[str, Any]:
    """A plan with the mechanisms of its metrics.

    Args:
        whole: the plan, prepared without a look at any file, as one job serves it.
        window: that reports are to be of; None if nobody named one.
        refused: why a run would be refused, if it would.
        parted: the same as clients, a shuffler and a collector serve it; None if they cannot.

    Returns:
        What JSON can hold. Numbers of mechanisms are exact: integers as decimals, doubles as
        hexadecimals (`float.fromhex`). In them a public seed reads "of the window".
    """
    job = parted or whole
    plan = job.plan
    released, local = job.guarantees
    named = None
    if window is not None:
        named = {
            "name": window,
            "fingerprint": mark_of_reports(plan, window, job.metrics).hex(),
            "public_seed": str(public_seed(plan, window)),
        }
    return {
        "format": FORMAT,
        "collection": plan.collection,
        "version": plan.version,
        "unit": plan.unit,
        "one_report": plan.user_column is not None,
        "noise": plan.noise,
        "distinct_values": plan.distinct_values,
        "fingerprint": mark(plan).hex(),
        "design": job.design.hex(),
        "window": named,
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
        "metrics": [_metric(whole, parted, place) for place in range(len(job.metrics))],
        "cautions": job.cautions,
        "refused": refused,
    }


def _metric(whole: PlanJob, parted: PlanJob | None, place: int) -> dict[str, Any]:
    """One metric: its place in reports, and what its clients run."""
    job = parted or whole
    metric = job.metrics[place]
    released, local = promises(metric)
    return {
        "place": place,
        "name": metric.name,
        "kind": metric.kind,
        "resolved": design_of(job.plan, job.window, metric),
        **_declared(metric),
        "min_reports": int(metric.min_reports),
        "honest_share": metric.protection.honest_share,
        "answering_share": answering_share(metric),
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
        "expected": _expected(whole.metrics[place]),
        "expected_of_parties": None if parted is None else _expected(metric),
        **_of_clients(metric),
        "client": None if parted is None else _client(parted, place),
    }


def _expected(metric: Metric) -> dict[str, Any]:
    """How exact it will be, as far as that does not hang on the data."""
    return {
        "error": metric.expected_error,
        "statement": metric.error_statement,
        "bits": float(metric.protection.bits),
        "hiding": metric.hiding_cost,
    }


def _declared(metric: Metric) -> dict[str, Any]:
    """What takes a value to an input of the mechanism: what was declared of its column."""
    bounds, domain = (getattr(metric, name, None) for name in ("bounds", "domain"))
    return {
        "column": getattr(metric.options, "column", None) or None,
        "bounds": None if bounds is None else [float(end) for end in bounds],
        "domain_size": None if domain is None else int(domain.size),
    }


def _of_clients(metric: Metric) -> dict[str, Any]:
    """Whether clients can make the reports by themselves, and how many inputs and codes there are.

    Of what they cannot, the reason.
    """
    reason = metric.options.one_job_only or metric.undivided
    if reason is not None:
        return {"undivided": reason, "inputs": None, "codes": None}
    inputs, codes = int(metric.mechanism.inputs), int(metric.mechanism.codes)
    return {"undivided": None, "inputs": inputs, "codes": codes}


def _client(job: PlanJob, place: int) -> dict[str, Any] | None:
    """All that a client in another language needs of a metric; None if it is not written down."""
    metric = job.metrics[place]
    specification = specification_of(metric)
    if specification is None:
        return None
    encoder, channel = specification
    words = slots(metric)
    part, permanent = metric.part, None
    if metric.permanent is not None:
        rounding = getattr(metric.encoder(), "rounding", None)
        permanent = PermanentKeys(
            fingerprint=mark_of_design(job.plan, job.window, [metric]).hex(),
            law=law_of(metric.mechanism).hex(),
            rounding=None if rounding is None else law_of(rounding).hex(),
        )
    written = ClientMetric(
        form=Form(sealed=words > 0, slots=words).kind, sealable=metric.batches == 1,
        encoder=encoder, channel=channel, permanent=permanent,
        draws=None if part is None else DrawRange(first=str(part.first), last=str(part.last)),
    )  # fmt: skip
    return written.model_dump(mode="json")


def specification_of(metric: Metric) -> tuple[Any, Any] | None:
    """What a client in another language needs: records of its encoder and of its channel.

    None if one of them is not written down, as no expression over columns is, nor what devices add
    by themselves.
    """
    if metric.options.view or enrolled(metric) is not None:
        return None
    made: Any = metric
    sends = made.mechanism if made.counters is None else made.reporting
    encoder = getattr(metric.encoder(), "specification", None)
    channel = getattr(sends, "specification", None)
    return None if encoder is None or channel is None else (encoder, channel)
