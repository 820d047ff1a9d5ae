"""`hushbeam evaluate histogram`, as people run it: all systems in one plot, resumable, discreet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.papers import hp_sdp

PAGE = Path(__file__).parents[2] / "docs" / "appendix" / "reproduction.md"

EVALUATE = ["evaluate", "histogram"]
ONE_JOB = ["--jobs", "1"]  # starting processes takes seconds
SMALL = ["--data", "zipf:60000,20,1", "--epsilons", "0.8", "1", "--repetitions", "2", *ONE_JOB]


def rows(folder: Path) -> list[dict[str, object]]:
    """The results, without the one column that is not repeatable, in an order of their own."""
    table = pq.read_table(folder / "results.parquet").drop_columns(["seconds"]).to_pylist()
    return sorted(table, key=lambda row: repr([row[name] for name in sorted(row)]))


@pytest.mark.verify
@pytest.mark.parametrize("bound", ["exact", "published"])
def test_all_eight_systems_of_the_paper_are_in_one_plot(run, bound) -> None:
    outcome = run([*EVALUATE, "--systems", "paper", "--bound", bound, *SMALL, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    svg = Path("out/mse-by-epsilon-delta-1e-06.svg").read_text()
    assert Path("out/mse-by-epsilon-delta-1e-06.png").stat().st_size > 10_000
    for name in hp_sdp.SYSTEMS:
        assert f">{name}" in svg
        assert name in outcome.out
    assert json.loads(Path("out/refused.json").read_text()) == []
    table = pq.read_table("out/results.parquet")
    assert table.num_rows == 8 * 2 * 2
    assert pc.all(pc.greater(table["mse"], 0)).as_py()


@pytest.mark.verify
def test_errors_are_those_predicted(run) -> None:
    outcome = run(
        [*EVALUATE, "--systems", "paper", "poisson", "grr@local", "--epsilons", "1", "--output",
         "out", "--data", "zipf:100000,200,1", "--repetitions", "40", *ONE_JOB]
    )  # fmt: skip
    assert outcome.code == 0
    table = pq.read_table("out/results.parquet")
    means = table.group_by(["system", "model"]).aggregate(
        [("mse_unbiased", "mean"), ("predicted_mse", "mean"), ("mse", "mean")]
    )
    assert means.num_rows == 10
    for row in means.to_pylist():
        ratio = row["mse_unbiased_mean"] / row["predicted_mse_mean"]
        if row["system"] in ("hp-sm", "hp-sdp", "murs"):
            # Here 199 symbols hash 200 values: all of one release are off by nearly the same, so
            # that 40 releases are hardly more than chi-square with 40 degrees of freedom.
            assert 0.2 < ratio < 3, row
        else:  # 8,000 nearly independent errors: 10 % are 6 standard deviations
            assert ratio == pytest.approx(1, abs=0.1), row
        projected = row["system"] in ("hp-sdp", "poisson", "grr", "laplace")
        assert (row["mse_mean"] < row["mse_unbiased_mean"]) == projected


def test_a_bound_out_of_its_range_is_a_gap_and_not_a_crash(run) -> None:
    outcome = run(
        [*EVALUATE, "--systems", "sh:published", "sh", "--epsilons", "0.1", "1", "2",
         "--data", "zipf:60000,200,1", "--output", "out", "--repetitions", "1", *ONE_JOB]
    )  # fmt: skip
    assert outcome.code == 0
    refused = json.loads(Path("out/refused.json").read_text())
    assert {row["system"] for row in refused} == {"sh"}
    assert {row["bound"] for row in refused} == {"published"}
    assert all("bound" in row["reason"] for row in refused)
    assert "refused, 2 settings of 6" in outcome.out  # at 0.1 no budget is left; 2 is above 1
    assert re.search(r"sh:published\s+-", outcome.out)
    served = {(row["bound"], row["epsilon"]) for row in rows(Path("out"))}
    assert {("exact", 0.1), ("exact", 1.0), ("exact", 2.0), ("published", 1.0)} <= served


def test_nothing_that_can_be_served_is_a_wrong_request(run) -> None:
    words = [
        "--systems",
        "sh:published",
        "--epsilons",
        "0.1",
        "--data",
        "zipf:1000,900,1",
        *ONE_JOB,
    ]
    outcome = run([*EVALUATE, *words, "--output", "out"])
    assert outcome.code == 2
    assert re.fullmatch(r"hushbeam: no system can serve any of this; .*\n", outcome.err)
    assert len(json.loads(Path("out/refused.json").read_text())) == 1
    assert run([*EVALUATE, *words, "--output", "out"]).code == 2


def test_a_published_bound_is_held_against_the_exact_accountant(run) -> None:
    words = ["--systems", "sh", "sh:published", "grr@local", "laplace", "--epsilons", "1", *ONE_JOB]
    outcome = run([*EVALUATE, *words, "--data", "zipf:60000,20,1", "--output", "out"])
    assert outcome.code == 0
    row = {(row["system"], row["bound"]): row for row in rows(Path("out"))}
    assert row["sh", "published"]["true_epsilon"] < 0.4  # the closed form is several times loose
    assert 0.98 < row["sh", "exact"]["true_epsilon"] <= 1
    assert row["sh", "published"]["local_epsilon"] < row["sh", "exact"]["local_epsilon"]
    assert row["grr", "exact"]["local_epsilon"] == row["grr", "exact"]["true_epsilon"] == 1
    assert row["laplace", "exact"]["local_epsilon"] is None  # nothing protects a report


MANY = [
    *EVALUATE, "--systems", "grr@local", "olh@local", "laplace", "--repetitions", "9",
    "--data", "zipf:100000,20,1", "normal:100000,30", "--epsilons", "0.5", "1", "2",
]  # fmt: skip


# Runs the command until its journal has three entries, and sends itself a signal then: from outside
# a fast machine would be done before the signal came.
STOPPED = """
import os, signal, sys
from pipelines.cli import cli
from hushbeam.studies.engine.journal import Journal

