"""hushbeam/__init__.pyi: what an editor knows of the functions that are made of kinds' options.

.venv/bin/python deploy/stubs.py writes it anew.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo

from pipelines.metrics import registry
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import type_of, undashed

FILE = Path(__file__).parents[1] / "hushbeam" / "__init__.pyi"

_HEAD = '''\
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

'''
_BESIDE = ("ledger: _Path | None = None", "population: str | None = None",
           "beam: Sequence[str] = ()", "debug: bool = False")  # fmt: skip
_NAMED = {"number", "vector", "derive", "steps", "types"}
_BOUNDS = {"bounds"}


def text() -> str:
    """The file, as it should stand."""
    return _HEAD + "\n".join(_function(name, registry.options(name)) for name in registry.names())


def _function(name: str, options: type[ReleaseOptions]) -> str:
    fields = {key: field for key, field in options.model_fields.items() if key != "input"}
    asked = sorted(fields, key=lambda key: key == "output" or not fields[key].is_required())
    words = [_parameter(key, fields[key], key in options.files) for key in asked]
    inside = textwrap.fill(
        ", ".join(["input: _Log", "*", *words, *_BESIDE]), 96, break_long_words=False,
        break_on_hyphens=False, initial_indent="    ", subsequent_indent="    ",
    )  # fmt: skip
    brief = undashed(options.brief)
    return (
        f"def {name.replace('-', '_')}(\n{inside},\n) -> Release:\n"
        f'    """{brief[0].upper()}{brief[1:]}."""\n'
    )


def _parameter(name: str, field: FieldInfo, declares: bool) -> str:
    kind = "_Path | None" if name == "output" else _kind(name, field, declares)
    if name == "output":
        return f"{name}: {kind} = None"
    if field.is_required():
        return f"{name}: {kind}"
    usual = field.get_default(call_default_factory=True)
    return f"{name}: {kind}{' | None' * (usual is None)} = {usual!r}"


def _kind(name: str, field: FieldInfo, declares: bool) -> str:
    kind, parts = type_of(field)
    if kind is tuple:
        return "_ValuesOf" if declares else "_Named" if name in _NAMED else "_Texts"
    if declares:
        return "_Values"
    if name in _BOUNDS:
        return "_Bounds"
    if kind is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    known: Any = parts[0] if parts else kind  # of a type with limits
    return "float" if known is float else str(getattr(known, "__name__", known))


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
