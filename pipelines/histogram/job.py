"""`hushbeam histogram`: how often each value of a declared domain occurs in a telemetry log."""

from __future__ import annotations

import io
import math
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import AsDict
from pydantic import BaseModel, ConfigDict, Field

from mechanisms import planner, systems
from mechanisms.central.histogram import CentralHistogram
from mechanisms.channel import Guarantee
from mechanisms.postprocess.intervals import intervals, largest_error_bound, standard_errors
from mechanisms.randomness import SecureRandom
from mechanisms.target import Target, default_delta
from pipelines import inputs, release, report
from pipelines.errors import RequestError
from pipelines.wording import RAW_ROWS, covered, large_delta, many_messages, meaning, upward
from transforms import perturb
from transforms.blocks import Generator
from transforms.collect import CollectExactly, CollectFrequencies, Frequencies
from transforms.contributions import OneValuePerUser
from transforms.encode import Domain, EncodeDoFn
from transforms.progress import CHANGED, ROWS, WITHHELD, tally
from transforms.shuffle import Shuffle
from transforms.telemetry import ReadTelemetry
from transforms.users import UserDigest

TABLE = "histogram.parquet"

_LARGEST_EPSILON = 700.0  # beyond it e^epsilon leaves the range of doubles, and all sense
# At the peak of a whole job, fitted to 4 to 16 million values and 6 to 65 million codes.
_BYTES_PER_CODE, _BYTES_PER_VALUE = 96, 96
_LARGEST_MEMORY = 8 << 30  # bytes: what a common worker has
_MOST_MESSAGES = 2.0**20  # of one user
_MANY_MESSAGES = 100  # a user, on average: a cost that should not come as a surprise
_BUCKET_ROWS = 1 << 18  # how many rows a bucket of the shuffler should hold
_PACKAGES = ("hushbeam", "apache-beam", "numpy", "scipy", "pyarrow", "cryptography")


class HistogramOptions(BaseModel):
    """What a person asks for; every number is checked before anything is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: tuple[str, ...] = Field(min_length=1)
    column: str
    domain: str = Field(min_length=1)
    output: str = Field(min_length=1)
    user_column: str | None = None
    model: Literal["local", "shuffle", "central"] | None = None
    epsilon: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    delta: float | None = Field(None, ge=0, lt=1)
    epsilon_local: float | None = Field(None, gt=0, le=_LARGEST_EPSILON)
    min_reports: int | None = Field(None, ge=1)
    mechanism: str = systems.AUTO
    max_messages: float = Field(1.0, ge=1)
    honest_share: float = Field(0.9, gt=0, le=1)
    bound: Literal["exact", "published"] = "exact"
    out_of_domain: Literal["drop", "other"] = "drop"
    postprocess: Literal["pop", "none"] | None = None
    confidence: float = Field(0.95, gt=0, lt=1)


@dataclass(frozen=True)
class HistogramJob:
    """A request held against its input: everything that is decided before a row is read.

    Attributes:
        options: what was asked.
        telemetry: the files.
        domain: the declared values.
        design: the mechanism and what it guarantees.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: HistogramOptions
    telemetry: inputs.Telemetry
    domain: Domain
    design: planner.Design
    min_reports: int
    open_rng: Generator = SecureRandom

    @property
    def model(self) -> str:
        """Who is trusted: "local", "shuffle" or "central"."""
        return self.design.target.model

    @property
    def postprocess(self) -> str:
        """What is done with the estimates: as asked, or as the system does."""
        return self.options.postprocess or self.design.postprocess

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return self.design.target.unit

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Of the release, and of one report."""
        return self.design.release, self.design.local

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        delta, found = self.design.release.delta, []
        if delta * self.min_reports >= 1:
            found.append(large_delta(delta, self.min_reports))
        if self.design.messages >= _MANY_MESSAGES:
            found.append(many_messages(self.design.name, self.design.messages))
        return found

    @property
    def buckets(self) -> int:
        """How many groups the shuffler and the contribution bound split their input into."""
        messages = self.telemetry.rows * max(1.0, self.design.messages)
        return min(max(64, int(messages / _BUCKET_ROWS)), 1 << 14)


def prepare(options: HistogramOptions, open_rng: Generator = SecureRandom) -> HistogramJob:
    """Check a request against its input and choose the mechanism; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    release.require_vacant(options.output)
    telemetry = inputs.open_telemetry(options.input)
    kind = telemetry.column_type(options.column, "--column")
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    domain = inputs.read_domain(options.domain, kind, options.out_of_domain == "other")
    try:
        model = options.model or systems.default_model(options.mechanism)
        min_reports = _min_reports(options, model, telemetry.rows)
        default = default_delta(model, min_reports)
        target = Target(
            model=model,
            epsilon=options.epsilon,
            delta=default if options.delta is None else options.delta,
            n=min_reports,
            domain_size=domain.size,
            epsilon_local=options.epsilon_local,
            unit="row" if options.user_column is None else "user",
            max_messages=options.max_messages,
            honest_share=options.honest_share,
            bound=options.bound,
            seed=int(SecureRandom().integers(1 << 63, 1)[0]),
        )
        design = planner.design(target, options.mechanism)
    except ValueError as error:
        raise RequestError(str(error)) from None
    _require_memory(domain.size, design)
    _require_few_messages(options, design)
    proven = design.release.epsilon
    if options.epsilon is not None and not proven <= options.epsilon:
        raise RequestError(
            f"--epsilon: {options.epsilon:g} is less than what can be proven of these reports, "
            f"{upward(proven, 3):g}; ask for that much, or have more of them"
        )
    return HistogramJob(options, telemetry, domain, design, min_reports, open_rng)


