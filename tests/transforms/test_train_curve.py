"""Reports about several models: each model's are a shuffled batch of their own."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest

from mechanisms.learning.features import Features
from mechanisms.learning.objectives import SquaredError
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.two_point import duchi
from tests.oracles.transforms import fresh_stream, restart, run, source
from transforms.collector.collect_counts import CountMessages
from transforms.rounds.train_curve import AskHeldBack
from transforms.rows.examples import Examples

FEATURES = Features((("a", -1.0, 1.0),), ())
MECHANISM = PublicGroups(duchi(1.0, cells=4), 3)


def told(sizes: list[int]) -> list[np.ndarray]:
    """Blocks of messages, so many about each model, in which models are mixed."""
    codes = MECHANISM.mechanism.codes
    messages = np.repeat(np.arange(3, dtype=np.uint64) * np.uint64(codes), sizes)
    messages[::2] += np.uint64(codes - 1)
    return np.array_split(np.random.default_rng(1).permutation(messages), 4)


@pytest.mark.parametrize("least", [1, 100, 101])
def test_a_model_of_too_few_reports_stays_in_the_shuffler(least):
    restart(3)
    sizes = [99, 100, 1000]  # all of them together are enough for any
    blocks = told(sizes)

    def road(pipeline):
        ask = AskHeldBack(
            SquaredError(FEATURES.inputs), Examples(FEATURES, classified=False),
            None, MECHANISM, least, 4, fresh_stream,
        )  # fmt: skip
        out = pipeline | source(blocks, np.ndarray) | ask.shuffler
        return out | beam.CombineGlobally(CountMessages(MECHANISM))

    (found,) = run(road).elements
    sent = MECHANISM.parts(np.bincount(np.concatenate(blocks).astype(int), minlength=6))
    kept = [size if size >= least else 0 for size in sizes]
    parts = MECHANISM.parts(found.counts)
    assert parts.sum(axis=1).tolist() == kept
    np.testing.assert_array_equal(parts, np.where(np.array(kept)[:, None] > 0, sent, 0))
    assert found.invalid == 0


def test_what_no_client_sends_lifts_no_model_over_its_least():
    restart(4)
    blocks = [*told([0, 0, 9]), np.full(50, 77, np.uint64)]

    def road(pipeline):
        ask = AskHeldBack(
            SquaredError(FEATURES.inputs), Examples(FEATURES, classified=False),
            None, MECHANISM, 10, 4, fresh_stream,
        )  # fmt: skip
        out = pipeline | source(blocks, np.ndarray) | ask.shuffler
        return out | beam.CombineGlobally(CountMessages(MECHANISM))

    (found,) = run(road).elements
    assert found.counts.sum() == 0
