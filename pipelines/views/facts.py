"""What the statements of all releases hold, for the tables of their pages."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

Fact = tuple[str, str]


def table(facts: Iterable[Fact]) -> str:
    """The rows of a table of facts, as HTML.

    >>> table([("bounds", "0 < x")])
    '<tr><th>bounds</th><td>0 &lt; x</td></tr>\\n'
    """
    return "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>\n"
        for name, text in facts
    )


def promises(statement: Mapping[str, Any]) -> str:
    """What is promised in words, as HTML."""
    return "".join(f"<p>{html.escape(text)}</p>" for text in statement["in_words"])


def mechanism(statement: Mapping[str, Any], name: str = "mechanism") -> list[Fact]:
    """Which mechanism was at work, with its constants, and who published it."""
    described = statement["mechanism"]
    constants = ", ".join(
        f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}"
        for k, v in described["constants"].items()
    )
    return [(name, f"{described['name']} ({constants})"), ("published in", described["source"])]


def counted(statement: Mapping[str, Any]) -> list[Fact]:
    """In which model, and how many reports and rows there were."""
    request = statement["asked"]
    return [
        ("model", request["model"]),
        ("reports counted", f"{statement['n']:,} (at least {request['min_reports']:,} required)"),
        *rows(statement),
        ("values that cannot be used", _unusable(statement["unusable"])),
    ]


def _unusable(unusable: Mapping[str, Any]) -> str:
    """What became of values that cannot be used, and how many there may be."""
    treated = str(unusable["treated"])
    if "share" not in unusable:
        return treated
    error = 100 * unusable["standard_error"]
    return f"{treated}: {100 * unusable['share']:.4g} % (standard error {error:.2g} %)"


def rows(statement: Mapping[str, Any]) -> list[Fact]:
    """How many rows were read, and why some could not be used, as far as that is published."""
    rejects = statement.get("rejects", {})
    left_out = ", ".join(f"{name}: {amount:,}" for name, amount in rejects.items())
    found = []
    if "rows_read" in statement:
        found.append(("rows read", f"{statement['rows_read']:,}"))
    if found or left_out:
        found.append(("rows left out", left_out or "none"))
    return found


def made_with(statement: Mapping[str, Any]) -> Fact:
    """The versions of what made it."""
    return "made with", ", ".join(f"{k} {v}" for k, v in statement["versions"].items())


def shortened(label: str, width: int) -> str:
    """A label that fits.

    >>> shortened("a long label", 7)
    'a long…'
    """
    return label if len(label) <= width else label[: width - 1] + "…"
