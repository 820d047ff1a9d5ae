"""The collector of a distribution: any bundling alike, also of nothing, also of nonsense."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.channel import Mechanism
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.randomness import SeededRandom
from tests.fakes.few import few
from tests.oracles.transforms import run, source
from transforms.collector.collect import (
    CollectDistribution,
    CollectedNumbers,
    EstimateFn,
)

MECHANISMS = [build("nm", epsilon=2.0, cells=15), build("grr", epsilon=2.0, domain_size=16)]
PROBABILITIES = (0.25, 0.5)


def messages_of(mechanism: Mechanism, size: int = 3000) -> np.ndarray:
    cells = np.arange(size) % 5 + 4
    return mechanism.perturb(cells, SeededRandom(1))


def collect(mechanism: Mechanism) -> CollectDistribution:
    return CollectDistribution(DistributionEstimator(mechanism, 2), 0.95, PROBABILITIES)


def assert_alike(one: CollectedNumbers, other: CollectedNumbers) -> None:
    assert (one.n, one.invalid) == (other.n, other.invalid)
    assert one.summary is not None
    assert other.summary is not None
    for a, b in zip(one.summary, other.summary, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("pieces", few((7, 1, 2, 300), bool))
def test_any_split_gives_the_same(mechanism: Mechanism, pieces: int) -> None:
    messages = messages_of(mechanism)
    blocks = np.array_split(messages, pieces)
    out = run(lambda p: p | source(blocks) | collect(mechanism)).elements
    summary = DistributionEstimator(mechanism, 2).summarise(
        mechanism.count(messages), 0.95, PROBABILITIES
    )
    assert len(out) == 1
    assert_alike(out[0], CollectedNumbers(3000, 0, summary))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_accumulators_merge_in_any_order(mechanism: Mechanism) -> None:
    estimator = DistributionEstimator(mechanism, 2)
    combine = EstimateFn(mechanism, CollectDistribution(estimator, 0.95, PROBABILITIES).summarised)
    parts = [
        combine.add_input(combine.create_accumulator(), block)
        for block in np.array_split(messages_of(mechanism), 5)
    ]
    parts.append(combine.create_accumulator())
    one = combine.extract_output(combine.merge_accumulators(parts))
    other = combine.extract_output(combine.merge_accumulators(parts[::-1]))
    assert_alike(one, other)


def test_an_empty_batch_has_no_distribution() -> None:
    results = run(lambda p: p | source([]) | collect(MECHANISMS[0])).elements
    assert results == [CollectedNumbers(0, 0, None)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_no_client_sends_is_counted_and_dropped(mechanism: Mechanism) -> None:
    messages = messages_of(mechanism)
    strange = np.array([mechanism.codes, (1 << 64) - 1], np.uint64)
    blocks = [np.concatenate([messages, strange]), strange[:1]]
    (result,) = run(lambda p: p | source(blocks) | collect(mechanism)).elements
    summary = DistributionEstimator(mechanism, 2).summarise(
        mechanism.count(messages), 0.95, PROBABILITIES
    )
    assert_alike(result, CollectedNumbers(3000, 3, summary))


def test_nothing_but_nonsense_is_an_empty_batch() -> None:
    strange = np.full(4, MECHANISMS[0].codes, np.uint64)
    results = run(lambda p: p | source([strange]) | collect(MECHANISMS[0])).elements
    assert results == [CollectedNumbers(0, 4, None)]
