"""What a release holds: the table, the statement, the page, and nothing of anybody."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms import catalog
from mechanisms.postprocess.intervals import intervals
from mechanisms.postprocess.simplex import project
from pipelines.cli import cli
from pipelines.releases.schema import own
from tests.fakes import canaries
from tests.oracles.releases import Release, require_contract

pytestmark = pytest.mark.verify

USERS = (canaries.ROWS - canaries.NULL_USERS) // 4
REJECTS: dict[str, int] = {}  # nobody is told how many rows have no user
TABLE = "histogram.parquet"
COLUMNS = [
    "value", "estimate", "unbiased", "standard_error",
    "lower", "upper", "lower_simultaneous", "upper_simultaneous",
]  # fmt: skip

# Several kinds of request; whatever holds for every release is tested on all of them.
ASKED: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "users": {
        "user_column": "user", "min_reports": 300, "epsilon": 2, "delta": 1e-5,
        "confidence": 0.999, "mechanism": "grr",
    },
    "local": {
        "model": "local", "epsilon": 3, "out_of_domain": "other", "postprocess": "none",
        "mechanism": "hadamard",
    },
    "integers": {
        "model": "local", "column": "number", "domain": "-3..1", "out_of_domain": "other",
        "epsilon": 4, "user_column": "user_id",
    },
    "capped": {"epsilon": 5, "epsilon_local": 1.5, "min_reports": 1000},
    "set": {"epsilon": None, "epsilon_local": 2, "min_reports": 1000},
    "dummies": {"max_messages": 200, "min_reports": 1000, "honest_share": 0.5},
    "bits": {"model": "local", "mechanism": "oue", "epsilon": 2},
    "paper": {"mechanism": "puredump", "bound": "published", "delta": 0.01, "min_reports": 1800},
}  # fmt: skip


class Histogram(Release):
    """One release, read back."""

    @property
    def rows(self) -> pa.Table:
        return own(self.tables[TABLE])

    @property
    def model(self) -> str:
        named = self.asked.get("mechanism", "auto")
        if "model" in self.asked or named == "auto":
            return self.asked.get("model", "shuffle")
        return catalog.of_task("frequency")[named].default_model

    @property
    def postprocess(self) -> str:
        papers = {"puredump", "noisefirst"}
        plain = self.asked.get("mechanism") in papers
        return self.asked.get("postprocess", "none" if plain else "auto")

    def column(self, name: str) -> np.ndarray:
        return self.rows[name].to_numpy()

    def cells(self, name: str) -> np.ndarray:
        """A column, and behind it what the statement says of values that cannot be used."""
        of_unusable = {"estimate": "share"}.get(name, name)
        return np.append(self.column(name), self.statement["unusable"][of_unusable])


@pytest.fixture(scope="module")
def releases(
    log: str, domain: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Histogram]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        asked = {"domain": domain, "output": folder} | changes
        if str(asked["domain"]).startswith("-"):
            words = canaries.request(log, **(asked | {"domain": None}))
            words.append(f"--domain={asked['domain']}")
        else:
            words = canaries.request(log, **asked)
        assert cli.main(words) == 0
        made[name] = Histogram(folder, asked)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Histogram]) -> Histogram:
    return releases[request.param]


def test_it_keeps_the_contract(release: Histogram, log: str) -> None:
    private = [str(release.asked["domain"])] if ".." not in str(release.asked["domain"]) else []
    require_contract(release, "histogram", [TABLE], str(Path(log).parent), *private)


# ---- the table ---------------------------------------------------------------------------------


def test_the_table_has_its_columns_in_their_types(release: Histogram) -> None:
    unit = "users" if release.asked.get("user_column") else "rows"
    assert release.rows.column_names == [*COLUMNS, unit, f"{unit}_standard_error"]
    kinds = [field.type for field in release.rows.schema]
    assert kinds[0] in (pa.string(), pa.int64())
    assert kinds[1:] == [pa.float64()] * 9
    assert all(release.rows[name].null_count == 0 for name in release.rows.column_names[1:])


def test_the_values_are_the_domain_in_its_order(releases: dict[str, Histogram]) -> None:
    declared = list(canaries.DECLARED)
    assert releases["shuffle"].rows["value"].to_pylist() == declared
    assert releases["local"].rows["value"].to_pylist() == [*declared, None]
    assert releases["integers"].rows["value"].to_pylist() == [-3, -2, -1, 0, 1, None]
    assert releases["integers"].rows["value"].type == pa.int64()


def test_the_estimate_is_what_the_statement_says(release: Histogram) -> None:
    unbiased, estimate = release.cells("unbiased"), release.cells("estimate")
    if release.asked.get("mechanism") == "noisefirst":
        runs = [np.count_nonzero(np.diff(each)) for each in (estimate, unbiased)]
        assert runs[0] <= runs[1]  # of values that share their mean
        return
    taken = release.statement["postprocessing"]["taken"]
    assert taken == {"none": "none", "auto": "pop"}[release.postprocess]  # of so few values
    if taken == "none":
        assert (estimate == unbiased).all()
        return
    assert (estimate >= 0).all()
    assert estimate.sum() == pytest.approx(1, abs=1e-12)
    # Those without a value are apart; the others share what these leave.
    *values, none = unbiased
    none = min(max(none, 0), 1)
    shared = (1 - none) * project(np.array(values) / (1 - none))
    assert estimate == pytest.approx(np.append(shared, none), abs=1e-12)


def test_errors_and_intervals_belong_to_the_unbiased_estimate(release: Histogram) -> None:
    unbiased, error = release.cells("unbiased"), release.cells("standard_error")
    stated = release.statement["mechanism"]
    n, confidence = release.statement["n"], float(release.asked.get("confidence", 0.95))
    mechanism = mechanism_of(release)
    shares = np.clip(unbiased, 0, 1)
    assert error == pytest.approx(np.sqrt(mechanism.variance(shares, n)), rel=1e-12)
    assert stated["constants"]["domain_size"] == len(unbiased)
    for suffix in ("", "_simultaneous"):
        lower, upper = release.column(f"lower{suffix}"), release.column(f"upper{suffix}")
        estimate = release.column("estimate")
        assert (lower <= estimate).all()
        assert (estimate <= upper).all()
        limits = intervals(mechanism, unbiased, n, confidence, simultaneous=bool(suffix))
        below, above = (ends[:-1] for ends in limits)  # the last are of what cannot be used
        assert lower == pytest.approx(np.minimum(below, estimate), abs=1e-12)
        assert upper == pytest.approx(np.maximum(above, estimate), abs=1e-12)
        assert (lower <= shares[:-1]).all()
        assert (shares[:-1] <= upper).all()
        assert (lower < upper).any()
    assert (release.column("lower_simultaneous") <= release.column("lower")).all()
    assert (release.column("upper_simultaneous") >= release.column("upper")).all()


def mechanism_of(release: Histogram) -> Any:
    """The mechanism, built again from what the statement says of it."""
    stated = release.statement["mechanism"]
    name, constants = stated["name"], stated["constants"]
    taken = catalog.of_task("frequency")[name].parameters
    return catalog.build(name, **{k: v for k, v in constants.items() if k in taken})


# ---- the statement -----------------------------------------------------------------------------


def test_the_statement_counts_everything(releases: dict[str, Histogram]) -> None:
    def counted(name: str) -> tuple[int, dict[str, int]]:
        statement = releases[name].statement
        told = canaries.ROWS if statement["request"]["unit"] == "row" else None
        assert statement.get("rows_read") == told
        assert statement["invalid_reports"] == 0
        return statement["n"], statement["rejects"]

    assert counted("shuffle") == (canaries.ROWS, {})
    assert counted("users") == (USERS, REJECTS)
    assert counted("local") == (canaries.ROWS, {})
    assert counted("integers") == (canaries.ROWS // 4, {})


def test_what_was_left_open_is_settled_and_said(release: Histogram) -> None:
    said = release.statement["request"]
    assert (said["model"], said["postprocess"]) == (release.model, release.postprocess)
    assert said["domain"] in ("4 declared values", "5 declared values")
    shuffled = said["model"] == "shuffle"
    # By default 99 % of the rows in the shuffle model, to three figures.
    assert said["min_reports"] == release.asked.get("min_reports", 1980 if shuffled else 1)


def test_a_single_report_promises_what_its_mechanism_does(release: Histogram) -> None:
    local = release.statement["guarantees"]["local"]
    if local["model"] == "none":
        assert local["epsilon"] is None
        assert "epsilon_local" not in release.asked
        return
    assert (local["model"], local["delta"]) == ("local", 0)
    assert local["epsilon"] == release.statement["mechanism"]["constants"]["epsilon"]
    assert local["epsilon"] <= release.asked.get("epsilon_local", math.inf)


def test_without_epsilon_each_report_spends_epsilon_local(releases: dict[str, Histogram]) -> None:
    assert releases["set"].statement["guarantees"]["local"]["epsilon"] == 2
    assert releases["set"].statement["request"]["epsilon"] is None


def test_the_statement_names_the_mechanism_that_was_asked_for(
    releases: dict[str, Histogram],
) -> None:
    assert releases["users"].statement["mechanism"]["name"] == "grr"
    assert releases["local"].statement["mechanism"]["name"] == "hadamard"
    assert releases["local"].statement["mechanism"]["constants"]["hash_range"] == 2


def test_the_statement_can_be_checked(release: Histogram) -> None:
    statement = release.statement
    mechanism, n = mechanism_of(release), statement["n"]
    assert mechanism.constants() == statement["mechanism"]["constants"]
    error = statement["error"]
    assert error["standard_error_at_0"] == pytest.approx(mechanism.variance(0.0, n) ** 0.5)
    assert error["mean_squared_error_per_value"] == pytest.approx(mechanism.average_variance(n))
    assert error["largest_error_bound"] > 2 * error["standard_error_at_0"]
    assert ("not the draw of one row" in error["covers"]) == ("user_column" in release.asked)
    assert error["covers"] in release.page


def test_a_large_delta_is_told_to_the_reader(run, log, domain, workspace) -> None:
    outcome = run(canaries.request(log, domain=domain, delta=1e-3))
    assert outcome.code == 0
    statement = json.loads((workspace / "out" / "statement.json").read_text("utf-8"))
    (said,) = (
        text
        for text in statement["in_words"]
        if text.startswith(("delta 0.001 is large", "delta is not small"))
    )
    assert outcome.err == f"hushbeam: warning: {said}\n"


def test_views_are_counted_like_other_text(run, log, domain, workspace) -> None:
    table = pq.read_table(Path(log).parent)
    for name in ("value", "user"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(pa.string_view()))
    pq.write_table(table, workspace / "views.parquet", row_group_size=300)
    assert pq.read_schema(workspace / "views.parquet").field("value").type == pa.string_view()
    words = {"domain": domain, "user_column": "user", "min_reports": 100}
    assert run(canaries.request("views.parquet", **words)).code == 0
    statement = json.loads((workspace / "out" / "statement.json").read_text("utf-8"))
    assert (statement["n"], statement["rejects"]) == (USERS, REJECTS)


# ---- the page ----------------------------------------------------------------------------------


def test_the_page_shows_every_value(release: Histogram) -> None:
    assert "<svg" in release.page
    for value in release.rows["value"].to_pylist():
        assert f"<th>{'(other or missing)' if value is None else value}</th>" in release.page
