"""Releases that one job counts as reports come: the same law, the same refusals, nothing lost.

That the laws are equal is shown by a coupling, which is stronger than any statistical test: where
both ways draw the same noise, they publish the same bytes. The shuffler's own draws are the only
others, and no release depends on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import RequestError
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.plan.split import split
from pipelines.stream.windows import streamed
from tests.end_to_end.examples import DOMAIN, EXAMPLES, Case
from tests.end_to_end.test_release_contract import losing
from tests.fakes import canaries
from tests.fakes.losing_engine import losing as careless
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.releases import Release
from transforms.collector.collect_counts import CountMessages
from transforms.elements.blocks import PartitionDoFn
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.group_codes import PartCodesDoFn
from transforms.shuffle.shuffle import DrawBucketsDoFn
from transforms.units.contributions import ChooseDoFn, ThinUsersDoFn

_REAL = {"column": "real", "bounds": "0,300"}
_LARGE = {"min_reports": 2, "shuffler": "fused"}
_VALUES = {"column": "value", "domain": DOMAIN}

COUNTED: dict[str, dict[str, Any]] = {
    "count": _VALUES,
    "count of users": _VALUES | {"user_column": "user", "rows_per_user": 3},
    "sum": _REAL,
    "sum by shares": _REAL | {"mechanism": "split-mix", "enrolled": 2100},
    "mean": _REAL | {"drawn_by": "shuffler"},
    "distribution of users": _REAL | {"bins": 8, "drawn_by": "shuffler", "user_column": "user"},
    "histogram": _VALUES | {"drawn_by": "devices", "enrolled": 2100},
}
MORE = {
    "large table": Case("histogram", "shuffle", "row").asked | {"mechanism": "olh"},
    "several messages": Case("histogram", "shuffle", "row").asked
    | {"max_messages": 200, "min_reports": 1000},
}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    name: (name.partition(" ")[0], {"epsilon": 2, "drawn_by": "shuffler"} | asked)
    for name, asked in COUNTED.items()
}
ASKED |= {name: ("histogram", asked) for name, asked in MORE.items()}
ASKED |= {
    f"{kind} of {unit}s, randomised": (kind, dict(Case(kind, "shuffle", unit).asked))
    for kind in EXAMPLES
    for unit in ("row", "user")
}


@pytest.fixture(autouse=True)
def values(workspace: Path) -> None:
    (workspace / DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")


def words(kind: str, log: str, asked: dict[str, Any], **changes: Any) -> list[str]:
    """A command, but for the changes."""
    asked = {"input": log, "output": "out"} | asked | changes
    several = asked.pop("number", ())
    return [*canaries.words(kind, asked), *(f"--number={one}" for one in several)]


@pytest.fixture
def never_grouped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts what a shuffler is given, by messages or by their codes."""
    came: list[int] = []

    def watched(step: type[PartitionDoFn], name: str) -> None:
        honest = getattr(step, name)

        def rows(self: Any, block: Any) -> Any:
            came.append(block.size)
            return honest(self, block)

        monkeypatch.setattr(step, name, rows)

    watched(DrawBucketsDoFn, "rows")
    watched(PartCodesDoFn, "_cut")  # of messages, and of how many there are of each code
    return came


@pytest.mark.verify
@pytest.mark.parametrize("name", ASKED)
def test_both_ways_publish_the_same_of_the_same_noise(
    name: str, run, log: str, never_grouped: list[int]
) -> None:
    kind, asked = ASKED[name]
    releases, shuffled = {}, {}
    for way in ("grouped", "fused"):
        never_grouped.clear()
        with fixed_randomness():
            outcome = run(words(kind, log, asked, shuffler=way, output=way))
        assert outcome.code == 0, outcome.said
        releases[way], shuffled[way] = Release(Path(way)), sum(never_grouped)
    assert shuffled["grouped"] > 0
    assert shuffled["fused"] == 0
    tables = {way: release.tables for way, release in releases.items()}
    assert tables["fused"].keys() == tables["grouped"].keys() != set()
    for file, table in tables["fused"].items():
        assert table.equals(tables["grouped"][file])
    grouped, fused = (releases[way].statement for way in ("grouped", "fused"))
    assert fused["guarantees"] == grouped["guarantees"]
    (said,) = set(fused["in_words"]) - set(grouped["in_words"])
    assert said.startswith("Nothing was shuffled on the way")
    assert fused["request"] == grouped["request"] | {"shuffler": "fused"}
    told = {"n", "rows_read", "rejects", "invalid_reports"} & grouped.keys()
    assert {word: fused[word] for word in told} == {word: grouped[word] for word in told}


