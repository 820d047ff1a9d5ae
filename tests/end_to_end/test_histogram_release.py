"""What a release holds: the table, the statement, the page, and nothing of anybody."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms import catalog
from mechanisms.central.histogram import LaplaceHistogram, NoiseFirstHistogram
from mechanisms.postprocess.intervals import intervals
from mechanisms.postprocess.simplex import project
from pipelines import cli
from tests.fakes import canaries

USABLE = canaries.ROWS - canaries.NULL_VALUES - canaries.STRAY_VALUES
USERS = (USABLE - canaries.NULL_USERS) // 4
REJECTS = {
    "null user": canaries.NULL_USERS,
    "null value": canaries.NULL_VALUES,
    "outside the domain": canaries.STRAY_VALUES,
}
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
    "central": {"model": "central"},
    "noisefirst": {"mechanism": "noisefirst", "user_column": "user"},
    "dummies": {"max_messages": 200, "min_reports": 1000, "honest_share": 0.5},
    "bits": {"model": "local", "mechanism": "oue", "epsilon": 2},
    "paper": {"mechanism": "puredump", "bound": "published", "delta": 0.01, "min_reports": 1800},
}  # fmt: skip


@dataclass(frozen=True)
class Release:
    """One release, read back."""

    asked: dict[str, Any]
    folder: Path

    @cached_property
    def table(self) -> pa.Table:
        return pq.ParquetFile(self.folder / "histogram.parquet").read()

    @cached_property
    def statement(self) -> dict[str, Any]:
        return json.loads((self.folder / "statement.json").read_text("utf-8"))

    @cached_property
    def page(self) -> str:
        return (self.folder / "report.html").read_text("utf-8")

    @property
    def model(self) -> str:
        named = self.asked.get("mechanism", "auto")
        if "model" in self.asked or named == "auto":
            return self.asked.get("model", "shuffle")
        return catalog.of_task("frequency")[named].default_model

    @property
    def postprocess(self) -> str:
        papers = {"puredump", "noisefirst"}
        plain = self.model == "central" or self.asked.get("mechanism") in papers
        return self.asked.get("postprocess", "none" if plain else "pop")

    def column(self, name: str) -> np.ndarray:
        return self.table[name].to_numpy()


@pytest.fixture(scope="module")
def releases(log: str, domain: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
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
        made[name] = Release(asked, folder)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Release]) -> Release:
    return releases[request.param]


# ---- the folder --------------------------------------------------------------------------------


def test_the_folder_holds_three_files_and_no_leftovers(release: Release) -> None:
    names = sorted(path.name for path in release.folder.iterdir())
    assert names == ["histogram.parquet", "report.html", "statement.json"]
    assert list(release.folder.parent.iterdir()) == [release.folder]


def test_nobody_is_in_it(release: Release, log: str) -> None:
    """No undeclared value, no user, no path of this machine, in text or in the table's metadata."""
    written = pq.ParquetFile(release.folder / "histogram.parquet")
    spoken = [
        release.page,
        json.dumps(release.statement),
        str(written.metadata) + str(written.schema_arrow.metadata) + str(release.table.to_pylist()),
        *(path.read_bytes().decode("latin-1") for path in release.folder.iterdir()),
    ]
    for text in spoken:
        assert not canaries.found(text, declared=False)
        for private in (Path(log).parent, release.folder, release.asked["domain"], Path.home()):
            assert str(private) not in text or len(str(private)) < 6
        assert "part-0" not in text
        assert not re.search(r"/(tmp|home|root|Users|var)/", text)


# ---- the table ---------------------------------------------------------------------------------


def test_the_table_has_its_columns_in_their_types(release: Release) -> None:
    assert release.table.column_names == COLUMNS
    kinds = [field.type for field in release.table.schema]
    assert kinds[0] in (pa.string(), pa.int64())
    assert kinds[1:] == [pa.float64()] * 7
    assert all(release.table[name].null_count == 0 for name in COLUMNS[1:])


