"""What README and docs show is run as it stands there, where the files are that they speak of."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.cli.cli import main
from pipelines.releases.signature import signing_key, written

ROOT = Path(__file__).parents[1]
# Those that build a package are run with it installed, and the tutorial as one story: see
# tests/test_your_own_*.py and tests/test_tutorial.py.
_APART = re.compile("your-own-|tutorial|hushbeam.md|mechanisms.md|transforms.md")
DOCS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not _APART.match(path.name)]
PAGES = (ROOT / "README.md", *DOCS)
ROWS = 120_000  # the plan for November of docs/histograms.md wants 100,000 users

# What a page can only show: it needs a cloud, another program's server, a ledger that was lost, a
# plan of another kind (of devices' dummies, strings, or batches that are asked again:
# test_parties_devices.py, test_parties_strings.py, test_parties_again.py), attacks all that ships
# (test_audit_command.py does), or real data that is not shipped (the reproduction pages' commands
# are parsed and held against their data by the tests of `evaluate`).
_ELSEWHERE = re.compile(
    r"gs://|PortableRunner|DATA/|--draws|--repetitions|python -m apache_beam|ledger adopt|--devices"
    r"|audit all|--strings|parties tokens|keys issuer|keys strings|keys forget"
    r"|--output quick|--input quick|--share rest --output"
)
# What takes more than some ten seconds.
_SLOW = re.compile(r"evaluate |--attack|url --user-column|^train")


def blocks() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(page, the words after `hushbeam` of each command in it) of every block that has some."""
    for page in PAGES:
        # Every fence, of whatever language: the end of one is no beginning of another.
        fences = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.M)
        for block in (block for language, block in fences if language in ("", "sh")):
            lines = (line.strip() for line in block.replace("\\\n", " ").splitlines())
            found = [re.fullmatch(r"hushbeam ([a-z-]+ .*?)(?:  +#.*)?", line) for line in lines]
            spaced = (" ".join(one[1].split()) for one in found if one)
            words = tuple(one for one in spaced if not _ELSEWHERE.search(one))
            if words:
                yield page.name, words


BLOCKS = list(dict.fromkeys(blocks()))
SNIPPETS, FROM_PYTHON = (
    re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for page in (ROOT / "docs" / "extending" / "library.md", ROOT / "docs" / "python.md")
)


