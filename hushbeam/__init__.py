"""Telemetry you can publish: hushbeam's front door in Python; see docs/python.md.

Each kind of metric is a function of its name, whichever distribution brings it; `Plan`, `Ledger`,
`Release`, `RunningTotals` and `Session` are for what stands in files; `size`, `compare` and `site`
are the commands. Everything is imported when it is asked for: Beam takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hushbeam.own import require_own

require_own()

_LISTED = {
    "Plan": "hushbeam.plans",
    "Ledger": "hushbeam.ledgers",
    "Release": "hushbeam.releases",
    "RunningTotals": "hushbeam.totals",
    "Session": "hushbeam.sessions",
    "size": "hushbeam.commands",
    "compare": "hushbeam.commands",
    "site": "hushbeam.commands",
    "sql": "hushbeam.queries",
    "RequestError": "pipelines.errors",
}
_ERRORS = {"WithheldError": "pipelines.errors", "FailedError": "pipelines.errors"}


def __getattr__(name: str) -> Any:
    """A name that was not asked for before."""
    if name == "mechanisms":
        value: Any = import_module(name)
    elif name in _LISTED or name in _ERRORS:
        value = getattr(import_module((_LISTED | _ERRORS)[name]), name)
    elif name == "__all__":  # anew each time: a distribution may have been installed meanwhile
        return [*import_module("hushbeam.kinds").functions(), *_LISTED, "mechanisms"]
    elif name.startswith("__"):
        raise AttributeError(f"module 'hushbeam' has no attribute {name!r}")
    else:
        value = import_module("hushbeam.kinds").function(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
