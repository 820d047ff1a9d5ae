"""What one step hands to the next is counted at both ends, and nothing may be lost between them."""

from __future__ import annotations

from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import core

from transforms.elements.chains import naming
from transforms.elements.conservation import (
    ADDED,
    BOUNDED,
    CHOSEN,
    DRAWN,
    PERTURBED,
    SENT,
    Batches,
    Flow,
    LostError,
    Shuffled,
    require_whole,
    summed,
)
from transforms.elements.progress import ROWS

READ = {ROWS: 100, "null value": 8, "outside the domain": 2}
ONE = Shuffled(50, Batches(8))
GROUPS = Shuffled(50, Batches(8, 4))


def rows(sent: Any, perturbed: int = 90) -> Flow:
    return {PERTURBED: perturbed, SENT: np.array(sent)}


def users(**changed: int) -> Flow:
    """Sixty users, who have ninety rows among them, and a message each."""
    flow = {BOUNDED: 90, CHOSEN: 60, PERTURBED: 60, SENT: np.array([60])}
    return flow | {{"bounded": BOUNDED, "chosen": CHOSEN}[name]: n for name, n in changed.items()}


def raised(*blocks: tuple[int, int], sent: int = 270, drawn: int = 3) -> Flow:
    """Ninety rows that became 270 messages, three ranges of dummies among them."""
    known = {ADDED: sum(map(np.array, blocks)), DRAWN: drawn}
    return rows([sent]) | known


DUMMIES = Shuffled(0, Batches(8), 3)


@pytest.mark.parametrize(
    ("flow", "shuffled", "arrived"),
    [
        (rows([90]), ONE, 90),
        (raised((100, 40), (120, 50), (50, 3)), DUMMIES, 270),
        (rows([270]), ONE, 270),  # three messages a row
        (rows([40]), ONE, 40),  # messages whose number is drawn
        (users(), ONE, 60),
        (rows([60, 30, 0, 0]), GROUPS, 60),  # a group that is too small is withheld
        (rows([90]), Shuffled(91, Batches(8)), 0),  # and so is a batch
        (rows([90]), Shuffled(0, Batches(8)), 90),  # where nothing is shuffled, nothing is
        ({SENT: np.array([90])}, ONE, 90),  # of which no more is known than what was sent
    ],
)
def test_what_is_whole_goes_on(flow: Flow, shuffled: Shuffled, arrived: int) -> None:
    require_whole(READ, flow, shuffled, arrived)


@pytest.mark.parametrize(
    ("flow", "shuffled", "arrived"),
    [
        (rows([90]), ONE, 89),
        (rows([90]), ONE, 91),  # a block that came twice is no better
        (rows([89], 89), ONE, 89),  # between reading and perturbing
        (users(bounded=89), ONE, 60),  # before users are bounded
        (users(chosen=61), ONE, 60),  # after it
        (rows([60, 30, 0, 0]), GROUPS, 90),  # a small group that got through
        (rows([60, 30, 0, 0]), GROUPS, 59),
        (rows([90]), ONE, 0),
        ({SENT: np.array([90])}, ONE, 80),
        ({}, ONE, 0),  # withheld, for nobody said how many they are
        ({PERTURBED: 90}, ONE, 0),
        ({BOUNDED: 90, CHOSEN: 60}, ONE, 0),
        (raised((100, 40), (120, 50), (50, 3), sent=170), DUMMIES, 170),  # a block
        (raised((120, 50), (50, 3)), DUMMIES, 270),  # what is said of it
        (raised((120, 50), (50, 3), sent=170), DUMMIES, 170),  # both
        (raised((100, 40), (120, 50), (25, 2), sent=245), DUMMIES, 245),  # a range, and its number
    ],
)
def test_what_is_lost_is_not_published(flow: Flow, shuffled: Shuffled, arrived: int) -> None:
    with pytest.raises(LostError):
        require_whole(READ, flow, shuffled, arrived)


@pytest.mark.parametrize("read", [{}, {ROWS: 10, "null value": 8, "outside the domain": 2}])
def test_nobody_is_missed_where_no_row_could_be_used(read: dict[str, int]) -> None:
    require_whole(read, {}, ONE, 0)


def test_flows_are_added_up_and_beam_infers_nothing() -> None:
    inferred = mock.patch.object(core.CombineValuesDoFn, "infer_output_type")
    with inferred as infer, beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = [(SENT, np.array([1, 2])), (SENT, np.array([3, 4])), (CHOSEN, 5), (CHOSEN, 6)]
        flow = summed(pipeline | beam.Create(parts))
        plain = flow | "Plain" >> beam.MapTuple(lambda name, n: (name, np.asarray(n).tolist()))
        assert_that(plain, equal_to([(SENT, [4, 6]), (CHOSEN, 11)]))
    assert not infer.called


@pytest.mark.parametrize(
    ("error", "said"),
    [(LostError(), "[metric city]"), (ValueError("lost"), "lost [metric city]")],
)
def test_what_is_raised_of_one_of_several_metrics_names_it(error: Exception, said: str) -> None:
    with pytest.raises(type(error)) as raised, naming("city"):
        raise error
    assert str(raised.value) == said
