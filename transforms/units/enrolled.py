"""The report of every enrolled device, whether it has rows or not, and of no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.io.filesystems import FileSystems

from mechanisms.counters.levels import Layout
from transforms.elements.block_coders import decoded, encoded
from transforms.elements.blocks import GroupOnce
from transforms.elements.conservation import PASSED
from transforms.elements.pieces import Piece
from transforms.elements.progress import tally
from transforms.encoders.block import SlotBlock, packed, pieces
from transforms.encoders.users import UserDigest
from transforms.units.contributions import EncodedContributions

UNKNOWN = "users who are not enrolled"
_BYTES = 1 << 22  # of a list, read at a time
_TOGETHER = 1 << 8  # that are sealed at a time


def listed(path: str) -> Iterator[list[bytes]]:
    """The devices of a list, some at a time: a line each, as the user column has them."""
    with FileSystems.open(path) as stream:
        while lines := stream.read(_BYTES):
            lines += stream.readline()
            names = [line.rstrip(b"\r") for line in lines.split(b"\n")]
            yield [name for name in names if name]


@dataclass
class OfEnrolled(beam.PTransform):
    """Blocks of users' reports in; `EncodedContributions` without tallies out.

    Of each listed device there is one report.

    All devices are put in the order of their digests on one worker: in any other order their
    reports would show which of them had no rows.

    Attributes:
        path: of the list.
        layout: of what devices have to say.
        users: makes the digests that the blocks have, too.
    """

    path: str
    layout: Layout
    users: UserDigest

    def expand(self, reports: beam.PCollection) -> EncodedContributions:
        read = beam.ParDo(ReadDevicesDoFn(self.layout, self.users))
        devices = reports.pipeline | "List" >> beam.Create([self.path]) | "Devices" >> read
        step = beam.ParDo(EachDeviceDoFn(self.layout))
        outputs = (
            (reports | "Said" >> beam.Map(_together).with_output_types(tuple[int, Piece]), devices)
            | "Said and devices" >> beam.Flatten()
            | "Group all" >> GroupOnce()
            | "Each device" >> step.with_outputs(EachDeviceDoFn.FLOW, main="blocks")
        )
        # Blocks are all alike, so their order tells nothing: to seal them takes long.
        blocks = outputs.blocks | "Spread devices" >> beam.Reshuffle()
        return EncodedContributions(blocks, reports, (outputs[EachDeviceDoFn.FLOW],))


def _together(block: SlotBlock) -> tuple[int, bytes]:
    return 0, encoded(packed(block))


@typehints.with_input_types(str)
@typehints.with_output_types(tuple[int, Piece])
class ReadDevicesDoFn(beam.DoFn):
    """The digests of a list, in place of reports: with a word that is no code in each slot."""

    def __init__(self, layout: Layout, users: UserDigest) -> None:
        self._layout, self._users = layout, users

    def process(self, path: str) -> Iterator[tuple[int, bytes]]:
        width, mark = self._layout.types.size, self._layout.codes
        for names in listed(path):
            words = np.full((len(names), width), mark, np.min_scalar_type(mark))
            digests = self._users(pa.array(names, pa.large_binary()))
            yield _together(SlotBlock(words, digests))


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(SlotBlock)
class EachDeviceDoFn(beam.DoFn):
    """Everything in; a report of each device out, and how many users had something to say, apart.

    Who is not enrolled is left out: a report more would show that it has rows.
    """

    FLOW = "flow"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[object]:
        rows = np.concatenate([*map(decoded, group[1])])
        mark = rows["words"][:, 0] == self._layout.codes
        devices, said = np.unique(rows["users"][mark]), rows[~mark]
        at = np.searchsorted(devices, said["users"])
        known = np.append(devices, np.uint64(0))[at] == said["users"]
        known &= at < devices.size
        if not known.all():
            tally(UNKNOWN, int(known.size - np.count_nonzero(known)))
        words = self._layout.idle(devices.size).astype(rows["words"].dtype)
        words[at[known]] = said["words"][known]
        yield from pieces(SlotBlock(words, devices), _TOGETHER)
        yield beam.pvalue.TaggedOutput(self.FLOW, (PASSED, said.size))
