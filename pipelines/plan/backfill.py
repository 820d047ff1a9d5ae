"""Many windows of a plan, one after the other: each is released as if it were run alone."""

from __future__ import annotations

import re
from datetime import date, timedelta

from pipelines.errors import (
    DONE,
    RUN_FAILED,
    WITHHELD,
    WRONG_REQUEST,
    FailedError,
    RequestError,
    WithheldError,
    because,
)
from pipelines.jobs.engine import ForBeam, prepared
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import open_job, output_of, window_of
from pipelines.plan.loading import load
from pipelines.plan.run import code_of, of_files, release_window
from pipelines.releases import release
from pipelines.request import answers
from pipelines.views.console import Screen, numbers_table

_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)")
_MOST = 3660  # ten years of days: more is a slip of the pen


def days(text: str) -> list[str]:
    """The days from one to another, both among them.

    Raises:
        RequestError: they are none.

    >>> days("2026-02-27..2026-03-01")
    ['2026-02-27', '2026-02-28', '2026-03-01']
    """
    form = "--windows: two days, the first not after the last, as in 2026-11-01..2026-11-14"
    match = _DAYS.fullmatch(text)
    try:
        first, last = (date.fromisoformat(day) for day in match.groups()) if match else (None, None)
    except ValueError:
        raise RequestError(form) from None
    if first is None or last is None or not first <= last:
        raise RequestError(form)
    count = (last - first).days + 1
    if not count <= _MOST:
        raise RequestError(f"--windows: {count:,} days are more than the {_MOST:,} of one run")
    return [str(first + timedelta(days=k)) for k in range(count)]


def backfill(path: str, windows: str, beam_arguments: list[str]) -> int:
    """Publish windows of a plan, except what was published before, and say of each what came of it.

    One that fails or is withheld does not keep the next from its turn.

    Args:
        path: of the plan.
        windows: as `days` reads it.
        beam_arguments: what is for Beam.

    Returns:
        The exit code: of the worst that came of a window.

    Raises:
        RequestError: the plan is wrong, or there is nothing in it that a window stands for.
    """
    names = days(windows)
    for_beam = prepared(beam_arguments)
    plan, screen = load(path), Screen()
    window_of(plan, names[0])
    table = numbers_table(("window", "exit code", "what came of it"), ())
    codes = [DONE]
    try:
        for name in names:
            with answers.apart() as facts:
                code, said = _released(plan, name, for_beam)
            answers.add("windows", {"window": name, "exit_code": code, "what": said, **facts})
            codes.append(code)
            table.add_row(name, str(code), said)
    finally:  # also what an interrupted run has done
        screen.print(table)
    return max(codes)


def _released(plan: PlanDocument, window: str, for_beam: ForBeam) -> tuple[int, str]:
    """The exit code of one window, and a line about it."""
    quiet = Screen(quiet=True)
    try:
        before = release.holds_release(output_of(plan, window))
        made = release_window(plan, window, open_job, of_files, for_beam, screen=quiet)
    except RequestError as error:
        return WRONG_REQUEST, str(error)
    except WithheldError as error:
        return WITHHELD, f"withheld: {error}"
    except FailedError as error:
        return RUN_FAILED, str(error)
    except Exception as error:  # its text may quote the data, so only its type is shown
        return RUN_FAILED, f"failed with {type(error).__name__}{because(error)}"
    code = code_of(made)
    said = "released before, and not made again" if before else "released"
    return code, said + ("; some metrics were withheld" if code == WITHHELD else "")
