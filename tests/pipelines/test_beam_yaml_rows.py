"""Rows of a Beam YAML file as tables."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest

from pipelines.beam_yaml import steps


@pytest.mark.parametrize("value", ["canary", 2**70, [7]])
def test_a_value_of_another_type_than_declared_is_not_quoted(value: object) -> None:
    step = steps.ToTableDoFn(pa.schema([("real", pa.int64())]))
    with pytest.raises(TypeError, match="a value of real is no int64") as caught:
        list(step.process([beam.Row(real=1), beam.Row(real=value)]))
    assert caught.value.__context__ is None
