"""`hushbeam watch` on the command line."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from pipelines.errors import ALARM, DONE, WRONG_REQUEST, Caution, RequestError
from pipelines.request import answers
from pipelines.request.commands import deferred

_DOC = """\
Which figures of past releases have shifted for good, and since when, by a CUSUM whose false alarms
come once a year and metric: those that their plan says to `watch`; or, where no plan says so, the
first figure of each metric. It costs no privacy.
"""

_EXAMPLE = """\
examples:
  hushbeam watch releases
  hushbeam watch 'releases/2026-*' --json

exit codes: 0 no alarm in the newest window; 2 the request or its input is wrong, or a figure that
a plan names is in no release; 4 an alarm.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("watch", description=_DOC, epilog=_EXAMPLE)
    parser.add_argument(
        "releases", nargs="+", metavar="RELEASES",
        help="folders of releases, folders that hold such, or globs of them; local or gs://",
    )  # fmt: skip
    parser.set_defaults(command=deferred(run))


def run(arguments: argparse.Namespace) -> int:
    """Look at what stands; 4 if a figure has shifted in its newest window."""
    from rich.text import Text

    from pipelines.compare.series import histories
    from pipelines.releases import history
    from pipelines.views.console import Screen, numbers_table
    from pipelines.watch.alarms import courses, problems

    metrics = histories(history.releases_in(arguments.releases))
    watched = [course for metric in metrics for course in courses(metric)]
    unwatched = [problem for metric in metrics for problem in problems(metric)]
    if not unwatched:
        watched = watched or [course for metric in metrics for course in courses(metric, True)]
    if not (watched or unwatched):
        raise RequestError("no metric has a figure with fresh noise in every window to watch")
    screen, table, code = Screen(), numbers_table(("figure", "newest window"), ("windows",)), DONE
    for course in watched:
        windows, learning = len(course.places), course.learning
        alarm = any(alarm.at == windows - 1 for alarm in course.alarms)
        state = f"learning: {learning} more to come" if learning else "no alarm"
        # Values may be strangers' texts; a plain string would be read as markup.
        table.add_row(Text(course.title), "alarm" if alarm else state, f"{windows:,}")
        facts = {"metric": course.history.metric, "figure": course.name}
        answers.add("watched", facts | {"windows": windows, "learning": learning})
        code = ALARM if alarm else code
    screen.print(table)
    alarms = [fact for course in watched for fact in course.facts]
    answers.tell(alarms=alarms)
    for fact in alarms:
        screen.say(f"alarm: {fact['line']}")
    for problem in unwatched:
        answers.add("unwatched", problem)
        warnings.warn(problem, Caution, stacklevel=1)
    return code or (WRONG_REQUEST if unwatched else DONE)
