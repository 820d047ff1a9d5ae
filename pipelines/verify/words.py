"""What a statement promises in words, written again from its numbers by what wrote it first.

Whatever else it says is listed as not checked: no list of bad sentences is ever whole.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mechanisms.channel import Guarantee
from pipelines.metrics.first_round import chosen_words
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.verify.stated import bounds_compared
from pipelines.verify.tables import least_noise
from pipelines.verify.verdict import Check, fault, holds, shown, unchecked
from pipelines.wording import CHANGES, counted_or_not, distinct_promises, meaning, shared

_SUBJECT = "statement"
_STRANGE = (ValueError, TypeError, KeyError, AttributeError, IndexError)
# Numbers of a promise, whichever line says them: of epsilon, of delta, or a factor.
_NUMBER = re.compile(
    r"\b(epsilon|delta|factor of at most)[^\w)]+(?:(?:of|is)\W+)?"
    r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)"
)
_ROUNDED = 1e-3
# What is compared with the design, the tables, the folders or the log, or listed by itself.
_COMPARED = frozenset({
    "statement_version", "release", "release_id", "metric", "metrics", "withheld", "in_words",
    "guarantees", "design", "figures", "ledger",
})  # fmt: skip
_PROMISES = ("release", "local")
_WHOLE = "(the release)"
# Options that hold bounds of numbers.
_BOUNDS = (
    "bounds", "over_bounds", "number", "vector", "mean", "total", "quantile", "target",
)  # fmt: skip
_INTERVALS = "intervals: how wide they are, beside their errors"
_ERRORS = "errors and intervals: how wide they are, beside the noise"
_DECLARED = ("min_reports", "expected", "enrolled")

Statement = Mapping[str, Any]


def of_release(whole: Statement, metrics: Mapping[str, Statement]) -> Iterator[Check]:
    """Whether all statements of a release promise in words what they promise in numbers.

    Args:
        whole: the statement of all of it.
        metrics: those of its metrics, by name.
    """
    texts = dict[str, list[str]]()
    for name, said in metrics.items():
        check, others = _of(f"{name}: ", said, {})
        texts[name] = [*others, *_beside(said)]
        yield check
    if whole["release"] == "plan":
        check, others = _of("", whole, metrics)
        texts[_WHOLE] = [*others, *_beside(whole)]
        yield check
    if lines := shared(texts):
        said_so = f"lines, proofs and fields, which nothing shows to be true: {len(lines):,}"
        yield unchecked(_SUBJECT, said_so, map(shown, lines))


def _beside(said: Statement) -> Iterator[str]:
    """What a statement says beside its lines in words, and nobody compares with anything."""
    promised = said["guarantees"]
    proofs = {str(promised[name].get("how")) for name in _PROMISES if promised.get(name)}
    yield from (f"how it is known: {how}" for how in sorted(proofs))
    fields = {name: part for name, part in said.items() if name not in _COMPARED}
    fields |= {f"guarantees.{name}": None for name in promised if name not in _PROMISES}
    yield from (f"{name}: {part}" for name, part in fields.items() if isinstance(part, str))
    request = said.get("request", {})
    if any(request.get(name) for name in _BOUNDS) and not bounds_compared(said):
        yield "bounds of numbers: how far one row moves a figure within them"
    if said.get("figures"):
        yield _ERRORS if least_noise(said) is None else _INTERVALS
    rest = sorted(name for name, part in fields.items() if not isinstance(part, str))
    if rest:
        yield f"fields: {', '.join(rest)}"


def _of(
    name: str, said: Statement, metrics: Mapping[str, Statement]
) -> tuple[Check, Sequence[str]]:
    """Whether one statement promises that, and its lines that are no such promise."""
    lines = [*said.get("in_words", [])]
    try:
        guarantees = _guarantees(said)
        promises = [_meaning(one, said) for one in distinct_promises(guarantees)]
        known = {*promises, *_cautions(said, metrics), *_first_round(said, guarantees)}
        others = [line for line in lines if line not in known]
        claims = [*others, *(one.how for one in guarantees)]
        more = [line for line in claims if _claims_more(line, guarantees)]
    except _STRANGE:
        return fault(_SUBJECT, f"{name}its promise is none"), lines
    # Some of those that have no design as data say in their own words what changes, and who sees.
    numbers = promises[0].partition(CHANGES)[2].partition(", and holds")[0]
    missing = {*promises} - {*lines}
    if not missing and not more and not any(map(_promises, claims)):
        check = holds(_SUBJECT, f"{name}it promises in words what it promises in numbers")
    elif (
        said.get("design") is None and not any(map(_promises, more)) and numbers in "\n".join(lines)
    ):
        check = unchecked(_SUBJECT, f"{name}it promises in words of its own, beside its numbers")
    elif missing:
        check = fault(_SUBJECT, f"{name}it promises in words another thing than in numbers")
    else:
        check = fault(_SUBJECT, f"{name}it promises more in words than in numbers")
    return check, others


def _meaning(guarantee: Guarantee, said: Statement) -> str:
    design = said.get("design")
    if isinstance(design, dict) and design.get("is") == "dp-sgd":
        return counted_or_not(guarantee)
    return meaning(guarantee, _least(said))


def _promises(line: str) -> bool:
    """Whether a line begins as promises do, or has the words that only they have."""
    return CHANGES in line or line.startswith("Nothing is promised")


def _claims_more(line: str, guarantees: Sequence[Guarantee]) -> bool:
    """Whether a line has a smaller epsilon, factor or delta than is promised of the release."""
    epsilon = min(one.epsilon for one in guarantees)
    least = {
        "epsilon": epsilon,
        "factor of at most": math.exp(min(epsilon, 700.0)),  # beyond it no float is larger
        "delta": guarantees[0].delta,
    }
    plain = unicodedata.normalize("NFKC", line).casefold()
    return any(
        float(number) < least[what] * (1 - _ROUNDED) for what, number in _NUMBER.findall(plain)
    )


def _guarantees(said: Statement) -> list[Guarantee]:
    """Of the release, and of a single report, if it says so."""
    promised = said["guarantees"]
    records = [promised[name] for name in _PROMISES if name in promised]
    infinite = {"epsilon": math.inf}
    return [Guarantee(**one | (infinite if one["epsilon"] is None else {})) for one in records]


def _least(said: Statement) -> int:
    """The least batch that noise was computed for; of a plan that of any metric."""
    design = said.get("design")
    if design is None:
        return int(said.get("request", {}).get("min_reports") or 0)
    accounts = design if isinstance(design, list) else [{"metrics": {"": design}}]
    records = [one or {} for account in accounts for one in account["metrics"].values()]
    return min(int(one.get("n", 0)) for one in records)


def _first_round(said: Statement, guarantees: Sequence[Guarantee]) -> Iterator[str]:
    """What a first round has spent, written again, where its names promise nothing."""
    first = said.get("first_round")
    if first and not any(_claims_more(x, guarantees) for x in (first["release"], *first["bounds"])):
        epsilon = first["guarantee"]["epsilon"]
        yield chosen_words(first["release"], epsilon, first["bounds"])


def _cautions(said: Statement, metrics: Mapping[str, Statement]) -> Iterator[str]:
    """What large epsilons and deltas call for, of it and of its metrics."""
    guarantees = _guarantees(said)
    requests = [one.get("request", {}) for one in (said, *metrics.values())]
    declared = {None, *(one.get(name) for one in requests for name in _DECLARED)}
    yield from next_to_nothing(*guarantees)
    for number in declared:
        yield from cautioned(guarantees[0].delta, number)
    for name, one in metrics.items():
        yield from (f"{name}: {line}" for line in _cautions(one, {}))
