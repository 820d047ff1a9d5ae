"""Designs as data: read back they are the same, and nothing else is ever made of a record."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest

from mechanisms import catalog, designs
from mechanisms.catalog import build
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Correlated
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level, Portion
from mechanisms.counters.noise import Gaussian, Laplace
from mechanisms.designs import RandomisedReports, UnknownDesignError, read, require_met, written
from mechanisms.sampling.exact_geometric import ExactGeometric

# What was published with another claim than it keeps has no record.
OF_REPORTS = [
    (name, small)
    for name, one in catalog.registrations().items()
    if one.of_reports and one.claims_hold
    for small in one.small
]


@pytest.mark.parametrize(("name", "small"), OF_REPORTS)
def test_every_mechanism_is_read_back_and_its_price_computed_again(
    name: str, small: dict[str, Any]
) -> None:
    mechanism = build(name, **small)
    record = json.loads(json.dumps(written(mechanism), allow_nan=False))
    again = read(record)
    assert again == mechanism
    assert again.local == mechanism.local
    if "n" in small:
        claim = small["epsilon"], small["delta"]
        share = small.get("honest_share", 1.0)
        reports = RandomisedReports(again, "shuffle", *claim, small["n"], share)
    else:
        claim = mechanism.local.epsilon, mechanism.local.delta
        reports = RandomisedReports(again, "local", *claim, 1)
    require_met(reports, *claim)
    with pytest.raises(ValueError, match="do not meet epsilon"):
        require_met(reports, 0.5 * claim[0], 0.5 * claim[1])


RECORDS = [
    (Level(1, 9), "slots", True), (Level(1, 9), "slots", 1.0), (Level(1, 9), "weight", "1"),
    (Level(1, 9), "weight", None), (ExactGeometric(1, 2), "numerator", [1]),
    (RandomisedReports(build("grr", epsilon=1.0, domain_size=9), "local", 1.0, 0.0, 1), "mechanism",
     {"is": "level", "slots": 1, "counters": 1, "weight": 1.0}),
    (JobTotals.meeting((Level(1, 9),), "replace", 1.0, 0.0), "neighbours", "none"),
    (JobTotals.meeting((Level(1, 9),), "replace", 1.0, 0.0), "levels", [1]),
    (JobTotals.meeting((Level(1, 9),), "replace", 1.0, 0.0), "levels", 1),
]  # fmt: skip


@pytest.mark.parametrize(("design", "field", "value"), RECORDS)
def test_fields_of_a_record_are_those_of_its_kind(design: Any, field: str, value: Any) -> None:
    record = written(design)
    read(record)
    with pytest.raises(TypeError, match=f"{field} of .* is of another type"):
        read(record | {field: value})
    for other in ({key: record[key] for key in record if key != field}, record | {"more": 1}):
        with pytest.raises(TypeError, match="has the fields"):
            read(other)


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "central"), ("n", 0), ("n", -9), ("honest_share", 0.0), ("honest_share", 1.5),
     ("epsilon", -1.0), ("delta", 1.0), ("delta", -0.1), ("distinct", 0), ("distinct", -1)],
)  # fmt: skip
def test_no_reports_are_read_that_nobody_sends(name: str, value: Any) -> None:
    record = written(
        RandomisedReports(build("grr", epsilon=1.0, domain_size=9), "local", 1.0, 0.0, 1)
    )
    with pytest.raises(ValueError, match=r"epsilon|reports|honest_share"):
        read(record | {name: value})


def test_digits_under_one_noise_are_levels_alike() -> None:
    """Their price is that of the first level, so another must not let a user raise more."""
    digits = Correlated((1, 2), Laplace(90, 0.4), Gaussian(50, 5.0))
    record = written(Counters((Level(1, 9), Level(2, 9)), digits, "replace", 9.0, 1e-3))
    with pytest.raises(ValueError, match="a level for each digit"):
        require_met(read(record), 9.0, 1e-3)


def test_rationals_are_exact() -> None:
    share = Fraction(1, 3)
    assert written(share) == {"numerator": 1, "denominator": 3}
    assert read(json.loads(json.dumps(written((share, 0.1, None))))) == (share, 0.1, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("laws", [None]), ("laws", [math.nan]), ("laws", "1"), ("rows", 0), ("rows", -1),
     ("levels", [[0.5, 9, 1.0]]), ("levels", [[0, 9, 1.0]]), ("levels", [[1, math.nan, 1.0]]),
     ("levels", [[1, 0, 1.0]]), ("parts", [{"is": "portion", "levels": 1, "low": 0, "high": 0.5}])],
)  # fmt: skip
def test_no_record_of_a_job_is_read_that_no_job_has(name: str, value: Any) -> None:
    """Noise that is none would cost nothing, and meet every promise."""
    record: Any = written(JobTotals.meeting((Level(1, 9),), "add or remove", 1.0, 0.0))
    require_met(read(record), 1.0, 0.0)
    record["parts"] = [written(Portion())]
    require_met(read(record), 1.0, 0.0)
    record[name] = value
    with pytest.raises((ValueError, TypeError, AttributeError)):
        require_met(read(record), 1.0, 0.0)


def test_permanent_noise_costs_what_all_values_of_a_user_do() -> None:
    mechanism = build("grr", epsilon=1.0, domain_size=9)
    require_met(RandomisedReports(mechanism, "local", 3.0, 0.0, 1, distinct=3), 3.0, 0.0)
    with pytest.raises(ValueError, match="do not meet epsilon 2"):
        require_met(RandomisedReports(mechanism, "local", 2.0, 0.0, 1, distinct=3), 2.0, 0.0)
    # Nothing that a shuffler adds counts there.
    with pytest.raises(ValueError, match="do not meet"):
        require_met(
            RandomisedReports(mechanism, "shuffle", 2.0, 1e-6, 10**6, distinct=3), 2.0, 1e-6
        )


def test_a_smaller_batch_hides_less() -> None:
    reports = RandomisedReports(
        build("grr", epsilon=3.0, domain_size=9), "shuffle", 1.0, 1e-6, 10_000
    )
    require_met(reports, 1.0, 1e-6)
    few = RandomisedReports(reports.mechanism, "shuffle", 1.0, 1e-6, 100)
    liars = RandomisedReports(reports.mechanism, "shuffle", 1.0, 1e-6, 10_000, honest_share=0.01)
    for worse in (few, liars):
        with pytest.raises(ValueError, match="do not meet epsilon 1"):
            require_met(worse, 1.0, 1e-6)


@pytest.mark.parametrize("kind", [Counters, JobTotals])
@pytest.mark.parametrize("neighbours", ["replace", "add or remove"])
def test_what_a_design_says_of_its_own_price_is_not_believed(kind: Any, neighbours: str) -> None:
    design = kind.meeting([Level(2, 9)], neighbours, epsilon=1.0, delta=1e-6)
    record = written(design) | {"epsilon": 1e-3}
    require_met(read(record), 1.0, 1e-6)
    with pytest.raises(ValueError, match="does not meet epsilon"):
        require_met(read(record), 0.99, 1e-6)


@pytest.mark.parametrize("part", [float("nan"), float("inf"), object(), {1}, b"bytes"])
def test_what_has_no_record_is_refused(part: Any) -> None:
    with pytest.raises(UnknownDesignError, match="has no record"):
        written((part,))


def test_nothing_else_is_made_of_a_record() -> None:
    for name in ("os", "Popen", "mechanisms.designs:RandomisedReports", "JobTotals", ""):
        with pytest.raises(UnknownDesignError, match="does not know"):
            read({"is": name})


def test_every_name_is_of_a_kind_that_is_there() -> None:
    for name, path in designs._KINDS.items():
        kind = designs._kind(name)
        assert f"{kind.__module__}:{kind.__name__}" == f"mechanisms.{path}"


def test_a_record_of_too_many_parts_is_refused() -> None:
    """Before anything is made of it: whoever wrote it may not have a reader compute for hours."""
    level = {"is": "level", "slots": 1, "counters": 1, "weight": 1.0}
    record = {"is": "job totals", "levels": [level] * 20_000}
    with pytest.raises(ValueError, match="at most 20,000 parts"):
        read(record)
    assert len(read([level] * 20_000)) == 20_000
