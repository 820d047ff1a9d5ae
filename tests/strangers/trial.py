"""One file by the commands that a stranger would try, held to another reader's figures."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import yaml

from tests.contract.laws import reach
from tests.strangers.readers import TEXTS, Truth, day, kind, truth, typed

LONGEST = 120  # seconds of a command, from which on it hangs
_VALUES = 5  # of a column, whose counts are asked for
# Noise of a count is 0 but once in 10^13 there, so that a count is right to the last row. A sum's
# is the noise of its digits, which take longest to draw where epsilon is large.
_COUNTS, _NUMBERS = "30", "8"

VERDICTS = ("right", "refused", "rc 3", "wrong", "traceback", "hangs", "unverified")


class Outcome(NamedTuple):
    """What came of one command.

    Attributes:
        file: which.
        command: in words.
        verdict: one of `VERDICTS`.
        said: its last line, or what differs.
        readable: whether the other reader reads what is asked about.
    """

    file: str
    command: str
    verdict: str
    said: str
    readable: bool


def outcomes(path: Path, name: str, most: int) -> Iterator[Outcome]:
    """Every command over one file.

    Args:
        path: of the file.
        name: for people.
        most: columns of each kind that are tried.
    """
    found = truth(path)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        plan = at / "plan.yaml"
        yield _judged(
            name, "init", _run("init", str(path), "--output", str(plan)), found is not None
        )
        types: dict[str, str] = {}
        if plan.exists():
            types = yaml.safe_load(plan.read_text()).get("types") or {}
            yield _judged(name, "check", _run("check", str(plan)), found is not None)
        yield from _count_all(path, name, found, at)
        if found is None:
            return
        tried: Counter[str] = Counter()
        for column, values in found.columns.items():
            held = values if path.suffix not in TEXTS else typed(values, types.get(column, ""))
            what = kind(held)
            tried[what] += 1
            if tried[what] <= most and column.strip():
                said = [f"{column}={types[column]}"] if column in types else []
                yield from _column(path, name, at / str(len(tried)), column, held, said)
        for column in found.lacking[:most]:
            yield from _column(path, name, at / "lacking", column, [object()], [])


def _count_all(path: Path, name: str, found: Truth | None, at: Path) -> Iterator[Outcome]:
    out = at / "all"
    ran = _run("count", "--input", str(path), "--epsilon", _COUNTS, "--output", str(out))
    if ran.code:
        yield _judged(name, "count", ran, found is not None)
    elif found is None:
        yield Outcome(name, "count", "unverified", "released, and no other reader reads it", False)
    else:
        yield _held(name, "count", out / "count.parquet", {None: found.rows}, True)


def _column(
    path: Path, name: str, at: Path, column: str, values: list[Any], types: list[str]
) -> Iterator[Outcome]:
    """Counts by a column; and of numbers sum and mean."""
    what, said = kind(values), ["--types", *types] if types else []
    base = ["--input", str(path), *said]
    texts = [_word(value) for value in values]
    counted = [text for text in texts if text is not None and "\n" not in text and text.strip()]
    common = [text for text, _ in Counter(counted).most_common(_VALUES)] or ["x"]
    domain = Path(f"{at}-domain.txt")
    domain.write_text("\n".join(common) + "\n", encoding="utf-8")
    asked, derived = column, []
    if what == "moments":
        asked, derived = "day of it", ["--derive", f"day of it=day(`{column}`)"]
    wanted: dict[str | None, float] = {text: texts.count(text) for text in common}
    wanted[None] = len(texts) - sum(wanted.values())  # other values, and rows without one
    yield from _figures(
        name, f"count by {column!r}", ["count", *base, "--epsilon", _COUNTS, *derived,
        f"--column={asked}", "--domain", str(domain)], at, wanted,
        what in ("text", "integers", "truths", "moments"),
    )  # fmt: skip
    if what not in ("integers", "numbers"):
        return
    numbers = [float(v) for v in values if v is not None and math.isfinite(v)]
    low, high = math.floor(min(numbers, default=0)) - 1, math.ceil(max(numbers, default=0)) + 1
    # An infinity is a number beyond the bounds, and clipped.
    numbers += [float(high if v > 0 else low) for v in values if v is not None and not _finite(v)]
    words = [*base, "--epsilon", _NUMBERS, f"--column={column}", f"--bounds={low},{high}"]
    yield from _figures(
        name, f"sum of {column!r}", ["sum", *words, "--expected", str(max(10, len(values)))], at,
        {None: sum(numbers)}, True,
    )  # fmt: skip
    if numbers:
        yield from _figures(
            name, f"mean of {column!r}", ["mean", *words, "--drawn-by", "shuffler"], at,
            {None: sum(numbers) / len(numbers)}, True,
        )  # fmt: skip


def _finite(value: Any) -> bool:
    """Whether a number is one; NaN, which is none, passes for it."""
    return math.isfinite(value) or math.isnan(value)


def _figures(
    name: str, command: str, words: list[str], at: Path, wanted: dict[str | None, float],
    readable: bool,
) -> Iterator[Outcome]:  # fmt: skip
    out = Path(f"{at}-{words[0]}-{time.monotonic_ns()}")
    ran = _run(*words, "--output", str(out))
    if ran.code:
        yield _judged(name, command, ran, readable)
        return
    asked = next((w.partition("=")[2] for w in words if w.startswith("--column=")), "")
    counted = asked if words[0] == "count" else ""
    yield _held(name, command, out / f"{words[0]}.parquet", wanted, readable, counted)


def _held(
    name: str,
    command: str,
    table: Path,
    wanted: dict[str | None, float],
    readable: bool,
    column: str = "",
) -> Outcome:
    """Published figures against those of the other reader."""
    rows = pq.read_table(table).to_pylist()
    figures = [row for row in rows if row["figure"] not in ("clipped", "unusable")]
    found = {_label(row, column): row for row in figures}
    for value, true in wanted.items():
        row = found.get(value)
        if row is None or row["estimate"] is None:
            return Outcome(name, command, "unverified", f"no figure of {value!r}", readable)
        far = abs(row["estimate"] - true)
        most = reach(row["standard_error"], 1e-6 if table.stem == "mean" else 1.0)
        # Doubles of that size, added up, are not finer.
        if not far <= most + 1e-9 * abs(true):
            said = f"{value!r}: {row['estimate']:.6g} ± {row['standard_error']:.2g}, not {true:.6g}"
            return Outcome(name, command, "wrong", said, readable)
    return Outcome(name, command, "right", "", readable)


def _label(row: dict[str, Any], column: str) -> str | None:
    """The value that a count is about, wherever the table has it."""
    return _word(row["value"] if row["value"] is not None else row.get(column))


class _Ran(NamedTuple):
    code: int | None  # None: it hangs
    said: str


def _run(*words: str) -> _Ran:
    """A command in this process."""
    from pipelines.cli import cli

    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([*words])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except _HangsError:
        return _Ran(None, f"longer than {LONGEST} s")
    except Exception as error:
        return _Ran(-1, f"Traceback: {type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
    return _Ran(code, err.getvalue())


class _HangsError(BaseException):
    """A command takes too long."""


def _too_long(*_: object) -> None:
    raise _HangsError


def _judged(name: str, command: str, ran: _Ran, readable: bool) -> Outcome:
    """A command that published nothing."""
    lines = [
        line for line in ran.said.splitlines() if not re.match("hushbeam: (warning|note)", line)
    ]
    last = lines[-1] if lines else ""
    if ran.code is None:
        verdict = "hangs"
    elif "Traceback" in ran.said or ran.code < 0:
        verdict = "traceback"
    elif ran.code == 0:
        verdict = "right"
    elif ran.code == 2 and len(lines) == 1 and last.startswith("hushbeam: "):
        verdict = "refused"
    else:
        verdict = "rc 3" if ran.code == 3 else "wrong"
        last = f"exit {ran.code}: {' | '.join(lines)}"
    return Outcome(name, command, verdict, last, readable)


def _word(value: Any) -> str | None:
    """A value as a domain's line has it."""
    if value is None or (type(value) is float and math.isnan(value)):
        return None
    if type(value) is bool:
        return str(value).lower()
    if hasattr(value, "year"):
        return day(value)
    text = str(value)
    return text if text == text.strip("\r") else None


def main(folder: str, most: str, *names: str) -> None:
    """A line of JSON for each outcome, and null behind each file."""
    # No secret in the home of who runs this.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="strangers-")
    for name in names:
        for outcome in outcomes(Path(folder, name), name, int(most)):
            print(json.dumps(outcome), flush=True)
        print("null", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
