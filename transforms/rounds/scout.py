"""Two rounds in one pipeline: some users tell of how large numbers are, the others are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.magnitudes import BoundsRule, bin_of, bins
from mechanisms.randomness import SecureRandom
from transforms.collector.collect import Collect, frequencies
from transforms.collector.collect_counts import Counted
from transforms.elements.blocks import DrawingDoFn, Generator
from transforms.encoders.bounds import Bounds, Rounding
from transforms.rows import perturb
from transforms.rows.encode import CellBlock
from transforms.shuffle.shuffle import Shuffle


class ScoutedBounds(NamedTuple):
    """What the first round has come to.

    Attributes:
        bounds: for the second round, or None if too few took part.
        hidden: the share of users in one bin beyond the bounds that noise may hide.
        n: how many reports the choice stands on.
        invalid: how many messages no client could have sent.
    """

    bounds: Bounds | None
    hidden: float
    n: int
    invalid: int

    @property
    def known(self) -> Bounds:
        """The bounds, where there are some.

        Raises:
            ValueError: there are none.
        """
        if self.bounds is None:
            raise ValueError("there is no mean without bounds")
        return self.bounds


@dataclass
class Divide(beam.PTransform):
    """Blocks of cells in, (the scouts' blocks, everybody else's) out: each user in one of them.

    The coins are flipped once: a checkpoint lies between them and the two rounds, so that no
    runner computes one round's users again, with other coins, after the other round has run.

    Attributes:
        share: of users who are scouts, in (0, 1).
        open_rng: opens the generator on each worker.
    """

    share: float
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        pairs = (
            blocks
            | "Flip coins" >> beam.ParDo(DivideDoFn(self.share, self.open_rng))
            | "Keep how they fell" >> beam.Reshuffle()
        )
        return pairs | "Scouts" >> beam.Keys(), pairs | "The rest" >> beam.Values()


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(tuple[CellBlock, CellBlock])
class DivideDoFn(DrawingDoFn):
    """Scouts and the rest of each block, by coins that look at nothing."""

    def __init__(self, share: float, open_rng: Generator) -> None:
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, not {share}")
        # Even the largest double below 1 gives a threshold that fits a word.
        self._threshold, self._open_rng = np.uint64(int(share * 2**64)), open_rng

    def process(self, block: CellBlock) -> Iterator[tuple[CellBlock, CellBlock]]:
        scouts = self._rng.words(block.cells.size) < self._threshold
        yield CellBlock(block.cells[scouts], None), CellBlock(block.cells[~scouts], None)


@dataclass
class ChooseBounds(beam.PTransform):
    """Blocks of `FloatWords` in, one `ScoutedBounds` out.

    Attributes:
        oracle: over the bins of `mechanisms.mean.magnitudes`.
        rule: what bounds to make of their shares.
        min_reports: of a shuffled batch; None where reports are not shuffled.
        buckets: of the shuffler.
        open_rng: opens the generator on each worker.
    """

    oracle: FrequencyOracle
    rule: BoundsRule
    min_reports: int | None
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, words: beam.PCollection) -> beam.PCollection:
        cells = words | "Magnitude" >> beam.Map(magnitudes).with_output_types(CellBlock)
        users = cells | "Count users" >> beam.Map(perturb.users_of).with_output_types(int)
        messages = cells | "Perturb" >> perturb.Perturb(self.oracle, self.open_rng)
        if self.min_reports is not None:
            messages |= "Shuffle" >> Shuffle(
                self.min_reports,
                self.oracle.codes,
                self.buckets,
                self.open_rng,
                users,
                counted=True,
            )
        estimate = partial(chosen_bounds, self.oracle, self.rule)
        collect = Collect(self.oracle, estimate, users)
        # Bounds are made from messages alone, so by post-processing they cost no privacy.
        return messages | "Choose" >> collect.with_output_types(ScoutedBounds)


def magnitudes(block: CellBlock) -> CellBlock:
    """The bins of a block of words; behind them that of words that are no number."""
    numbers = block.cells.view(np.float32)
    return CellBlock(np.where(np.isnan(numbers), np.uint32(bins()), bin_of(numbers)), None)


def chosen_bounds(
    oracle: FrequencyOracle, rule: BoundsRule, counted: Counted, users: int
) -> ScoutedBounds:
    """Bounds from the shares of magnitudes: see `ChooseBounds`."""
    # Not post-processed: the rule compares shares with their standard deviations, and a projection
    # would bias them.
    shares = frequencies(oracle, "none", counted, users)
    if not shares.n:
        return ScoutedBounds(None, 1.0, 0, shares.invalid)
    known = shares.unbiased[: bins()]  # of numbers
    # Unbiased shares may leave [0, 1], where the variance has no meaning.
    variances = oracle.variance(np.clip(known, 0, 1), shares.n)
    bounds = Bounds(*rule(known, variances))
    hidden = rule.hidden(float(oracle.variance(0.0, shares.n)))
    return ScoutedBounds(bounds, hidden, shares.n, shares.invalid)


@dataclass
class RoundWithin(beam.PTransform):
    """Blocks of `FloatWords` to blocks of grid cells, within bounds that were just chosen.

    Attributes:
        chosen: one `ScoutedBounds`; nothing comes out if it has no bounds.
        rounding: what takes values in [-1, 1] to cells; what is no number gets the one behind them.
        open_rng: opens the generator on each worker.
    """

    chosen: beam.PCollection
    rounding: Rounding
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, words: beam.PCollection) -> beam.PCollection:
        within = RoundDoFn(self.rounding, self.open_rng)
        return words | "Round" >> beam.ParDo(within, AsSingleton(self.chosen))


@typehints.with_input_types(CellBlock, ScoutedBounds)
@typehints.with_output_types(CellBlock)
class RoundDoFn(DrawingDoFn):
    """Clips, scales and rounds."""

    def __init__(self, rounding: Rounding, open_rng: Generator) -> None:
        self._rounding, self._open_rng = rounding, open_rng

    def process(self, block: CellBlock, chosen: ScoutedBounds) -> Iterator[CellBlock]:
        if chosen.bounds is not None:
            numbers = block.cells.view(np.float32).astype(np.float64)
            missing = np.isnan(numbers)
            values = chosen.bounds.scale(np.where(missing, 0.0, numbers))
            cells = self._rounding.encode(values, self._rng)
            cells[missing] = self._rounding.inputs
            yield CellBlock(cells, None)
