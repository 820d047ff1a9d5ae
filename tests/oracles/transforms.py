"""The Beam floor done slowly: DoFns driven by hand, and what a run let out."""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from scipy import optimize, stats

from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import FALSE_ALARM, MISS
from transforms.elements.conservation import Batches
from transforms.elements.progress import NAMESPACE
from transforms.shuffle.shuffle import DrawBucketsDoFn, OrderDoFn

# ---- randomness that tests may repeat ----------------------------------------------------------

_opened = itertools.count()


def restart(seed: int) -> None:
    """Let `fresh_stream` begin a new, repeatable series of generators."""
    global _opened
    _opened = itertools.count(seed << 20)


def fresh_stream() -> SeededRandom:
    """A generator unlike the last, as steps that shared one keystream would be correlated."""
    return SeededRandom(next(_opened))


# ---- DoFns without a runner --------------------------------------------------------------------


def drive(dofn: beam.DoFn, bundles: Iterable[Iterable[Any]], window: Any = None) -> list[Any]:
    """Everything a partitioning DoFn sends on, bundle after bundle, as windowed values."""
    window = window or GlobalWindow()
    sent = []
    for bundle in bundles:
        dofn.start_bundle()
        for element in bundle:
            sent.extend(dofn.process(element, window))
        sent.extend(dofn.finish_bundle())
    return sent


def grouped(sent: Iterable[Any]) -> dict[int, list[bytes]]:
    """What GroupByKey makes of one window's pieces."""
    groups = defaultdict(list)
    for value in sent:
        bucket, piece = value.value
        groups[bucket].append(piece)
    return dict(sorted(groups.items()))


class HandShuffle:
    """The shuffler's two DoFns around a dictionary."""

    def __init__(
        self,
        codes: int,
        buckets: int,
        open_rng: Callable[[], Any] = fresh_stream,
        counted: bool = False,
    ):
        self.draw = DrawBucketsDoFn(buckets, codes, open_rng, counted)
        self.order = OrderDoFn(0, Batches(codes), open_rng, counted)
        self.draw.setup()
        self.order.setup()

    def __call__(self, bundles: Iterable[Iterable[np.ndarray]]) -> list[np.ndarray]:
        groups = grouped(drive(self.draw, bundles))
        return [block for group in groups.items() for block in self.order.process(group)]


# ---- pipelines and what they let out -----------------------------------------------------------


class Kept(NamedTuple):
    """One element and all that Beam says of it."""

    element: Any
    timestamp: Any
    window: Any
    pane: Any


def window_end(kept: Kept) -> bool:
    """Whether the element's time is the end of its window, to the runner's millisecond."""
    return 0 <= kept.window.max_timestamp().micros - kept.timestamp.micros < 1000


_kept: dict[str, list[Kept]] = {}


class KeepDoFn(beam.DoFn):
    """Keeps elements in this process; for runners that share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(
        self,
        element,
        timestamp=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
    ):
        _kept[self._name].append(Kept(element, timestamp, window, pane))


class Outcome(NamedTuple):
    """What a pipeline let out, and its counters."""

    kept: list[Kept]
    counters: dict[str, int]

    @property
    def elements(self) -> list[Any]:
        return [kept.element for kept in self.kept]


def run(
    build: Callable[[beam.Pipeline], beam.PCollection],
    *flags: str,
    runner: str = "FnApiRunner",
) -> Outcome:
    """Run a pipeline in this process."""
    name = uuid.uuid4().hex
    _kept[name] = []
    pipeline = beam.Pipeline(runner, PipelineOptions(list(flags)))
    build(pipeline) | "Keep" >> beam.ParDo(KeepDoFn(name))
    result = pipeline.run()
    result.wait_until_finish()
    counters = {
        counter.key.metric.name: counter.committed
        for counter in result.metrics().query()["counters"]
        if counter.key.metric.namespace == NAMESPACE
    }
    return Outcome(_kept.pop(name), counters)


def source(blocks: Iterable[Any], kind: Any = np.ndarray, spread: float = 0) -> beam.PTransform:
    """Blocks as a PCollection; block i has the timestamp i * spread."""
    stamped = [(block, i * spread) for i, block in enumerate(blocks)]
    return beam.Create(stamped) | beam.Map(_stamp).with_output_types(kind)


def _stamp(pair):
    return TimestampedValue(*pair)


# ---- what an order may look like ---------------------------------------------------------------


def journeys(order: np.ndarray, parts: int) -> np.ndarray:
    """How many messages went from each part of the input to each part of the output.

    Args:
        order: (n,) where each output message stood in the input.
        parts: into how many equal parts both sides are divided.

    Returns:
        (parts * parts,) counts; uniform if the order is.
    """
    before = order.astype(np.int64) * parts // len(order)
    after = np.arange(len(order)) * parts // len(order)
    return np.bincount(before * parts + after, minlength=parts * parts)


def neighbours(order: np.ndarray, size: int) -> int:
    """How many neighbours in the output come from the same input block of `size` messages."""
    blocks = order.astype(np.int64) // size
    return int(np.count_nonzero(blocks[1:] == blocks[:-1]))


def most_neighbours(size: int) -> int:
    """More of them than this mean, but for FALSE_ALARM, that blocks are not torn apart.

    Two places of n hold messages of one block with probability (size - 1) / (n - 1), and n - 1
    pairs are neighbours: about a Poisson number with mean size - 1.
    """
    return int(stats.poisson.isf(FALSE_ALARM, size - 1))


def messages_to_see(share: float, size: int) -> int:
    """How many messages show a shuffler that keeps this share of all neighbours together."""
    limit = most_neighbours(size)
    mean = optimize.brentq(lambda mean: stats.poisson.cdf(limit, mean) - MISS, limit, 100 * limit)
    return int(mean / share) + 1
