"""A batch's passes as its collector takes them: which is the last, and what it is a release of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from mechanisms.counters.passes import layered
from pipelines.errors import RequestError
from pipelines.ledger.spans import PASS, Span
from pipelines.metrics.metric import published_in
from pipelines.parties import summary
from pipelines.parties.asking import LAST, TAKEN, counters_of
from pipelines.plan.document import WINDOW
from pipelines.plan.job import PlanJob, output_of
from pipelines.plan.split import Split

COVERED = (
    "This is the pass at {share:g} of the plan's epsilon over a batch that may be asked again; its "
    "promise covers all passes before it."
)
KEPT = (
    "The shuffler keeps numbers that it drew, for {time}, to tell more of it later: who had these "
    "and the batch would learn what a release at the plan's whole epsilon tells, and no more."
)
_DIGITS = 12  # of a batch's id, as ledgers keep what a release was made of


class Passes(NamedTuple):
    """What was handed in of a batch with several passes.

    Attributes:
        inputs: the folder of the batch, and what else was named, but for later passes.
        summary: the pass with the largest share.
        folder: of that pass; None if it is the first.
    """

    inputs: tuple[str, ...]
    summary: summary.Summary
    folder: str | None


def passes_in(inputs: Sequence[str]) -> Passes | None:
    """The passes among what was named; None if there are none.

    Raises:
        RequestError: they are of several batches, or the batch itself is not among them.
    """
    read = ((name, summary.read(name)) for name in inputs)
    summaries = {
        name: shuffle for name, shuffle in read if shuffle is not None and shuffle.share is not None
    }
    if not summaries:
        return None
    later = {
        name: shuffle for name, shuffle in summaries.items() if shuffle.share != shuffle.passes[0]
    }
    if len({shuffle.shuffle_id for shuffle in summaries.values()}) > 1 or len(later) == len(
        summaries
    ):
        raise RequestError(
            "--input: a later pass says what to take away from its batch: name the folder of the "
            "batch's first pass with it, and passes of no other"
        )
    first, last = (pick(summaries, key=lambda n: summaries[n].share or 0.0) for pick in (min, max))
    rest = tuple(name for name in inputs if name not in later)
    return Passes(rest, summaries[last], None if last == first else last)


def taken_by(passes: Passes, parted: Split) -> tuple[np.ndarray, ...]:
    """(codes,) of each metric: the dummies that are to be taken away.

    Raises:
        RequestError: the folder does not hold them.
    """
    sizes = [counters.codes for counters in parted.counters]
    if passes.folder is None:
        return tuple(np.zeros(size, np.int64) for size in sizes)
    try:
        with FileSystems.open(FileSystems.join(passes.folder, TAKEN)) as stream:
            dummies = pq.read_table(pa.py_buffer(stream.read()))["dummies"].to_numpy()
    except (OSError, BeamIOError, KeyError, pa.ArrowException):
        dummies = np.empty(0, np.int64)
    if dummies.size != sum(sizes):
        raise RequestError(
            f"--input: {passes.folder} does not hold all of its {TAKEN}: hand over all that the "
            "shuffler has left"
        )
    return tuple(np.split(dummies, np.cumsum(sizes)[:-1]))


@dataclass(frozen=True)
class PassJob(PlanJob):
    """A window as one pass over its batch tells it.

    Attributes:
        whole: the window.
        summary: what the shuffler has said of the pass.
    """

    whole: PlanJob
    summary: summary.Summary

    @property
    def design(self) -> bytes:
        return self.whole.design

    @property
    def time(self) -> Span | None:
        return self.whole.time

    @property
    def made_of(self) -> tuple[str, ...]:
        # By it the ledger knows passes over one batch, of which the last one is the price of all.
        return (self.summary.shuffle_id[:_DIGITS],)

    def statement(self, stamp: Any) -> dict[str, Any]:
        said, share = super().statement(stamp), self.summary.share
        words = [COVERED.format(share=share)]
        words += [KEPT.format(time=self.plan.ask_again)] if share != LAST else []
        of_batch = {"batch": self.summary.shuffle_id, "share": share, "passes": self.summary.passes}
        return said | {"in_words": [*words, *said["in_words"]], "pass": of_batch}


def job_of(parted: Split, shuffle_summary: summary.Summary, output: str | None) -> PassJob:
    """The release of a pass: its metrics, with the layers that lie over their dummies.

    Raises:
        RequestError: the shares are none that there are layers of.
    """
    job, share = parted.job, shuffle_summary.share or LAST
    plan, window = job.plan, job.window
    over = tuple(one for one in shuffle_summary.passes if one >= share)
    if share != LAST:
        window += f"{PASS}{share:g}"
        if output is None and WINDOW not in plan.output:
            plan = plan.model_copy(update={"output": f"{plan.output}{PASS}{share:g}"})
    folder = output_of(plan, window)
    try:
        metrics = tuple(
            published_in(
                replace(metric, design=layered(counters, over)), f"{folder}/{metric.name}", window
            )
            for metric, counters in zip(job.metrics, counters_of(parted), strict=True)
        )
    except ValueError as error:
        raise RequestError(f"--input: {error}") from None
    return PassJob(plan, window, job.telemetry, metrics, job, shuffle_summary)
