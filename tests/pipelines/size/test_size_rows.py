"""`hushbeam size --dimension`: what mechanisms for rows would err by, before data is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mechanisms.planner.search import search
from mechanisms.targets.rules import Target
from mechanisms.vector.task import VectorTask
from pipelines.cli.cli import main

SOURCE = ("--model", "local", "--epsilon", "1", "--dimension", "400")
DATA = ("--mean-square", "0.110914260", "--second-moment", "0.172977829", "--spread", "0")
VECTORS = Path(__file__).parents[2] / "data" / "vectors.json"
ENTRIES = json.loads(VECTORS.read_text())["rphm_mse"]


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


def plan(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["size", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def rows(out: str) -> dict[str, list[str]]:
    """Mechanism -> the cells of its row, without the mark of the best."""
    names = "zeros|random projection|multi_hm \\* q/d|[a-z_]+"
    found = re.findall(rf"^(?:auto)? +({names}) +(\d.*)$", out, re.MULTILINE)
    return {name: cells.split() for name, cells in found}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry["params"]["d"]))
def test_the_errors_are_those_of_the_reference(capsys, entry):
    given, expected = entry["params"], entry["expected_mse"]
    words = ("--epsilon", str(given["eps"]), "--dimension", str(given["d"]))
    code, out, _ = plan(capsys, "--model", "local", *words, *DATA, "--users", str(given["n"]))
    assert code == 0
    found = rows(out)
    for name, place, value in (
        ("zeros", 0, expected["zero_estimator"]),
        ("random projection", 0, expected["rp_only"]),
        ("multi_hm * q/d", 0, expected["multi_hm_shrunk_by_q_over_d"]),
        ("multi_rphm", 0, expected["rphm"]),
        ("multi_hm", 0, expected["multi_hm"]),
        ("multi_hm", 1, expected["multi_hm_oracle_shrink"]),
        ("multi_hm", 2, expected["multi_hm"] / given["d"]),  # all means are alike
    ):
        assert float(found[name][place]) == pytest.approx(value, rel=6e-3)  # it has three digits
    at = re.search(r"n\* = ([\d,]+) reports", out)
    assert float(at[1].replace(",", "")) == pytest.approx(entry["crossover_n"], rel=3e-4)


def test_the_source_benchmark_is_put_in_one_sentence(capsys):
    _, out, _ = plan(capsys, *SOURCE, *DATA, "--users", "1e4")
    assert "multi_rphm has a smaller error than multi_hm below n* = 20,918 reports" in out
    assert "shrinking dominates it: multi_hm, shrunk to 0, errs by 0.0684" in out
    assert "where multi_rphm errs by 0.0937." in out
    assert "local: epsilon 1, delta 0, per user" in out
    assert "how it is known: composition of 1 of 400 coordinates" in out


def test_auto_is_what_the_mean_of_rows_takes(capsys):
    for epsilon in ("0.5", "4"):
        _, out, _ = plan(capsys, "--model", "local", "--epsilon", epsilon, "--reports", "5000",
                         "--dimension", "50", "--radius", "6")  # fmt: skip
        (marked,) = re.findall(r"^ *auto +([a-z_]+)", out, re.MULTILINE)
        target = Target(
            "local", float(epsilon), 0.0, 5000, VectorTask(50, radius=6.0), unit="user", seed=0
        )
        best = search(target)
        assert marked == best.name
        cost = rows(out)[marked]
        assert cost[4:] == [str(best.bits), f"{best.mechanism.messages:g}", epsilon, epsilon]


def test_a_shuffled_batch_states_both_guarantees(capsys):
    code, out, _ = plan(capsys, "--epsilon", "1", "--users", "1e5", "--dimension", "50")
    assert code == 0
    found = rows(out)
    assert set(found) == {"zeros", "multi_optimal", "multi_hm"}  # projections are of local reports
    local, release = (float(x) for x in found["multi_optimal"][-2:])
    assert 7 < local < 8
    assert release <= 1
    assert int(found["multi_optimal"][5]) >= 3
    assert "n*" not in out
    assert "shuffle: epsilon 1, delta 1e-06, per user" in out


def test_without_a_guess_the_worst_is_expected(capsys):
    _, out, _ = plan(capsys, *SOURCE, "--users", "1e4")
    found = rows(out)
    assert float(found["zeros"][0]) == 1.0
    expected = search(Target("local", 1.0, 0.0, 10_000, VectorTask(400))).error
    assert float(found["multi_optimal"][0]) == pytest.approx(expected, rel=6e-3)


def test_means_that_are_known_to_vanish_have_no_crossing(capsys):
    _, out, _ = plan(capsys, *SOURCE, "--users", "1e4", "--mean-square", "0")
    assert "than multi_hm whatever their number; shrinking dominates it" in out


def test_a_directory_of_directions_is_charged_its_seed(capsys):
    """PrivUnit's public seed leaves an error that no number of users averages out."""
    words = ("--model", "local", "--epsilon", "8", "--dimension", "9", "--radius", "1")
    _, out, _ = plan(capsys, *words, "--users", "1e9")
    found = rows(out)
    target = Target("local", 8.0, 0.0, 10**9, VectorTask(9, radius=1.0), seed=0)
    expected = search(target, "privunit").error
    assert float(found["privunit"][0]) == pytest.approx(expected, rel=6e-3)
    assert not re.search(r"auto +privunit", out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epsilon", "1", "--dimension", "9"], "--reports is missing"),
        (["--users", "100", "--dimension", "9"], "epsilon is missing"),
        (["--users", "100", "--epsilon", "1"], "--domain-size or --dimension is missing"),
        (["--users", "9", "--epsilon", "1", "--dimension", "0"], "--dimension must be"),
        (["--users", "9", "--epsilon", "1", "--dimension", "nan"], "--dimension must be"),
        (["--users", "9", "--epsilon", "1", "--dimension", "1e9"], "--dimension must be"),
        (["--users", "9", "--epsilon", "nan", "--dimension", "9"], "--epsilon"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--radius", "0"], "--radius"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--zipf", "2"],
         "--zipf means nothing beside --dimension"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--domain-size", "9"],
         "--domain-size means nothing beside --dimension"),
        (["--users", "9", "--epsilon", "1", "--domain-size", "9", "--mean-square", ".2"],
         "--mean-square means nothing beside --domain-size"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--model", "central"], "--model"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--mean-square", ".3",
          "--second-moment", ".2"], "must rise from 0 to 1"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--model", "local",
          "--delta", ".1"], "delta must be 0"),
        (["--users", "9", "--epsilon", "1", "--dimension", "9", "--banana"], "--banana"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_line(capsys, words, said):
    code, out, err = plan(capsys, *words)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("hushbeam: ")
    assert said in err


def test_what_hiding_absence_costs_is_told(capsys):
    """Of 400 numbers at epsilon 1 the variance grows by a quarter; of a histogram hardly."""
    code, out, _ = plan(capsys, *SOURCE, "--users", "10000")
    assert code == 0
    told = re.search(r"--unusable hide, the default, adds ([\d.]+) % to the standard error;", out)
    assert 10 < float(told[1]) < 15
    code, out, _ = plan(capsys, "--epsilon", "1", "--reports", "10000", "--domain-size", "50")
    assert code == 0
    assert re.search(r"--unusable hide, the default, (adds 0\.\d+ %|costs nothing)", out)
    beyond = ("--model", "local", "--epsilon", "3", "--dimension", "16", "--radius", "1")
    assert ", by multi_optimal; fill=VALUE" in plan(capsys, *beyond, "--users", "10000")[1]
