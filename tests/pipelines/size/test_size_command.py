"""`hushbeam size`: a table before data is touched."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pipelines.cli.cli import main


def plan(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["size", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_compares_the_catalogue_and_marks_the_best(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = ("--epsilon", "0.5", "--reports", "602325", "--domain-size", "915")
    code, out, _ = plan(capsys, *words)
    assert code == 0
    assert "only 542,092 of 602,325 users follow the protocol" in " ".join(out.split())
    code, out, _ = plan(capsys, *words, "--honest-share", "1")
    assert code == 0
    assert re.search(r"best\s+grr", out)
    for name in ("olh", "srr", "hadamard"):
        assert name in out
    assert "2.62e-05" in out  # the square root of 6.88e-10
    assert "how it is known: numerical accountant" in out


def test_local_model_and_cap(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = ("--reports", "1e6", "--domain-size", "42178")
    code, out, _ = plan(capsys, "--model", "local", "--epsilon", "1", *words)
    assert code == 0
    assert re.search(r"best\s+(olh|srr|projective)", out)
    code, out, _ = plan(capsys, "--epsilon", "1", "--epsilon-local", "3", *words)
    assert code == 0
    rows = re.findall(r"(?:best)?\s+[a-z]+\s.*\s1\s+([\d.]+)\s+[\d.]+\s*\n", out)
    assert len(rows) == 5  # the mechanisms of one message
    assert all(float(spent) <= 3 for spent in rows)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--reports", "1e6", "--delta", "1e-6", "--honest-share", "1"],
            r"least epsilon for a standard error of 0.0001: 0\.056",
        ),
        (
            ["--epsilon", "1", "--honest-share", "1"],
            r"fewest reports for a standard error of 0.0001: 82,9",
        ),
        (["--epsilon", "1"], r"fewest reports for a standard error of 0.0001: 87,0"),
    ],
)
def test_turned_round(capsys, given, said):
    code, out, _ = plan(capsys, *given, "--domain-size", "1000", "--for-error", "1e-4")
    assert code == 0
    assert re.search(said, out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epsilon", "1", "--domain-size", "9"], "--reports is missing"),
        (["--reports", "100", "--domain-size", "9"], "--epsilon is missing"),
        (["--reports", "100", "--epsilon", "1"], "--domain-size"),
        (["--reports", "100", "--epsilon", "nan", "--domain-size", "9"], "--epsilon"),
        (["--reports", "100", "--epsilon", "1", "--domain-size", "1"], "--domain-size"),
        (["--reports", "inf", "--epsilon", "1", "--domain-size", "9"], "--reports"),
        (["--reports", "99", "--epsilon", "1", "--domain-size", "9", "--delta", "0"], "delta"),
        (["--reports", "99", "--epsilon", "1", "--domain-size", "9", "--banana"], "--banana"),
        (["--domain-size", "9", "--for-error", "0.1"], "--reports is missing"),
        (["--reports", "9", "--epsilon", "1", "--domain-size", "9", "--for-error", "0.1"],
         "either"),
        (["--reports", "99", "--domain-size", "9", "--for-error", "1e-30"], "no epsilon"),
        (["--reports", "9", "--epsilon", "1", "--domain-size", "9", "--model", "local",
          "--delta", "0.1"], "delta must be 0"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_line(capsys, words, said):
    code, out, err = plan(capsys, *words)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("hushbeam: ")
    assert said in err


def test_planning_and_auditing_do_not_wait_for_beam():
    script = (
        "import sys; from pipelines.cli.cli import main;"
        "code = main(['size', '--epsilon', '1', '--reports', '1000', '--domain-size', '10']);"
        "code += main(['audit', 'grr', '--epsilon', '1', '--domain-size', '10']);"
        "sys.exit(code or 'apache_beam' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0
