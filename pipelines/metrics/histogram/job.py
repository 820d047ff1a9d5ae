"""`hushbeam histogram`: how often each value of a declared domain occurs in a telemetry log."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms import planner, systems
from mechanisms.channel import Guarantee
from mechanisms.randomness import SecureRandom
from mechanisms.target import Target
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.road import bucket_count
from pipelines.terms import (
    cautioned,
    drowned,
    least_reports,
    next_to_nothing,
    require_proven,
    target_terms,
)
from pipelines.wording import many_messages
from transforms.blocks import Generator
from transforms.encode import Domain

# At the peak of a whole job, fitted to 4 to 16 million values and 6 to 65 million codes.
_BYTES_PER_CODE, _BYTES_PER_VALUE = 96, 96
_LARGEST_MEMORY = 8 << 30  # bytes: what a common worker has
_MOST_MESSAGES = 2.0**20  # of one user
_MANY_MESSAGES = 100  # a user, on average: a cost that should not come as a surprise


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
        release, mechanism = self.design.release, self.design.mechanism
        n = self.min_reports if self.min_reports > 1 else self.telemetry.rows
        found = cautioned(release.delta, self.min_reports)
        found += next_to_nothing(release.epsilon)
        found += drowned(math.sqrt(mechanism.variance(0.0, max(n, 1))), n, "all reports together")
        if self.design.messages >= _MANY_MESSAGES:
            found.append(many_messages(self.design.name, self.design.messages))
        return found

    @property
    def buckets(self) -> int:
        """How many groups the shuffler and the contribution bound split their input into."""
        return bucket_count(self.telemetry.rows * max(1.0, self.design.messages))


def prepare(
    options: HistogramOptions,
    open_rng: Generator = SecureRandom,
    given: inputs.Given = inputs.ALONE,
) -> HistogramJob:
    """Check a request against its input and choose the mechanism; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    telemetry = given.open(options.input, options.output)
    kind = telemetry.column_type(options.column, "--column")
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    domain = inputs.read_domain(options.domain, kind, options.out_of_domain == "other")
    try:
        model = options.model or systems.default_model(options.mechanism)
        min_reports = least_reports(options, model, telemetry.rows)
        target = Target(
            **target_terms(options, model, min_reports, options.unit),
            domain_size=domain.size,
            max_messages=options.max_messages,
            honest_share=options.honest_share,
            bound=options.bound,
            seed=given.public_seed(),
        )
        design = planner.design(target, options.mechanism)
    except ValueError as error:
        raise RequestError(str(error)) from None
    _require_memory(domain.size, design)
    _require_few_messages(options, design)
    require_proven(options, design.release)
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
