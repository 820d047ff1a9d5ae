"""What a person says of files of text, and of the rows of any, before a metric looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.request.options import option
from pipelines.request.requests import Pairs, RequestOptions, Texts

if TYPE_CHECKING:
    from transforms.expressions.view import View
    from transforms.files.reading import Reading

_FILES = "what the files hold"


class FileOptions(RequestOptions):
    """Types of text, derived columns, and what must hold of a row."""

    types: Pairs = option(
        "what columns of CSV files, JSON lines and folders hold, if not strings: int, float, bool, "
        "date or timestamp. What is written there and is none is a value that cannot be used",
        (), group=_FILES, metavar="COLUMN=TYPE",
    )  # fmt: skip
    delimiter: str | None = option(
        "between the fields of CSV files (default: a comma, or a tab in files that end in .tsv)",
        None, group=_FILES, metavar="SIGN|tab",
    )  # fmt: skip
    header: tuple[str, ...] = option(
        "the columns of CSV files whose first line is a row already", (),
        group=_FILES, metavar="COLUMN",
    )  # fmt: skip
    encoding: str | None = option(
        "of CSV files and JSON lines, such as latin-1, cp1252 or utf-16 (default: utf-8, with a "
        "byte order mark or without)",
        None, group=_FILES, metavar="NAME",
    )  # fmt: skip
    derive: Pairs = option(
        "a column that is computed, such as 'hour=hour(started, \"Europe/Berlin\")'; docs/files.md "
        "lists what expressions can say",
        (), group=_FILES, metavar="NAME=EXPRESSION", repeated=True, figure=True,
    )  # fmt: skip
    where: Texts = option(
        "what must hold of a row, such as \"country == 'DE' and seconds > 0\": a row of which it "
        "does not counts like one without a value, and of counters raises none",
        (), group=_FILES, metavar="EXPRESSION", repeated=True, figure=True,
    )  # fmt: skip

    @property
    def reading(self) -> Reading:
        """How files of text are read.

        Raises:
            RequestError: what was said of that is malformed.
        """
        from pipelines.logs.reading import reading_of

        return reading_of(self.types, self.delimiter, self.header, self.encoding)

    @property
    def view(self) -> View:
        """What is derived of rows, and what must hold of them.

        Raises:
            RequestError: an expression is none.
        """
        from pipelines.logs.reading import view_of

        return view_of(self.derive, self.where)

    @property
    def unsaid(self) -> frozenset[str]:
        """What nobody has said of files and their rows: no plan or statement mentions it."""
        names = FileOptions.model_fields
        return frozenset(name for name in names if not getattr(self, name))
