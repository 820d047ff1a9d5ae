"""Metrics of noisy counters that read the same rows, in one set of Beam's steps.

A step costs Beam some 4 ms, however little passes, and a metric alone takes 40 of them. Here all
metrics take as many as one does. Each has its own chain of steps, with generators, noise, counts
and content of its own: elements say which metric they are of, and no two metrics' ever meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton, TaggedOutput

from mechanisms.counters.design import Range
from pipelines.logs.inputs import sessions_of
from pipelines.metrics.content import Content
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.by_job import ByJob
from pipelines.metrics.metric import Metric
from pipelines.metrics.publishable import ContentDoFn
from transforms.collector.collect_counts import CountMessages
from transforms.elements.block_coders import decoded, encoded
from transforms.elements.blocks import DrawingDoFn, GroupOnce
from transforms.elements.chains import FACTS, FLOW, Chain, ChainsDoFn, GroupChainsDoFn, naming
from transforms.elements.conservation import ADDING_UP, Batches
from transforms.elements.drawing import DrawSecret
from transforms.elements.pieces import Piece
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.dummies import CountDummiesDoFn, DrawDummiesDoFn, ranges_of
from transforms.shuffle.group_codes import AddUpDoFn, PartCodesDoFn

# Rows, each once for every metric: what an engine groups at once must not fill its memory. From
# there on rows cost more than steps.
_ROWS = 1 << 21

_MARKS, _BLOCKS, _TALLIES = "marks", "blocks", EncodeDoFn.TALLIES


def joined(metrics: Sequence[Metric]) -> list[tuple[ByCounters, ...]]:
    """Metrics that are joined, as many at a time as memory has room for; others are left out.

    Args:
        metrics: all of the same files. Kinds that have steps of their own run by themselves.
    """
    alike: dict[int, list[ByCounters]] = {1: [], 2: []}
    for metric in metrics:
        if isinstance(metric, ByCounters) and (groups := len(chains(metric))):
            alike[groups].append(metric)
    size = max(1, _ROWS // max(1, metrics[0].telemetry.about))
    return [
        tuple(some[start : start + size])
        for some in alike.values()
        for start in range(0, len(some), size)
    ]


def chains(metric: ByCounters) -> tuple[Chain, ...]:
    """What a metric's rows pass, each up to a group; none if they pass other steps."""
    options, codes = metric.options, metric.mechanism.codes
    if type(metric) not in (ByCounters, ByJob) or options.fused or sessions_of(options):
        return ()
    last = Chain(metric.name, (), PartCodesDoFn(codes), Batches(codes))
    return metric.shape.chains(metric, last)


@dataclass
class JoinedMetrics(beam.PTransform):
    """Tables in; (name, `Content`) of each metric out.

    Attributes:
        metrics: some of `joined`.
    """

    metrics: tuple[ByCounters, ...]

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        metrics, begin = self.metrics, tables.pipeline
        first, *others = map(tuple, zip(*map(chains, metrics), strict=True))
        sent = tables | "Rows" >> _parted(ChainsDoFn(first))
        facts = [sent[FACTS]]
        for chain in others:
            grouped = sent.pieces | "Group by user bucket" >> GroupOnce()
            sent = grouped | "Users" >> _parted(GroupChainsDoFn(chain))
            facts.append(sent[FACTS])
        draw = beam.ParDo(DrawDoFn(metrics)).with_outputs(_MARKS, main="drawn")
        drawn = begin | "Metrics and ranges" >> beam.Create(_ranges(metrics)) | "Draw" >> draw
        pieces = [sent.pieces]
        if any(not metric.draws_once for metric in metrics):
            once = drawn.drawn | "Once drawn" >> GroupOnce()
            dummies = once | "Dummies" >> _parted(GroupChainsDoFn(_dummies(metrics)))
            pieces, facts = [*pieces, dummies.pieces], [*facts, dummies[FACTS]]
        counts = (
            pieces
            | "With dummies" >> beam.Flatten()
            | "Group by code" >> GroupOnce()
            | "Add up codes" >> beam.ParDo(AddUpEachDoFn(metrics))
        )
        flow = (
            facts
            | "Facts" >> beam.Flatten()
            | "Add up facts" >> beam.CombinePerKey(ADDING_UP)
            | "Of metric" >> beam.Map(_of_metric).with_output_types(tuple[int, Any])
        )
        all_of_it = (counts, flow, drawn[_MARKS]) | "All parts" >> beam.Flatten()
        secret = []
        if any(metric.draws_once for metric in metrics):
            secret = [AsSingleton(begin | "Secret" >> DrawSecret(metrics[0].open_rng))]
        content = beam.ParDo(JoinedContentDoFn(metrics), *secret)
        return all_of_it | "Gather" >> GroupOnce() | "Content" >> content


