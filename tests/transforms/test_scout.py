"""Two rounds in one pipeline: who is in which, and what the second makes of the first."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.mean.magnitudes import BoundsRule, bin_of, bins
from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from tests.oracles.transforms import fresh_stream, restart, run, source
from transforms.encoders.bounds import AsTheyAre, Bounds, FloatWords
from transforms.rounds.scout import ChooseBounds, DivideDoFn, RoundWithin, magnitudes
from transforms.rows.encode import CellBlock


def words(*numbers: float) -> CellBlock:
    scaled = AsTheyAre().scale(np.array(numbers, float))
    return CellBlock(FloatWords().encode(scaled, SeededRandom(1)), None)


def test_numbers_travel_as_single_precision_words():
    block = words(0.1, -3.5, 1e300, -1e300, 0.0)
    numbers = block.cells.view(np.float32)
    assert np.isfinite(numbers).all()
    assert numbers[0] == np.float32(0.1)
    assert numbers[[1, 4]].tolist() == [-3.5, 0]
    assert magnitudes(block).cells.tolist() == bin_of(numbers).tolist()


def test_everybody_takes_part_in_one_round():
    dofn = DivideDoFn(0.1, lambda: SeededRandom(2))
    dofn.setup()
    n = 40_000
    ((scouts, rest),) = dofn.process(CellBlock(np.arange(n, dtype=np.uint32), None))
    both = np.concatenate([rest.cells, scouts.cells])
    np.testing.assert_array_equal(np.sort(both), np.arange(n))
    assert abs(scouts.cells.size - n / 10) < 6.2 * np.sqrt(n * 0.09)
    for share in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="share must lie between 0 and 1"):
            DivideDoFn(share, fresh_stream)


def choose(blocks, min_reports):
    restart(3)
    oracle = k_ary(12.0, bins())
    step = ChooseBounds(oracle, BoundsRule(0.001), min_reports, 16, fresh_stream)
    return run(lambda p: p | source(blocks, CellBlock) | step).elements[0]


@pytest.mark.parametrize("min_reports", [None, 1500])
def test_bounds_are_those_of_the_numbers(min_reports):
    blocks = [words(*np.linspace(3, 60, 500)), words(*np.linspace(-7, 2, 1000))]
    chosen = choose(blocks, min_reports)
    assert chosen.bounds == Bounds(-8.0, 64.0)
    assert (chosen.n, chosen.invalid) == (1500, 0)
    assert 0 < chosen.hidden < 0.05


def test_too_few_choose_nothing():
    chosen = choose([words(1.0, 2.0, 3.0)], 1500)
    assert chosen.bounds is None
    assert chosen.n == 0


@pytest.mark.parametrize("least", [None, 10_000])
def test_the_second_round_rounds_within_what_the_first_chose(least):
    restart(4)
    oracle, rounding = k_ary(12.0, bins()), duchi(1.0, cells=4)

    def build(pipeline):
        scouts = pipeline | "scouts" >> source([words(*np.full(2000, 3.0))], CellBlock)
        chosen = scouts | ChooseBounds(oracle, BoundsRule(0.001), least, 16, fresh_stream)
        rest = pipeline | "rest" >> source([words(2.0, 2.5, 4.0, -50.0, 99.0)], CellBlock)
        return rest | RoundWithin(chosen, rounding, fresh_stream)

    found = run(build).elements
    if least is not None:  # nobody chose
        assert found == []
    else:
        assert found[0].cells.tolist() == [0, 1, 4, 0, 4]
        assert found[0].users is None
