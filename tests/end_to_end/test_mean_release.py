"""What a release of means holds: its table, its statement, its page, and nobody."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms import catalog
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_epsilon
from pipelines.cli import cli
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.publishable import ContentDoFn
from pipelines.metrics.release import PublishDoFn
from pipelines.metrics.reports.means import Averaged
from pipelines.metrics.resolving import resolve
from pipelines.releases.schema import own
from tests.end_to_end.test_mean_requests import USABLE_USERS, words
from tests.fakes import canaries
from tests.oracles.releases import Release, require_contract
from transforms.collector.collect_counts import Counted
from transforms.elements.progress import ROWS
from transforms.rounds.scout import ScoutedBounds

pytestmark = pytest.mark.verify

FIGURES = ["estimate", "standard_error", "lower", "upper"]
TOGETHER = ["lower_simultaneous", "upper_simultaneous"]

ASKED: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "users": {"user_column": "user", "min_reports": 400, "delta": 1e-9, "mechanism": "duchi"},
    "local": {"model": "local", "interval": "worst", "confidence": "0.9"},
    "delta": {"model": "local", "delta": "1e-5", "mechanism": "ndm"},
    "private": {"group_by": "value", "model": "local", "epsilon": "3"},
    "public": {"group_by": "value", "groups_public": True, "min_reports": 300},
    "chosen": {"bounds": None, "choose_bounds": True, "epsilon": "5", "model": "local"},
    "integers": {"column": "number", "bounds": "0,3", "group_by": "flag"},
}


class Means(Release):
    """One release, read back."""

    @property
    def rows(self) -> pa.Table:
        return own(self.tables["mean.parquet"])


@pytest.fixture(scope="module")
def releases(log: str, domain: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Means]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        asked = dict(changes)
        if "group_by" in asked:
            asked["groups"] = domain
        if asked.get("group_by") == "flag":
            flags = folder.parent.parent / f"{name}.txt"
            flags.write_text("true\nfalse\n")
            asked["groups"] = str(flags)
        assert cli.main(words(log, **asked, output=folder)) == 0
        made[name] = Means(folder, asked)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Means]) -> Means:
    return releases[request.param]


def test_it_keeps_the_contract(release: Means, log: str) -> None:
    require_contract(release, "mean", ["mean.parquet"], str(Path(log).parent))


def test_the_table_has_its_columns_in_their_types(release: Means) -> None:
    table, asked = release.rows, release.asked
    unit, groups = "users" if "user_column" in asked else "rows", "group_by" in asked
    names = [*FIGURES, *TOGETHER * groups, "unclipped", unit, f"{unit}_standard_error"]
    assert table.column_names == ["group"] * groups + names
    assert {table.schema.field(name).type for name in names} == {pa.float64()}
    if groups:
        wanted = ["true", "false"] if asked["group_by"] == "flag" else canaries.DECLARED
        assert table["group"].to_pylist() == list(wanted)
    else:
        assert len(table) == 1


def test_estimates_lie_within_their_intervals_and_these_within_the_bounds(release: Means) -> None:
    bounds = release.statement["bounds"]
    for row in release.rows.to_pylist():
        if row["estimate"] is None:
            continue
        assert bounds["low"] <= row["lower"] <= row["estimate"] <= row["upper"] <= bounds["high"]
        assert row["estimate"] == min(max(row["unclipped"], bounds["low"]), bounds["high"])
        assert row["standard_error"] > 0


def test_the_guarantees_are_met_and_can_be_checked(release: Means) -> None:
    statement, asked = release.statement, release.asked
    released, local = (statement["guarantees"][name] for name in ("release", "local"))
    assert released["epsilon"] <= float(asked.get("epsilon", 1))
    constants = statement["mechanism"]["constants"]
    if "group_by" in asked and not asked.get("groups_public"):
        names = ("epsilon", "groups", "cells")
        mechanism = KeyValue(*(constants[name] for name in names))
    else:
        names = ("epsilon", "delta", "cells")
        taken = {"nm", "im", "window_optimal", "ndm"}
        delta = {} if statement["mechanism"]["name"] in taken else {"delta": None}
        chosen = {k: constants[k] for k in names if k in constants and k not in delta}
        mechanism = WithUnusable(catalog.build(statement["mechanism"]["name"], **chosen))
    if not released["delta"] or statement["request"]["model"] == "shuffle":
        assert tight_epsilon(mechanism) <= local["epsilon"]
    if statement["request"]["model"] == "shuffle":
        least = statement["request"]["min_reports"]
        upper = shuffled_delta(mechanism, least, released["epsilon"])[1]
        assert upper <= released["delta"] * 1.01


def test_the_statement_counts_everything(releases: dict[str, Means]) -> None:
    shuffle, users, public = (releases[n].statement for n in ("shuffle", "users", "public"))
    assert (shuffle["n"], shuffle["rejects"], shuffle["rows_read"]) == (2000, {}, 2000)
    assert (users["n"], users["rejects"]) == (USABLE_USERS, {})
    assert public["rejects"] == {
        "null group": canaries.NULL_VALUES, "outside the groups": canaries.STRAY_VALUES,
    }  # fmt: skip
    assert public["n"] == 1920
    assert (
        releases["public"]
        .statement["published_exactly"]
        .startswith("the number of reports of each group")
    )
    for each in releases.values():
        text = json.dumps(each.statement)
        assert "clipped to the bounds" in text
        assert not re.search(r"clipped\W+\d", text)  # their number is nobody's business


def test_worst_case_errors_are_those_of_the_closed_form(releases: dict[str, Means]) -> None:
    release = releases["local"]
    row, statement = release.rows.to_pylist()[0], release.statement
    worst = statement["error"]["worst_standard_deviation_of_a_report"]
    assert worst == pytest.approx(
        math.sqrt(statement["mechanism"]["constants"]["worst_variance"]) * 150
    )
    # A quotient's is that of the sum over the share of those who have a number.
    share = 1 - statement["unusable"]["unbiased"]
    assert row["standard_error"] <= worst / math.sqrt(2000) / share * 1.1
    assert row["standard_error"] >= worst / math.sqrt(2000) / share * 0.5


def test_the_page_shows_the_means(release: Means) -> None:
    assert ("<figure" in release.page) == (len(release.rows) > 1)  # one is said by its number
    assert release.page.count("<tr>") >= len(release.rows)
    assert "Numbers were clipped to" in release.page
    assert "How many were is not published." in release.page


def test_readers_are_told_of_groups_and_rounds(releases: dict[str, Means]) -> None:
    def said(name: str) -> str:
        return " ".join(releases[name].statement["in_words"])

    assert "Groups are as private as numbers" in said("private")
    assert "Groups are public" in said("public")
    assert "Bounds were chosen by a first round" in said("chosen")
    assert "Groups" not in said("shuffle")
    assert releases["shuffle"].statement["bounds"] == {"low": 0, "high": 300, "how": "declared"}
    chosen = releases["chosen"].statement["bounds"]
    # Noise may widen them, and does so once in a hundred runs; what two thirds of all numbers hold,
    # of some two hundred, is hidden once in 1e9.
    assert chosen["low"] <= 64 < 256 <= chosen["high"]
    assert 0 < chosen["share_that_may_hide_in_a_bin_outside"] < 1


def test_a_worker_that_is_retried_publishes_once(log, domain, tmp_path) -> None:
    """The same step again finds its own release; another job's finds the folder taken."""
    options = MeanOptions(
        input=(log,), column="real", bounds="0,300", epsilon=1, model="local",
        output=str(tmp_path / "out"), mechanism="duchi", unusable="count",
    )  # fmt: skip
    job = resolve(options)
    counted = Counted(np.array([900, 1100]), 2000, 3)
    chosen = ScoutedBounds(job.bounds, 0.0, 0, 0)
    told = ContentDoFn(job).process(Averaged(counted, chosen), {ROWS: canaries.ROWS}, None)
    (content,) = told
    for _ in range(2):
        PublishDoFn(str(tmp_path / "out"), {"release_id": "a" * 32}).process(content)
    written = json.loads((tmp_path / "out" / "statement.json").read_text())
    assert (written["release_id"], written["invalid_reports"]) == ("a" * 32, 3)
    with pytest.raises(Exception, match="already holds a release"):
        PublishDoFn(str(tmp_path / "out"), {"release_id": "b" * 32}).process(content)
    (again,) = job.tables(Averaged(counted, chosen)).values()
    assert again == own(pq.ParquetFile(tmp_path / "out" / "mean.parquet").read())


def test_groups_that_may_be_empty_have_no_estimate_and_are_shown(run, log, workspace) -> None:
    (workspace / "groups.txt").write_text("\n".join([*canaries.DECLARED, "NOBODY-1", "NOBODY-2"]))
    asked = {"group_by": "value", "groups": "groups.txt", "model": "local", "epsilon": "9"}
    outcome = run(words(log, **asked))
    assert outcome.code == 0, outcome.err
    assert "NOBODY-1" in outcome.out
    rows = pq.ParquetFile("out/mean.parquet").read().to_pylist()
    for row in rows[-2:]:
        assert abs(row["rows"]) < 0.01 * canaries.ROWS
        assert (row["lower"], row["upper"]) == (0, 300) or row["upper"] - row["lower"] > 30
        if row["rows"] <= 0:
            assert row["estimate"] is row["unclipped"] is row["standard_error"] is None
