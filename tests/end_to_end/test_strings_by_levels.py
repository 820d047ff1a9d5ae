"""`hushbeam strings --search levels`: what it finds, what it says, and what it keeps to itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.systems.searches import report
from mechanisms.catalog import build
from mechanisms.heavy_hitters.discovery import discover
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Schedule, Search
from mechanisms.randomness import SeededRandom
from pipelines.cli import cli
from pipelines.releases.schema import own
from tests.fakes import canaries
from tests.oracles.releases import Release

pytestmark = pytest.mark.verify

# Frequent strings, and how many users hold each; all others hold a string of their own.
FREQUENT = {"a.org": 2500, "mail": 2000, "net/b": 1500, "": 1200, "wiki": 900}
RARE, NULLS, FOREIGN = 900, 60, 40
USABLE = sum(FREQUENT.values()) + RARE


@pytest.fixture(scope="module")
def strings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two rows a user, the second a copy of the first; sorted, in three files."""
    values: list[str | None] = [v for v, amount in FREQUENT.items() for _ in range(amount)]
    values += [f"{k:04}z" for k in range(RARE)]
    values += [None] * NULLS + [f"CANARY-éé-{k}" for k in range(FOREIGN)]
    users = [f"CANARY-USER-{k:05}" for k in range(len(values))]
    numbers = [len(v) * 1001 if v else 7 for v in values]
    table = pa.table({"value": values * 2, "user": users * 2, "number": numbers * 2})
    table = table.append_column("real", pa.array(np.arange(len(table)) / 7))
    return canaries.write(tmp_path_factory.mktemp("strings"), table, 3, 4000)


def leaked(text: str) -> list[str]:
    """The users and the rare or unusable strings in a text."""
    return [*canaries.found(text), *re.findall(r"\b\d{4}z\b", text)]


