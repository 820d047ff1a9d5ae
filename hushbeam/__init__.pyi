"""Written by deploy/stubs.py: the functions of the kinds that come with hushbeam."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import mechanisms as mechanisms
from hushbeam.commands import compare as compare, site as site, size as size
from hushbeam.ledgers import Ledger as Ledger
from hushbeam.plans import Plan as Plan
from hushbeam.queries import sql as sql
from hushbeam.releases import Release as Release
from hushbeam.sessions import Session as Session
from hushbeam.totals import RunningTotals as RunningTotals
from pipelines.errors import FailedError as FailedError, RequestError as RequestError
from pipelines.errors import WithheldError as WithheldError

class _Frame(Protocol):
    @property
    def columns(self) -> Any: ...

_Path: TypeAlias = str | os.PathLike[str]
_Log: TypeAlias = _Path | Sequence[_Path] | _Frame
_Values: TypeAlias = _Path | range | Iterable[str | int | bool]
_ValuesOf: TypeAlias = Mapping[str, _Values] | Sequence[str] | str
_Bounds: TypeAlias = str | tuple[float, float]
_Texts: TypeAlias = str | Sequence[str]
_Named: TypeAlias = Mapping[str, str | tuple[float, float]] | Sequence[str] | str

__all__: list[str]

def histogram(
    input: _Log, *, column: str, domain: _Values, types: _Named = (), delimiter: str | None =
    None, header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts =
    (), user_column: str | None = None, epsilon: float | None = None, delta: float | None =
    None, large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95,
    shuffler: Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove',
    'replace'] = 'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, model: Literal['local', 'shuffle'] | None = None, epsilon_local: float | None = None,
    honest_share: float | None = None, min_reports: int | None = None, unusable: str = 'hide',
    out_of_domain: Literal['drop', 'other'] = 'drop', mechanism: str = 'auto', max_messages:
    float = 1.0, bound: Literal['exact', 'published'] = 'exact', postprocess: Literal['auto',
    'pop', 'shrinkage', 'empirical-bayes', 'none'] | None = None, ledger: _Path | None = None,
    population: str | None = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """How often each value of a declared domain occurs."""

def strings(
    input: _Log, *, column: str, types: _Named = (), delimiter: str | None = None, header:
    _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, model: Literal['local', 'shuffle'] = 'shuffle', epsilon_local: float | None = None,
    honest_share: float | None = None, min_reports: int | None = None, unusable: str = 'hide',
    search: Literal['threshold', 'weighted', 'levels'] = 'threshold', max_length: int | None =
    None, alphabet: _Texts | None = None, selection_share: float = 0.5, system: Literal['pem',
    'treehist'] = 'pem', oracle: str = 'auto', top: int | None = None, false_strings: float =
    0.01, ledger: _Path | None = None, population: str | None = None, beam: Sequence[str] = (),
    debug: bool = False,
) -> Release:
    """The frequent strings, of which none was declared."""

def mean(
    input: _Log, *, column: str, types: _Named = (), delimiter: str | None = None, header:
    _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, group: _ValuesOf = (), undeclared: Literal['other', 'drop'] = 'other', by_row: bool =
    False, sessions: str | None = None, selection_share: float = 0.5, model: Literal['local',
    'shuffle'] = 'shuffle', epsilon_local: float | None = None, honest_share: float | None =
    None, min_reports: int | None = None, unusable: str = 'hide', bounds: _Bounds | None = None,
    choose_bounds: bool = False, group_by: str | None = None, groups: _Values | None = None,
    groups_public: bool = False, mechanism: str = 'auto', cells: int | None = None, interval:
    Literal['plug-in', 'worst'] = 'plug-in', ledger: _Path | None = None, population: str | None
    = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """The average of a column of numbers, or of each group of rows."""

def variance(
    input: _Log, *, column: str, bounds: _Bounds, types: _Named = (), delimiter: str | None =
    None, header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts =
    (), user_column: str | None = None, epsilon: float | None = None, delta: float | None =
    None, large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95,
    shuffler: Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove',
    'replace'] = 'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, group: _ValuesOf = (), undeclared: Literal['other', 'drop'] = 'other', by_row: bool =
    False, sessions: str | None = None, honest_share: float | None = None, max_messages: float |
    None = None, group_by: str | None = None, groups: _Values | None = None, ledger: _Path |
    None = None, population: str | None = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """The variance and standard deviation of a column, or of each group."""

def ratio(
    input: _Log, *, column: str, bounds: _Bounds, types: _Named = (), delimiter: str | None =
    None, header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts =
    (), user_column: str | None = None, epsilon: float | None = None, delta: float | None =
    None, large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95,
    shuffler: Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove',
    'replace'] = 'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, group: _ValuesOf = (), undeclared: Literal['other', 'drop'] = 'other', by_row: bool =
    False, sessions: str | None = None, honest_share: float | None = None, max_messages: float |
    None = None, group_by: str | None = None, groups: _Values | None = None, over: str | None =
    None, over_bounds: str | None = None, ledger: _Path | None = None, population: str | None =
    None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """The sum of one column over that of another, or over how many rows."""

def distribution(
    input: _Log, *, column: str, types: _Named = (), delimiter: str | None = None, header:
    _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, group: _ValuesOf = (), undeclared: Literal['other', 'drop'] = 'other', by_row: bool =
    False, sessions: str | None = None, selection_share: float = 0.5, model: Literal['local',
    'shuffle'] = 'shuffle', epsilon_local: float | None = None, honest_share: float | None =
    None, min_reports: int | None = None, unusable: str = 'hide', bounds: _Bounds | None = None,
    choose_bounds: bool = False, group_by: str | None = None, groups: _Values | None = None,
    mechanism: str = 'auto', bins: int | None = None, quantiles: str | None = None, quantile:
    float | None = None, smooth: bool = False, ledger: _Path | None = None, population: str |
    None = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """The histogram and the quantiles of a column of numbers."""

def vector_mean(
    input: _Log, *, types: _Named = (), delimiter: str | None = None, header: _Texts = (),
    encoding: str | None = None, derive: _Named = (), where: _Texts = (), user_column: str |
    None = None, epsilon: float | None = None, delta: float | None = None, large_delta: bool =
    False, output: _Path | None = None, confidence: float = 0.95, shuffler: Literal['grouped',
    'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] = 'add or remove',
    rows_per_user: int = 1, expected: int | None = None, drawn_by: Literal['job', 'each-report',
    'shuffler', 'devices'] | None = None, enrolled: int | None = None, model: Literal['local',
    'shuffle'] = 'shuffle', epsilon_local: float | None = None, honest_share: float | None =
    None, min_reports: int | None = None, unusable: str = 'hide', number: _Named = (), vector:
    _Named = (), category: _ValuesOf = (), radius: float | None = None, mechanism: str = 'auto',
    digits: int | None = None, count_each: bool = False, reports: bool = False, shrink:
    Literal['none', 'zero', 'grand-mean', 'prior'] = 'grand-mean', prior: _Values | None = None,
    ledger: _Path | None = None, population: str | None = None, beam: Sequence[str] = (), debug:
    bool = False,
) -> Release:
    """The average of many numbers at once: of columns, or of a column of lists."""

def count(
    input: _Log, *, types: _Named = (), delimiter: str | None = None, header: _Texts = (),
    encoding: str | None = None, derive: _Named = (), where: _Texts = (), user_column: str |
    None = None, epsilon: float | None = None, delta: float | None = None, large_delta: bool =
    False, output: _Path | None = None, confidence: float = 0.95, shuffler: Literal['grouped',
    'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] = 'add or remove',
    rows_per_user: int = 1, expected: int | None = None, drawn_by: Literal['job', 'each-report',
    'shuffler', 'devices'] | None = None, enrolled: int | None = None, group: _ValuesOf = (),
    undeclared: Literal['other', 'drop'] = 'other', by_row: bool = False, sessions: str | None =
    None, selection_share: float = 0.5, honest_share: float | None = None, max_messages: float |
    None = None, column: str | None = None, domain: _Values | None = None, group_by: str | None
    = None, groups: _Values | None = None, by: str | None = None, by_domain: _Values | None =
    None, per_value: int = 1, ledger: _Path | None = None, population: str | None = None, beam:
    Sequence[str] = (), debug: bool = False,
) -> Release:
    """How many users or events there are, of each declared value if asked."""

def sum(
    input: _Log, *, column: str, bounds: _Bounds, types: _Named = (), delimiter: str | None =
    None, header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts =
    (), user_column: str | None = None, epsilon: float | None = None, delta: float | None =
    None, large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95,
    shuffler: Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove',
    'replace'] = 'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, group: _ValuesOf = (), undeclared: Literal['other', 'drop'] = 'other', by_row: bool =
    False, sessions: str | None = None, selection_share: float = 0.5, honest_share: float | None
    = None, max_messages: float | None = None, whole_numbers: bool = False, group_by: str | None
    = None, groups: _Values | None = None, mechanism: Literal['counters', 'split-mix'] =
    'counters', ledger: _Path | None = None, population: str | None = None, beam: Sequence[str]
    = (), debug: bool = False,
) -> Release:
    """The total of a column of numbers, or of each group of rows."""

def active_users(
    input: _Log, *, time: str, day: str, types: _Named = (), delimiter: str | None = None,
    header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, honest_share: float | None = None, max_messages: float | None = None, period:
    Literal['day', 'week'] = 'day', before: int | None = None, retention: int | None = None,
    only_day: bool = False, releases: int = 1, begins: str | None = None, ledger: _Path | None =
    None, population: str | None = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """Users active in 1, 7 and 28 days; who is new, came back, or stays."""

def funnel(
    input: _Log, *, steps: _Named, time: str, types: _Named = (), delimiter: str | None = None,
    header: _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, honest_share: float | None = None, max_messages: float | None = None, within: str |
    None = None, times: str | None = None, group_by: str | None = None, groups: _Values | None =
    None, ledger: _Path | None = None, population: str | None = None, beam: Sequence[str] = (),
    debug: bool = False,
) -> Release:
    """How many users reach each of several steps, and which share goes on."""

def cross_tab(
    input: _Log, *, columns: _Texts, types: _Named = (), delimiter: str | None = None, header:
    _Texts = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (),
    user_column: str | None = None, epsilon: float | None = None, delta: float | None = None,
    large_delta: bool = False, output: _Path | None = None, confidence: float = 0.95, shuffler:
    Literal['grouped', 'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] =
    'add or remove', rows_per_user: int = 1, expected: int | None = None, drawn_by:
    Literal['job', 'each-report', 'shuffler', 'devices'] | None = None, enrolled: int | None =
    None, model: Literal['local', 'shuffle'] = 'shuffle', epsilon_local: float | None = None,
    honest_share: float | None = None, min_reports: int | None = None, unusable: str = 'hide',
    domains: _ValuesOf = (), hierarchies: _ValuesOf = (), tables: _Texts = (), max_messages:
    float | None = None, ledger: _Path | None = None, population: str | None = None, beam:
    Sequence[str] = (), debug: bool = False,
) -> Release:
    """How many there are of each value of several columns, and of each pair."""

def experiment(
    input: _Log, *, arms: str, types: _Named = (), delimiter: str | None = None, header: _Texts
    = (), encoding: str | None = None, derive: _Named = (), where: _Texts = (), user_column: str
    | None = None, epsilon: float | None = None, delta: float | None = None, large_delta: bool =
    False, output: _Path | None = None, confidence: float = 0.95, shuffler: Literal['grouped',
    'fused'] = 'grouped', neighbours: Literal['add or remove', 'replace'] = 'add or remove',
    rows_per_user: int = 1, expected: int | None = None, drawn_by: Literal['job', 'each-report',
    'shuffler', 'devices'] | None = None, enrolled: int | None = None, honest_share: float |
    None = None, max_messages: float | None = None, arm: str | None = None, salt: str | None =
    None, shares: str | None = None, rate: _Texts = (), mean: _Texts = (), total: _Texts = (),
    quantile: _Texts = (), covariate: str | None = None, before: str | None = None, looks: int =
    1, look: int = 1, always_valid: bool = False, ledger: _Path | None = None, population: str |
    None = None, beam: Sequence[str] = (), debug: bool = False,
) -> Release:
    """Whether a treatment changes rates, means or quantiles, beyond chance and noise."""
