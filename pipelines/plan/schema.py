"""The JSON Schema of plans, for editors."""

from __future__ import annotations

import json
from typing import Any

from pipelines.errors import DONE
from pipelines.metrics import registry
from pipelines.plan.document import PlanDocument
from pipelines.plan.parts import OF_PLAN, MetricRequest
from pipelines.request import answers


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
