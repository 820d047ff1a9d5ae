"""`hushbeam check --json`: what a plan has come to, for programs that have to run the very same."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mechanisms.memoised import law_of
from mechanisms.specification import Channel
from mechanisms.wire.report import Form
from pipelines.errors import DONE
from pipelines.metrics import registry
from pipelines.metrics.metric import Metric, enrolled, slots
from pipelines.metrics.permanent import promises
from pipelines.metrics.terms import answering_share
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import PlanJob
from pipelines.plan.metrics import design_of, mark, mark_of_design, mark_of_reports, public_seed
from pipelines.plan.parts import OF_PLAN, MetricRequest
from pipelines.request import answers
from transforms.encoders.specification import Encoder

FORMAT = 1
"""Of what `check --json` prints. A client refuses a larger one."""

_BYTES = r"^([0-9a-f]{2})+$"
_WORD = r"^[0-9]{1,20}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DrawRange(_Strict):
    """Which devices answer, where each answers one of several metrics: whose draw lies here."""

    first: str = Field(pattern=_WORD)
    last: str = Field(pattern=_WORD)


class PermanentKeys(_Strict):
    """What permanent noise is keyed by, besides the user's secret; 16 bytes each."""

    fingerprint: str = Field(pattern=_BYTES)
    law: str = Field(pattern=_BYTES)
    rounding: str | None = Field(pattern=_BYTES, description="of what rounds numbers to a grid")


class ClientMetric(_Strict):
    """All that a client needs of a metric, beside the formulas of docs/appendix/wire.md."""

    form: int = Field(description="of reports: 0, which may be sealed (1); 5, slots, all sealed")
    sealable: bool = Field(description="whether plain reports may be sealed instead")
    encoder: Encoder = Field(discriminator="encoder")
    channel: Channel = Field(discriminator="channel")
    draws: DrawRange | None
    permanent: PermanentKeys | None


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
    seed = public_seed(plan, job.window)
    return {
        "format": FORMAT,
        "collection": plan.collection,
        "version": plan.version,
        "unit": plan.unit,
        "one_report": plan.user_column is not None,
        "noise": plan.noise,
        "distinct_values": plan.distinct_values,
        "tokens": plan.tokens,
        "fingerprint": mark(plan).hex(),
        "design": job.design.hex(),
        "window": named,
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
        "metrics": [_metric(whole, parted, place, seed) for place in range(len(job.metrics))],
        "cautions": job.cautions,
        "refused": refused,
    }


def _metric(whole: PlanJob, parted: PlanJob | None, place: int, seed: int) -> dict[str, Any]:
    """One metric: its place in reports, and what its clients run."""
    job = parted or whole
    metric = job.metrics[place]
    released, local = promises(metric)
    return {
        "place": place,
        "name": metric.name,
        "kind": metric.kind,
        "resolved": design_of(seed, metric),
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


def schema() -> dict[str, Any]:
    """The JSON Schema of plans; a metric's own options are those of its kind."""
    plan = PlanDocument.model_json_schema()
    metric = plan["$defs"][MetricRequest.__name__]
    del metric["additionalProperties"]
    metric["allOf"] = [_of_kind(name, metric) for name in registry.names()]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | plan


def print_schema() -> int:
    """The schema on the standard output."""
    answers.give(schema())
    print(json.dumps(schema(), indent=2))
    return DONE


def _of_kind(name: str, metric: dict[str, Any]) -> dict[str, Any]:
    """What a metric of one kind says: what all do, and what the kind asks."""
    options = registry.options(name).model_json_schema()
    own = {name: value for name, value in options["properties"].items() if name not in OF_PLAN}
    needed = [name for name in options["required"] if name not in OF_PLAN]
    more = registry.options_in_plan(name, (registry.HORIZON,)).model_json_schema()["properties"]
    more = {n: value for n, value in more.items() if n not in own and n not in OF_PLAN}
    return {
        "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
        "then": {
            "properties": metric["properties"] | own | more,
            "required": needed,
            **({"dependentRequired": {n: [registry.HORIZON] for n in more}} if more else {}),
            "additionalProperties": False,
        },
    }


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
