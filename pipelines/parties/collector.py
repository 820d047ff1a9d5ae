"""`hushbeam parties collect`: shuffled reports in, the release of `hushbeam run` out."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsDict

from mechanisms.wire.report import Form
from mechanisms.wire.screening import DUPLICATE, NOT_REPORTS, TRUNCATED
from mechanisms.wire.sealing import KeyRing
from pipelines.jobs.run import SEAL_COST, beam_options
from pipelines.ledger.ledger import CollectionLedger
from pipelines.metrics.metric import Content, Metric, MetricReports
from pipelines.metrics.publishable import collected
from pipelines.parties.batches import COPY, BatchFiles, chosen_of
from pipelines.parties.command import CollectRequest
from pipelines.parties.counting import ONLY_WORDS, CollectWords
from pipelines.parties.keys import read_ring
from pipelines.parties.passes import job_of, passes_in, taken_by
from pipelines.parties.report_files import ReadAll, counting, under, warn_of_strangers
from pipelines.plan.diagnostics import Diagnostic, reworded
from pipelines.plan.job import PlanJob, window_of
from pipelines.plan.loading import load
from pipelines.plan.publish import ReleasePlanDoFn, named, released
from pipelines.plan.run import ReleaseTarget, code_of, release_window
from pipelines.plan.split import Split, require_counters, require_sealable, split
from pipelines.storage.paths import beside
from pipelines.wording import RAW_ROWS
from transforms.elements.blocks import bucket_count
from transforms.elements.conservation import fail_lost, passing
from transforms.elements.progress import ROWS, ever
from transforms.reports.duplicates import DropCopiedSeals
from transforms.reports.reports import MessagesOf
from transforms.reports.unseal import UnsealDoFn

# What takes the place of RAW_ROWS: this job has seen no row.
ONLY_REPORTS = (
    "The job that made this release saw shuffled reports and no row of any log. The promises hold "
    "if clients randomise as the plan says and the shuffler mixes, counts and keeps to itself what "
    "it is given; against shuffler and collector together only what is promised of a single report "
    "holds, and so it is over several windows if clients draw their noise once and for all."
)
TWO_SHUFFLERS = (
    "By the summary of the shuffle, two shufflers mixed the reports in a row, which clients had "
    "sealed in two layers: neither knows the whole order. The promises of the shuffle hold if at "
    "least one of the two keeps to itself what it knows, and if the first passes on one report of "
    "each user, all that came and none of its own."
)
TOKENS = (
    "By the summary of the shuffle, an endpoint took a token with each report, of which the issuer "
    "gives each enrolled device {tokens} in a window and cannot tell who spends one: so a device "
    "sent at most that many reports of a metric. It counts on the issuer to enrol no device that "
    "is nobody's, and on the issuer and the endpoint to make no tokens of their own, which both "
    "can."
)
NO_TOKENS = (
    "The plan admits reports by tokens, {tokens} of each user, and the reports of this release "
    "came without: nobody has checked how many a sender made up."
)
_UNUSABLE = "sealed, and unknown key, does not open or impossible code"


def collect(request: CollectRequest, beam_arguments: Sequence[str]) -> int:
    """Publish a window of a plan from its shuffled reports, unless that was done before.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan or its input is wrong.
        WithheldError: too few reports came, or the budget does not cover the window.
        FailedError: the job ended without a release.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    plan = load(request.plan)
    window = window_of(plan, request.window)
    if request.output is not None:
        plan = plan.model_copy(update={"output": beside("", request.output)})
    parted = split(plan, window)
    if parted.counters:
        require_counters(parted, request.key, "--key")
    open_ring = functools.partial(read_ring, request.key) if request.key else None
    if open_ring is not None:
        open_ring()  # wrong keys are better refused than found by every worker
        require_sealable(parted)
    passes = passes_in(request.input) if parted.counters else None
    inputs = passes.inputs if passes else request.input
    chosen = chosen_of(inputs, parted, open_ring is not None)
    taken = taken_by(passes, parted) if passes else ()
    job = job_of(parted, passes.summary, request.output) if passes else parted.job

    tokens = _of_tokens(parted, chosen)

    def pipeline(metrics: Sequence[Metric], target: ReleaseTarget) -> beam.PTransform:
        _count_for_good(target)
        if parted.counters and open_ring is not None:
            words = chosen.size or 0
            return CollectWords(
                parted, chosen.files, target, open_ring, words, tuple(metrics), taken,
                f"{ONLY_WORDS}{tokens}",
            )  # fmt: skip
        said = f"{ONLY_REPORTS} {TWO_SHUFFLERS}" if chosen.shufflers > 1 else ONLY_REPORTS
        said += tokens
        collected = parted, chosen.files, target, open_ring, chosen.copies, chosen.size
        return CollectPlan(*collected, said)

    def prepared(*_: Any) -> PlanJob:
        return job

    before = ever()
    seals = 0 if open_ring is None else chosen.size or 0
    try:
        return code_of(
            release_window(
                job.plan, job.window, prepared, pipeline, lambda: for_beam, job.time,
                work=seals * SEAL_COST,
            )
        )  # fmt: skip
    finally:
        warn_of_strangers(ever() - before)


