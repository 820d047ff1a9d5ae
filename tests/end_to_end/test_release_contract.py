"""One contract for every registered kind of metric, in every model and with either unit.

What only one kind has is tested beside it; here stands what no release may lack. An example of a
kind is a line in `examples`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.pvalue import TaggedOutput

from mechanisms.privacy.amplification import shuffled_delta
from pipelines.jobs.publishing import counts
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.metric import Metric
from pipelines.metrics.publishable import ContentDoFn
from pipelines.metrics.resolving import resolve
from pipelines.request.requests import request
from pipelines.wording import one_line
from tests.conftest import HEARD
from tests.end_to_end.examples import CASES, DOMAIN, EXAMPLES, RANDOMISED, Case
from tests.fakes import canaries
from tests.fakes.few import few
from tests.oracles.releases import Release, require_contract
from transforms.elements.progress import CHANGED, ROWS, live, reset
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.shuffle import OrderDoFn
from transforms.units.contributions import ChooseDoFn

every_kind = pytest.mark.parametrize("kind", EXAMPLES)
FILLED = [kind for kind, one in EXAMPLES.items() if one.filled]
most_kinds_later = pytest.mark.parametrize("kind", few(EXAMPLES, lambda _: "a kind"))


def params(*quick: tuple[str, str]) -> pytest.MarkDecorator:
    """All cases; what is not in these models with these units is left to `make verify`.

    But for one of each unit, of a histogram in the shuffle model.
    """
    marks = {False: [pytest.mark.verify], True: []}
    first = ("histogram", "shuffle")
    cases = [
        pytest.param(
            case,
            marks=marks[(case.model, case.unit) in quick or (case.kind, case.model) == first],
            id="-".join(case),
        )
        for case in CASES
    ]
    return pytest.mark.parametrize("case", cases)


@pytest.fixture(autouse=True)
def values(workspace: Path) -> None:
    (workspace / DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")


def resolved(case: Case, log: str) -> Metric:
    """The metric that a case's command makes."""
    options = request(
        registry.options(case.kind), {"input": (log,), "output": "elsewhere"} | case.asked
    )
    return resolve(options, ALONE)


def test_every_kind_has_an_example() -> None:
    assert EXAMPLES.keys() == set(RANDOMISED)


@params(("local", "row"), ("shuffle", "user"))
def test_a_release_is_whole_true_and_of_nobody(case: Case, run, log: str) -> None:
    loud = case.unit == "row"  # a log that keeps everything keeps nothing of anybody
    outcome = run(case.words(log), loud=loud)
    assert outcome.code == 0, outcome.said
    release = Release(Path("out"))
    require_contract(release, case.kind, case.example.tables, str(Path(log).parent), DOMAIN)
    metric = resolved(case, log)
    require_true(release, case, metric)
    require_shown(release, metric, outcome, loud)


def require_true(release: Release, case: Case, metric: Metric) -> None:
    """The statement says what was asked, what was counted, and what its mechanism guarantees."""
    statement, asked = release.statement, release.statement["request"]
    assert statement["n"] == case.n
    assert statement.get("rows_read") == case.rows_read
    assert statement["rejects"] == case.rejects
    assert statement["invalid_reports"] == 0
    require_absence(case, statement["unusable"])
    told = {"unit": case.unit, "min_reports": case.min_reports, "epsilon": 4.0}
    told |= {"model": case.model, "delta": 1e-6 if case.model == "shuffle" else 0.0}
    assert {name: asked[name] for name in told} == told
    assert asked.keys() >= case.asked.keys()
    released, local = metric.guarantees
    assert statement["guarantees"] == {"release": released.as_dict(), "local": local.as_dict()}
    assert statement["neighbours"] == metric.neighbours
    assert statement["mechanism"]["name"] == metric.design.name
    if case.model == "shuffle":
        for design in metric.designs:
            bound = shuffled_delta(design.mechanism, case.min_reports, released.epsilon)[1]
            assert bound <= released.delta * 1.01


def require_absence(case: Case, unusable: dict[str, Any]) -> None:
    """The share of rows that cannot be used is told within its error: by chance not once in 1e9."""
    if "share" not in unusable or case.unit == "user":
        return
    true = sum(case.example.unusable.values()) / canaries.ROWS
    assert abs(unusable["unbiased"] - true) < 6.5 * unusable["standard_error"]
    assert unusable["lower"] <= unusable["share"] <= unusable["upper"]


def require_shown(release: Release, metric: Metric, outcome: canaries.Outcome, loud: bool) -> None:
    """The screen shows what the release stands on, its promise and its page; no log says more."""
    assert counts(release.statement, 3) in outcome.out
    assert all(one_line(guarantee) in outcome.out for guarantee in metric.guarantees)
    assert "report: out/report.html" in outcome.out
    assert not canaries.found(outcome.out, declared=False)
    assert not canaries.found(outcome.err + outcome.log)
    kept = [path.read_bytes() for path in Path("tmp").rglob("*") if path.is_file()]
    assert not canaries.found(b" ".join(kept).decode("latin-1"))
    if loud:
        assert HEARD in outcome.log
        return
    cautions = [f"hushbeam: warning: {text}" for text in release.statement["in_words"]]
    assert set(outcome.err.splitlines()) <= set(cautions)


