"""Which figures of releases can be laid beside each other, and which cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.counters.noise import published_law
from mechanisms.nearest import meant
from mechanisms.sampling.integer_noise import IntegerNoise
from pipelines.compare.differences import Floats, Reach, columns, selected
from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.metrics.file_options import FileOptions
from pipelines.releases.history import Published
from pipelines.request.options import description, flag

Label = tuple[str | None, str | None]

NO_ERRORS = "it has no standard errors, or no intervals made from them"
ONE_ALONE = "one of the releases alone has it"
NO_FIGURES = "it has no table of figures"

_OF_ALL = {"unit": "the unit of protection", "rows_of_a_user": "what counts of a user's rows"}
"""What every request says of a figure, and what it is called."""


@dataclass(frozen=True)
class Figures:
    """Figures of one release, in the order of a pair's labels.

    Attributes:
        name: what tells them from those that they are compared with.
        known: column -> (labels,), as from `columns`.
        reach: how far off they may be.
        law: of the noise of each, which is its own, where the release says it.
    """

    name: str
    known: Mapping[str, Floats]
    reach: Reach
    law: IntegerNoise | None = None

    @property
    def missing(self) -> NDArray[np.bool_]:
        """(labels,) where nobody knows how far off an estimate is."""
        reach = np.fmax(self.reach.alone, self.reach.together)
        return ~np.isfinite(self.known["standard_error"] + reach)


@dataclass(frozen=True)
class Pair:
    """Two series of figures that mean the same.

    Attributes:
        metric: its name, in the first release.
        kind: of metric.
        figure: what the estimates are.
        labels: group and value of each figure.
        first: those of one side.
        second: those of the other.
        independent: whether the noise of one says nothing about that of the other.
    """

    metric: str
    kind: str
    figure: str
    labels: Sequence[Label]
    first: Figures
    second: Figures
    independent: bool = False

    @property
    def compared(self) -> int:
        """How many differences there are."""
        return int((~self.first.missing & ~self.second.missing).sum())


@dataclass(frozen=True)
class Pairing:
    """What can be compared, and what cannot.

    Attributes:
        pairs: with one difference or more each.
        left_out: (metric or table, why) of the rest.
    """

    pairs: Sequence[Pair]
    left_out: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Sequence[Pair], left_out: Sequence[tuple[str, str]] = ()) -> Pairing:
        """Keep pairs in which something can be compared.

        Raises:
            RequestError: there is none.
        """
        empty = [
            (f"{pair.metric}: {pair.figure}", NO_ERRORS) for pair in pairs if not pair.compared
        ]
        left = [*left_out, *empty]
        if len(empty) == len(pairs):
            why = "; ".join(f"{name}: {reason}" for name, reason in left)
            raise RequestError(f"there is nothing to compare{why and ': '}{why}")
        return cls([pair for pair in pairs if pair.compared], left)


def between(first: Sequence[Published], second: Sequence[Published]) -> Pairing:
    """The figures that two releases share.

    Args:
        first: all metrics of one.
        second: those of the other.

    Raises:
        RequestError: they are one release, or no metric is in both, or one means something else.
    """
    ids = {one.whole["release_id"] for one in (*first, *second)}
    if len(ids) < 2:
        raise RequestError(
            "both are the same release; name two, or one with --groups or --values of it"
        )
    one, other = ({_name(release): release for release in side} for side in (first, second))
    if len(first) == len(second) == 1:  # whatever each is called
        other = dict(zip(one, other.values(), strict=True))
    shared = [name for name in one if name in other]
    if not shared:
        raise RequestError(f"no metric is in both releases: {', '.join(one)}; {', '.join(other)}")
    left = [(name, ONE_ALONE) for name in (*one, *other) if name not in shared]
    pairs: list[Pair] = []
    for name in shared:
        require_alike(name, one[name], other[name])
        made = [*_pairs(name, one[name], other[name])]
        pairs += made
        left += [] if made else [(name, NO_FIGURES)]
    return Pairing.of(pairs, left)


def within(published: Sequence[Published], column: str, names: Sequence[str]) -> Pairing:
    """Two groups, or values, of one release, over all that they share.

    Args:
        published: all metrics of the release.
        column: `group` or `value`.
        names: of the two.

    Raises:
        RequestError: no table has both.
    """
    if names[0] == names[1]:
        raise RequestError(f"--{column}s: {names[0]!r} is there twice; name two {column}s")
    pairs, there = [], dict[str, None]()
    for one in published:
        for file, table in one.tables():
            known = {name for name in table[column].to_pylist() if name is not None}
            there |= dict.fromkeys(sorted(known))
            if known.issuperset(names):
                pairs.append(_two(one, file, table, column, names))
    if not pairs:
        strange = next((name for name in names if name not in there), None)
        raise RequestError(
            f"--{column}s: no table has both" if strange is None
            else f"--{column}s: there is no {column} {strange!r}{meant(strange, [*there])}"
        )  # fmt: skip
    return Pairing.of(pairs)


def _name(one: Published) -> str:
    return str(one.statement.get("metric") or one.statement["release"])


def _side(one: Published) -> str:
    """What tells a release from others: its window, or when it was made."""
    made = one.statement["created"][:16].replace("T", " ")
    return str((one.statement.get("window") or {}).get("name") or made)


def _pairs(name: str, one: Published, other: Published) -> Iterator[Pair]:
    """The tables of a metric in both releases."""
    tables = dict(other.tables())
    for file, table in one.tables():
        if file not in tables:
            continue
        figure = one.figures[file]
        if figure != (also := other.figures[file]):
            raise RequestError(f"{name}: {figure} and {also} cannot be compared")
        places = [_places(table), _places(tables[file])]
        labels = [label for label in places[0] if label in places[1]]
        odd = len(places[0].keys() ^ places[1].keys())
        if not labels or (odd and _declared(one.statement["release"])):
            raise RequestError(
                f"{name}: the releases are not about the same values: {odd:,} are in one alone"
            )
        first, second = (
            _figures(_side(release), release, part, [place[label] for label in labels])
            for release, part, place in ((one, table, places[0]), (other, tables[file], places[1]))
        )
        yield Pair(name, one.statement["release"], figure, labels, first, second, True)


def _two(one: Published, file: str, table: pa.Table, column: str, names: Sequence[str]) -> Pair:
    """Two groups, or values, of a table."""
    shared = {"group": "value", "value": "group"}[column]
    rows = [
        {other: place for place, (own, other) in enumerate(
            zip(table[column].to_pylist(), table[shared].to_pylist(), strict=True)
        ) if own == name}
        for name in names
    ]  # fmt: skip
    common = [other for other in rows[0] if other in rows[1]]
    first, second = (
        _figures(name, one, table, [place[other] for other in common])
        for name, place in zip(names, rows, strict=True)
    )
    labels: list[Label] = [(None, x) if shared == "value" else (x, None) for x in common]
    # Counters are independent, shares of one batch are not, and a table does not say which it has.
    return Pair(_name(one), one.statement["release"], one.figures[file], labels, first, second)


def _places(table: pa.Table) -> dict[Label, int]:
    """Label -> row."""
    labels = zip(table["group"].to_pylist(), table["value"].to_pylist(), strict=True)
    return {label: place for place, label in enumerate(labels)}


def _figures(name: str, one: Published, table: pa.Table, rows: Sequence[int]) -> Figures:
    known = selected(columns(table), np.array(rows, np.int64))
    confidence = float(one.statement.get("request", {}).get("confidence", 0.95))
    return Figures(name, known, Reach.of(known, confidence, len(table)), _law(one))


def _law(one: Published) -> IntegerNoise | None:
    """The law of the noise of each figure, if the release says it."""
    try:
        said = one.statement["error"]["law"]
        return published_law(said["farthest"], said["falls"])
    except (KeyError, TypeError, ValueError):  # it is not said, or is none
        return None


def _declared(kind: str) -> bool:
    """Whether all values of a kind's tables were declared, and none was found in the data."""
    try:
        return bool(registry.options(kind).files)
    except RequestError:  # of a distribution that is not installed here
        return False


