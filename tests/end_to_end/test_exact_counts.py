"""The law of exact counts: but for noisy figures, nothing of a run follows from users' rows.

Where a user is the unit, one more row of one user is another input of the same user. So two logs
that differ in some rows of a user, and in rows of nobody, are told apart by noise alone: nothing
that a run leaves, prints or ends with has a number of rows in it, and whatever is the same in two
runs over one log is the same over the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes.few import few
from tests.fakes.parties import BY_NOISE

USERS, NOBODY = 1009, 1213  # users with several rows each, and rows without a user
NAMES = ("qq1", "qq2", "qq3")  # of logs: the same, the same, and one with more rows
MORE = 7  # rows: of one user, and as many of nobody
EXACT = (5253, NOBODY, 4040)  # rows of the first two logs: read, of nobody, and of users
VARYING = {"created", "release_id", "versions", "output", "elapsed", "entry"}

USER = "--user-column u --min-reports 900"
FORMS = {
    "histogram": f"histogram --column c --domain c.txt --epsilon 1 {USER}",
    "histogram-local": f"histogram --column c --domain c.txt --epsilon 3 --model local {USER}",
    "histogram-counted": "count --column c --domain c.txt --epsilon 1 --user-column u",
    "count": "count --epsilon 1 --user-column u",
    "sum": "sum --column x --bounds 0,10 --epsilon 1 --user-column u",
    "mean": f"mean --column x --bounds 0,10 --epsilon 1 {USER}",
    "mean-count": f"mean --column x --bounds 0,10 --epsilon 1 --model local {USER}",
    "mean-dummies": "mean --column x --bounds 0,10 --epsilon 2 --user-column u --drawn-by shuffler",
    "distribution": f"distribution --column x --bounds 0,10 --epsilon 2 --model local {USER}",
    "vector-mean": f"vector-mean --number x=0,10 --number y=0,1 --epsilon 3 {USER}",
    "strings": f"strings --search levels --column c --epsilon 4 --max-length 4 {USER}",
    "cross-tab": "cross-tab --columns c,d --domains c=c.txt d=c.txt --epsilon 1 --user-column u",
    "train": "train --number x=0,10 --target y=0,1 --epsilon 8 --epochs 2 --method dp-sgd " + USER,
    "withheld": "histogram --column c --domain c.txt --epsilon 1 --user-column u "
    "--min-reports 4000",
}

PLAN = """\
collection: law
version: 1
unit: {unit}
user_column: u
input: "{input}"
output: "out/{{window}}"
epsilon: 4
model: {model}
min_reports: 300
{more}
metrics:
  - {{name: c, kind: histogram, column: c, domain: c.txt}}
  - {{name: x, kind: mean, column: x, bounds: "0,10", where: y > 0.5}}
  - {{name: none, kind: histogram, column: c, domain: c.txt, min_reports: 4000}}
"""


def table(more: int) -> pa.Table:
    """Four rows a user, and rows of nobody; of one user `more`, and of nobody as many."""
    users = [*[k % USERS for k in range(4 * USERS + 4)], *[3] * more, *[None] * (NOBODY + more)]
    size = range(len(users))
    start = datetime(2026, 11, 20, 8)
    return pa.table(
        {
            "u": pa.array(users),
            "c": ["abc"[k % 3] for k in size],
            "d": ["abc"[k % 2] for k in size],
            "x": [float(k % 11) for k in size],
            "y": [k % 97 / 97 for k in size],
            "at": pa.array([start + timedelta(seconds=k % 7000) for k in size]),
        }
    )


@pytest.fixture
def logs(workspace: Path) -> Path:
    (workspace / "c.txt").write_text("a\nb\nc\n")
    for name, more in zip(NAMES, (0, 0, MORE), strict=True):
        (workspace / name).mkdir()
        pq.write_table(table(more), workspace / name / "log.parquet")
    return workspace


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(where, what) of all there is in JSON, whatever varies by itself left out."""
    parts = (
        value.items() if isinstance(value, dict)
        else enumerate(one for one in value if not _is_by_noise(one)) if isinstance(value, list)
        else ()
    )  # fmt: skip
    if not isinstance(value, dict | list):
        yield path, value
    for name, part in parts:
        if name not in VARYING:
            yield from leaves(part, f"{path}/{name}")


def _is_by_noise(line: Any) -> bool:
    """Whether noise decides that it is said: what was cut or unusable, what a model is worth."""
    return isinstance(line, str) and any(said in line for said in (*BY_NOISE, "his model errs"))


