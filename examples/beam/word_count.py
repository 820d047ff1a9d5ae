"""Beam's first example, with nobody's own words in its answer: how many people use each word.

    python examples/beam/word_count.py --input FOLDER/notes.tsv --output words

Which words there are is nowhere declared: those that some twenty people use come out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import hushbeam.beam as private


class Word(NamedTuple):
    """A word, and who has written it."""

    who: str
    word: str


def words(line: str) -> Iterator[Word]:
    """The words of a note."""
    who, text = line.split("\t")
    yield from (Word(who, word) for word in re.findall(r"[\w']+", text))


def run(argv: list[str] | None = None) -> None:
    """Publish the words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    known, others = parser.parse_known_args(argv)
    with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
        _ = (
            pipeline
            | beam.io.ReadFromText(known.input, skip_header_lines=1)
            | beam.FlatMap(words).with_output_types(Word)
            | private.Strings("word", user="who", rows_per_user=10, epsilon=1)
            | beam.Map(lambda figure: f"{figure.value}: {figure.estimate:.0f}")
            | beam.io.WriteToText(known.output)
        )


if __name__ == "__main__":
    run()
