"""The shuffler of unknown strings: equal seals are counted, and those handed on that pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam import typehints

from mechanisms.wire.sealing import key_id, public_key
from pipelines.parties.drawing import APART, BELOW, DISTINCT, DrawAndMix, put_aside
from pipelines.parties.memory import Memory
from transforms.crowds import Crowded
from transforms.encoders.block import CellBlock
from transforms.sealed_crowds import CountSeals, crowd_reports


@dataclass
class DrawCrowds(DrawAndMix):
    """From files of submitted reports to a file of each metric, of what its noise lets pass.

    Strings stand there by their noisy numbers, and equal ones by their seals: in no order of
    reports. How many there are is a function of what is published.
    """

    @property
    def ranges(self) -> int:
        return 0

    @property
    def parts(self) -> int:
        return len(self.parted.metrics)

    def mixed(
        self, begin: beam.pvalue.PBegin, reports: beam.PCollection
    ) -> tuple[beam.PCollection, list[beam.PCollection]]:
        plan, key = self.parted.fingerprint, key_id(public_key(self.pem))
        files, sizes = [], []
        for place, metric in enumerate(self.parted.metrics):
            step = CountSeals(plan, place, metric.crowds, metric.slots, self.buckets, self.open_rng)
            once, seals, crowds = reports | metric.name >> step
            sizes += [
                *self.came(place, once),
                seals | f"{metric.name} seals" >> beam.Map(_sealed),
                crowds | f"{metric.name} numbers" >> beam.FlatMap(_passed),
            ]
            write = WriteCrowdsDoFn(self.memory, self.shuffle_id, place, key)
            files.append(crowds | f"{metric.name} file" >> beam.ParDo(write))
        return tuple(files) | "Files" >> beam.Flatten(), sizes


def _sealed(seals: CellBlock) -> tuple[str, int]:
    return APART, seals.size


def _passed(crowded: Crowded) -> Iterator[tuple[str, int]]:
    """How many strings pass, and how many seals that were counted are no one of theirs."""
    yield DISTINCT, len(crowded.values)
    yield BELOW, crowded.messages - len(crowded.values)


@typehints.with_input_types(Crowded)
@typehints.with_output_types(tuple[int, str, int])
class WriteCrowdsDoFn(beam.DoFn):
    """One metric's file of a batch: its number, its name in the memory, and how many it holds."""

    def __init__(self, memory: Memory, shuffle: str, place: int, key: bytes) -> None:
        self._memory, self._shuffle = memory, shuffle
        self._place, self._key = place, key

    def process(self, crowded: Crowded) -> Iterator[tuple[int, str, int]]:
        reports = crowd_reports(crowded, self._memory.fingerprint, self._place, self._key)
        yield self._place, put_aside(self._memory, self._shuffle, reports), len(reports)
