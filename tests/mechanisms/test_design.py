"""What any target refuses, and what any design promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from mechanisms.channel import Guarantee
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.task import FrequencyTask
from mechanisms.mean.task import MeanTask
from mechanisms.papers.central_histogram import LaplaceHistogram
from mechanisms.planner.search import Design
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.targets.rules import Target
from mechanisms.vector.multi import multi_hm
from mechanisms.vector.task import VectorTask

TARGETS: list[Target[Any]] = [
    Target("shuffle", 1.0, 1e-6, 1000, FrequencyTask(8)),
    Target("shuffle", 1.0, 1e-6, 1000, MeanTask()),
    Target("shuffle", 1.0, 1e-6, 1000, VectorTask(8)),
]


@pytest.fixture(params=TARGETS, ids=lambda target: target.task.name)
def target(request) -> Target[Any]:
    return request.param


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model": "none"}, "model must be one of local, shuffle"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"epsilon": 0.0}, "epsilon must be a positive"),
        ({"epsilon": math.nan}, "epsilon must be a positive"),
        ({"epsilon_local": math.inf}, "epsilon must be a positive"),
        ({"n": 0}, "n must be"),
        ({"delta": 0.0}, "delta must lie"),
        ({"delta": math.nan}, "delta must lie"),
        ({"model": "local", "delta": 1.0}, "delta must be"),
        ({"model": "local", "delta": math.nan}, "delta must be"),
        ({"epsilon_local": -1.0}, "epsilon must be a positive"),
        ({"bound": "mine"}, "bound"),
    ],
)
def test_what_no_release_can_satisfy_is_refused(target, changes, match):
    with pytest.raises(ValueError, match=match):
        replace(target, **changes)


@pytest.mark.parametrize("most", [0.5, math.nan])
def test_less_than_a_message_is_no_report(most):
    with pytest.raises(ValueError, match="max_messages"):
        Target("shuffle", 1.0, 1e-6, 1000, FrequencyTask(8, most))


def test_only_a_histogram_is_made_in_the_centre(target):
    if "central" in target.task.models:
        assert replace(target, model="central", delta=0.0).model == "central"
        with pytest.raises(ValueError, match="epsilon is missing"):
            replace(target, model="central", delta=0.0, epsilon=None, epsilon_local=1.0)
        return
    with pytest.raises(ValueError, match="model must be one of local, shuffle, not central"):
        replace(target, model="central", delta=0.0)


def test_a_client_spends_no_more_than_its_cap(target):
    assert (target.cap, target.spent, target.promised) == (math.inf, 1.0, 1.0)
    capped = replace(target, epsilon_local=0.5)
    assert (capped.cap, capped.spent, capped.promised) == (0.5, 0.5, 1.0)
    alone = replace(capped, epsilon=None)
    assert (alone.spent, alone.promised) == (0.5, math.inf)


def test_a_report_alone_promises_what_its_mechanism_does():
    local = Target("local", 1.0, 0.0, 1000, FrequencyTask(8), unit="user")
    design = Design(local, "grr", k_ary(1.0, 8))
    assert design.release == design.local == replace(k_ary(1.0, 8).guarantee, unit="user")
    assert design.bits == 3


def test_a_batch_promises_what_it_was_solved_for_unless_by_a_published_bound():
    mechanism, shuffled = k_ary(3.0, 8), Target("shuffle", 0.01, 1e-6, 1000, FrequencyTask(8))
    lower, upper = shuffled_epsilon(mechanism, 1000, 1e-6)
    assert upper > 0.01
    solved = Design(shuffled, "grr", mechanism).release
    assert (solved.model, solved.epsilon, solved.delta) == ("shuffle", 0.01, 1e-6)
    for target in (
        replace(shuffled, bound="published"),
        replace(shuffled, epsilon=None, epsilon_local=3.0),
        replace(shuffled, epsilon=9.0),
    ):
        found = Design(target, "grr", mechanism).release
        assert found.epsilon == upper
        assert found.how.startswith(mechanism.accounting)
        assert found.how.endswith(f"batches exist that lose {lower:.6g}")


def test_nobody_is_protected_before_the_centre_or_among_dummies():
    central = Target("central", 1.0, 0.0, 1000, FrequencyTask(8), unit="user")
    design = Design(central, "laplace", LaplaceHistogram(1.0, 8))
    assert (design.local.model, design.local.unit) == ("none", "nobody")
    assert (design.release.model, design.release.unit) == ("central", "user")
    dummies = PoissonDummies(1.0, 1e-6, 1000, 8)
    among = Design(
        Target("shuffle", 1.0, 1e-6, 1000, FrequencyTask(8), unit="user"), "poisson", dummies
    )
    assert isinstance(among.local, Guarantee)
    assert among.local.unit == "nobody"
    assert among.release.unit == "user"


def test_rows_say_that_any_coordinates_may_differ():
    target = Target("shuffle", None, 1e-6, 1000, VectorTask(4), epsilon_local=1.0)
    how = Design(target, "multi_hm", multi_hm(1.0, 4, cells=1, sampled=1)).release.how
    assert "whichever coordinates differ" in how
    assert "every report of the batch counts as randomised" in how
