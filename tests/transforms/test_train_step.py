"""A run written out step by step: who is in which step, what the next model is, and how it does."""

from __future__ import annotations

import itertools
import math
import pickle

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import GlobalWindow

from mechanisms.learning.features import Features
from mechanisms.learning.local_steps import LocalSteps
from mechanisms.learning.objectives import Logistic, SquaredError
from mechanisms.learning.opening import Opening
from mechanisms.learning.schedule import Schedule
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal
from tests.oracles.transforms import drive, fresh_stream, grouped, restart, run, source
from transforms.collector.collect_counts import Counted
from transforms.elements import progress
from transforms.elements.block_coders import encoded
from transforms.encoders.block import RowBlock, packed, pieces
from transforms.rounds.train_curve import AskHeldBack, ScoreModels
from transforms.rounds.train_step import (
    DIVERGED,
    GradientsDoFn,
    OpenDoFn,
    Run,
    TargetsDoFn,
    TrainSteps,
    UpdateDoFn,
)
from transforms.rows.examples import Examples
from transforms.units.split_groups import DrawGroupsDoFn, PartDoFn, SplitGroups, group_tag, rows_of

SIGMAS = 6.2  # two-sided, missed with a chance below 10^-9
FEATURES = Features((("a", -1.0, 1.0), ("b", -1.0, 1.0)), (("c", ("x", "y", "z")),))
NUMBERS = Examples(FEATURES, classified=False)
ROW = ([0.5, -0.25], 1, 0.4)  # numbers, category, target


def numbered(n: int, first: int = 0) -> RowBlock:
    """Rows that can be told apart."""
    numbers = np.arange(first, first + n, dtype=np.float32)
    return RowBlock(numbers[:, None], np.full((n, 1), 7, np.int32), None)


def alike(n: int) -> RowBlock:
    """Rows that are all the same, the target last."""
    numbers, category, target = ROW
    return RowBlock(
        np.tile(np.array([*numbers, target], np.float32), (n, 1)),
        np.full((n, 1), category, np.int32),
        None,
    )


def local_steps(
    count: int, rate: float = 0.3, epsilon: float = 4.0, opening: Opening | None = None
) -> LocalSteps:
    objective, schedule = SquaredError(FEATURES.inputs), Schedule(count, rate, 0.0, averaged=0.0)
    mechanism = multi_optimal(epsilon, objective.parameters)
    return LocalSteps(objective, mechanism, schedule, clip=2.0, opening=opening)