def request(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes; None takes an option away."""
    asked: dict[str, Any] = {
        "input": log,
        "column": "value",
        "alphabet": ["lower", "digits", "./"],
        "max_length": 5,
        "model": "local",
        "epsilon": 9,
        "user_column": "user",
        "min_reports": USABLE,
        "false_strings": "1e-10",  # these releases are not seeded
        "output": "out",
    }
    return canaries.words("strings", {"search": "levels"} | asked | changes)


# Several kinds of request; whatever holds for every release is tested on all of them.
ASKED: dict[str, dict[str, Any]] = {
    "local": {},
    "shuffle": {"model": None, "epsilon": 2, "delta": 1e-5, "confidence": 0.99},
    "rows": {"user_column": None, "min_reports": None, "alphabet": "bytes", "oracle": "olh",
             "epsilon": 6},
    "treehist": {"system": "treehist", "epsilon": 11, "top": 3},
    "integers": {"column": "number", "alphabet": None, "max_length": 6},
}  # fmt: skip


class Strings(Release):
    """One release, read back."""

    @property
    def rows(self) -> pa.Table:
        return own(self.tables["strings.parquet"])

    def column(self, name: str) -> np.ndarray:
        return self.rows[name].to_numpy(zero_copy_only=False)


@pytest.fixture(scope="module")
def releases(strings: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Strings]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        assert cli.main(request(strings, output=folder, **changes)) == 0
        made[name] = Strings(folder, changes)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Strings]) -> Strings:
    return releases[request.param]


# ---- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["local", "shuffle", "rows"])
def test_the_frequent_strings_are_found_and_no_others(releases, name: str) -> None:
    """All of them are far above the limit, and what is rare is common to nobody."""
    found = releases[name]
    limit, n = found.statement["search"]["detection_limit"], found.statement["n"]
    copies = 2 if name == "rows" else 1
    certain = {v for v, amount in FREQUENT.items() if copies * amount > 4 * limit * n}
    values = set(found.rows["value"].to_pylist())
    assert len(certain) >= 4
    assert certain <= values
    # The beginning that all rare strings share is nobody's whole string.
    assert values <= set(FREQUENT)


def test_integers_are_found_by_their_digits(releases) -> None:
    """The log has the lengths of its strings, times 1001, and 7 for none."""
    found = releases["integers"]
    assert found.statement["request"]["alphabet"] == "0123456789"
    assert found.statement["rejects"] == {}
    values = set(found.rows["value"].to_pylist())
    assert {"4004", "5005", "7"} <= values <= {"4004", "5005", "7", "11011", "12012"}


def test_the_top_is_the_top(releases) -> None:
    found = releases["treehist"]
    assert len(found.rows) <= 3
    assert found.statement["search"]["steps"] == [1] * 5
    assert found.statement["mechanism"]["name"] == "hadamard"
    assert set(found.rows["value"].to_pylist()) <= set(FREQUENT)


def test_the_most_frequent_come_first(release: Strings) -> None:
    assert (np.diff(release.column("estimate")) <= 0).all()
    assert (release.column("expected_false") <= 1e-10).all()


# ---- the folder ----------------------------------------------------------------------------------


def test_every_job_draws_its_own_public_hash(releases) -> None:
    seeds = {release.statement["search"]["public_seed"] for release in releases.values()}
    assert len(seeds) == len(releases)


# ---- what is shown -------------------------------------------------------------------------------


def test_longer_strings_are_published_by_their_beginning(run, strings, workspace) -> None:
    outcome = run(request(strings, max_length=4, min_reports=USABLE))
    assert outcome.code == 0, outcome.said
    table = pq.read_table(workspace / "out" / "strings.parquet").to_pylist()
    whole = {row["value"]: row["whole"] for row in table}
    assert whole == {"a.or": False, "mail": True, "net/": False, "": True, "wiki": True}
    assert "net/… (and longer)" in outcome.out


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("--epsilon must be a number greater than 0", {"epsilon": 0}),
        ("epsilon is missing", {"epsilon": None}),
        ("delta must be 0 in the local model", {"delta": "1e-6"}),
        ("--min-reports is missing", {"min_reports": None}),
        ("--min-reports must be ", {"min_reports": 0}),
        ("--max-length must be ", {"max_length": 0}),
        ("max_length must lie in 1 .. 256, not 257", {"max_length": 257}),
        ("--max-length must be a whole number", {"max_length": "long"}),
        ("an alphabet is made of ASCII characters", {"alphabet": "aé"}),
        ("--false-strings must be ", {"false_strings": 0}),
        ("--false-strings must be ", {"false_strings": "nan"}),
        ("--top must be ", {"top": 0}),
        ("--confidence must be ", {"confidence": 1}),
        ("argument --system: invalid choice: 'trie'", {"system": "trie"}),
        ("argument --model: invalid choice: 'central'", {"model": "central"}),
        ("unknown mechanism 'magic'", {"oracle": "magic"}),
        ("one message each", {"oracle": "oue"}),
        ("no column 'city'", {"column": "city"}),
        ("--column: 'real' holds double; text is needed, or integers", {"column": "real"}),
        ("--user-column: 'real' holds double", {"user_column": "real"}),
        ("no file matches no-such.parquet", {"input": "no-such.parquet"}),
        ("the following arguments are required: --output", {"output": None}),
        ("unknown option: --colour red", {"colour": "red"}),
    ],
)
def test_refuses(run, strings, workspace, expected: str, changes: dict[str, Any]) -> None:
    before = canaries.names(workspace)
    outcome = run(request(strings, **changes))
    assert outcome.code == 2, outcome.said
    assert outcome.out == ""
    assert outcome.err.startswith("hushbeam: ")
    assert outcome.err.count("\n") == 1
    assert expected in outcome.err
    assert not leaked(outcome.said)
    assert canaries.names(workspace) == before


# ---- what a client does --------------------------------------------------------------------------


def test_a_statement_has_all_that_a_client_needs(releases) -> None:
    """From it the protocol is built again; its reports are counted by the same collector."""
    statement = releases["rows"].statement
    said, constants = statement["search"], statement["mechanism"]["constants"]
    names = ("epsilon", "domain_size", "hash_range")
    oracle = build(statement["mechanism"]["name"], **{name: constants[name] for name in names})
    code = PrefixCode("", statement["request"]["max_length"])
    schedule = Schedule(*(tuple(said[name]) for name in ("steps", "rows", "shares")))
    protocol = Protocol(code, schedule, oracle, said["public_seed"])
    holders = [2 * amount for amount in FREQUENT.values()]
    # The public hash is another in every run, so that no string may come by chance here either.
    search = Search(false_strings=1e-10)
    found = discover(protocol, report(protocol, list(FREQUENT), holders, SeededRandom(1)), search)
    assert {"a.org", "mail"} <= set(found.values) <= set(FREQUENT)
