"""`hushbeam heavy-hitters`: the frequent strings of a telemetry log, of which none was declared."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pyarrow as pa

from mechanisms.channel import Guarantee
from mechanisms.heavy_hitters.fitting import Plan, fit
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.schedule import MISSED, Search
from mechanisms.randomness import SecureRandom
from mechanisms.target import Target
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.heavy_hitters.options import HeavyHittersOptions
from pipelines.road import bucket_count
from pipelines.terms import (
    cautioned,
    least_batch,
    next_to_nothing,
    require_proven,
    target_terms,
)
from pipelines.wording import upward
from transforms.blocks import Generator
from transforms.encode_prefixes import accepts

_TEXT_LENGTH, _INTEGER_LENGTH = 32, 10  # symbols, where nobody says
_BEAM_PER_STRING = 4  # prefixes followed for each string that is wanted

_BY_LEVELS = (
    "users are divided among the levels of a prefix tree by dice that do not look at the value, "
    "and a report of any level loses what a report of the bucket alone would"
)


@dataclass(frozen=True)
class HeavyHittersJob:
    """A request held against its input: everything that is decided before a row is read.

    Attributes:
        options: what was asked.
        telemetry: the files.
        plan: what users run, what it guarantees and what it will find.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: HeavyHittersOptions
    telemetry: inputs.Telemetry
    plan: Plan
    min_reports: int
    open_rng: Generator = SecureRandom

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return self.plan.design.target.unit

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""
        design = self.plan.design
        released, local = (
            replace(each, how=f"{each.how}; {_BY_LEVELS}")
            for each in (design.release, design.local)
        )
        return released, local

    @property
    def prospect(self) -> str:
        """What will be found, in a sentence."""
        limit, n = self.plan.detection_limit, self.plan.design.target.n
        if limit == math.inf:
            return (
                f"from {n:,} reports no string is sure to be found, however frequent it is: have "
                "more of them, a larger epsilon, a smaller --alphabet or a shorter --max-length"
            )
        return (
            f"from {n:,} reports, every string that at least {100 * upward(limit, 3):g} % of the "
            f"{self.unit}s hold is found with probability {1 - MISSED:g} or more"
        )

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        found = cautioned(self.plan.design.release.delta, self.min_reports)
        if self.plan.detection_limit == math.inf:
            found.append(self.prospect)
        return found + next_to_nothing(self.plan.design.release.epsilon)

    @property
    def buckets(self) -> int:
        """How many groups the shuffler and the contribution bound split their input into."""
        return bucket_count(self.telemetry.rows)


def prepare(
    options: HeavyHittersOptions,
    open_rng: Generator = SecureRandom,
    given: inputs.Given = inputs.ALONE,
) -> HeavyHittersJob:
    """Check a request against its input and plan the search; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    telemetry = given.open(options.input, options.output)
    kind = telemetry.column_type(options.column, "--column")
    if not (telemetry.unread or accepts(kind)):
        raise RequestError(
            f"--column: {options.column!r} holds {kind}; text is needed, or integers"
        )
    if options.user_column is not None:
        inputs.check_user_column(telemetry, options.user_column)
    expected = least_batch(options, telemetry.rows, "the search is planned for that number")
    try:
        target = Target(
            **target_terms(options, options.model, expected, options.unit),
            domain_size=2,  # the plan says how many buckets there are
        )
        beam_ = max(Search.beam, _BEAM_PER_STRING * (options.top or 0))
        plan = fit(
            target,
            _code(options, kind),
            Search(beam_, options.false_strings),
            # Public, and drawn anew for each job, before it looks at a value.
            int(open_rng().words(1)[0]) if given.seed is None else given.seed,
            options.system,
            options.oracle,
        )
    except ValueError as error:
        raise RequestError(str(error)) from None
    require_proven(options, plan.design.release)
    least = 1 if options.model == "local" and options.min_reports is None else expected
    return HeavyHittersJob(options, telemetry, plan, least, open_rng)


def _code(options: HeavyHittersOptions, kind: pa.DataType) -> PrefixCode:
    """The code of the strings, by default as wide as the column's type calls for."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = bool(pa.types.is_integer(kind))
    names = options.alphabet or (("digits",) if whole else ("bytes",))
    length = options.max_length or (_INTEGER_LENGTH if whole else _TEXT_LENGTH)
    return PrefixCode(alphabet(names), length)
