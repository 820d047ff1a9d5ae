"""A release, read back: its tables, its statement, its page, a picture of it."""

from __future__ import annotations

import html
import os
import shutil
import weakref
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from hushbeam.calls import called
from pipelines.errors import RequestError

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure
    from typing_extensions import Self

_FRAME = (
    '<iframe sandbox title="a release of hushbeam" srcdoc="{page}" '
    'style="width: 100%; height: 36em; border: 0"></iframe>'
)


_SHOWN = 3  # figures of a line


class Release:
    """A release that stands in a folder, local or gs://.

    Attributes:
        folder: where. Of a release that was to go nowhere it is a temporary one, which is removed
            with this object.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.statement  # noqa: B018 - what is no release is refused here

    def removed_with(self, around: str) -> Self:
        """The same, with a folder around its own that is removed when nobody holds it any more."""
        weakref.finalize(self, shutil.rmtree, around, ignore_errors=True)
        return self

    @cached_property
    def statement(self) -> dict[str, Any]:
        """What was asked, done and promised: statement.json.

        Raises:
            RequestError: there is none.
        """
        with called():
            from pipelines.releases.statements import read_statement

            return read_statement(self.folder)[0]

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """All tables by the names of their files, without the ending; a plan's are in `metrics`."""
        with called():
            from pipelines.releases.statements import read_tables

            tables = read_tables(self.folder)
        return {name.removesuffix(".parquet"): table for name, table in tables.items()}

    @property
    def table(self) -> pa.Table:
        """The one table.

        Raises:
            RequestError: there are several, or none.
        """
        if len(self.tables) != 1:
            raise RequestError(f"{self.folder} holds {self._content}, and not one table")
        return next(iter(self.tables.values()))

    @property
    def df(self) -> Any:
        """The first table as a frame: of pandas, or of polars where only that is installed.

        Raises:
            RequestError: neither is installed.
        """
        name = self._named(None)
        if find_spec("pandas") is not None:
            return self.tables[name].to_pandas()
        return self.to_polars(name)

    def to_polars(self, table: str | None = None) -> Any:
        """A table as a frame of polars.

        Args:
            table: which, where there are several; the first by default.

        Raises:
            RequestError: there is no such table, or polars is missing.
        """
        name = self._named(table)
        if find_spec("polars") is None:
            raise RequestError("polars is missing: `pip install polars`")
        import polars

        return polars.from_arrow(self.tables[name])

    def _named(self, table: str | None) -> str:
        name = next(iter(self.tables), "") if table is None else table
        if name not in self.tables:
            raise RequestError(f"{self.folder} holds {self._content}, and no table {name!r}")
        return name

    @cached_property
    def metrics(self) -> dict[str, Release]:
        """The releases of a plan's metrics by name; none of a release that is of one metric."""
        with called():
            from pipelines.releases.statements import require_own_folder

            published = self.statement.get("metrics", ())
            folders = {name: require_own_folder(self.folder, name) for name in published}
        return {name: Release(folder) for name, folder in folders.items()}

    @property
    def page(self) -> str:
        """The page that people read: report.html."""
        with called():
            from pipelines.releases.statements import read_page

            return read_page(self.folder)

    def plot(self, table: str | None = None) -> Figure:
        """The estimates with the intervals that cover all of them together.

        Args:
            table: which, where there are several; the first by default.

        Returns:
            matplotlib's, which belongs to no window: `savefig` writes it.

        Raises:
            RequestError: there is no such table or no estimate in it, or matplotlib is missing.
        """
        name = self._named(table)
        from pipelines.views.plots import drawn

        return drawn(self.tables[name], self.statement)

    def _repr_html_(self) -> str:
        """The page within a notebook, where nothing of it can reach the notebook."""
        return _FRAME.format(page=html.escape(self.page))

    def __repr__(self) -> str:
        """Its kind, its first figures, what it may reveal, and where it stands."""
        from pipelines.views.headline import loss

        kind, figures = self.statement["release"], self._figures
        more = ["…"] * (len(figures) > _SHOWN)
        shown = f"{kind}: {', '.join(figures[:_SHOWN] + more)}" if figures else kind
        lost = loss(self.statement["guarantees"]["release"])
        return f"<hushbeam.Release of {shown}; {lost}; {self.folder}>"

    @property
    def _figures(self) -> list[str]:
        """Those that come first; of a plan the first one of each metric."""
        from pipelines.views.headline import chosen, headline

        if self.metrics:
            first = ((name, *one._figures[:1]) for name, one in self.metrics.items())
            return [" ".join(words) for words in first]
        table = self.tables.get(chosen(self.statement)["table"].removesuffix(".parquet"))
        lines = headline(table, self.statement).lines
        return [" ".join(filter(None, (line.label, line.number, line.unit))) for line in lines]

    @property
    def _content(self) -> str:
        tables = [f".tables[{name!r}]" for name in self.tables]
        return ", ".join(tables + [f".metrics[{name!r}]" for name in self.metrics]) or "no table"
