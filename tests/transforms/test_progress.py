"""Counters that a person watches: names and amounts, exact under many workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import pytest

from tests.oracles.transforms import run
from transforms.elements import progress


@pytest.fixture(autouse=True)
def new_job():
    progress.reset()
    yield
    progress.reset()


def test_amounts_add_up_under_their_names():
    progress.tally("rows", 3)
    progress.tally("rows", 4)
    progress.tally("reports", 1)
    assert progress.live() == {"rows": 7, "reports": 1}
    progress.reset()
    assert progress.live() == {}


def test_what_was_read_is_a_copy():
    progress.tally("rows", 1)
    progress.live()["rows"] = 100
    assert progress.live() == {"rows": 1}


def test_threads_do_not_lose_counts():
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [progress.tally("rows", 1) for _ in range(500)], range(8)))
    assert progress.live() == {"rows": 4000}


def test_live_counts_agree_with_those_of_the_runner():
    outcome = run(
        lambda p: p | beam.Create([1, 2, 3]) | beam.Map(lambda n: progress.tally("rows", n))
    )
    assert outcome.counters == progress.live() == {"rows": 6}