def counts(folder: Path, outcome: Any) -> set[tuple[str, int]]:
    """(where, which) of the exact counts in all that a run has left and said."""
    texts = {"screen": outcome.out + outcome.err}
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".parquet":
            texts[file.name] = json.dumps(pq.read_table(file).to_pylist(), default=str)
        elif file.suffix in (".json", ".html"):
            texts[file.name] = file.read_text()
    return {
        (name, count)
        for name, text in texts.items()
        for count in EXACT
        if re.search(rf"(?<![\d.,]){f'{count:,}'.replace(',', ',?')}(?![\d]|[.,]\d)", text)
    }


def seen(folder: Path, outcome: Any) -> dict[str, Any]:
    """Of a run: the exit code, what it says to programs, and its statements, leaf by leaf."""
    found = {"code": outcome.code, **dict(leaves(json.loads(outcome.out), "json"))}
    for file in sorted(folder.rglob("statement.json")):
        found |= leaves(json.loads(file.read_text()), str(file.relative_to(folder)))
    return {path: _plain(value) for path, value in found.items() if str(folder) not in str(value)}


def _plain(value: Any) -> Any:
    """A text without what liars reach: a noisy figure of three digits, that is often the same."""
    if isinstance(value, str) and "Nobody sees who lies" in value:
        return re.sub(r"\d[\d.,e-]*", "#", value)
    return value


def require_law(runs: dict[str, dict[str, Any]], counts: list[set[tuple[str, int]]]) -> None:
    """What is alike in two runs over one log is so over the other, and no count is told.

    A noisy figure may look like a count once; hardly twice, in the same place.
    """
    one, two, more = (runs[name] for name in NAMES)
    assert one.keys() == two.keys() == more.keys()
    told = {path for path in one if one[path] == two[path] != more[path]}
    # A noisy figure may happen to be the same twice: no text, and never a whole number of rows.
    assert {path for path in told if not _is_noise(path)} == set()
    assert not counts[0] & counts[1]


def _is_noise(path: str) -> bool:
    """Whether a place holds what follows from noisy counts: EM's iterations, too, and strings."""
    noisy = (
        r"lies|estimate|lower|upper|share|standard_error|unbiased|doubts|figures|gained|iterations"
        r"|search/strings"
    )
    return bool(re.search(noisy, path))


@pytest.mark.parametrize("form", few(FORMS, {"histogram": 1, "mean-dummies": 2, "withheld": 3}.get))
def test_a_command_tells_nothing_of_users_rows(form: str, logs: Path, run) -> None:
    runs, said = {}, []
    for name in NAMES:
        words = f"{FORMS[form]} --input {name}/log.parquet --output {name}/out --json".split()
        outcome = run(words)
        assert outcome.code == (1 if form == "withheld" else 0), outcome.said
        runs[name] = {
            path: value.replace(name, "") if isinstance(value, str) else value
            for path, value in seen(logs / name / "out", outcome).items()
        }
        said.append(counts(logs / name / "out", outcome))
    require_law(runs, said)


@pytest.mark.parametrize("model", few(["local", "shuffle"], lambda _: "a plan"))
def test_a_plan_tells_nothing_of_users_rows(model: str, logs: Path, run) -> None:
    runs, said = {}, []
    for name in NAMES:
        Path(f"{name}/c.txt").write_text("a\nb\nc\n")
        plan = PLAN.format(unit="user", input="{window}.parquet", model=model, more="delta: 1.0e-5")
        Path(f"{name}/plan.yaml").write_text(plan)
        Path(f"{name}/log.parquet").rename(f"{name}/w.parquet")
        outcome = run(["run", f"{name}/plan.yaml", "--window", "w", "--json"])
        assert outcome.code == 1, outcome.said  # one metric is withheld
        runs[name] = {
            path: value.replace(name, "") if isinstance(value, str) else value
            for path, value in seen(logs / name / "out", outcome).items()
        }
        said.append(counts(logs / name / "out", outcome))
    require_law(runs, said)


@pytest.mark.verify
def test_a_stream_tells_nothing_of_users_rows(logs: Path, run) -> None:
    runs, said = {}, []
    for name in NAMES:
        Path(f"{name}/c.txt").write_text("a\nb\nc\n")
        more = "stream: {window: 1h, state: state, time: at}"
        plan = PLAN.format(unit="user per window", input="*.parquet", model="shuffle", more=more)
        Path(f"{name}/plan.yaml").write_text(plan)
        outcome = run(["stream", f"{name}/plan.yaml", "--drain", "--json"])
        assert outcome.code == 0, outcome.said
        runs[name] = {
            path: value.replace(name, "") if isinstance(value, str) else value
            for path, value in seen(logs / name / "out", outcome).items()
        }
        said.append(counts(logs / name / "out", outcome))
    require_law(runs, said)
