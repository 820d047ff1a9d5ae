"""A log that does not parse is said to be one: by `look`, and by what is published of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hushbeam
from mechanisms.wire.sealing import create_key
from pipelines.errors import Caution, WithheldError
from tests.fakes import canaries

N = 4000

PLAN = """\
collection: trips
version: 1
unit: row
input: log.csv
delimiter: ";"
types: {s: float, good: float}
output: out
epsilon: 4
delta: 1e-6
min_reports: 1000
ledger: ledger.sqlite
budget: {epsilon: 8, delta: 1e-5}
metrics:
  - {name: s, kind: mean, column: s, bounds: "0,60"}
"""
OTHERS = """\
  - {name: good, kind: mean, column: good, bounds: "0,60"}
  - {name: n, kind: count}
"""


@pytest.fixture
def log(workspace: Path) -> Path:
    """Decimal commas in one column; a fifth of another is no number."""
    good = ("x" if k % 5 == 0 else f"{k % 60}.5" for k in range(N))
    lines = (f"{k % 60},{k % 10};{text}" for k, text in enumerate(good))
    Path("log.csv").write_text("s;good\n" + "\n".join(lines) + "\n")
    return workspace


def statement(folder: str) -> dict:
    return json.loads(Path(folder, "statement.json").read_text())


def test_a_newcomers_path(log: Path, run) -> None:
    looked = run(["look", "log.csv"])
    assert looked.code == 0
    assert 'number(s, decimal=",")' in looked.out
    drafted = run(["init", "log.csv"])
    assert 'number(s, decimal=",")' in drafted.out
    assert "numbers with a decimal comma" in drafted.err
    asked = ["--input", "log.csv", "--delimiter", ";", "--types", "s=float", "--epsilon", "2"]
    for kind in ("mean", "distribution"):
        for more in (["--min-reports", "1000"], ["--drawn-by", "shuffler", "--expected", "4000"]):
            out = f"{kind}-{len(more)}"
            words = [kind, *asked, "--column", "s", "--bounds", "0,60", *more, "--output", out]
            outcome = run(words)
            assert outcome.code == 1
            assert (
                "withheld: at least 95 % of the rows have no value that can be used" in outcome.err
            )
            assert outcome.err.strip().endswith("`where: COLUMN is not null`")
            assert sorted(path.name for path in Path(out).iterdir()) == [
                "report.html", "signature.json", "statement.json", "unusable.parquet",
            ]  # fmt: skip
            (row,) = pq.read_table(f"{out}/unusable.parquet").to_pylist()
            assert row["value"] == "no usable value"
            assert row["lower"] > 0.95
            assert row["lower"] <= row["estimate"] <= row["upper"] <= 1
            page = Path(out, "report.html").read_text()
            assert '<p class="caution">Withheld: at least 95 % of the rows' in page
            assert page.count("have no value that can be used") == 1  # before what is promised
            assert "other or missing" not in page + outcome.said
            assert "no usable value</th>" in page
            assert "`" not in page
            told = statement(out)
            assert "mean" not in told
            assert "cut" not in told
            assert told["unusable"]["share"] == row["estimate"] if "share" in told else True
            assert not canaries.found(outcome.said)


def test_a_plan_publishes_its_other_metrics_and_pays_for_all(log: Path, run) -> None:
    Path("plan.yaml").write_text(PLAN + OTHERS)
    assert run(["ledger", "init", "plan.yaml"]).code == 0
    outcome = run(["run", "plan.yaml", "--json"])
    assert outcome.code == 1
    told = json.loads(outcome.out)
    assert told["withheld"] == ["s"]
    assert [text.partition(":")[0] for text in told["cautions"]] == ["good"]
    said = statement("out")
    assert (said["metrics"], said["withheld"]) == (["good", "n"], ["s"])
    assert said["missing"]["s"]["unusable"]["lower"] > 0.95
    assert said["cautions"]["good"][0] in " ".join(said["in_words"])
    assert said["missing"]["s"]["why"] in " ".join(said["in_words"])
    share = statement("out/good")["unusable"]
    lower, upper = float(share["lower"]), float(share["upper"])
    assert lower > 0.1  # by which it is said
    # Three times what 19 in 20 are within: once in 10^8 runs it is further off.
    assert abs((lower + upper) / 2 - 0.2) < 1.5 * (upper - lower)
    assert not Path("out/s").exists()
    page = Path("out/report.html").read_text()
    assert "withheld: nearly no value can be used" in page
    assert "many of the rows have no value" in page
    entries = json.loads(run(["ledger", "show", "--ledger", "ledger.sqlite", "--json"]).out)
    assert "s" in json.dumps(entries)
    (entry,) = [each for each in _entries(entries) if each["state"] == "committed"]
    assert {*entry["metrics"]} == {"s", "good", "n"}  # the share was drawn, so it is paid for
    before = Path("out/statement.json").read_bytes()
    again = run(["run", "plan.yaml"])
    assert again.code == 1
    assert "s: withheld: at least 95 %" in again.err
    assert f"good: {said['cautions']['good'][0]}" in again.err
    with pytest.warns(Caution) as heard:
        assert [*hushbeam.Plan("plan.yaml").run()] == ["good", "n"]
    (why,) = [str(one.message) for one in heard if "withheld" in str(one.message)]
    assert why.startswith("s: withheld: at least 95 %")  # and not for too few reports
    assert Path("out/statement.json").read_bytes() == before


def _entries(shown: object) -> list[dict]:
    """Of whatever `ledger show` is made of, what looks like an entry."""
    if isinstance(shown, list):
        return [entry for part in shown for entry in _entries(part)]
    if isinstance(shown, dict):
        own = [shown] if {"state", "metrics"} <= shown.keys() else []
        return own + [entry for part in shown.values() for entry in _entries(part)]
    return []


def test_a_plan_of_which_nothing_parses_is_a_release_of_shares(log: Path, run) -> None:
    Path("plan.yaml").write_text(PLAN)
    assert run(["ledger", "init", "plan.yaml"]).code == 0
    assert run(["run", "plan.yaml"]).code == 1
    said = statement("out")
    assert (said["metrics"], said["withheld"]) == ([], ["s"])
    assert said["guarantees"]["release"]["epsilon"] <= 4
    assert run(["ledger", "check", "--ledger", "ledger.sqlite", "--releases", "out"]).code == 0
    for words in (
        ["site", "out", "--output", "site"],
        ["export", "out", "--output", "figures.csv"],
    ):
        outcome = run(words)
        assert outcome.code in (0, 2), outcome.said
        assert "Traceback" not in outcome.said


def test_python_raises_and_says_why(log: Path) -> None:
    with pytest.raises(WithheldError, match="have no value that can be used"):
        hushbeam.mean(
            "log.csv", delimiter=";", types={"s": "float"}, column="s", bounds="0,60", epsilon=2,
            min_reports=1000,
        )  # fmt: skip


def _parted(run, plan: str, sealed: bool) -> dict:
    """A plan in three parties: the release, of which one metric is withheld."""
    Path("plan.yaml").write_text(plan)
    words = {"client": [], "shuffle": [], "collect": []}
    if sealed:
        Path("keys").mkdir()
        create_key(Path("keys").absolute())
        public, private = (
            str(next(Path("keys").glob(f"*.{kind}.pem"))) for kind in ("public", "private")
        )
        words = {"client": ["--seal", public], "shuffle": ["--seal", public]}
        words["collect"] = ["--key", private]
    for party, read, written in (("client", "log.csv", "sent.bin"), ("shuffle", "sent.bin", "mix")):
        typed = ["parties", party, "plan.yaml", "--input", read, *words[party]]
        outcome = run([*typed, "--output", written])
        assert outcome.code == 0, outcome.said
    outcome = run(["parties", "collect", "plan.yaml", "--input", "mix", *words["collect"]])
    assert outcome.code == 1, outcome.said
    assert "have no value that can be used" in outcome.out + outcome.err
    return statement("out")


WITHOUT_LEDGER = PLAN.replace("ledger: ledger.sqlite\nbudget: {epsilon: 8, delta: 1e-5}\n", "")


@pytest.mark.verify
def test_three_parties_withhold_alike(log: Path, run) -> None:
    said = _parted(run, WITHOUT_LEDGER + OTHERS.split("\n")[0] + "\n", False)
    assert (said["metrics"], said["withheld"]) == (["good"], ["s"])
    assert said["missing"]["s"]["unusable"]["lower"] > 0.95
    assert [*said["cautions"]] == ["good"]


@pytest.mark.verify
def test_three_parties_with_counters_withhold_alike(log: Path, run) -> None:
    """Few rows, for each is sealed; so little noise that they are enough."""
    lines = Path("log.csv").read_text().split("\n")
    Path("log.csv").write_text("\n".join(lines[:301]) + "\n")
    one = '  - {name: s, kind: mean, column: s, bounds: "0,60", drawn_by: shuffler, expected: 300}'
    head = WITHOUT_LEDGER[: WITHOUT_LEDGER.index("  - ")].replace("epsilon: 4", "epsilon: 40")
    said = _parted(run, head.replace("min_reports: 1000\n", "") + one + "\n", True)
    assert (said["metrics"], said["withheld"]) == ([], ["s"])


@pytest.mark.verify
def test_a_stream_withholds_alike(log: Path, run) -> None:
    Path("landing").mkdir()
    rows = (f'"{k % 60},{k % 10}",1,2026-11-20T00:{k % 60:02}' for k in range(N))
    Path("landing/a.csv").write_text("s,good,at\n" + "\n".join(rows) + "\n")
    head = WITHOUT_LEDGER.replace('delimiter: ";"\n', "").replace("log.csv", "landing/*.csv")
    head = head.replace("good: float}", "good: float, at: timestamp}")
    head = head.replace("output: out", "output: out/{window}")
    stream = "stream: {window: 1h, state: state, time: at}\n"
    good = '  - {name: good, kind: mean, column: good, bounds: "0,60"}\n'
    Path("plan.yaml").write_text(head.replace("metrics:", stream + "metrics:") + good)
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 1, outcome.said
    (folder,) = Path("out").iterdir()
    said = statement(str(folder))
    assert (said["metrics"], said["withheld"]) == (["good"], ["s"])
    assert "unusable" in said["missing"]["s"]
    assert "have no value that can be used" in outcome.said
