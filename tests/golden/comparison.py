"""What a case has made against what it is expected to make, one readable line a difference."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "expected"

_MISSING = "nothing"
_LINE = 240  # characters: a row of most tables fits, a statement does not
_CLOSE = 1e-6  # relative: a search for parameters stops within some 1e-8 of where it should
_ROUNDED = 1e-3  # relative, of a number in a text
_NUMBER = re.compile(r"0x[0-9a-f.]+p[-+]\d+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_DIGEST = re.compile(r"[0-9a-f]{16,}")

Equality = Callable[[Any, Any], bool]


def layout(made: Any, margin: str = "") -> str:
    """A record as a file: JSON whose short parts, such as the rows of a table, are a line each."""
    line = json.dumps(made, ensure_ascii=False)
    if not isinstance(made, dict | list) or (margin and len(margin + line) <= _LINE):
        return line
    inner = margin + " "
    if isinstance(made, list):
        lines = [inner + layout(part, inner) for part in made]
        return "[\n" + ",\n".join(lines) + f"\n{margin}]"
    lines = [f"{inner}{json.dumps(name)}: {layout(part, inner)}" for name, part in made.items()]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def rewrite(name: str, made: dict[str, Any]) -> None:
    """Make this what is expected."""
    FOLDER.mkdir(exist_ok=True)
    _path(name).write_text(layout(made) + "\n", encoding="utf-8")


def differences(name: str, made: dict[str, Any]) -> list[str]:
    """Where a record differs from what is expected.

    To the last bit where the golden was made by the same arithmetic; elsewhere floats may differ
    by `_CLOSE`, and digests of them altogether (see `arithmetic`).

    Args:
        name: of the case.
        made: its record.

    Returns:
        Lines such as `statements > out/statement.json > n: expected 2375, made 2374`.
    """
    if not _path(name).exists():
        return [f"nothing is expected of it yet: python -m tests.golden rewrite {name}"]
    expected = json.loads(_path(name).read_text(encoding="utf-8"))
    made = json.loads(layout(made))
    same = expected.pop("arithmetic") == made.pop("arithmetic")
    return list(_differences(expected, made, "", _identical if same else _close))


def compared(expected: Any, made: Any) -> list[str]:
    """Where two records differ by more than the last bits of floats.

    Args:
        expected: of JSON.
        made: of plain values.
    """
    return list(_differences(expected, json.loads(layout(made)), "", _close))


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def _differences(expected: Any, made: Any, where: str, equal: Equality) -> Iterator[str]:
    """The differences between two JSON values."""
    parts = _parts(expected), _parts(made)
    if parts[0] is None or parts[1] is None or type(expected) is not type(made):
        if not equal(expected, made):
            yield f"{where}: expected {json.dumps(expected)}, made {json.dumps(made)}"
        return
    for name in parts[0] | parts[1]:
        pair = (part.get(name, _MISSING) for part in parts)
        yield from _differences(*pair, f"{where} > {name}" if where else name, equal)


def _parts(value: Any) -> dict[str, Any] | None:
    """What a JSON value is made of, by name or number; None if it has no parts."""
    if isinstance(value, list):
        return {str(place): part for place, part in enumerate(value)}
    return value if isinstance(value, dict) else None


def _identical(expected: Any, made: Any) -> bool:
    # As texts: 1 is not 1.0, -0.0 is not 0.0, and NaN is NaN.
    return json.dumps(expected) == json.dumps(made)


def _close(expected: Any, made: Any) -> bool:
    """Equality but for the last bits of floats, and what is made of them."""
    if type(expected) is float and type(made) is float:
        return math.isclose(expected, made, rel_tol=_CLOSE, abs_tol=_CLOSE**2)
    if isinstance(expected, str) and isinstance(made, str):
        return _close_texts(expected, made)
    return _identical(expected, made)


def _close_texts(expected: str, made: str) -> bool:
    """Equality but for the numbers in two texts, which may be rounded otherwise."""
    if _DIGEST.fullmatch(expected) and _DIGEST.fullmatch(made):
        return len(expected) == len(made)
    numbers = [[_float(number) for number in _NUMBER.findall(text)] for text in (expected, made)]
    return _NUMBER.sub("#", expected) == _NUMBER.sub("#", made) and all(
        math.isclose(*pair, rel_tol=_ROUNDED) for pair in zip(*numbers, strict=True)
    )


def _float(text: str) -> float:
    return float.fromhex(text) if text.startswith("0x") else float(text)
