"""Steps of a pipeline that are built later than they are applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PTransformOverride


def replace_steps(pipeline: beam.Pipeline, steps: Mapping[beam.PTransform, Any]) -> None:
    """Build steps in the place of others, whose outputs become theirs.

    `Pipeline.replace_all` gives consumers that are there the new outputs. What was handed out
    before it, and is consumed after it, are the old ones: so these are put in the new ones' place.

    Args:
        pipeline: that has them.
        steps: a transform that was applied -> the one in its place, both with outputs by name; each
            output of the new one is made by its last step.
    """
    pipeline.replace_all([_Replacing(steps)])


def require_closed(pipeline: beam.Pipeline, budget: Any) -> None:
    """Have a pipeline ask, before anything else of a run, whether a budget is closed.

    Beam asks so whether steps that collect errors are. Without it the run fails a little later,
    in Beam's words around ours.

    Args:
        pipeline: that will run.
        budget: with a method `verify_closed`, which raises.
    """
    if register := getattr(pipeline, "_register_error_handler", None):
        register(budget)


class _Replacing(PTransformOverride):
    def __init__(self, steps: Mapping[beam.PTransform, Any]) -> None:
        # By identity: transforms that are dataclasses have no hash.
        self._steps = {id(step): other for step, other in steps.items()}

    def matches(self, applied: AppliedPTransform) -> bool:
        return id(applied.transform) in self._steps

    def get_replacement_transform_for_applied_ptransform(self, applied: AppliedPTransform) -> Any:
        return _Adopting(self._steps[id(applied.transform)], applied)


class _Adopting(beam.PTransform):
    """A step that makes what another has promised."""

    def __init__(self, step: beam.PTransform, promised: AppliedPTransform) -> None:
        super().__init__()
        self._step, self._promised = step, promised

    def expand(self, inputs: Any) -> dict[str, beam.PCollection]:
        made: dict[str, beam.PCollection] = self._step.expand(inputs)
        for name, output in made.items():
            promised, last = self._promised.outputs[name], output.producer
            for tag, one in last.outputs.items():
                if one is output:
                    last.replace_output(promised, tag)
            promised.producer, promised.tag = last, output.tag
            made[name] = promised
        return made