def _parted(step: beam.DoFn) -> Any:
    return beam.ParDo(step).with_outputs(FACTS, main="pieces")


def _of_metric(fact: tuple[tuple[int, str, str], Any]) -> tuple[int, Any]:
    (number, tag, name), amount = fact
    return number, (tag, (name, amount))


def _ranges(metrics: Sequence[ByCounters]) -> list[tuple[int, Range | None]]:
    """A mark of each metric, and the ranges whose dummies are drawn, under the keys of `Chain`s."""
    many = len(metrics)
    return [(number, None) for number in range(many)] + [
        (place * many + number, range_)
        for number, metric in enumerate(metrics)
        if not metric.draws_once
        for place, range_ in enumerate(ranges_of(metric.design))
    ]


def _dummies(metrics: Sequence[ByCounters]) -> list[Chain]:
    """What takes a metric's dummies to the group of their codes."""
    codes = [metric.mechanism.codes for metric in metrics]
    return [
        Chain(metric.name, (CountDummiesDoFn(),), PartCodesDoFn(many), Batches(many))
        for metric, many in zip(metrics, codes, strict=True)
    ]


@typehints.with_output_types(tuple[int, Piece])
class DrawDoFn(DrawingDoFn):
    """The dummies of each range; and in the output tagged "marks" that there is each metric.

    A metric without rows has a release all the same.
    """

    def __init__(self, metrics: Sequence[ByCounters]) -> None:
        self._draws = [
            None if metric.draws_once else DrawDummiesDoFn(metric.design, metric.open_rng, False)
            for metric in metrics
        ]

    def setup(self) -> None:
        for draw in filter(None, self._draws):
            draw.setup()

    def process(self, numbered: tuple[int, Range | None]) -> Iterator[Any]:
        key, range_ = numbered
        draw = self._draws[key % len(self._draws)]
        if range_ is None or draw is None:
            yield TaggedOutput(_MARKS, (key, (_MARKS, None)))
        else:
            yield from draw.process((key, range_))


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(tuple[int, Any])
class AddUpEachDoFn(beam.DoFn):
    """How often each code of a group of one metric came."""

    def __init__(self, metrics: Sequence[ByCounters]) -> None:
        self._codes = [metric.mechanism.codes for metric in metrics]

    def process(self, grouped: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, Any]]:
        group, number = divmod(grouped[0], len(self._codes))
        for block in AddUpDoFn(self._codes[number]).process((group, grouped[1])):
            yield number, (_BLOCKS, encoded(block))


@typehints.with_output_types(tuple[str, Content])
class JoinedContentDoFn(beam.DoFn):
    """The collector of each metric: what is published of it, under its name."""

    def __init__(self, metrics: Sequence[ByCounters]) -> None:
        self._metrics = metrics

    def process(
        self,
        gathered: tuple[int, Iterable[tuple[str, Any]]],
        secret: Any = b"",
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[tuple[str, Content]]:
        metric = self._metrics[gathered[0]]
        parts: dict[str, list[Any]] = {_BLOCKS: [], _MARKS: [], _TALLIES: [], FLOW: []}
        for tag, part in gathered[1]:
            parts[tag].append(part)
        with naming(metric.name):
            counting = CountMessages(metric.mechanism)
            estimate = counting.apply([*map(decoded, parts[_BLOCKS])])
            facts = dict(parts[_TALLIES]), dict(parts[FLOW])
            for counted in metric.with_noise(estimate, secret, window):
                for content in ContentDoFn(metric).process(counted, *facts):
                    yield metric.name, content