def test_the_values_are_the_domain_in_its_order(releases: dict[str, Release]) -> None:
    declared = list(canaries.DECLARED)
    assert releases["shuffle"].table["value"].to_pylist() == declared
    assert releases["local"].table["value"].to_pylist() == [*declared, None]
    assert releases["integers"].table["value"].to_pylist() == [-3, -2, -1, 0, 1, None]
    assert releases["integers"].table["value"].type == pa.int64()


def test_the_estimate_is_the_projection_or_the_unbiased_one(release: Release) -> None:
    unbiased, estimate = release.column("unbiased"), release.column("estimate")
    if release.asked.get("mechanism") == "noisefirst":
        assert len(set(estimate)) <= len(set(unbiased))  # runs of values share their mean
        return
    if release.postprocess == "none":
        assert (estimate == unbiased).all()
        return
    assert (estimate >= 0).all()
    assert estimate.sum() == pytest.approx(1, abs=1e-12)
    assert estimate == pytest.approx(project(unbiased), abs=1e-12)


def test_errors_and_intervals_belong_to_the_unbiased_estimate(release: Release) -> None:
    unbiased, error = release.column("unbiased"), release.column("standard_error")
    stated = release.statement["mechanism"]
    n, confidence = release.statement["n"], float(release.asked.get("confidence", 0.95))
    mechanism = mechanism_of(release)
    shares = np.clip(unbiased, 0, 1)
    assert error == pytest.approx(np.sqrt(mechanism.variance(shares, n)), rel=1e-12)
    assert stated["constants"]["domain_size"] == len(unbiased)
    for suffix in ("", "_simultaneous"):
        lower, upper = release.column(f"lower{suffix}"), release.column(f"upper{suffix}")
        limits = intervals(mechanism, unbiased, n, confidence, simultaneous=bool(suffix))
        assert lower == pytest.approx(limits[0], abs=1e-12)
        assert upper == pytest.approx(limits[1], abs=1e-12)
        assert (lower <= shares).all()
        assert (shares <= upper).all()
        assert (lower < upper).any()
    assert (release.column("lower_simultaneous") <= release.column("lower")).all()
    assert (release.column("upper_simultaneous") >= release.column("upper")).all()


def mechanism_of(release: Release) -> Any:
    """The mechanism, built again from what the statement says of it."""
    stated = release.statement["mechanism"]
    name, constants = stated["name"], stated["constants"]
    if release.model == "central":
        family = {"laplace": LaplaceHistogram, "noisefirst": NoiseFirstHistogram}[name]
        return family(constants["epsilon"], constants["domain_size"])
    taken = catalog.of_task("frequency")[name].parameters
    return catalog.build(name, **{k: v for k, v in constants.items() if k in taken})


# ---- the statement -----------------------------------------------------------------------------


def test_the_statement_says_what_was_asked(release: Release) -> None:
    said = release.statement["asked"]
    defaults = {
        "column": "value", "user_column": None, "model": "shuffle", "epsilon": 1.0,
        "epsilon_local": None, "mechanism": "auto", "postprocess": "pop", "confidence": 0.95,
        "out_of_domain": "drop",
    }  # fmt: skip
    expected = defaults | {k: v for k, v in release.asked.items() if k in defaults}
    expected |= {"model": release.model, "postprocess": release.postprocess}
    assert {name: said[name] for name in expected} == expected
    assert said["unit"] == ("user" if "user_column" in release.asked else "row")
    assert said["domain"] in ("4 declared values", "5 declared values")
    shuffled = said["model"] == "shuffle"
    assert said["delta"] == (release.asked.get("delta", 1e-6) if shuffled else 0)
    # By default nine tenths of the rows in the shuffle model, to two figures.
    assert said["min_reports"] == release.asked.get("min_reports", 1800 if shuffled else 1)