# ---- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("held_back", "shards"), [(0.0, 1), (0.25, 3)])
def test_every_row_is_in_one_group(held_back, shards):
    restart(5)
    n, groups = 30_000, 5
    blocks = [numbered(n // 3, start) for start in range(0, n, n // 3)]
    split = SplitGroups(groups, held_back, shards, fresh_stream)

    def road(pipeline):
        parts = (pipeline | source(blocks, RowBlock) | split).rows
        tagged = [
            part | f"Tag {place}" >> beam.Map(lambda block, place=place: (place, block))
            for place, part in enumerate(parts)
        ]
        return tuple(tagged) | beam.Flatten()

    found = run(road).elements
    everyone = np.concatenate([block.numbers[:, 0] for _, block in found])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(n))
    assert all((block.categories == 7).all() and block.users is None for _, block in found)
    sizes = np.zeros(groups + 1)
    for place, block in found:
        sizes[place] += len(block.numbers)
    shares = np.array([(1 - held_back) / groups] * groups + [held_back])
    assert (np.abs(sizes - n * shares) <= SIGMAS * np.sqrt(n * shares * (1 - shares))).all()


def test_groups_do_not_follow_the_order_of_rows():
    """Halves of a block are spread alike: a draw per row, not a cut of the block."""
    dofn = DrawGroupsDoFn(4, 0.0, 1, lambda: SeededRandom(6))
    dofn.setup()
    n = 8000
    sent = grouped(drive(dofn, [[numbered(n)]]))
    part = PartDoFn(1)
    for group in sent.items():
        bucket, _ = group
        tagged, counted = part.process(group)
        assert tagged.tag == group_tag(bucket)
        assert counted.value == (rows_of(bucket), tagged.value.size)
        low = np.count_nonzero(tagged.value.numbers < n / 2)
        assert abs(low - n / 8) < SIGMAS * math.sqrt(n / 2 * 3 / 16)


def test_wide_rows_leave_before_they_fill_the_memory():
    width = 1 << 16
    dofn = DrawGroupsDoFn(2, 0.0, 1, lambda: SeededRandom(7))
    dofn.setup()
    dofn.start_bundle()
    block = RowBlock(np.zeros((300, width), np.float32), np.zeros((300, 0), np.int32), None)
    assert len(list(dofn.process(block, GlobalWindow()))) == 2  # 75 MiB: sent on
    assert not list(dofn.finish_bundle())


def test_nonsense_is_refused():
    for groups, share in ((0, 0.0), (2, 1.0), (2, -0.1), (2, math.nan)):
        with pytest.raises(ValueError, match="must"):
            DrawGroupsDoFn(groups, share, 1, fresh_stream)
    dofn = DrawGroupsDoFn(2, 0.0, 1, fresh_stream)
    with pytest.raises(ValueError, match="bounded to one row"):
        dofn.rows(numbered(3)._replace(users=np.zeros(3, np.uint64)))


def test_blocks_of_a_group_are_put_together():
    rows = RowBlock(np.zeros((1000, 10), np.float32), np.zeros((1000, 1), np.int32), None)
    pieces = [encoded(packed(rows))] * 1000  # 44 MB
    *tagged, counted = PartDoFn(1).process((0, pieces))
    blocks = [each.value for each in tagged]
    assert counted.value == (rows_of(0), 1_000_000)
    assert sum(len(block.numbers) for block in blocks) == 1_000_000
    assert len(blocks) == 3


# ---- steps -----------------------------------------------------------------------------------


def descend(steps, sizes, min_reports=1, shuffled=False, begin=None):
    """The runs after each step, groups having so many rows that are all alike."""
    restart(8)
    progress.reset()
    model = steps.start(SeededRandom(1)) if begin is None else begin
    train = TrainSteps(steps, NUMBERS, model, min_reports, shuffled, 1, fresh_stream)

    def road(pipeline):
        groups = tuple(
            pipeline | f"Group {place}" >> source([alike(size)] if size else [], RowBlock)
            for place, size in enumerate(sizes)
        )
        return tuple(groups | train) | beam.Flatten()

    return sorted(run(road).elements, key=lambda found: found.model.step)


@pytest.mark.verify
@pytest.mark.parametrize("shuffled", [False, True])
def test_models_follow_the_gradient_of_the_rows(shuffled):
    steps, size = local_steps(3), 20_000
    runs = descend(steps, [size] * 3, shuffled=shuffled)
    assert [found.model.step for found in runs] == [0, 1, 2, 3]
    assert [found.users for found in runs] == [0, size, 2 * size, 3 * size]
    assert runs[-1].skipped == runs[-1].invalid == 0
    row, target = (each[:1].astype(float) for each in NUMBERS(alike(1)))
    np.testing.assert_allclose(row[0], [0.5, -0.25, 1, 0, 1])
    spread = 0.3 * steps.clip * math.sqrt(steps.mechanism.worst_variance / size)
    for before, after in itertools.pairwise(runs):
        weights = before.model.weights
        slope = 2 * (row @ weights - target)[0] * row[0]
        assert (np.abs(after.model.weights - (weights - 0.3 * slope)) < SIGMAS * spread).all()
    # The gradient is far longer than what noise can make of it: a step does something.
    assert np.linalg.norm(runs[1].model.weights) > 10 * spread


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_group_that_is_too_small_changes_nothing(shuffled):
    runs = descend(local_steps(3), [500, 499, 0], min_reports=500, shuffled=shuffled)
    assert [found.skipped for found in runs] == [0, 0, 1, 2]
    assert [found.users for found in runs] == [0, 500, 500, 500]
    assert runs[-1].model.used == 1
    np.testing.assert_array_equal(runs[-1].model.weights, runs[1].model.weights)


def test_a_run_that_diverges_asks_nobody_further():
    runs = descend(local_steps(3, rate=1e6), [2000, 2000, 2000])
    assert [found.model.diverged for found in runs] == [0, 1, 1, 1]
    assert progress.live()[progress.REPORTS] == 2000
    assert progress.live()[DIVERGED] == 1


@pytest.mark.verify
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_first_group_opens_the_run(shuffled):
    """All have the target 0.4, so gradients are cut nearer and the descent begins near it."""
    opening, size = Opening(multi_optimal(8.0, 2), trust=0.5), 20_000
    steps = local_steps(2, opening=opening)
    runs = descend(steps, [size] * 3, shuffled=shuffled)
    assert [found.model.step for found in runs] == [0, 1, 2]
    assert [found.users for found in runs] == [size, 2 * size, 3 * size]
    first = runs[0].model
    assert abs(first.seen.mean - 0.4) < SIGMAS * first.seen.mean_error < 0.1
    assert abs(first.seen.variance) < SIGMAS * first.seen.variance_error < 0.2
    assert all(found.model.seen == first.seen for found in runs)
    assert all(found.model.scale == first.seen.scale < 0.7 for found in runs)
    np.testing.assert_array_equal(first.weights, [0, 0, 0, 0, opening.begin(first.seen)])
    assert abs(first.weights[-1] - 0.4 * (1 - first.scale)) < 0.1 or first.scale > 0.5
    # The gradient of the constant is within the nearer cut, and has its own noise.
    slope = 2 * (first.weights[-1] - ROW[2])
    spread = 0.3 * steps.clip * first.scale * math.sqrt(steps.mechanism.worst_variance / size)
    moved = runs[1].model.weights - first.weights
    assert abs(slope) < steps.clip * first.scale
    assert abs(moved[-1] + 0.3 * slope) < SIGMAS * spread < 0.1


@pytest.mark.parametrize("came", [0, 1, 499])
def test_an_opening_that_is_too_small_changes_nothing(came):
    opening = Opening(multi_optimal(8.0, 2), trust=0.5)
    least = 2 if came < 2 else 500
    runs = descend(local_steps(1, opening=opening), [came, 1000], min_reports=least)
    assert [(found.users, found.skipped) for found in runs] == [(0, 0), (1000, 0)]
    for found in runs:
        assert (found.model.scale, found.model.seen) == (1.0, None)
    assert not runs[0].model.weights.any()


def test_the_opening_by_hand():
    opening = Opening(multi_optimal(4.0, 2))
    steps = local_steps(1, opening=opening)
    client = TargetsDoFn(opening, NUMBERS, lambda: SeededRandom(9))
    client.setup()
    # Larger than one piece, so that every row is sent though they are treated a few at a time.
    messages = np.concatenate(list(client.process(alike(40_000))))
    assert messages.size == 40_000 * opening.mechanism.messages
    counted = Counted(opening.mechanism.count(messages), messages.size, 3)
    begin = Run(steps.start(SeededRandom(1)))
    (after,) = OpenDoFn(steps, 1).process(begin, counted)
    assert (after.users, after.invalid, after.skipped) == (40_000, 3, 0)
    assert after.model.seen == opening.seen(counted.counts)
    with pytest.raises(ValueError, match="no opening"):
        OpenDoFn(local_steps(1), 1)


def test_the_client_and_the_collector_by_hand():
    steps = local_steps(1)
    model = steps.start(SeededRandom(1))
    client = GradientsDoFn(steps, NUMBERS, lambda: SeededRandom(9))
    client.setup()
    messages = np.concatenate(list(client.process(alike(40_000), Run(model))))
    assert messages.size == 40_000 * steps.mechanism.messages
    counted = steps.mechanism.count(messages)
    (after,) = UpdateDoFn(steps, 1).process(Run(model), Counted(counted, messages.size, 3))
    assert after.invalid == 3
    np.testing.assert_array_equal(after.model.weights, steps.advance(model, counted).weights)


def test_gradients_of_wide_models_are_at_hand_a_few_at_a_time():
    steps = local_steps(1)
    numbers = 3 * steps.objective.parameters + 1
    client = GradientsDoFn(steps, NUMBERS, lambda: SeededRandom(9), numbers)
    client.setup()
    blocks = list(client.process(alike(8), Run(steps.start(SeededRandom(1)))))
    each = int(steps.mechanism.messages)
    assert [messages.size // each for messages in blocks] == [3, 3, 2]


def test_blocks_are_cut_without_losing_rows():
    parts = list(pieces(numbered(10), 4))
    assert [len(part.numbers) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([p.numbers for p in parts]), numbered(10).numbers)


# ---- the learning curve ----------------------------------------------------------------------


def runs_of(weights) -> list[Run]:
    model = local_steps(2).start(SeededRandom(1))
    return [
        Run(model._replace(average=np.asarray(each, float), step=step))
        for step, each in enumerate(weights)
    ]


def test_models_are_scored_on_public_rows_exactly():
    rng = np.random.default_rng(3)
    objective = SquaredError(FEATURES.inputs)
    n = 1000
    block = RowBlock(
        rng.uniform(-1, 1, (n, 3)).astype(np.float32),
        rng.integers(0, 3, (n, 1)).astype(np.int32),
        None,
    )
    models = runs_of(rng.normal(size=(3, FEATURES.inputs)))
    halves = [next(pieces(block, 400)), RowBlock(block.numbers[400:], block.categories[400:], None)]

    def road(pipeline):
        told = pipeline | "Models" >> beam.Create(models[::-1])
        return pipeline | source(halves, RowBlock) | ScoreModels(objective, NUMBERS, told)

    (found,) = run(road).elements
    rows, targets = NUMBERS(block)
    errors = np.array([objective.errors(m.model.average, rows, targets) for m in models])
    # And what the error of the best constant follows from.
    numbers = np.vstack([errors, objective.loss.baseline.answers(targets).T])
    assert found.n == n
    np.testing.assert_allclose(found.sums, numbers.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.squares, (numbers**2).sum(axis=1), rtol=1e-6)


def test_those_held_back_tell_how_wrong_models_are():
    restart(11)
    n = 60_000
    examples = Examples(FEATURES, classified=True)
    objective = Logistic(FEATURES.inputs)
    # The category is the last one: rows are x = 0, and half of them are of class 1.
    labels = (np.arange(n) % 2)[:, None]
    block = RowBlock(
        np.zeros((n, 2), np.float32), np.hstack([np.zeros((n, 1)), labels]).astype(np.int32), None
    )
    right = np.zeros(FEATURES.inputs)
    right[-1] = 1.0  # class 1 always
    models = runs_of([right, right])
    mechanism = PublicGroups(duchi(2.0, cells=4), 4)  # the last two tell of the classes

    def road(pipeline):
        told = pipeline | "Models" >> beam.Create(models)
        ask = AskHeldBack(objective, examples, told, mechanism, 1, 1, fresh_stream)
        return pipeline | source([block], RowBlock) | ask

    (found,) = run(road).elements
    assert found.counts.sum() == n
    parts = mechanism.parts(found.counts)
    assert (abs(parts.sum(axis=1) - n / 4) < SIGMAS * math.sqrt(n * 3 / 16)).all()
    shares = (mechanism.estimate(found.counts) + 1) / 2
    spread = math.sqrt(mechanism.mechanism.worst_variance + 1) / 2 / math.sqrt(n / 4)
    assert (abs(shares - 0.5) < SIGMAS * spread).all()
    assert spread < 0.007


def test_errors_that_are_no_numbers_count_as_wrong():
    restart(12)
    objective = SquaredError(FEATURES.inputs)
    models = runs_of([np.full(FEATURES.inputs, math.nan)])
    mechanism = PublicGroups(duchi(8.0, cells=1), 4)

    def road(pipeline):
        told = pipeline | "Models" >> beam.Create(models)
        ask = AskHeldBack(objective, NUMBERS, told, mechanism, None, 1, fresh_stream)
        return pipeline | source([alike(5000)], RowBlock) | ask

    (found,) = run(road).elements
    assert abs(float(mechanism.estimate(found.counts)[0]) - 1) < 0.05


def test_the_parts_travel_as_numbers():
    steps = local_steps(2)
    again = pickle.loads(pickle.dumps(TrainSteps(steps, NUMBERS, steps.start(SeededRandom(1)))))
    assert again.steps == steps
    assert again.examples == NUMBERS
