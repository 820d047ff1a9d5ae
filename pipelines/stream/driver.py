"""A stream on this machine: bounded batches of what has landed, and windows that end by their rows.

The local runners know no watermark over a folder that grows (Beam's MatchContinuously never lets
it pass), so the stream keeps its own: time has come as far as nearly all rows of some table.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apache_beam.options.pipeline_options import PipelineOptions
from rich.console import Console

from pipelines.errors import Caution, FailedError, RequestError
from pipelines.plan.job import output_of
from pipelines.run import run_beam
from pipelines.stream.intake import TakeIn
from pipelines.stream.landing import Landed, Landing, readable
from pipelines.stream.publish import enough, publish
from pipelines.stream.release import Backlog
from pipelines.stream.state import State
from pipelines.stream.windows import Streamed
from pipelines.views.console import rejects
from transforms.encoders.users import UserDigest
from transforms.once_per_window import OncePerWindow
from transforms.windowed import ToWindows, now

_ROWS = 1 << 22  # of one batch, or one file


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
    """

    streamed: Streamed
    state: State
    for_beam: PipelineOptions
    screen: Console
    clock: Callable[[], int] = now
    files: int = 1 << 9
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._landing = Landing(self.streamed, self.state)

    def step(self) -> bool:
        """Take in one batch, if there is one, and release what is due.

        Returns:
            Whether a batch was taken in.

        Raises:
            WithheldError: the budget does not cover a window; it waits.
            FailedError: Beam failed, and it was not a file's fault.
        """
        batch = self._batch()
        busy = bool(batch) and self._take_in(batch)
        # Looks in quick succession do not tell that a file has stopped growing.
        self._landing.counting = not busy
        self._end(self._reached())
        self._release_due()
        return busy

    def drain(self) -> None:
        """The stream is over: every window ends."""
        latest = self.state.latest()
        if latest is not None:
            self._end(latest + self.streamed.windows.length)
            self._release_due(latest)

    def _batch(self) -> list[Landed]:
        """As many new files as make a batch."""
        chosen: list[Landed] = []
        for landed in self._landing.look():
            full = len(chosen) >= self.files or sum(file.rows for file in chosen) >= _ROWS
            if full:
                break
            chosen.append(landed)
        return chosen

    def _take_in(self, batch: Sequence[Landed]) -> bool:
        """All of it at once, or all but the files that cannot be read; whether anything was."""
        try:
            self._run(batch)
            return True
        except (RequestError, FailedError):
            raise
        except Exception as error:
            kind = type(error).__name__
        columns = self.streamed.columns
        # A footer may be whole and a column damaged: which file it was is found by reading each.
        whole = [landed for landed in batch if readable(landed.path, columns)]
        if len(whole) == len(batch):
            raise FailedError(
                f"a batch failed with {kind}, and all its {len(batch)} files can be read; nothing "
                "of it was kept"
            )
        for landed in {*batch} - {*whole}:
            self._landing.blame(landed.path, landed.size)
        return bool(whole) and self._take_in(whole)

    def _run(self, batch: Sequence[Landed]) -> None:
        streamed, state = self.streamed, self.state
        ended, moment = state.ended, self.clock()
        windows = ToWindows(
            streamed.windows, streamed.stream.time, streamed.kept, streamed.ahead, ended,
            clock=Still(moment),
        )  # fmt: skip
        once, column = None, streamed.plan.user_column
        if column is not None:
            once = OncePerWindow(UserDigest(column, state.key), state.seen())
        folder, files = state.begin_batch(), [landed.path for landed in batch]
        step = TakeIn(streamed.metrics, files, streamed.columns, windows, once, folder)
        rows = sum(landed.rows for landed in batch) * len(streamed.metrics)
        counted = run_beam(step, self.for_beam, self.screen, rows)
        if counted is None:
            raise FailedError("a stream on this machine needs a runner on this machine")
        sizes = {landed.path: landed.size for landed in batch}
        state.commit(folder, sizes, rejects(counted), moment)

    def _reached(self) -> int | None:
        """How far time has come, less what windows wait."""
        reached, idle = self.state.reached, self.streamed.idle
        if reached is None:
            return None
        moment, arrived = self.clock(), self.state.arrived
        if idle is not None and arrived is not None and moment - arrived >= idle:
            reached = max(reached, moment)
        return reached - self.streamed.lateness

    def _end(self, moment: int | None) -> None:
        """Windows that are over by then take no more rows; said before they are released."""
        if moment is not None:
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
        with self._once_each():
            if not publish(self.streamed, start, first, backlog, self.for_beam):
                return False
        reports = max(part.reports for part in backlog.values())
        folder = output_of(self.streamed.plan, self.streamed.windows.name(start))
        self._tell(start, f"{reports:,} reports, released: {folder}")
        return True

    def _tell(self, start: int, what: str) -> None:
        line = f"window {self.streamed.windows.name(start)}: {what}"
        self.screen.print(line, highlight=False, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def _once_each(self) -> Iterator[None]:
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