@params()
def test_one_report_less_than_enough_is_withheld(case: Case, run, log: str, workspace) -> None:
    before = canaries.names(workspace)
    outcome = run(case.words(log, min_reports=case.n + 1))
    assert outcome.code == 1, outcome.said
    (line,) = [line for line in outcome.err.splitlines() if "warning: " not in line]
    said, *rejects = line.split("; ")
    wanted = f"{case.n:,} reports came, fewer than --min-reports {case.n + 1:,}"
    assert said == f"hushbeam: withheld: {wanted}"
    assert set(rejects) == {f"{amount:,} rows: {name}" for name, amount in case.rejects.items()}
    assert "report: " not in outcome.out
    assert not canaries.found(outcome.said)
    assert canaries.names(workspace) == before


@most_kinds_later
def test_rows_that_cannot_be_used_are_counted_if_that_is_asked(kind: str, run, log: str) -> None:
    case = Case(kind, "local", "row")
    assert run(case.words(log, unusable="count")).code == 0
    statement = Release(Path("out")).statement
    assert statement["rejects"] == case.example.unusable
    assert statement["n"] == canaries.ROWS - sum(case.example.unusable.values())
    assert statement["in_words"][1].startswith(
        "The promise covers which value any one row has, not whether it has a usable one"
    )
    assert statement["unusable"] == {"treated": "left out, and counted as they are"}


@pytest.mark.parametrize("kind", few(FILLED, lambda _: "a kind"))
def test_a_value_may_stand_in_the_place_of_those_that_cannot_be_used(kind, run, log: str) -> None:
    case = Case(kind, "local", "row")
    assert run(case.words(log, unusable=f"fill={case.example.filled}")).code == 0
    statement = Release(Path("out")).statement
    assert (statement["rejects"], statement["n"]) == ({}, canaries.ROWS)
    assert f"{case.example.filled} was reported." in statement["in_words"][1]


@pytest.mark.parametrize("kind", FILLED)
def test_a_value_that_cannot_stand_there_is_refused(kind: str, refused, log: str) -> None:
    words = Case(kind, "local", "row").words(log, unusable="fill=\u00e9")
    if kind != "strings":  # for which it is text like any other
        refused(words, "--unusable fill: ")


@every_kind
def test_an_output_that_is_taken_is_refused_before_anything_is_read(kind: str, refused) -> None:
    Path("out").mkdir()
    Path("out/statement.json").write_text("{}")
    refused(Case(kind, "local", "row").words("no-such.parquet"), "out already holds a release")


@every_kind
def test_files_that_changed_while_they_were_read_make_no_release(kind: str, log: str) -> None:
    reset()
    step = ContentDoFn(resolved(Case(kind, "local", "row"), log))
    assert list(step.process(None, {ROWS: canaries.ROWS + 1}, None)) == []
    assert live() == {CHANGED: 1}


def losing(
    process: Callable[..., Iterator[Any]], empty: Callable[[Any], bool] = lambda _: False
) -> Callable[..., Iterator[Any]]:
    """A step of which the engine loses one block; what it counts beside the blocks arrives.

    Args:
        process: of the step.
        empty: whether nothing is lost with a block.
    """
    lost: list[Any] = []

    @functools.wraps(process)  # Beam looks at the names of what a step takes
    def process_but_one(*args: Any, **sides: Any) -> Iterator[Any]:
        for element in process(*args, **sides):
            if lost or isinstance(element, TaggedOutput) or empty(element):
                yield element
            else:
                lost.append(element)

    return process_but_one


@pytest.mark.verify
@pytest.mark.usefixtures("beams_runner")
@pytest.mark.parametrize("step", [EncodeDoFn, ChooseDoFn, OrderDoFn])
@every_kind
def test_a_block_that_an_engine_loses_makes_no_release(
    kind: str, step: Any, run, log: str, workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = canaries.names(workspace)
    monkeypatch.setattr(step, "process", losing(step.process))
    outcome = run(Case(kind, "shuffle", "user").words(log, min_reports=2))
    assert outcome.code == 3, outcome.said
    assert "the engine has lost some, and nothing is published" in outcome.err
    assert canaries.names(workspace) == before


@pytest.mark.parametrize("step", ["encoder", "page"])
@most_kinds_later
def test_a_crash_leaves_nothing_and_says_nothing(
    kind: str, step: str, run, log: str, workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, case = canaries.names(workspace), Case(kind, "local", "row")
    metric = resolved(case, log)
    owner = type(metric.encoder()) if step == "encoder" else type(metric)
    monkeypatch.setattr(owner, "encode" if step == "encoder" else step, canaries.crash)
    outcome = run(case.words(log))
    assert outcome.code == 3
    (line,) = [line for line in outcome.err.splitlines() if "warning: " not in line]
    assert line.startswith("hushbeam: the run failed with ")
    assert not canaries.found(outcome.said)
    assert canaries.names(workspace) == before
