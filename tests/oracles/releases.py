"""Releases, read back, and what holds for every one of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.releases.schema import LONG, own
from pipelines.wording import RAW_ROWS
from tests.fakes import canaries
from tests.oracles.pages import Page, require_alone

_PLACES = re.compile(r"/(tmp|home|root|Users|var)/")


@dataclass(frozen=True)
class Release:
    """One release.

    Attributes:
        folder: where it is.
        asked: what its request changed of what is usual in a test.
    """

    folder: Path
    asked: dict[str, Any] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def table(self, name: str) -> pa.Table:
        return pq.ParquetFile(self.folder / name).read()

    @cached_property
    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return {name: self.table(name) for name in self.names if name.endswith(".parquet")}

    @cached_property
    def statement(self) -> dict[str, Any]:
        return json.loads(self.read("statement.json"))

    @cached_property
    def page(self) -> str:
        return self.read("report.html").decode()


def require_contract(release: Release, kind: str, files: Iterable[str], *private: str) -> None:
    """All that holds for a release of any kind, whatever was asked.

    Args:
        release: of a log of canaries.
        kind: of the metric.
        files: the tables that it must hold.
        private: what must not be in it.
    """
    require_whole(release, files)
    require_joinable(release, kind)
    require_nobody(release, *private)
    require_numbers(release)
    require_statement(release, kind)
    require_page(release)


def require_whole(release: Release, files: Iterable[str]) -> None:
    """The folder holds its files and nothing else, and beside it nothing was left."""
    # That of a plan's release is of all its metrics, and stands above them.
    signed = set() if "metric" in release.statement else {"signature.json"}
    assert release.names == {*files, *signed, "statement.json", "report.html"}
    assert not list(release.folder.parent.glob(f".{release.folder.name}*"))


def require_joinable(release: Release, kind: str) -> None:
    """Every table has the columns of all kinds, in their order and of their types, and its own."""
    statement = release.statement
    assert release.tables.keys() <= statement["figures"].keys()
    for name, table in release.tables.items():
        first = pa.schema([table.schema.field(column) for column in LONG.names])
        assert first.equals(LONG)
        assert table.column_names[: len(LONG.names)] == LONG.names
        promised = statement["guarantees"]["release"]
        told = {"release_id": statement["release_id"], "kind": kind}
        told |= {"metric": statement.get("metric", kind)}  # a plan names its metrics
        told |= {"figure": statement["figures"][name], "epsilon": promised["epsilon"]}
        for column, value in told.items():
            assert table[column].unique().to_pylist() == [value]
        made = own(table)
        shared = (column for column in made.column_names if column in LONG.names)
        for column in set(shared) - {"value", "group"}:
            assert made[column].cast(table[column].type).equals(table[column])


def require_nobody(release: Release, *private: str) -> None:
    """No undeclared value, no user, no path of this machine: in text, or in a table's metadata.

    Args:
        release: of a log of canaries.
        private: what else must not be in it.
    """
    files = (release.read(name).decode("latin-1") for name in release.names)
    stored = (pq.ParquetFile(release.folder / name) for name in release.tables)
    inside = (f"{file.metadata} {file.schema_arrow.metadata}" for file in stored)
    rows = (str(table.to_pylist()) for table in release.tables.values())
    for text in (*files, *inside, *rows):
        assert not canaries.found(text, declared=False)
        assert "part-0" not in text
        assert not _PLACES.search(text)
        assert not [
            secret for secret in (str(release.folder.resolve()), *private) if secret in text
        ]


def require_numbers(release: Release) -> None:
    """Whatever is a number is finite, and intervals are in order."""
    for table in release.tables.values():
        for column in (table[f.name] for f in table.schema if pa.types.is_floating(f.type)):
            assert np.isfinite(column.drop_null().to_numpy()).all()
        for name in table.column_names:
            if name.startswith("lower"):
                upper = table[name.replace("lower", "upper")]
                assert pc.all(pc.less_equal(table[name], upper), min_count=0).as_py()
                # An end of a quantile is open where numbers were clipped.
                open_ends = "p" in table.column_names
                assert open_ends or upper.null_count == table[name].null_count


def require_page(release: Release) -> None:
    """The page stands alone and says what the statement promises."""
    statement = release.statement
    require_alone(release.read("report.html"))
    visible = " ".join(" ".join(Page(release.read("report.html")).text).split())
    # What stands between backticks is code there, with elements of its own around it.
    whole = visible.replace(" ", "")
    assert all("".join(text.replace("`", "").split()) in whole for text in statement["in_words"])
    assert re.search(
        rf"\b{statement['n']:,} (randomised )?(reports|{statement['request']['unit']}s)", visible
    )
    assert "$" not in visible  # a name that nobody filled in
    assert statement["mechanism"]["name"].replace("_", " ") in visible


def require_statement(release: Release, kind: str) -> None:
    """What every statement says, in itself consistent."""
    statement, asked = release.statement, release.statement["request"]
    assert (statement["statement_version"], statement["release"]) == (1, kind)
    assert re.fullmatch("[0-9a-f]{32}", statement["release_id"])
    assert statement["created"].endswith("+00:00")
    assert {"hushbeam", "apache-beam", "numpy", "pyarrow", "python"} <= statement["versions"].keys()
    assert statement["n"] >= asked["min_reports"]
    released, local = (statement["guarantees"][name] for name in ("release", "local"))
    assert released["model"] == asked["model"]
    assert released["unit"] == asked["unit"]
    assert 0 < released["epsilon"] <= (asked["epsilon"] or math.inf)
    assert asked["delta"] <= released["delta"] <= max(asked["delta"], 1e-15)
    assert len(released["how"]) > 20
    if asked["model"] == "local":
        assert released == local
    if local["model"] != "none":  # what dummies or a trusted collector hide is no report's own
        assert local["unit"] == released["unit"]
        assert released["epsilon"] <= local["epsilon"]  # shuffling takes nothing away
    words = statement["in_words"]
    assert len(words) >= (2 if released == local else 3)
    assert words[-1] == RAW_ROWS or "saw shuffled reports and no row of any log" in words[-1]
    assert statement["mechanism"]["source"]
    assert statement["mechanism"]["messages_per_user"] > 0