def _of_tokens(parted: Split, chosen: BatchFiles) -> str:
    """What the statement says of tokens, behind a space; nothing where the plan asks for none."""
    most = parted.job.plan.tokens
    return (
        "" if most is None else " " + (TOKENS if chosen.tokens else NO_TOKENS).format(tokens=most)
    )


def _count_for_good(target: ReleaseTarget) -> None:
    """Whatever comes of this job, its reports are here: the price was paid for them."""
    paid = target.statement.get("ledger")
    if paid is not None and target.ledger is not None:
        CollectionLedger.at(target.ledger).keep(paid["entry"])


@dataclass
class CollectPlan(beam.PTransform):
    """From files of shuffled reports to one release with a folder for each metric.

    Attributes:
        parted: the window.
        files: what the shuffler has sent on.
        target: where the release goes.
        open_ring: reads the private keys on each worker, if reports are sealed.
        copies: how many reports were in files that were left out, being copies of others.
        size: how many reports the files hold, by their own account; None if they give none.
        said: of what this job saw, in the statement.
    """

    parted: Split
    files: tuple[str, ...]
    target: ReleaseTarget
    open_ring: Callable[[], KeyRing] | None = None
    copies: int = 0
    size: int | None = None
    said: str = ONLY_REPORTS

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        form = Form(sealed=self.open_ring is not None, shuffled=True)
        reports, dropped = begin | "Read" >> ReadAll(self.files, self.parted.expected(form))
        sizes = [reports | "How many" >> counting("read")]
        if self.open_ring is not None:
            # Of several shuffles none has seen what the others were sent.
            buckets = bucket_count(self.size or 0)
            once = DropCopiedSeals(self.parted.fingerprint, form, buckets)
            reports, again = reports | "Each seal once" >> once
            sizes.append(reports | "How many seals" >> counting("once"))
            sizes.append(again | "How many again" >> beam.Map(under, "again"))
            plain = self.parted.expected(Form(shuffled=True))
            reports |= "Unseal" >> beam.ParDo(UnsealDoFn(plain, self.open_ring))
            sizes.append(reports | "How many opened" >> counting("opened"))
        contents = tuple(
            reports | metric.name >> CollectMetric(metric, place, self.said)
            for place, metric in enumerate(self.parted.metrics)
        )
        target = _of_reports(self.target, self.said)
        names = tuple(metric.name for metric in self.parted.metrics)
        step = ReleaseCollectedDoFn(target, names, form.sealed, self.copies, self.size)
        counted = tuple(sizes) | "Sizes" >> beam.Flatten() | "Add up" >> beam.CombinePerKey(sum)
        return released(begin, step, contents, AsDict(dropped), AsDict(counted))


def _of_reports(target: ReleaseTarget, said: str) -> ReleaseTarget:
    """The release of a job that has seen no row."""
    words = target.statement["in_words"]
    return target.telling(in_words=[said if text == RAW_ROWS else text for text in words])


@dataclass
class CollectMetric(beam.PTransform):
    """Blocks of shuffled reports in, one metric's name and content out, if it had enough.

    Attributes:
        metric: ready to run.
        place: in the plan.
        said: as of `CollectPlan`.
    """

    metric: Metric
    place: int
    said: str

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        messages = reports | "Messages" >> MessagesOf(self.place)
        came = messages | "Came" >> counting(ROWS) | "Add up" >> beam.CombinePerKey(sum)
        metric = replace(self.metric, collects=True)
        contents = collected(metric, MetricReports(messages, None, came, (passing(messages),)))
        return (
            contents
            | "Diagnostic" >> Diagnostic(self.metric.mechanism, messages)
            | "Say what was read"
            >> beam.Map(reworded, {RAW_ROWS: self.said}).with_output_types(Content)
            | named(self.metric.name)
        )


@typehints.with_output_types(None)
class ReleaseCollectedDoFn(ReleasePlanDoFn):
    """Writes the release, with what became of the reports that were not used."""

    def __init__(
        self,
        target: ReleaseTarget,
        names: tuple[str, ...],
        sealed: bool,
        copies: int,
        size: int | None,
    ) -> None:
        super().__init__(target, names)
        self._sealed, self._copies, self._size = sealed, copies, size

    def process(  # type: ignore[override]
        self,
        once: None,
        contents: Mapping[str, Content],
        dropped: Mapping[str, int],
        sizes: Mapping[str, int],
    ) -> None:
        self._require_whole(dropped, sizes)
        read, counts = sizes.get("read", 0), Counter(dropped) + Counter({COPY: self._copies})
        if self._sealed:
            seals = sizes.get("once", 0)
            counts += Counter({DUPLICATE: read - seals, _UNUSABLE: seals - sizes.get("opened", 0)})
        # All that came is in the statement, so that it can be held against what the shuffler says
        # it sent.
        came = read + sum(dropped.values()) + self._copies
        self._target = self._target.telling(
            reports={"came": came, "dropped": dict(sorted(counts.items()))}
        )
        super().process(once, contents)

    def _require_whole(self, dropped: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        read = sizes.get("read", 0)
        # A damaged file counts as one, whatever it holds, and is in the statement.
        damaged = dropped.get(TRUNCATED) or dropped.get(NOT_REPORTS)
        due = read if self._size is None or damaged else self._size - sum(dropped.values())
        once = sizes.get("once", 0) + sizes.get("again", 0) if self._sealed else read
        if due != read or once != read:
            fail_lost()
