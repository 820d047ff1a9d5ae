"""What the statements of all releases hold, for the tables of their pages."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mechanisms.counters.noise import laws_in
from pipelines.views.digits import digits

Fact = tuple[str, str]

_WIDE = 48  # characters of a cell that are shown


def listed(facts: Iterable[Fact]) -> str:
    """A table of facts, as HTML.

    >>> listed([("bounds", "0 < x")]).splitlines()[2]
    '<tr><th>bounds</th><td>0 &lt; x</td></tr>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{unbroken(text)}</td></tr>\n" for name, text in facts
    )
    return f'<table class="facts">\n<tbody>\n{rows}</tbody>\n</table>\n'


def prose(text: str) -> str:
    """A sentence of a statement as HTML: what stands between backticks is code.

    >>> prose("`by_group` has 2 < 3")
    '<code>by_group</code> has 2 &lt; 3'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", unbroken(text))


def unbroken(text: str) -> str:
    """Text as HTML, none of whose numbers goes on in another line; a hyphen invites browsers to.

    >>> unbroken("delta < 2.5e-7")
    'delta &lt; <span class="n">2.5e-7</span>'
    """
    safe = html.escape(text)
    # Of a page's thousands of cells few have such a number.
    return re.sub(r"[\d.]+e-\d+", r'<span class="n">\g<0></span>', safe) if "e-" in safe else safe


def paragraphs(sentences: Sequence[str]) -> str:
    """Sentences of a statement as HTML."""
    return "\n".join(f"<p>{prose(text)}</p>" for text in sentences if text)


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


_SYMBOLS = {
    "epsilon": "ε", "delta": "δ", "sigma": "σ", "gamma": "γ", "domain_size": "d", "dimension": "d",
    "hash_range": "g", "digits": "t", "cells": "k", "keep": "p", "other": "q", "threshold": "τ",
    "collision": "c",
}  # fmt: skip


def constants(statement: Mapping[str, Any]) -> str:
    """The constants of a mechanism by name and symbol, as a table in HTML; "" without any."""
    rows = [
        f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>{_SYMBOLS.get(name, '')}</td>"
        f"<td>{html.escape(word(value))}</td></tr>\n"
        for name, value in statement["mechanism"].get("constants", {}).items()
        if isinstance(value, int | float | str)
    ]
    heads = "<thead><tr><th>constant</th><th>symbol</th><th>value</th></tr></thead>"
    return (
        f'<table class="facts constants">\n{heads}\n<tbody>\n{"".join(rows)}</tbody>\n</table>'
        * bool(rows)
    )


def made(statement: Mapping[str, Any], own: Iterable[Fact] = ()) -> list[Fact]:
    """How a release was made, whatever it is of.

    Args:
        statement: of the release.
        own: what is said of its kind alone.
    """
    described, options = statement["mechanism"], statement["request"]
    drawn = f", dummies drawn by the {described['drawn_by']}" if "drawn_by" in described else ""
    laws = noise(described.get("constants", {}).get("noise", []))
    facts: list[Fact] = [("mechanism", described["name"].replace("_", " ") + drawn)]
    facts.append(("published in", described["source"]))
    if laws:
        facts.append(("noise", laws))
    if "messages_per_user" in described:
        bits = described.get("bits_per_message")
        of = f" of {bits} bits" if bits else ""
        unit = options.get("unit", "user")
        facts.append(("messages", f"{described['messages_per_user']:,.4g}{of} a {unit} on average"))
    if options.get("model"):
        facts.append(("model", options["model"]))
    if "n" in statement and "min_reports" in options:
        least = f" (at least {options['min_reports']:,} required)"
        facts.append(("reports counted", f"{statement['n']:,}{least}"))
    facts += own
    facts.append(request(statement))
    for name, key in (("neighbours", "neighbours"), ("published as it is", "published_exactly")):
        if statement.get(key):
            facts.append((name, statement[key]))
    return [*facts, made_with(statement)]


def _cut(part: Mapping[str, Any]) -> str:
    """How many units lost something: a noisy number, of which nobody can be fewer than none."""
    number, error = part["estimate"], part["standard_error"]
    if number < 0:
        return f"No {part['what']}, as far as noise shows (standard error {digits(error, error)})."
    return f"About {digits(number, error)} {part['what']} (standard error {digits(error, error)})."


def left_out(statement: Mapping[str, Any]) -> list[str]:
    """What was left out or truncated, in sentences."""
    said = [_cut(part) for part in statement.get("cut", {}).values()]
    bounds = statement.get("bounds") or statement["request"].get("bounds")
    if bounds:
        clipped = "; ".join(_bounds(bounds))
        how_many = (
            "" if "limited" in statement.get("cut", {}) else " How many were is not published."
        )
        said.append(f"Numbers were clipped to {clipped}.{how_many}")
    if rejects := statement.get("rejects"):
        reasons = ", ".join(f"{name}: {amount:,}" for name, amount in rejects.items())
        said.append(f"Rows that could not be used were left out: {reasons}.")
    if "rows_read" in statement:
        said.append(f"Rows that were read: {statement['rows_read']:,}.")
    if "unusable" in statement:
        said.append(f"Values that cannot be used are {_unusable(statement['unusable'])}.")
    return said or ["Nothing was left out or truncated that is known of."]


def _bounds(bounds: Any) -> list[str]:
    if isinstance(bounds, Mapping):
        return [f"{bounds['low']:,.6g} to {bounds['high']:,.6g} ({bounds['how']})"]
    if all(isinstance(part, Mapping) for part in bounds):
        return [
            f"{' … '.join(dict.fromkeys((part['from'], part['to'])))}: {_bounds(part)[0]}"
            for part in bounds
        ]
    return [f"{bounds[0]:,.6g} to {bounds[1]:,.6g}" if len(bounds) == 2 else str(bounds)]


def _unusable(unusable: Mapping[str, Any]) -> str:
    """What became of values that cannot be used, and how many there may be."""
    treated = str(unusable["treated"])
    if "share" not in unusable:
        return treated
    error = unusable.get("standard_error")
    beside = "" if error is None else f" (standard error {100 * error:.2g} %)"
    return f"{treated}: {100 * unusable['share']:.4g} %{beside}"


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


def value_label(value: Any) -> str:
    """A value that figures are of: one that no reader would see is said.

    >>> value_label("Oslo"), value_label(""), value_label("  ")
    ('Oslo', '(empty)', '(2 blanks)')
    """
    text = cell(value)
    if text.strip():
        return text
    return f"({len(text)} blank{'s' * (len(text) > 1)})" if text else "(empty)"


def shortened(label: str, width: int) -> str:
    """A label that fits.

    >>> shortened("a long label", 7)
    'a long…'
    """
    return label if len(label) <= width else label[: width - 1] + "…"
