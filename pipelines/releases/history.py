"""Releases that stand, read back: what each metric of each of them has published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.errors import RequestError, reason
from pipelines.releases import release, schema, statements


@dataclass(frozen=True)
class Published:
    """What one metric has published in one release.

    Attributes:
        folder: of its tables, its statement and its page.
        statement: its own.
        written: the same, as it stands there.
        whole: the statement of the release that it belongs to; its own where it stands alone.
        whole_written: the same, as it stands there.
    """

    folder: str
    statement: dict[str, Any]
    written: bytes
    whole: dict[str, Any]
    whole_written: bytes

    @property
    def figures(self) -> dict[str, str]:
        """Table -> what its estimates are; none where nothing but a share is published."""
        return dict(self.statement.get("figures", {}))

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Each table that can be joined with others, by name, without columns of its release."""
        for name in self.figures:
            try:
                yield name, statements.read_table(self.folder, name)
            except FileNotFoundError:
                continue  # a kind that may publish it, and did not


def releases_in(patterns: Sequence[str]) -> list[Published]:
    """What stands in some folders, the oldest release first, each once.

    Args:
        patterns: folders of releases, folders that hold such folders, or globs of either.

    Raises:
        RequestError: one of them holds no release, one cannot be read, or two that differ have
            one id.
    """
    by_id: dict[tuple[str, str], Published] = {}
    for pattern in patterns:
        for folder in folders_in(pattern):
            for one in _of(folder):
                name = one.statement.get("metric", one.statement["release"])
                first = by_id.setdefault((one.statement["release_id"], name), one)
                if first.written != one.written:
                    raise RequestError(
                        f"{one.folder} has the id of {first.folder} and says another thing: leave "
                        "one of them out"
                    )
    return sorted(by_id.values(), key=_order)


def folders_in(pattern: str) -> list[str]:
    """The folders of the releases that a folder, or a glob, stands for.

    Raises:
        RequestError: there is none, or it cannot be looked at.
    """
    try:
        if release.holds_release(pattern):
            return [pattern]
        folders = release.newest([pattern], None) or release.newest([f"{pattern}/*"], None)
    except (OSError, ValueError, ImportError) as error:
        raise RequestError(f"{pattern}: {reason(error)}") from None
    if not folders:
        raise RequestError(
            f"{pattern}: there is no release; name folders that hold a statement.json"
        )
    return folders


def _of(folder: str) -> Iterator[Published]:
    statement, written = statements.read_statement(folder)
    if statement["release"] != "plan":
        yield Published(folder, statement, written, statement, written)
        return
    for name in statement["metrics"]:
        inner = statements.require_own_folder(folder, name)
        own, text = statements.read_statement(inner)
        if (own["release_id"], own.get("metric")) != (statement["release_id"], name):
            raise RequestError(
                f"{inner}/{release.STATEMENT} is of another release than {folder}; copy the "
                "release whole"
            )
        yield Published(inner, own, text, statement, written)


def _order(one: Published) -> tuple[str, str, str, str]:
    window = one.statement.get("window") or {}
    return (
        one.statement.get("collection") or "",
        window.get("start") or window.get("name") or "",
        one.statement["created"],
        one.statement.get("metric") or "",
    )


def long(published: Sequence[Published]) -> Iterator[pa.Table]:
    """The tables of all of them, in the columns that all kinds share."""
    for one in published:
        for name, table in one.tables():
            yield schema.joined([(table, one.statement, one.figures[name])])
