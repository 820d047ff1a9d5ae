"""What a case has made against what it is expected to make, one readable line a difference."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden.cases import Case

FOLDER = Path(__file__).parent / "expected"

_CLOSE = 1e-9  # relative, where the last bits depend on the processor
_MISSING = "nothing"
_LINE = 240  # characters: a row of most tables fits, a statement does not


def written(made: dict[str, Any]) -> str:
    """A record as a file: a line for each row of a table, so that a diff is short."""
    return _layout(made, "") + "\n"


def rewrite(name: str, made: dict[str, Any]) -> None:
    """Make this what is expected."""
    FOLDER.mkdir(exist_ok=True)
    _path(name).write_text(written(made), encoding="utf-8")


def differences(case: Case, made: dict[str, Any]) -> list[str]:
    """Where a record differs from what is expected.

    Args:
        case: that was run; says whether floats must be equal to the last bit.
        made: its record.

    Returns:
        Lines such as `statements > out/statement.json > n: expected 2375, made 2374`.
    """
    if not _path(case.name).exists():
        return [f"nothing is expected of it yet: python -m tests.golden rewrite {case.name}"]
    expected = json.loads(_path(case.name).read_text(encoding="utf-8"))
    return list(_compared(expected, json.loads(written(made)), "", case.exact))


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def _compared(expected: Any, made: Any, where: str, exact: bool) -> Iterator[str]:
    """The differences between two JSON values."""
    parts = _parts(expected), _parts(made)
    if parts[0] is None or parts[1] is None or type(expected) is not type(made):
        if not _equal(expected, made, exact):
            yield f"{where}: expected {json.dumps(expected)}, made {json.dumps(made)}"
        return
    for name in parts[0] | parts[1]:
        pair = (part.get(name, _MISSING) for part in parts)
        yield from _compared(*pair, f"{where} > {name}" if where else name, exact)


def _parts(value: Any) -> dict[str, Any] | None:
    """What a JSON value is made of, by name or number; None if it has no parts."""
    if isinstance(value, list):
        return {str(place): part for place, part in enumerate(value)}
    return value if isinstance(value, dict) else None


def _equal(expected: Any, made: Any, exact: bool) -> bool:
    numbers = type(expected) is float and type(made) is float
    if numbers and not exact:
        return math.isclose(expected, made, rel_tol=_CLOSE, abs_tol=_CLOSE)
    # As texts: 1 is not 1.0, -0.0 is not 0.0, and NaN is NaN.
    return json.dumps(expected) == json.dumps(made)


def _layout(value: Any, margin: str) -> str:
    """JSON that keeps short parts, such as the rows of a table, on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or (margin and len(margin + line) <= _LINE):
        return line
    inner = margin + " "
    if isinstance(value, list):
        lines = [inner + _layout(part, inner) for part in value]
        return "[\n" + ",\n".join(lines) + f"\n{margin}]"
    lines = [f"{inner}{json.dumps(name)}: {_layout(part, inner)}" for name, part in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
