"""What is measured of liars, against closed forms."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import build

N, LIARS = 1_000_000, 0.05


def rows(run, *words: str) -> dict[str, dict[str, float]]:
    """One release under each attack."""
    asked = ["evaluate", "poisoning", "--epsilons", "1", "--repetitions", "1", "--jobs", "1"]
    data = ["--data", f"zipf:{N},20,1", "--attacks", "none", "random", "input", "target"]
    outcome = run([*asked, *data, "--output", "out", *words])
    assert outcome.code == 0, outcome.said
    return {row["attack"]: row for row in pq.read_table("out/results.parquet").to_pylist()}


@pytest.mark.parametrize("system", ["grr", "oue"])
def test_gains_are_those_of_the_closed_forms(run, unseen, workspace, system: str) -> None:
    """Standard errors of a share are below 0.0028: 6.2 of them are 0.0174.

    A target's own share of the users who now lie is lost: at most 0.28 of them hold it.
    """
    mechanism = build(system, epsilon=1.0, domain_size=20)
    attacks = rows(run, "--systems", f"{system}@local")
    gains = {name: row["gain"] for name, row in attacks.items()}
    forged = (1 - mechanism.other) / mechanism.contrast * LIARS
    assert abs(gains["none"]) < 0.0174
    assert 0.72 * LIARS - 0.0174 < gains["input"] < LIARS + 0.0174
    assert forged - 0.28 * LIARS - 0.0174 < gains["target"] < forged + 0.0174
    assert gains["target"] > gains["input"] + 0.05  # what no lie about a value comes to
    assert attacks["none"]["liars"] == attacks["none"]["gain_bound"] == 0
    assert attacks["target"]["gain_bound"] == pytest.approx(LIARS / mechanism.contrast)