def _require_memory(cells: int, design: planner.Design) -> None:
    """Refuse what the one worker that decodes and writes the release would not finish."""
    needed = _BYTES_PER_CODE * design.mechanism.codes + _BYTES_PER_VALUE * cells
    if not needed <= _LARGEST_MEMORY:
        raise RequestError(
            f"--domain: decoding {cells:,} values with {design.name} takes "
            f"{design.mechanism.codes:,} counters, about {needed / (1 << 30):.1f} GiB of memory: "
            f"more than {_LARGEST_MEMORY >> 30} GiB; declare a coarser domain or choose "
            "another --mechanism"
        )


def _require_few_messages(options: HistogramOptions, design: planner.Design) -> None:
    """Refuse more messages than were allowed, or than a user's client could hold."""
    named = "max_messages" in options.model_fields_set
    most = options.max_messages if named else _MOST_MESSAGES
    if not design.messages <= most:
        raise RequestError(
            f"--max-messages: {design.name} sends {design.messages:,.4g} messages a user on "
            f"average here, more than {most:,.6g}; a larger epsilon or more reports need fewer"
        )


def _min_reports(options: HistogramOptions, model: str, rows: int) -> int:
    """The least batch; by default nine tenths of the rows, to two figures."""
    if options.min_reports is not None:
        return options.min_reports
    if model != "shuffle":
        return 1
    if options.user_column is not None:
        raise RequestError(
            "--min-reports is missing: with --user-column, say how many users at the least the "
            "release must stand on (each client's epsilon is chosen for that number)"
        )
    unit = 10 ** max(math.floor(math.log10(0.9 * rows)) - 1, 0)
    return max(2, int(0.9 * rows) // unit * unit)


@dataclass
class PublishHistogram(beam.PTransform):
    """The whole road, from files to a release."""

    job: HistogramJob

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        job, options = self.job, self.job.options
        users, columns = None, {options.column}
        if options.user_column is not None:
            users = UserDigest(options.user_column, int(SecureRandom().words(1)[0]))
            columns.add(options.user_column)
        encoded = (
            begin
            | "Read" >> ReadTelemetry(job.telemetry.files, tuple(sorted(columns)))
            | "Encode"
            >> beam.ParDo(EncodeDoFn(options.column, job.domain, users)).with_outputs(
                EncodeDoFn.TALLIES, main="cells"
            )
        )
        cells = encoded.cells
        if users is not None:
            cells |= "Bound contributions" >> OneValuePerUser(job.buckets, job.open_rng)
        tallies = encoded[EncodeDoFn.TALLIES] | "Add up tallies" >> beam.CombinePerKey(sum)
        return self._collected(cells) | "Release" >> beam.ParDo(
            ReleaseDoFn(job, uuid.uuid4().hex), AsDict(tallies)
        )

    def _collected(self, cells: beam.PCollection) -> beam.PCollection:
        """From one cell a user to one `Frequencies`."""
        job, mechanism = self.job, self.job.design.mechanism
        if isinstance(mechanism, CentralHistogram):
            exactly = CollectExactly(mechanism, job.postprocess, job.open_rng)
            return cells | "Collect" >> exactly
        users = cells | "Count users" >> beam.Map(perturb.users).with_output_types(int)
        messages = cells | "Perturb" >> perturb.Perturb(mechanism, job.open_rng)
        if job.model == "shuffle":
            messages |= "Shuffle" >> Shuffle(
                job.min_reports, mechanism.codes, job.buckets, job.open_rng, users
            )
        return messages | "Collect" >> CollectFrequencies(mechanism, job.postprocess, users)


class ReleaseDoFn(beam.DoFn):
    """Writes the release, unless there are too few reports for one, or the files changed.

    Why there is none is told by a counter: what a step raises reaches nobody, for its text might
    quote the data.
    """

    def __init__(self, job: HistogramJob, release_id: str) -> None:
        self._job, self._release_id = job, release_id

    def process(self, frequencies: Frequencies, tallies: Mapping[str, int]) -> None:
        if tallies.get(ROWS, 0) != self._job.telemetry.rows:
            tally(CHANGED, 1)
            return
        if frequencies.n < self._job.min_reports:
            tally(WITHHELD, 1)
            return
        table = histogram_table(self._job, frequencies)
        statement = histogram_statement(self._job, frequencies, tallies, self._release_id)
        files = {TABLE: _parquet(table), "report.html": report.page(table, statement)}
        release.publish(self._job.options.output, files, statement)


def histogram_table(job: HistogramJob, frequencies: Frequencies) -> pa.Table:
    """The published table: one row per value, in the order of the domain.

    Columns: value (null for the bin of all other values), estimate (after post-processing),
    unbiased (before it), standard_error, lower and upper (an interval for each value alone),
    lower_simultaneous and upper_simultaneous (intervals that cover all values together).
    """
    mechanism, unbiased, n = job.design.mechanism, frequencies.unbiased, frequencies.n
    confidence = job.options.confidence
    error = standard_errors(mechanism, unbiased, n)
    lower, upper = intervals(mechanism, unbiased, n, confidence)
    lower_all, upper_all = intervals(mechanism, unbiased, n, confidence, simultaneous=True)
    values = job.domain.labels()
    if job.domain.other:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return pa.table(
        {
            "value": values,
            "estimate": frequencies.estimate,
            "unbiased": unbiased,
            "standard_error": error,
            "lower": lower,
            "upper": upper,
            "lower_simultaneous": lower_all,
            "upper_simultaneous": upper_all,
        }
    )


def histogram_statement(
    job: HistogramJob, frequencies: Frequencies, tallies: Mapping[str, int], release_id: str
) -> dict[str, Any]:
    """What was asked, what was done, and what it guarantees."""
    options, design = job.options, job.design
    local, released = design.local, design.release
    in_words = [meaning(each, job.min_reports) for each in dict.fromkeys((released, local))]
    n, mechanism = frequencies.n, design.mechanism
    return {
        "statement_version": 1,
        "release": "histogram",
        "release_id": release_id,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "in_words": [*in_words, *job.cautions, RAW_ROWS],
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
        "neighbours": f"one {job.unit}'s value is replaced by any other value of the domain",
        "published_exactly": "the number of reports, of rows read and of rejects by reason",
        "n": n,
        "rows_read": tallies.get(ROWS, 0),
        "rejects": {name: amount for name, amount in sorted(tallies.items()) if name != ROWS},
        "invalid_reports": frequencies.invalid,
        "asked": {
            "column": options.column,
            "user_column": options.user_column,
            "unit": job.unit,
            "domain": f"{job.domain.declared:,} declared values",
            "out_of_domain": options.out_of_domain,
            "model": job.model,
            "epsilon": options.epsilon,
            "delta": design.target.delta,
            "epsilon_local": options.epsilon_local,
            "min_reports": job.min_reports,
            "mechanism": options.mechanism,
            "bound": options.bound,
            "max_messages": options.max_messages,
            # Of dummies alone: everybody's randomised response is counted on.
            "honest_share": getattr(mechanism, "honest_share", None),
            "postprocess": job.postprocess,
            "confidence": options.confidence,
        },
        "mechanism": {
            "name": design.name,
            "source": systems.find(design.name).source,
            "constants": mechanism.constants(),
            "messages_per_user": design.messages,
            "bits_per_message": design.bits,
        },
        "error": {
            "standard_error_at_0": float(np.sqrt(mechanism.variance(0.0, n))),
            "mean_squared_error_per_value": mechanism.average_variance(n),
            "largest_error_bound": largest_error_bound(mechanism, n, options.confidence),
            "covers": covered(job.unit),
        },
        "versions": {name: version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
    }


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
