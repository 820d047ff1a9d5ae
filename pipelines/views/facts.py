"""What the statements of all releases hold, for the tables of their pages."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mechanisms.counters.noise import laws_in

Fact = tuple[str, str]

_WIDE = 48  # characters of a cell that are shown


def table(facts: Iterable[Fact]) -> str:
    """The rows of a table of facts, as HTML.

    >>> table([("bounds", "0 < x")])
    '<tr><th>bounds</th><td>0 &lt; x</td></tr>\\n'
    """
    return "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>\n"
        for name, text in facts
    )


def prose(text: str) -> str:
    """A sentence of a statement as HTML: what stands between backticks is code.

    >>> prose("`by_group` has 2 < 3")
    '<code>by_group</code> has 2 &lt; 3'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def promises(statement: Mapping[str, Any]) -> str:
    """What is promised in words, as HTML."""
    return "".join(f"<p>{prose(text)}</p>" for text in statement["in_words"])


def word(value: Any) -> str:
    """A value of a statement as people write it.

    >>> word(4.0), word(True), word([0.0, 300.0]), word("add or remove"), word(1980)
    ('4', 'yes', '0, 300', 'add or remove', '1,980')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {word(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(word, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def request(statement: Mapping[str, Any]) -> Fact:
    """The request, each option by its name."""
    given = (
        f"{name.replace('_', ' ')} {word(value)}"
        for name, value in statement["request"].items()
        if value is not None and value is not False and value != []
    )
    return "request", "; ".join(given)


_LAWS = 4  # of which a page gives the numbers


def noise(record: Any) -> str:
    """The laws of noise of a statement, each once.

    >>> noise([{"law": "laplace", "mu": 4, "slope": 2.0}] * 2)
    '2 of laplace (mu = 4, slope = 2)'
    """
    laws = Counter(
        f"{law} ({', '.join(f'{name} = {word(number)}' for name, number in numbers.items())})"
        for law, numbers in laws_in(record)
    )
    parts = [f"{times} of {law}" if times > 1 else law for law, times in laws.items()]
    more = f"; and {len(parts) - _LAWS} more, in the statement" if len(parts) > _LAWS else ""
    return "; ".join(parts[:_LAWS]) + more


def mechanism(statement: Mapping[str, Any], name: str = "mechanism") -> list[Fact]:
    """Which mechanism was at work, with its constants, and who published it."""
    described = statement["mechanism"]
    constants = ", ".join(
        f"{name.replace('_', ' ')} = {word(value)}"
        for name, value in described["constants"].items()
    )
    called = described["name"].replace("_", " ")
    return [(name, f"{called} ({constants})"), ("published in", described["source"])]


def counted(statement: Mapping[str, Any]) -> list[Fact]:
    """In which model, and how many reports and rows there were."""
    request = statement["request"]
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
    facts = []
    if "rows_read" in statement:
        facts.append(("rows read", f"{statement['rows_read']:,}"))
    if facts or left_out:
        facts.append(("rows left out", left_out or "none"))
    return facts


def made_with(statement: Mapping[str, Any]) -> Fact:
    """The versions of what made it."""
    return "made with", ", ".join(f"{k} {v}" for k, v in statement["versions"].items())


def cell(value: Any) -> str:
    """A cell of a table, in characters that are a command to neither a terminal nor a reader.

    >>> cell(1 / 3), cell(None), cell(2000), cell("\\x1b[2J")
    ('0.333333', '', '2000', '\\\\x1b[2J')
    """
    text = "" if value is None else f"{value:.6g}" if type(value) is float else str(value)
    safe = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shortened("".join(safe), _WIDE)


def shortened(label: str, width: int) -> str:
    """A label that fits.

    >>> shortened("a long label", 7)
    'a long…'
    """
    return label if len(label) <= width else label[: width - 1] + "…"
