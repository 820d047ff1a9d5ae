"""Rows of a Beam YAML file as tables."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, Sessions, WindowFn

from pipelines.beam_yaml import steps
from pipelines.errors import RequestError
from pipelines.rows.tables import ToTableDoFn


@pytest.mark.parametrize("value", ["canary", 2**70, [7]])
def test_a_value_of_another_type_than_declared_is_not_quoted(value: object) -> None:
    step = ToTableDoFn(("real",), pa.schema([("real", pa.int64())]))
    with pytest.raises(TypeError, match="a value of real is no int64") as caught:
        list(step.process([beam.Row(real=1), beam.Row(real=value)]))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("window", [FixedWindows(60), Sessions(60)])
def test_rows_in_windows_are_refused(window: WindowFn, tmp_path: Path) -> None:
    """A window that nobody is in would have no release, and whoever sees that knows it."""
    step = steps.Count(output=str(tmp_path / "out"), epsilon=1.0, drawn_by="job")
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create([beam.Row(user="a")]) | beam.WindowInto(window)
        with pytest.raises(RequestError, match="Count: one release is made of all rows"):
            _ = rows | step
