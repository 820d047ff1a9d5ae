"""What a plan's releases cost in a ledger: by the curve behind each promise, not by the promise."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mechanisms.channel import Guarantee
from mechanisms.planner.release_profile import release_profile
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.ledger.accounting import fits, further, largest_share, total
from pipelines.ledger.entries import Budget, Loss
from pipelines.plan.job import PlanJob, unread_job
from pipelines.plan.loading import load
from pipelines.plan.profiles import profile_of
from pipelines.plan.run import price

DAYS = 30

PLAN = """\
collection: trips
version: 1
unit: user
user_column: rider
input: logs/{window}.parquet
output: out/{window}
ledger: ledger.sqlite
budget: {epsilon: 1.0, delta: 1.0e-6}
epsilon: 0.133
delta: 1.0e-8
min_reports: 15000
metrics:
"""
CITY = "  - {name: city, kind: histogram, column: city, domain: 1..50, mechanism: grr}\n"
SEVERAL = """\
  - {name: city, kind: histogram, column: city, domain: 1..50, mechanism: olh}
  - {name: word, kind: strings, search: levels, column: word, oracle: hadamard, max_length: 4}
  - {name: fare, kind: mean, column: fare, bounds: "0,60", mechanism: duchi}
  - {name: wait, kind: distribution, column: wait, bounds: "0,60"}
  - {name: both, kind: vector-mean, number: ["fare=0,60", "wait=0,9"]}
"""


def job_of(folder: Path, metrics: str) -> PlanJob:
    path = folder / "plan.yaml"
    path.write_text(PLAN + metrics)
    return unread_job(load(str(path)), "2026-11-20")


def test_thirty_days_cost_a_fifth_of_their_promises(tmp_path: Path) -> None:
    asked = price(job_of(tmp_path, CITY))
    bare = [loss.model_copy(update={"profile": ()}) for loss in asked.records]
    month, promised = (total(kind * DAYS, 1e-6) for kind in (list(asked.records), bare))
    assert promised.epsilon > 3
    assert 0.6 < month.epsilon < 0.66
    assert month.delta <= 1e-6
    assert fits(asked.records * DAYS, asked.budget)
    assert not fits(bare * DAYS, asked.budget)


def test_what_is_said_to_fit_fits_and_one_more_does_not(tmp_path: Path) -> None:
    asked = price(job_of(tmp_path, CITY))
    more = further(asked.records * DAYS, asked.records, asked.budget)
    assert 20 < more < 60
    assert fits(asked.records * (DAYS + more), asked.budget)
    assert not fits(asked.records * (DAYS + more + 1), asked.budget)
    assert further(asked.records * DAYS, asked.records, asked.budget, most=5) == 5


def test_the_share_that_is_advised_is_safe_whatever_its_profile(tmp_path: Path) -> None:
    """Nothing is claimed of a release that was not planned: its promise alone has to fit."""
    asked = price(job_of(tmp_path, CITY))
    spent = asked.records * further((), asked.records, asked.budget)
    assert not fits([*spent, *asked.records], asked.budget)
    share = largest_share(spent, asked.records, asked.budget)
    (loss,) = asked.records
    alone = loss.model_copy(update={"epsilon": share * loss.epsilon, "profile": ()})
    assert 0 < share < 1
    assert fits([*spent, alone], asked.budget)


@pytest.mark.verify
def test_every_kind_has_a_curve_below_its_promise(tmp_path: Path) -> None:
    job = job_of(tmp_path, SEVERAL)
    for metric, promised, profile in zip(job.metrics, job.losses, job.profiles, strict=True):
        bare = PrivacyLoss.from_guarantee(promised)
        assert profile.epsilon(promised.delta) <= promised.epsilon * (1 + 1e-5), metric.name
        assert profile.delta(0.0) < 0.25 * bare.delta(0.0), metric.name
    for record in price(job).records:
        assert 10 < len(record.profile) < 64
        assert len(record.model_dump_json()) < 2000  # a bucket's ledger is read whole


@pytest.mark.parametrize("mechanism", ["grr", "olh", "oue", "poisson"])
def test_no_digit_of_a_stored_curve_is_rounded_down(tmp_path: Path, mechanism: str) -> None:
    """Both curves are chains of chords: what holds at all of their corners holds everywhere."""
    job = job_of(tmp_path, CITY.replace("grr", mechanism))
    curve = release_profile(job.metrics[0].design)
    (stored,) = job.profiles
    assert stored != curve  # it has fewer digits
    corners = np.union1d(curve.epsilons, stored.epsilons)
    assert (stored.at(corners) >= curve.at(corners) * (1 - 1e-12)).all()
    # As it is read back from a ledger, where digits are decimals.
    (record,) = price(job).records
    for epsilon, delta in Loss.model_validate_json(record.model_dump_json()).profile:
        assert Fraction(repr(delta)) >= Fraction(curve.delta(epsilon)) * (1 - Fraction(1, 10**12))


def test_what_promises_nothing_may_reveal_everything(tmp_path: Path) -> None:
    (metric,) = job_of(tmp_path, CITY).metrics
    assert profile_of(metric, Guarantee.none("no bound")).delta(50.0) == 1.0


def test_many_kinds_with_curves_are_counted_as_the_worst_of_those_alike() -> None:
    """Eighty windows whose least batches all differ: fewer kinds, and none of them forgiven."""
    base = PrivacyLoss.from_profile([0.0, 0.05, 0.1, 0.2], [9e-3, 5e-4, 1e-8, 1e-13])
    kinds = []
    for k in range(80):
        grown = 1 + k / 8000
        curve = PrivacyLoss.from_profile(
            [e * grown for e in base.epsilons], [d * grown for d in base.deltas]
        )
        claim = Guarantee("shuffle", 0.1 * grown, 1e-8 * grown, "user", "enumeration")
        kinds.append(Loss.of(claim, curve))
    joint = total(kinds, 1e-6).epsilon
    least, most = (total([kinds[k]] * 80, 1e-6).epsilon for k in (0, -1))
    assert least < joint <= 1.01 * most
    bare = [kind.model_copy(update={"profile": ()}) for kind in kinds]
    assert joint < 0.5 * total(bare, 1e-6).epsilon
    assert fits(kinds, Budget(epsilon=most, delta=1e-6)) == (joint <= most)
    assert total(kinds[:64], 1e-6).epsilon == pytest.approx(
        total(kinds[:1] * 64, 1e-6).epsilon, rel=0.02
    )
