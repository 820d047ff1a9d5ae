"""A stream on this machine: bounded batches of what has landed, and windows that end by their rows.

The local runners know no watermark over a folder that grows (Beam's MatchContinuously never lets
it pass), so the stream keeps its own: time has come as far as the files that landed bear witness.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from pipelines.errors import Caution, FailedError, RequestError, WithheldError, system_reason
from pipelines.jobs.publishing import rows_are_public
from pipelines.jobs.run import run_beam
from pipelines.logs.inputs import unreadable
from pipelines.plan.job import output_of
from pipelines.plan.run import say_alarms, unusable
from pipelines.releases import release
from pipelines.request import answers
from pipelines.stream.clocks import (
    FILES,
    MOST,
    ClockEvidence,
    ClockReading,
    jumped,
    passed,
    spelt,
    ticking,
)
from pipelines.stream.intake import TakeIn
from pipelines.stream.landing import UNREACHED, Landed, Landing
from pipelines.stream.release import Backlog, ReleaseWindow, enough, publish
from pipelines.stream.state import State
from pipelines.stream.windows import Streamed
from pipelines.views.console import rejects
from pipelines.wording import number_of
from transforms.encoders.users import UserDigest
from transforms.rows.windowed import ToWindows
from transforms.units.once_per_window import OncePerWindow
from transforms.windows import SECOND, now

_ROWS = 1 << 22  # of one batch, or one file
_SET = 60 * SECOND  # by which a clock may be set without a word


@dataclass
class Driver:
    """Takes in what lands, and releases what has ended.

    Attributes:
        streamed: the plan.
        state: what is remembered.
        for_beam: Beam's options.
        screen: where it says what it does.
        clock: tells the time in microseconds.
        files: that one batch has at most.
        ticks: measures how much of it passes; None where no more is known than the clock says.
        withheld: whether of a metric of some window the share of unusable values alone is out.
        watch_code: 4 if a figure that is watched has shifted in some window, 2 if one cannot be.
    """

    streamed: Streamed
    state: State
    for_beam: PipelineOptions
    screen: Console
    clock: Callable[[], int] = now
    files: int = 1 << 9
    ticks: Callable[[], tuple[str, int]] | None = None
    withheld: bool = False
    watch_code: int = 0
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._landing = Landing(self.streamed, self.state)
        self._seen = self.state.arrived
        if self.ticks is None and self.clock is now:
            self.ticks = ticking

    def step(self) -> bool:
        """Take in one batch, if there is one, and release what is due.

        Returns:
            Whether a batch was taken in.

        Raises:
            WithheldError: the budget does not cover a window; it waits.
            FailedError: Beam failed, and it was not a file's fault.
        """
        read = self._read()
        landed = self._landing.look(read.wall + self.streamed.ahead)
        batch = self._batch(landed)
        busy = bool(batch) and self._take_in(batch, read)
        # Looks in quick succession do not tell that a file has stopped growing.
        self._landing.counting = not busy
        reached = self._reached(read)
        if reached is not None:
            firsts = (file.span.first for file in landed[len(batch) :])
            # Rows that have landed already are not late, in whatever order they are taken in.
            self._end(min([reached, *(first for first in firsts if first is not None)]))
        self._release_due()
        return busy

    def require_all_taken_in(self) -> None:
        """Refuse to be done while files are held.

        Raises:
            WithheldError: some are, or the system refuses to read them.
        """
        if unreached := len(self.state.files(UNREACHED)):
            raise WithheldError(
                f"files cannot be read now ({unreached}): run again when they can, or move them "
                "away (`hushbeam stream status PLAN` names them)"
            )
        if files := len(self.state.waiting()):
            raise WithheldError(
                f"files are held ({files}): their rows are ahead of this machine's clock; set it, "
                "move the files away, or take them in with --accept-clock "
                "(`hushbeam stream status PLAN` names them)"
            )

    def drain(self) -> None:
        """The stream is over: every window ends, unless files wait, which may be of any.

        A window ahead of the clock stays open: it was begun while the clock was wrong, or is wrong
        now, and to end it would make all rows late that come before it.
        """
        latest = self.state.latest(self.clock() + self.streamed.ahead)
        waiting = self.state.waiting() or self.state.files(UNREACHED)
        if latest is not None and not waiting:
            self._end(latest + self.streamed.windows.length)
            self._release_due(latest)

    def _read(self) -> ClockReading:
        """The clocks; and a word if somebody has set one."""
        read, before = ClockReading(self.clock(), *(self.ticks() if self.ticks else ())), self._seen
        self._seen = read
        if before is None:
            return read
        leap = jumped(before, read)
        if abs(leap) > max(self.streamed.ahead, _SET):
            way = "forward" if leap > 0 else "back"
            warnings.warn(
                f"this machine's clock went {way} by {spelt(abs(leap))} that nothing has measured: "
                "no window ends by that",
                Caution,
                stacklevel=3,
            )
        if passed(before, read) is None:
            self.state.begin_anew(read)
        return read

    def _batch(self, new: Sequence[Landed]) -> list[Landed]:
        chosen: list[Landed] = []
        for landed in new:
            full = len(chosen) >= self.files or sum(file.rows for file in chosen) >= _ROWS
            if full:
                break
            chosen.append(landed)
        return chosen

    def _take_in(self, batch: Sequence[Landed], read: ClockReading) -> bool:
        """All of it at once, or all but the files that cannot be read; whether anything was."""
        try:
            self._run(batch, read)
            return True
        except (RequestError, FailedError):
            raise
        except Exception as error:
            kind, why = type(error).__name__, system_reason(error)
        whole = self._whole(batch)
        if len(whole) == len(batch):
            raise FailedError(
                f"a batch failed with {kind}{f' ({why})' if why else ''}, and all its "
                f"{len(batch)} files can be read; nothing of it was kept"
            )
        return bool(whole) and self._take_in(whole, read)

    def _whole(self, batch: Sequence[Landed]) -> list[Landed]:
        """The files of a batch that failed which can be read; the others are to blame."""
        columns, reading = self.streamed.columns, self.streamed.plan.reading
        # A footer may be whole and a column damaged: which file it was is found by reading each.
        faults = {landed: unreadable(landed.path, columns, reading) for landed in batch}
        for landed, fault in faults.items():
            if fault is not None:
                self._landing.blame(landed.path, landed.size, fault)
        return [landed for landed, fault in faults.items() if fault is None]

    def _run(self, batch: Sequence[Landed], read: ClockReading) -> None:
        streamed, state = self.streamed, self.state
        windows = ToWindows(
            streamed.windows, streamed.stream.time, streamed.kept, streamed.ahead, state.ended,
            clock=Still(read.wall),
        )  # fmt: skip
        once, column = None, streamed.plan.user_column
        if column is not None:
            once = OncePerWindow(UserDigest(column, state.key), state.seen())
        folder, files = state.begin_batch(), [landed.path for landed in batch]
        reading = streamed.plan.reading
        agreed = self._landing.agreed
        step = TakeIn(
            streamed.metrics, files, streamed.columns, windows, once, folder, reading, agreed
        )
        rows = sum(landed.rows for landed in batch) * len(streamed.metrics)
        public = all(rows_are_public(metric.options) for metric in streamed.metrics)
        counted = run_beam(step, self.for_beam, self.screen, rows if public else None)
        if counted is None:
            raise FailedError("a stream on this machine needs a runner on this machine")
        sizes = {landed.path: landed.size for landed in batch}
        state.commit(folder, sizes, rejects(counted), self._evidence(batch, read), read)

    def _evidence(self, batch: Sequence[Landed], read: ClockReading) -> ClockEvidence:
        """How far time has come with the files of a batch."""
        evidence, moved, streamed = self.state.evidence, self.state.moved, self.streamed
        step = 2 * streamed.windows.length + streamed.lateness
        limit = (evidence.reached or 0) + step
        if moved is not None:
            limit += passed(moved, read) or 0
        ends = [landed.span.points for landed in batch if landed.span.points]
        for points in ends:
            evidence = evidence.after(points, step, limit)
        far = sum(points[-1] in evidence.beyond for points in ends)
        if far:
            warnings.warn(
                f"rows of new files ({far}) are implausibly far after those of others: time does "
                f"not follow until {MOST} of the last {FILES} files say so",
                Caution,
                stacklevel=2,
            )
        return evidence

    def _reached(self, read: ClockReading) -> int | None:
        """How far time has come, less what windows wait."""
        reached, arrived = self.state.evidence.reached, self.state.arrived
        if reached is None:
            return None
        idle = self.streamed.idle
        since = None if arrived is None else passed(arrived, read)
        silent = idle is not None and since is not None and since >= idle
        # Files that have landed and cannot be read are no silence.
        if silent and not self.state.files(UNREACHED):
            # As much as has passed here, and no further than the clock: of the two one may be
            # wrong, and a window that has ended does not open again.
            reached = max(reached, min(reached + (since or 0), read.wall))
        return reached - self.streamed.lateness

    def _end(self, moment: int) -> None:
        """Windows that are over by then take no more rows; said before they are released."""
        start, ended = self.streamed.windows.start(moment), self.state.ended
        if ended is None or start > ended:
            self.state.end_before(start)

    def _release_due(self, last: int | None = None) -> None:
        """Each ended window, in the order of time; the last one of all is not merged."""
        while due := self.state.due():
            start, first = due[0]
            backlog = self.state.backlog(start)
            if enough(self.streamed, backlog) and self._released(start, first, backlog):
                self.state.settle(start, "released")
            elif self.streamed.plan.merge_small and start != last:
                self.state.merge(start, start + self.streamed.windows.length)
                self._tell(start, "too few reports: added to the next window")
            else:
                # Said to be over, so that a later batch does not open it again.
                self.state.settle(start, "withheld")
                self._tell(start, "withheld: too few reports")

    def _released(self, start: int, first: int, backlog: Mapping[str, Backlog]) -> bool:
        """Publish a window, unless that was done before; False if there is not enough for it."""
        try:
            with self._same_error_once():
                made = partial(ReleaseWindow, backlog=backlog)
                if not publish(self.streamed, start, first, made, self.for_beam):
                    return False
        except (RequestError, WithheldError, FailedError) as error:
            self.state.explain(start, str(error))
            raise
        reports = max(part.reports for part in backlog.values())
        folder = output_of(self.streamed.plan, self.streamed.windows.name(start))
        what = f"{number_of(reports, 'report')}, released: {folder}"
        self._tell(start, what, release=folder, reports=reports)
        return True

    def _tell(self, start: int, what: str, **facts: Any) -> None:
        folder = facts.get("release")
        if folder is not None and release.holds_release(folder):
            said = release.statement_of(folder)
            self.withheld = self.withheld or bool(unusable(said))
        name = self.streamed.windows.name(start)
        answers.add("windows", {"window": name, "what": what, **facts})
        line = f"window {name}: {what}"
        self.screen.print(line, highlight=False, markup=False, soft_wrap=True)
        if folder is not None and release.holds_release(folder):
            self.watch_code = max(self.watch_code, say_alarms(folder, self.screen))

    @contextlib.contextmanager
    def _same_error_once(self) -> Iterator[None]:
        """Warnings that every window would repeat are given once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", Caution)
            try:
                yield
            finally:
                new = [str(w.message) for w in caught if str(w.message) not in self._said]
        for line in new:
            self._said.add(line)
            warnings.warn(line, Caution, stacklevel=2)


@dataclass(frozen=True)
class Still:
    """A clock that stands: a batch has one time, however long it takes."""

    moment: int

    def __call__(self) -> int:
        return self.moment
