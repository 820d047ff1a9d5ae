"""Two rounds in one pipeline: some users tell of how large numbers are, the others are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsSingleton
from numpy.typing import NDArray

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.magnitudes import BoundsRule, bin_of
from mechanisms.randomness import RandomSource, SecureRandom
from transforms import perturb
from transforms.blocks import Generator
from transforms.collect import CollectFrequencies, Frequencies
from transforms.encode import CellBlock
from transforms.encode_numbers import Bounds, Rounding
from transforms.shuffle import Shuffle

_LARGEST = float(np.finfo(np.float32).max)


class AsTheyAre(NamedTuple):
    """In the place of bounds: numbers are clipped to what 32 bits hold, and not scaled."""

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) finite numbers."""
        return np.clip(values, -_LARGEST, _LARGEST)


@dataclass(frozen=True)
class FloatWords:
    """In the place of a grid: each number as the 32 bits of the nearest single-precision float."""

    @property
    def inputs(self) -> int:
        """How many words there are."""
        return 1 << 32

    def encode(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.uint32]:
        """(n,) words; nothing is drawn."""
        return values.astype(np.float32).view(np.uint32)


class Chosen(NamedTuple):
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
        scouts = pairs | "Scouts" >> beam.Map(_first).with_output_types(CellBlock)
        rest = pairs | "The rest" >> beam.Map(_second).with_output_types(CellBlock)
        return scouts, rest


def _first(pair: tuple[CellBlock, CellBlock]) -> CellBlock:
    return pair[0]


def _second(pair: tuple[CellBlock, CellBlock]) -> CellBlock:
    return pair[1]


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(tuple[CellBlock, CellBlock])
class DivideDoFn(beam.DoFn):
    """Scouts and the rest of each block, by coins that look at nothing."""

    def __init__(self, share: float, open_rng: Generator) -> None:
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, not {share}")
        self._threshold, self._open_rng = np.uint64(int(share * 2**64)), open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: CellBlock) -> Iterator[tuple[CellBlock, CellBlock]]:
        scouts = self._rng.words(block.cells.size) < self._threshold
        yield CellBlock(block.cells[scouts], None), CellBlock(block.cells[~scouts], None)


@dataclass
class ChooseBounds(beam.PTransform):
    """Blocks of `FloatWords` in, one `Chosen` out.

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
                self.min_reports, self.oracle.codes, self.buckets, self.open_rng, users
            )
        return (
            messages
            | "Collect" >> CollectFrequencies(self.oracle, "none", users)
            | "Choose" >> beam.ParDo(ChooseDoFn(self.oracle, self.rule))
        )


def magnitudes(block: CellBlock) -> CellBlock:
    """The bins of a block of words."""
    return CellBlock(bin_of(block.cells.view(np.float32)), None)


@typehints.with_input_types(Frequencies)
@typehints.with_output_types(Chosen)
class ChooseDoFn(beam.DoFn):
    """Bounds from the shares of magnitudes."""

    def __init__(self, oracle: FrequencyOracle, rule: BoundsRule) -> None:
        self._oracle, self._rule = oracle, rule

    def process(self, found: Frequencies) -> Iterator[Chosen]:
        if not found.n:
            yield Chosen(None, 1.0, 0, found.invalid)
            return
        variances = self._oracle.variance(np.clip(found.unbiased, 0, 1), found.n)
        bounds = Bounds(*self._rule(found.unbiased, variances))
        hidden = self._rule.hidden(float(self._oracle.variance(0.0, found.n)))
        yield Chosen(bounds, hidden, found.n, found.invalid)


@dataclass
class RoundWithin(beam.PTransform):
    """Blocks of `FloatWords` to blocks of grid cells, within bounds that were just chosen.

    Attributes:
        chosen: one `Chosen`; nothing comes out if it has no bounds.
        rounding: what takes values in [-1, 1] to cells.
        open_rng: opens the generator on each worker.
    """

    chosen: beam.PCollection
    rounding: Rounding
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, words: beam.PCollection) -> beam.PCollection:
        within = RoundDoFn(self.rounding, self.open_rng)
        return words | "Round" >> beam.ParDo(within, AsSingleton(self.chosen))


@typehints.with_input_types(CellBlock, Chosen)
@typehints.with_output_types(CellBlock)
class RoundDoFn(beam.DoFn):
    """Clips, scales and rounds."""

    def __init__(self, rounding: Rounding, open_rng: Generator) -> None:
        self._rounding, self._open_rng = rounding, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: CellBlock, chosen: Chosen) -> Iterator[CellBlock]:
        if chosen.bounds is not None:
            values = chosen.bounds.scale(block.cells.view(np.float32).astype(np.float64))
            yield CellBlock(self._rounding.encode(values, self._rng), None)