def test_the_statement_counts_everything(releases: dict[str, Release]) -> None:
    def counted(name: str) -> tuple[int, dict[str, int]]:
        statement = releases[name].statement
        assert statement["rows_read"] == canaries.ROWS
        assert statement["invalid_reports"] == 0
        return statement["n"], statement["rejects"]

    without = {name: REJECTS[name] for name in ("null value", "outside the domain")}
    assert counted("shuffle") == (USABLE, without)
    assert counted("users") == (USERS, REJECTS)
    assert counted("local") == (
        USABLE + canaries.STRAY_VALUES, {"null value": canaries.NULL_VALUES}
    )  # fmt: skip
    assert counted("integers") == (canaries.ROWS // 4, {})


def test_the_guarantees_meet_what_was_asked(release: Release) -> None:
    asked, said = release.asked, release.statement["guarantees"]
    released, local = said["release"], said["local"]
    assert released["model"] == release.model
    if asked.get("epsilon", 1) is not None:
        assert 0 < released["epsilon"] <= float(asked.get("epsilon", 1))
    assert len(released["how"]) > 20
    assert released["unit"] == release.statement["asked"]["unit"]
    if local["model"] == "none":  # what dummies or a trusted collector hide is no report's own
        assert local["epsilon"] is None
        assert "epsilon_local" not in asked
    else:
        assert local["model"] == "local"
        assert local["unit"] == released["unit"]
        assert local["delta"] == 0
        assert local["epsilon"] == release.statement["mechanism"]["constants"]["epsilon"]
        assert local["epsilon"] <= asked.get("epsilon_local", math.inf)
        # Shuffling takes nothing away.
        assert released["epsilon"] <= local["epsilon"]
    if release.model == "shuffle":
        assert released["delta"] == asked.get("delta", 1e-6)
    elif release.model == "local":
        assert released == local
    else:
        assert released["delta"] < 1e-15


def test_without_epsilon_each_report_spends_epsilon_local(releases: dict[str, Release]) -> None:
    assert releases["set"].statement["guarantees"]["local"]["epsilon"] == 2
    assert releases["set"].statement["asked"]["epsilon"] is None


def test_the_statement_names_the_mechanism_that_was_asked_for(releases: dict[str, Release]) -> None:
    assert releases["users"].statement["mechanism"]["name"] == "grr"
    assert releases["local"].statement["mechanism"]["name"] == "hadamard"
    assert releases["local"].statement["mechanism"]["constants"]["hash_range"] == 2


def test_the_statement_can_be_checked(release: Release) -> None:
    statement = release.statement
    assert (statement["statement_version"], statement["release"]) == (1, "histogram")
    assert len(statement["release_id"]) == 32
    assert statement["created"].endswith("+00:00")
    assert {"hushbeam", "apache-beam", "numpy", "pyarrow", "python"} <= statement["versions"].keys()
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
    (said,) = (text for text in statement["in_words"] if text.startswith("delta is not small"))
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


def test_two_releases_are_told_apart(releases: dict[str, Release]) -> None:
    assert len({release.statement["release_id"] for release in releases.values()}) == len(releases)


# ---- the page ----------------------------------------------------------------------------------


def test_the_page_says_what_is_promised_and_what_is_not(release: Release) -> None:
    words = release.statement["in_words"]
    guarantees = release.statement["guarantees"]
    cautious = release.statement["asked"]["delta"] * release.statement["asked"]["min_reports"] >= 1
    assert len(words) == (2 if guarantees["release"] == guarantees["local"] else 3) + cautious
    for text in words:
        assert text.replace("'", "&#x27;") in release.page
    assert "read the rows as they were recorded" in words[-1]
    assert not any("operator" in text for text in words)
    assert "<svg" in release.page
    assert f"From {release.statement['n']:,} randomised reports" in release.page


def test_the_page_shows_every_value(release: Release) -> None:
    for value in release.table["value"].to_pylist():
        assert f"<th>{'(any other value)' if value is None else value}</th>" in release.page
