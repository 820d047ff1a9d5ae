"""Steps of several metrics as one step of Beam: each of Beam's own costs as much as 10,000 rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import typehints
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import WindowedValue

from transforms.elements.blocks import PartitionDoFn
from transforms.elements.conservation import SENT, Batches
from transforms.elements.pieces import Piece

FACTS, FLOW = "facts", "flow"


class Chain(NamedTuple):
    """Steps of one metric, one after the other, up to a group.

    Attributes:
        name: of the metric.
        steps: each takes what the one before it yields; (name, count) pairs, tagged, pass by.
        parting: sends the blocks of the last one to their groups.
        batches: of messages, if these are what is sent: they are counted on their way.
    """

    name: str
    steps: tuple[beam.DoFn, ...]
    parting: PartitionDoFn
    batches: Batches | None = None

    def after(self, *steps: beam.DoFn) -> Chain:
        """The same with other steps before it."""
        return self._replace(steps=(*steps, *self.steps))

    def outputs(self, element: Any, window: Any) -> Iterator[Any]:
        """What comes of an element: pieces by group, and tagged pairs."""
        blocks: Iterable[Any] = [element]
        for step in self.steps:
            blocks = _outputs(step, blocks)
        for block in blocks:
            if isinstance(block, TaggedOutput):
                yield block
                continue
            if self.batches is not None:
                yield TaggedOutput(FLOW, (SENT, self.batches.sizes(block)))
            yield from self.parting.process(block, window)


def _outputs(step: Any, elements: Iterable[Any]) -> Iterator[Any]:
    for element in elements:
        if isinstance(element, TaggedOutput):
            yield element
        else:
            yield from step.process(element)


@contextmanager
def naming(metric: str) -> Iterator[None]:
    """Have what is raised say whose it is, as Beam has it say in which step."""
    try:
        yield
    except Exception as error:
        said, *others = error.args or ("",)  # what is lost says nothing else
        if isinstance(said, str):
            error.args = f"{said} [metric {metric}]".lstrip(), *others
        raise


@typehints.with_output_types(tuple[int, Piece])
class ChainsDoFn(beam.DoFn):
    """The chains of several metrics, each of which takes all elements.

    A group of one of N metrics, the k-th, has the key group * N + k. The output tagged `FACTS` has
    ((k, tag, name), count) of what the chains have tagged.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = chains

    def setup(self) -> None:
        for chain in self._chains:
            for step in (*chain.steps, chain.parting):
                step.setup()

    def start_bundle(self) -> None:
        for chain in self._chains:
            chain.parting.start_bundle()

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        for number in range(len(self._chains)):
            yield from self._through(number, element, window)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for number, chain in enumerate(self._chains):
            for piece in chain.parting.finish_bundle():
                yield self._keyed(number, piece)

    def _through(self, number: int, element: Any, window: Any) -> Iterator[Any]:
        with naming(self._chains[number].name):
            for output in self._chains[number].outputs(element, window):
                if isinstance(output, TaggedOutput):
                    name, count = output.value
                    yield TaggedOutput(FACTS, ((number, output.tag, name), count))
                else:
                    yield self._keyed(number, output)

    def _keyed(self, number: int, piece: WindowedValue) -> WindowedValue:
        group, rows = piece.value
        return piece.with_value((group * len(self._chains) + number, rows))


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class GroupChainsDoFn(ChainsDoFn):
    """The same where each chain takes its metric's groups, as it would have them alone."""

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        group, number = divmod(element[0], len(self._chains))
        yield from self._through(number, (group, element[1]), window)
