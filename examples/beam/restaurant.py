"""The restaurant of PipelineDP and of Privacy on Beam: four figures at one price.

python examples/beam/restaurant.py --input FOLDER/visits.csv --output figures
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import hushbeam.beam as private

DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


class Visit(NamedTuple):
    """What a visitor spent."""

    visitor: str
    hour: int
    minutes: float
    euros: float
    day: str


def visit(line: str) -> Visit:
    """A line of the log."""
    visitor, hour, minutes, euros, day = line.split(",")
    return Visit(visitor, int(hour), float(minutes), float(euros), day)


def run(argv: list[str] | None = None) -> None:
    """Publish the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    known, others = parser.parse_known_args(argv)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        lines = pipeline | beam.io.ReadFromText(known.input, skip_header_lines=1)
        visits = lines | beam.Map(visit).with_output_types(Visit)
        with private.Budget(epsilon=1, delta=1e-6) as budget:
            by_day = {"by": "day", "values": DAYS, "rows_per_user": 7}
            by_hour = {"by": "hour", "values": range(9, 21)}
            figures = [
                visits | transform
                for transform in (
                    private.Sum("euros", (0, 100), user="visitor", budget=budget, **by_day),
                    private.Count(user="visitor", budget=budget, **by_hour),
                    private.Mean("minutes", (0, 60), user="visitor", budget=budget, **by_hour),
                    "Sum by hour"
                    >> private.Sum("euros", (0, 40), user="visitor", budget=budget, **by_hour),
                )
            ]
        _ = figures | beam.Flatten() | beam.Map(line) | beam.io.WriteToText(known.output)


def line(figure: beam.Row) -> str:
    """A line of the answer."""
    group = figure.group or figure.value
    return f"{figure.metric}\t{group}\t{figure.estimate}\t{figure.standard_error}"


if __name__ == "__main__":
    run()
