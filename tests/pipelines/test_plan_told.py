"""What is said of a plan's metrics before they run, to people and to programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mechanisms.catalog import build
from mechanisms.channel import Guarantee
from mechanisms.wire.fingerprint import described as described_mechanism
from pipelines.cli.cli import main
from pipelines.errors import RequestError
from pipelines.metrics.terms import drowned, next_to_nothing
from pipelines.plan.check import check
from pipelines.plan.job import PlanJob, unread_job
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark_of_reports, public_seed
from pipelines.plan.split import split
from tests.oracles.checked_plan import CheckedPlan

PLAN = """\
collection: trips
version: 1
input: logs/{window}.parquet
output: out/{window}
epsilon: EPSILON
min_reports: REPORTS
metrics:
  - {name: city, kind: histogram, column: city, domain: 1..50, mechanism: grr}
  - {name: fare, kind: mean, column: fare, bounds: "0,600", mechanism: duchi}
  - {name: wait, kind: distribution, column: wait, bounds: "0,60", bins: 16}
"""


def written(folder: Path, epsilon: float, reports: int) -> str:
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace("EPSILON", str(epsilon)).replace("REPORTS", str(reports)))
    return str(path)


def job_of(folder: Path, epsilon: float, reports: int) -> PlanJob:
    return unread_job(load(written(folder, epsilon, reports)), "2026-11-20")


def test_noise_that_drowns_everything_is_said_of_each_metric(tmp_path: Path) -> None:
    told = [line for line in job_of(tmp_path, 0.01, 100).cautions if "noise drowns" in line]
    assert [line.partition(":")[0] for line in told] == ["city", "fare", "wait"]
    assert not [c for c in job_of(tmp_path, 1.0, 100_000).cautions if "noise drowns" in c]


def test_cautions_of_a_plan_spell_options_as_it_does(tmp_path: Path, monkeypatch: Any) -> None:
    job = job_of(tmp_path, 1.0, 100_000)
    said = property(lambda metric: ["would do: --rows-per-user 3"])
    monkeypatch.setattr(type(job.metrics[0]), "cautions", said)
    assert "city: would do: rows_per_user 3" in job.cautions


def test_an_error_is_compared_with_what_a_guess_may_be_wrong_by() -> None:
    assert drowned(1.0, 100, "x") == drowned(9.0, 0, "x") == []
    (told,) = drowned(2.37, 1000, "half the bounds")
    assert "with 1,000 reports" in told
    assert "2.37 times half the bounds" in told


@pytest.mark.verify
def test_a_mean_is_drowned_where_its_error_exceeds_half_the_distance(tmp_path: Path) -> None:
    for epsilon in (0.05, 0.3, 1.0):
        _, metric, _ = job_of(tmp_path, epsilon, 200).metrics
        expected = metric.expected_error  # "mean ± 1421 at most"
        drowns = float(expected.split()[2]) > 300
        assert drowns == any("noise drowns" in line for line in metric.cautions), expected


def test_a_large_epsilon_is_said_to_promise_nothing(tmp_path: Path) -> None:
    small, large = (Guarantee("shuffle", epsilon, 0.0, "row", "") for epsilon in (20.0, 25.0))
    assert next_to_nothing(small) == []
    (told,) = next_to_nothing(large)
    assert told.startswith("epsilon 25 promises next to nothing")
    (told,) = next_to_nothing(small, large)
    assert told.startswith("epsilon 25 of a single report promises next to nothing")
    assert next_to_nothing(small, replace(large, model="none")) == []
    # Each of the three metrics has less than 20 of it, and together they have not.
    told = job_of(tmp_path, 45.0, 2000).cautions
    assert [line for line in told if "promises next to nothing" in line][-1].startswith("epsilon ")


def test_programs_read_the_very_mechanisms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 1.0, 2000)
    assert main(["check", path, "--json", "--window", "2026-11-20"]) == 0
    told = json.loads(capsys.readouterr().out)
    plan = load(path)
    job = unread_job(plan, "2026-11-20", clients=True)
    assert told["window"] == {
        "name": "2026-11-20",
        "fingerprint": mark_of_reports(plan, "2026-11-20", job.metrics).hex(),
        "public_seed": str(public_seed(plan, "2026-11-20")),
    }
    city, fare, wait = told["metrics"]
    made = city["resolved"]["made"]
    rebuilt = build("grr", epsilon=float.fromhex(made["epsilon"]), domain_size=51)  # unusable
    assert made == described_mechanism(rebuilt)
    assert rebuilt == job.metrics[0].mechanism
    assert (city["place"], city["domain_size"], city["inputs"], city["codes"]) == (0, 50, 51, 51)
    assert (fare["bounds"], fare["column"], fare["undivided"]) == ([0.0, 600.0], "fare", None)
    assert wait["min_reports"] == 2000
    assert told["refused"] is None


COUNTED = """\
collection: counted
version: 1
input: log.parquet
output: out/{window}
epsilon: 2
delta: 1e-6
drawn_by: shuffler
metrics:
  - {name: much, kind: sum, column: fare, bounds: "0,600", expected: 100000}
"""


@pytest.mark.verify
@pytest.mark.parametrize("text", [COUNTED, PLAN], ids=["counters", "randomised"])
def test_clients_read_what_the_parties_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Of a sum one job would draw another noise, and so tell other digits' levels."""
    path = tmp_path / "plan.yaml"
    path.write_text(text.replace("EPSILON", "1").replace("REPORTS", "2000"))
    assert main(["check", str(path), "--json", "--window", "2026-11-20"]) == 0
    told = CheckedPlan.model_validate(json.loads(capsys.readouterr().out))
    parted = split(load(str(path)), "2026-11-20")
    assert told.window is not None
    assert told.window.fingerprint == parted.fingerprint.hex()
    written = [metric.client is not None for metric in told.metrics]
    assert written == ([True] if text == COUNTED else [True, False, False])  # no duchi, nor sw


MIXED = """\
  - {name: city, kind: histogram, column: city, domain: 0..2, min_reports: 100,
     drawn_by: each-report}
"""
ALONE = """\
  - {name: often, kind: strings, search: levels, column: city, drawn_by: shuffler, max_length: 4}
"""


@pytest.mark.verify
@pytest.mark.parametrize("more", [MIXED, ALONE], ids=["two kinds", "level by level"])
def test_of_what_the_parties_refuse_no_client_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(COUNTED + more)
    with pytest.raises(RequestError):
        split(load(str(path)), "2026-11-20")
    assert main(["check", str(path), "--json", "--window", "2026-11-20"]) == 0
    told = CheckedPlan.model_validate(json.loads(capsys.readouterr().out))
    assert [metric.client for metric in told.metrics] == [None, None]


@pytest.mark.verify
def test_without_a_window_there_is_no_fingerprint_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written(tmp_path, 1.0, 2000), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["window"] is None
    assert len(told["design"]) == 32
    with pytest.raises(RequestError, match="--window"):
        check(written(tmp_path, 1.0, 2000), window="../x")
