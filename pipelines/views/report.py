"""What people see of a release, of whatever kind: its page, and its tables on the screen.

A page begins with the figure and ends with how it was made; `headline` has its beginning and
`drawing` its picture. All of it is read from the tables and the statement; a kind adds sentences.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.views import pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.drawing import drawn
from pipelines.views.facts import Fact
from pipelines.views.headline import (
    EFFECT,
    OTHER_IN_WORDS,
    chosen,
    figure_of,
    first_word,
    head,
    headline,
    loss,
    title,
    written,
)
from pipelines.views.listing import Listing, listed, texts

_ROWS = 1100  # all bins that there can be, and a few more
_SHOWN = 10  # on the screen

OWN = "page"
"""Where a statement holds what its kind says on its page; without it the page is of another form.
"""

Tables = Mapping[str, pa.Table]


def page(tables: Tables, statement: Mapping[str, Any]) -> bytes:
    """The page of a release, from nothing else: so whoever verifies it can write it again.

    Args:
        tables: of the release, as their kind made them, by file name.
        statement: of the release; its "page", as of `page_words`, has the sentences of its kind.
    """
    own = statement.get(OWN) or page_words()
    first = chosen(statement)["table"]
    known = _ordered(tables, statement)
    listings = {name: listed(name, table, statement) for name, table in known.items()}
    return pages.whole(
        head(tables.get(first), statement),
        drawn(tables, statement)
        + "".join(table(name, one, len(known) > 1) for name, one in listings.items())
        + pages.folds(
            [*_reading(listings, statement), *own["reading"]], statement, map(tuple, own["facts"])
        )
        + pages.files(known),
    )


def page_words(reading: Sequence[str] = (), facts: Sequence[Fact] = ()) -> dict[str, Any]:
    """What a kind's page says of its own, as a statement holds it under `OWN`.

    Args:
        reading: what a reader must know of this kind's figures.
        facts: how this kind was made.
    """
    return {"reading": [*reading], "facts": [[*fact] for fact in facts]}


def _ordered(tables: Tables, statement: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The table of the headline before all others."""
    first = chosen(statement)["table"]
    return {name: tables[name] for name in sorted(tables, key=lambda name: (name != first, name))}


def table(name: str, listing: Listing, several: bool) -> str:
    """One table in a box.

    Args:
        name: of its file.
        listing: of its figures.
        several: whether the page has others, and this one a heading.
    """
    said = _heading(name)
    rows, many = listing.rows(_ROWS), len(listing.table)
    columns = listing.columns
    heads = [*listing.heads, *(column.head for column in columns)]
    body = [texts(listing, columns, row) for row in rows]
    more = ""
    if many > len(rows):
        which = first_word(listing.figure) if listing.sort else "first"
        more = (
            f'<p class="note">The {len(rows):,} {which} of {many:,}; '
            f"<code>{html.escape(name)}</code> has all.</p>\n"
        )
    return (
        (f"<h2>{html.escape(said[:1].upper() + said[1:])}</h2>\n" if several else "")
        + pages.boxed(said, heads, body, len(listing.names))
        + more
    )


def _heading(name: str) -> str:
    return name.rpartition(".")[0].replace("-", " ").replace("_", " ")


def _reading(listings: Mapping[str, Listing], statement: Mapping[str, Any]) -> list[str]:
    """How to read the figures, as far as that is said of all kinds alike."""
    error = statement.get("error", {})
    covers = str(error.get("covers", ""))
    if covers and not covers.endswith("."):
        covers = f"Standard errors and intervals cover {covers}."
    said = [error.get("reading", ""), covers]
    if any(listing.has_other for listing in listings.values()):
        said.append(OTHER_IN_WORDS)
    for listing in listings.values():
        table = listing.table
        if "lower" not in table.column_names:
            continue
        percent, together = f"{100 * listing.confidence:g} %", ""
        if selected.LOWER in table.column_names and len(table) > 1:
            together = (
                f", each by itself; those of all {len(table):,} together hold at once with that "
                "probability, also for rows that are picked by looking at all of them"
            )
            if listing.figure == "share":
                said.append(selected.remark(table))
        said.insert(2, f"Intervals hold the true figure with probability {percent}{together}.")
        break
    return said


def show(screen: Console, tables: Tables, statement: Mapping[str, Any]) -> None:
    """A release on the screen: its first figures, its tables, and what it costs.

    Args:
        screen: where to.
        tables: as of `page`.
        statement: of the release.
    """
    first = chosen(statement)["table"]
    said = headline(tables.get(first), statement)
    about = " · ".join(
        part for part in (said.about, loss(statement["guarantees"]["release"])) if part
    )
    screen.print(Text(f"{title(statement)} ({about})"), highlight=False)
    for effect in said.lines if figure_of(statement) == EFFECT else ():
        screen.print(Text(f"{effect.number} {effect.unit} {effect.label}"), highlight=False)
    # Bins are for pages.
    ordered = _ordered(tables, statement).items()
    known = {name: one for name, one in ordered if "cumulative" not in one.column_names}
    for name, table in known.items():
        if not len(table):
            screen.print("Nothing stands out of the noise.", highlight=False)
        else:
            _show(screen, listed(name, table, statement), _heading(name) if len(known) > 1 else "")
    if mean := statement.get("mean"):
        number = written(*(mean[part] for part in ("estimate", "standard_error", "lower", "upper")))
        screen.print(f"mean: {number}", highlight=False)


def _show(screen: Console, listing: Listing, heading: str) -> None:
    columns = [column for column in listing.columns if column.brief] or listing.columns
    rows, many = listing.rows(_SHOWN), len(listing.table)
    shown = f"{len(rows)} {first_word(listing.figure)}" if listing.sort else f"first {len(rows)}"
    part = f"the {shown} of {many:,}" if many > len(rows) else ""
    name = ": ".join(filter(None, (heading, part))) or None
    heads = [column.head for column in columns]
    if heads and heads[-1].startswith("of all"):
        heads[-1] = f"{100 * listing.confidence:g} % interval {heads[-1]}"
    table = numbers_table(listing.heads, heads, name)
    for row in rows:
        # A plain string would be read as markup.
        table.add_row(*map(Text, texts(listing, columns, row)))
    screen.print(table)
    shares = listing.figure == "share" and selected.LOWER in listing.table.column_names
    if shares and (remark := selected.remark(listing.table)):
        screen.print(remark, highlight=False)
