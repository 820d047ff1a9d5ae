"""PipelineDP's films: the sum of each film's ratings, two of a viewer's at the most.

python examples/beam/movies.py --input FOLDER/ratings.csv --output sums
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import hushbeam.beam as private


class Rating(NamedTuple):
    """A viewer's stars for a film."""

    viewer: str
    film: int
    rating: int


def rating(line: str) -> Rating:
    """A line of the log."""
    viewer, film, stars = line.split(",")
    return Rating(viewer, int(film), int(stars))


def run(argv: list[str] | None = None) -> None:
    """Publish the sums."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    known, others = parser.parse_known_args(argv)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        _ = (
            pipeline
            | beam.io.ReadFromText(known.input, skip_header_lines=1)
            | beam.Map(rating).with_output_types(Rating)
            | private.Sum(
                "rating", (0, 5), by="film", values=range(20), user="viewer", rows_per_user=2,
                whole_numbers=True, epsilon=1,
            )
            | beam.Map(lambda figure: f"{figure.group}: {figure.estimate:.0f}")
            | beam.io.WriteToText(known.output)
        )  # fmt: skip


if __name__ == "__main__":
    run()