def require_alike(name: str, one: Published, other: Published) -> None:
    """Refuse releases whose figures mean other things.

    Raises:
        RequestError: they do.
    """
    said = [one.statement, other.statement]
    kinds = [statement["release"] for statement in said]
    if kinds[0] != kinds[1]:
        raise RequestError(f"{name}: a {kinds[0]} and a {kinds[1]} cannot be compared")
    requests = [statement.get("request", {}) for statement in said]
    for option in (*_OF_ALL, *_of_figure(kinds[0])):
        if option not in FileOptions.model_fields and not all(
            option in request for request in requests
        ):
            continue  # it means nothing to one of them
        values = [request.get(option) for request in requests]
        if values[0] != values[1]:
            how = _OF_ALL.get(option) or flag(option)
            raise RequestError(
                f"{name}: {how} is {_said(values[0])} in one release and {_said(values[1])} in the "
                "other, so their figures mean other things"
            )
    secrets = {statement.get("secret_id") for statement in said}
    if len(secrets) == 1 and None not in secrets:
        raise RequestError(
            f"{name}: the noise of both goes on from one secret, so that nobody knows how far off "
            "a difference is; rolling windows (`last`) have errors of their own"
        )
    if one.statement.get("bounds") != other.statement.get("bounds"):
        raise RequestError(f"{name}: numbers were clipped to other bounds in each release")


def _of_figure(kind: str) -> list[str]:
    """The options of a kind that say what a figure is of."""
    try:
        fields = registry.options(kind).model_fields
    except RequestError:
        return []
    return [name for name, field in fields.items() if description(field).of_figure]


def _said(value: Any) -> str:
    return "not said" if value in (None, [], ()) else repr(value)