@pytest.mark.verify
def test_noise_is_fresh_in_every_run(run, log: str) -> None:
    asked = Case("histogram", "shuffle", "row").asked
    tables = []
    for output in ("one", "two"):
        outcome = run(words("histogram", log, asked, shuffler="fused", output=output))
        assert outcome.code == 0, outcome.said
        tables.append(Release(Path(output)).tables["histogram.parquet"])
    assert not tables[0].equals(tables[1])


def test_one_report_less_than_enough_is_withheld(run, log: str, workspace: Path) -> None:
    before, case = canaries.names(workspace), Case("histogram", "shuffle", "user")
    outcome = run(case.words(log, min_reports=case.n + 1, shuffler="fused"))
    assert outcome.code == 1, outcome.said
    assert f"{case.n:,} reports came, fewer than --min-reports {case.n + 1:,}" in outcome.err
    assert canaries.names(workspace) == before


@pytest.mark.verify
@pytest.mark.parametrize("step", [EncodeDoFn, ChooseDoFn])
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_block_that_an_engine_loses_makes_no_release(
    kind: str, step: Any, run, log: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "process", losing(step.process))
    require_lost(run, workspace, Case(kind, "shuffle", "user").words(log, **_LARGE))


def test_rows_that_are_lost_after_one_of_each_user_was_kept_make_no_release(
    run, log: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece says from how many rows its own were chosen: without it, these are missed."""
    monkeypatch.setattr(ThinUsersDoFn, "finish_bundle", losing(ThinUsersDoFn.finish_bundle))
    require_lost(run, workspace, Case("histogram", "shuffle", "user").words(log, **_LARGE))


def test_messages_that_are_lost_before_they_are_counted_make_no_release(
    run, log: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless(monkeypatch, CountMessages, "add_input", lambda self, state, messages: state)
    require_lost(run, workspace, Case("histogram", "shuffle", "user").words(log, **_LARGE))


def require_lost(run: Any, workspace: Path, asked: list[str]) -> None:
    """The run fails, says why, and leaves nothing."""
    before = canaries.names(workspace)
    outcome = run(asked)
    assert outcome.code == 3, outcome.said
    assert "the engine has lost some, and nothing is published" in outcome.err
    assert canaries.names(workspace) == before


@pytest.mark.parametrize(
    ("kind", "asked", "reason"),
    [
        ("histogram", _VALUES | {"model": "local"}, "nothing is shuffled in the local model"),
        (
            "mean",
            _REAL
            | {"group_by": "value", "groups": DOMAIN, "groups_public": True, "min_reports": 100},
            "each public group is withheld for itself if it is too small",
        ),
        ("strings", {"column": "value"}, "nothing is shuffled where the job counts"),
    ],
)
def test_what_it_does_not_serve_is_refused(
    kind: str, asked: dict[str, Any], reason: str, refused, log: str
) -> None:
    asked = {"epsilon": 4} | asked
    refused(words(kind, log, asked, shuffler="fused"), f"--shuffler fused: {reason}")


_PLAN = """\
collection: fused
version: 1
input: {log}
output: out/{{window}}
unit: row
epsilon: 4.0
min_reports: 1000
stream: {{window: 1d, state: state, time: time}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: {domain}, shuffler: {way}}}
"""


def _plan(log: str, way: str) -> Any:
    Path("plan.yaml").write_text(_PLAN.format(log=log, domain=DOMAIN, way=way))
    return load("plan.yaml")


def test_parties_and_streams_refuse_it_and_plans_say_so(log: str) -> None:
    for serve in (lambda plan: split(plan, "2026-11-20"), streamed):
        serve(_plan(log, "grouped"))
        with pytest.raises(RequestError, match=r"metric value: .*shuffler: fused is for one job"):
            serve(_plan(log, "fused"))


def test_a_report_means_the_same_either_way(log: str) -> None:
    grouped, fused = (mark(_plan(log, way)) for way in ("grouped", "fused"))
    assert grouped == fused