append, number, entries = Journal.append, int(sys.argv.pop(1)), []

def stop_after_three(self, entry):
    append(self, entry)
    entries.append(entry)
    if len(entries) == 3:
        os.kill(os.getpid(), number)

Journal.append = stop_after_three
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
cli.entry()
"""


def stopped(output: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """An evaluation by two workers that was stopped when it had written a little of its journal."""
    words = [sys.executable, "-c", STOPPED, str(int(number)), *MANY, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [*words, "--output", output], env=environment, capture_output=True, text=True
    )


@pytest.mark.verify
def test_killed_it_goes_on_and_ends_alike(run, workspace) -> None:
    assert stopped("killed", signal.SIGKILL).returncode == -signal.SIGKILL
    assert not Path("killed/results.parquet").exists()
    journal = Path("killed/journal.jsonl")
    before = journal.read_bytes()
    journal.write_bytes(before + b'{"cell": 5, "runs": [{"rep')  # as if it had been writing

    assert run([*MANY, *ONE_JOB, "--output", "killed"]).code == 0
    assert journal.read_bytes().startswith(before)
    assert run([*MANY, *ONE_JOB, "--output", "whole"]).code == 0
    assert rows(Path("killed")) == rows(Path("whole"))
    for name in ("mse-by-epsilon-delta-1e-06.svg", "refused.json"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.verify
def test_interrupted_it_says_how_to_go_on(workspace) -> None:
    process = stopped("interrupted", signal.SIGINT)
    assert process.returncode == 3
    assert process.stderr == "hushbeam: interrupted; the same command goes on from here\n"
    assert not Path("interrupted/results.parquet").exists()


def test_a_column_is_read_as_a_histogram_and_nothing_of_it_is_shown(run) -> None:
    secrets = [f"secret{number}" for number in range(9)]
    values = pa.array([secret for place, secret in enumerate(secrets) for _ in range(900 + place)])
    pq.write_table(pa.table({"word": values, "user": range(len(values))}), "log.parquet")
    words = ["--systems", "grr@local", "laplace", "--epsilons", "1", "2", *ONE_JOB]
    outcome = run([*EVALUATE, *words, "--data", "log.parquet:word", "--output", "out"])
    assert outcome.code == 0
    assert {(row["n"], row["d"]) for row in rows(Path("out"))} == {(len(values), 9)}
    written = b"".join(path.read_bytes() for path in Path("out").iterdir())
    assert b"secret" not in written
    assert "secret" not in outcome.out + outcome.err
    pq.write_table(pa.table({"word": values[1:]}), "log.parquet")
    outcome = run([*EVALUATE, *words, "--data", "log.parquet:word", "--output", "out"])
    assert (outcome.code, "the data differ" in outcome.err) == (2, True)


def test_the_figures_of_the_page_show_every_system_of_the_paper() -> None:
    for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text()):
        content = (PAGE.parent / name).read_bytes()
        for system in hp_sdp.SYSTEMS:
            assert f">{system}".encode() in content