def _log(rows: int, day: datetime = datetime(2026, 11, 1)) -> pa.Table:
    """A log of a day with every column that the pages name."""
    index = np.arange(rows)
    share = (index * 7919 % rows) / rows
    column = {
        "user_id": index,
        "city": pa.array(["Bergen", "Oslo", "Tromso"]).take(pa.array((3 * share**2).astype(int))),
        "seconds": 600 * share,
        "page": pa.array(["/home", "/help", "/pay"]).take(pa.array((3 * share).astype(int))),
        "url": pa.array(["/a", "/b/c", "/d-e"]).take(pa.array((3 * share).astype(int))),
        "age": 100 * share,
        "income": 200_000 * share**2,
        "user": index,
        "errors": index % 3,
        "requests": 5 + index % 20,
        "spend": 100 * share,
        **dict.fromkeys(("at", "started"), pa.array([day] * rows, pa.timestamp("us"))),
    }
    return pa.table(column | {f"f{k}": share ** (k + 1) for k in range(3)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader of the pages would stand: the examples, logs, and lists of values."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "cities.txt").write_text("Bergen\nOslo\nTromso\n")
    for name, rows in (("logs/2026-11-01", ROWS), ("census/all", 20_000)):
        (folder / name).parent.mkdir()
        pq.write_table(_log(rows), folder / f"{name}.parquet")
    (folder / "publisher.public.pem").write_bytes(written(signing_key().public_key()))
    earlier = _log(500, datetime(2026, 10, 1))  # of experiments.md
    pq.write_table(earlier, folder / "logs/2026-10-01.parquet")
    with pa.CompressedOutputStream(str(folder / "trips.csv.gz"), "gzip") as stream:
        started = pa.array([f"2026-11-20T{k % 24:02}:30" for k in range(20_000)])
        trips = _log(20_000).select(["user_id", "city", "seconds"])
        pv.write_csv(trips.append_column("started", started), stream)
    year = pq.read_table(ROOT / "examples" / "flights.parquet")
    months = pc.strftime(year["time_hour"], "%Y-%m")
    for month in ("2013-01", "2013-02"):  # as running-totals.md has Python write them
        pq.write_table(year.filter(pc.equal(months, month)), folder / f"{month}.parquet")
    visits = {"user": range(900), "first_seen": [date(2026, 11, 20 - k % 3) for k in range(900)]}
    pq.write_table(pa.table(visits), folder / "2026-11-20.parquet")  # of running-totals.md
    flights = (ROOT / "examples" / "flights.yaml").read_text()
    whole = re.sub(r": (flights.parquet|airports.txt)", r": examples/\1", flights)
    (folder / "ledger-plan.yaml").write_text(whole.replace(": ../", ": "))
    # As three parties run it: each report is randomised.
    of_reports = "delta: 1.0e-6\ndrawn_by: each-report\nmin_reports: 5000\n"
    alone = re.sub(r"(ledger|budget): .*\n", "", whole).replace("delta: 1.0e-6\n", of_reports)
    (folder / "plan.yaml").write_text(alone.replace(": ../", ": "))
    # A part of it: three parties seal every report by itself, for each shuffler.
    day = pq.read_table(ROOT / "examples" / "flights.parquet").slice(0, 6_000)
    pq.write_table(day, folder / "day.parquet")
    return folder


def _named(found: re.Match[str]) -> str:
    """The one key of a folder."""
    (key,) = Path(found[1]).glob("*.public.pem")
    return f"{found[1]}/{key.name.split('.')[0]}"


def _marked(page: str, block: tuple[str, ...]) -> Any:
    slow = any(_SLOW.search(words) for words in block)
    marks = [pytest.mark.verify] if slow else []
    return pytest.param(block, marks=marks, id=f"{page}: {block[0][:50]}")


def test_there_are_commands() -> None:
    commands = [words for _, block in BLOCKS for words in block]
    assert len(commands) >= 30
    assert {"histogram", "mean", "size", "run", "audit", "parties", "ledger"} <= {
        words.split()[0] for words in commands
    }


@pytest.mark.verify
@pytest.mark.parametrize("block", [_marked(*block) for block in BLOCKS])
def test_commands_run_as_they_are_written(
    block: tuple[str, ...], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """One after another, as a reader types them; a key's id stands for <id>."""
    monkeypatch.chdir(tmp_path)
    # An attack is wrong with a probability of up to 1e-6, and not in some runs alone.
    monkeypatch.setattr("pipelines.cli.audit.SecureRandom", lambda: SeededRandom(1))
    # What attacks find is held in test_audit_command.py: here they took half a minute to be run.
    monkeypatch.setattr("pipelines.cli.audit._SAMPLES", 20_000)
    monkeypatch.setattr("pipelines.cli.audit._WHOLE_SAMPLES", 2_000)
    # Figures are held in tests/end_to_end/test_evaluate.py: 28 of them took two thirds of a study.
    monkeypatch.setattr("hushbeam.studies.engine.drawing.rendered", lambda *_: b"")
    monkeypatch.setattr("pipelines.serve.running._run", lambda *_: None)  # it would serve for ever
    for path in folder.iterdir():
        Path(path.name).symlink_to(path)
    plan = "ledger-plan.yaml" if "ledger init plan.yaml" in block else "plan.yaml"
    text = Path(plan).read_text()
    if any("--window" in words for words in block):
        text = text.replace("flights-release", "'releases/{window}'")
    Path("plan.yaml").unlink()  # a link would not be taken, with a ledger beside it
    Path("plan.yaml").write_text(text)
    if "<id>" in " ".join(block) and "parties keys new keys" not in block:
        assert main(["parties", "keys", "new", "keys"]) == 0
    for words in block:
        typed = re.sub(r"(\w+)/<id>", _named, re.sub(r" > [\w.-]+$", "", words))
        typed = typed.replace("kept/head.json", "log/head.json")  # nobody has kept one before
        if words.startswith("evaluate "):  # of fewer users; workers would import all anew
            typed = typed.replace("beta:1e6", "beta:1e4") + " --jobs 1"
        assert main(shlex.split(typed)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


@pytest.mark.verify
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets_run(number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert number == 0 or done.stdout.startswith("20000 [")


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) == 2


@pytest.mark.verify
@pytest.mark.parametrize("number", range(len(FROM_PYTHON)))
def test_snippets_of_the_front_door_run(
    number: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a plan with a ledger stands, and the release that a command has made."""
    monkeypatch.chdir(tmp_path)
    for path in folder.iterdir():
        Path(path.name).symlink_to(path)
    if "plan.yaml" in FROM_PYTHON[number]:
        Path("plan.yaml").unlink()
        Path("plan.yaml").write_text(Path("ledger-plan.yaml").read_text())
        assert main(["ledger", "init", "plan.yaml"]) == 0
    if "cities-november" in FROM_PYTHON[number]:
        made = "histogram --input logs/*.parquet --column city --domain cities.txt --epsilon 1"
        assert main([*made.split(), "--output", "cities-november"]) == 0
    done = subprocess.run(
        [sys.executable, "-c", FROM_PYTHON[number]], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(": Caution: " in line or line.startswith("  ") for line in done.stderr.splitlines())
    assert done.stdout
    for line, said in re.findall(r"print\((\w+)\)  # (.+)", FROM_PYTHON[number]):
        assert said in done.stdout, line


def _ours(page: Path) -> list[str]:
    """The Python of a page that is hushbeam's, beside that of another library."""
    snippets = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [snippet for snippet in snippets if "import hushbeam" in snippet]


COMING_FROM = {
    page.stem: _ours(page) for page in sorted((ROOT / "docs" / "coming-from").glob("*.md"))
}


@pytest.mark.verify
@pytest.mark.parametrize("library", [name for name, ours in COMING_FROM.items() if ours])
def test_snippets_beside_those_of_other_libraries_run(library: str, tmp_path: Path) -> None:
    (snippet,) = COMING_FROM[library]
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_pages_for_users_of_other_libraries() -> None:
    assert {*COMING_FROM} == {"bigquery", "opendp", "pipelinedp", "tumult"}


def test_there_are_snippets_of_the_front_door() -> None:
    assert len(FROM_PYTHON) == 8
