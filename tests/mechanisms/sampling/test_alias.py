"""The alias table holds exactly the law it was made from."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.integer_tables import AliasTable
from tests.oracles.statistics import follows, sample_size, tilted

WORD = 1 << 64


def words_of(table: AliasTable, outcomes: int) -> list[int]:
    """How many of the 2^64 words lead to each outcome, column by column."""
    height, totals = 1 << table.shift, [0] * max(outcomes, len(table.alias))
    for own, (threshold, alias) in enumerate(zip(table.threshold, table.alias, strict=True)):
        assert 0 <= int(threshold) <= height
        totals[own] += int(threshold)
        totals[alias] += height - int(threshold)
    return totals


def random_weights(outcomes: int, rng: SeededRandom) -> list[int]:
    """Weights of all sizes, some of them zero, that add up to 2^64."""
    sizes = zip(rng.words(outcomes).tolist(), rng.integers(70, outcomes).tolist(), strict=True)
    raw = [word >> size for word, size in sizes]
    scaled = [weight * (WORD - 1) // max(sum(raw), 1) for weight in raw]
    place = int(rng.integers(outcomes, 1)[0])
    left = WORD - sum(scaled)
    scaled[place] += left
    if scaled[place] == WORD:  # more than a 64-bit weight holds
        scaled[place], scaled[place - 1] = WORD - 1, 1
    return scaled


def test_every_word_leads_where_the_weights_say():
    rng = SeededRandom(11)
    for trial in range(300):
        weights = random_weights(2 + trial % 40, rng)
        table = AliasTable.of(weights)
        totals = words_of(table, len(weights))
        assert totals[: len(weights)] == weights
        assert not any(totals[len(weights) :])


@pytest.mark.parametrize(
    "weights",
    [[1, WORD - 1], [WORD - 1, 1], [0, 1, WORD - 1], [WORD // 8] * 8, [WORD // 2, 0, 0, WORD // 2]],
    ids=["first rare", "last rare", "with a zero", "uniform", "two heavy"],
)
def test_extreme_weights(weights):
    assert words_of(AliasTable.of(weights), len(weights))[: len(weights)] == weights


def test_draws_go_where_the_columns_say():
    weights = random_weights(9, SeededRandom(4))
    table = AliasTable.of(weights)
    height = 1 << table.shift
    for column, threshold in enumerate(table.threshold.tolist()):
        words = [column * height + h for h in (0, threshold - 1, threshold, height - 1)]
        expected = [
            column if word % height < threshold else int(table.alias[column]) for word in words[1:]
        ]
        inside = [word for word in words[1:] if word // height == column]
        drawn = table.draw(np.array(inside, np.uint64)).tolist()
        kept = [e for e, word in zip(expected, words[1:], strict=True) if word // height == column]
        assert drawn == kept


def test_sampler_follows_its_weights_and_no_other():
    weights = [WORD // 7 * k // 4 for k in (1, 2, 3, 4, 5, 6)]
    weights.append(WORD - sum(weights))
    law = np.array(weights) / WORD
    wrong = tilted(law)
    drawn = AliasTable.of(weights).draw(SeededRandom(2).words(sample_size(law, wrong)))
    counts = np.bincount(drawn, minlength=7)
    assert follows(counts, law)
    assert not follows(counts, wrong)


@pytest.mark.parametrize("weights", [[1, 2], [WORD - 1, 2], [WORD - 1, WORD - 1, 2], []])
def test_weights_that_are_no_law_are_refused(weights):
    with pytest.raises(ValueError, match="2\\^64"):
        AliasTable.of(weights)
