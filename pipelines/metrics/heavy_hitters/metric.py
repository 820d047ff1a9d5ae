"""`hushbeam strings --search levels`: the frequent strings, of which none was declared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters.fitting import FittedSearch, fit
from mechanisms.heavy_hitters.prefix_code import Codes, PrefixCode, alphabet
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import MISSED, Search
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SecureRandom
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.heavy_hitters import result, view
from pipelines.metrics.heavy_hitters.options import HeavyHittersOptions
from pipelines.metrics.metric import FRESH, Coins, MetricReports, table_of
from pipelines.metrics.poisoning import Poisoning
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import (
    cautioned,
    least_batch,
    next_to_nothing,
    require_proven,
    target_terms,
)
from pipelines.releases.schema import read_own
from pipelines.wording import upward
from transforms.encoders.prefixes import PrefixEncoder, accepts

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.discover_counted import Discovered
    from transforms.elements.blocks import Generator

_TEXT_LENGTH, _INTEGER_LENGTH = 32, 10  # symbols, where nobody says
_BEAM_PER_STRING = 4  # prefixes followed for each string that is wanted

_BY_LEVELS = (
    "users are divided among the levels of a prefix tree by dice that do not look at the value, "
    "and a report of any level loses what a report of the bucket alone would"
)


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(Randomised):
    """The strings that many users hold.

    Attributes:
        plan: what users run, what it guarantees and what it will find.
        fill: (positions,) the code in the place of what is no string of the alphabet, or None.
    """

    kind = "heavy-hitters"
    Options = HeavyHittersOptions

    options: HeavyHittersOptions
    plan: FittedSearch
    fill: Codes | None = field(default=None, compare=False)

    @classmethod
    def resolve(
        cls,
        options: HeavyHittersOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_randomised(options)
        telemetry = source.open(options)
        kind = telemetry.column_type(options.column, "--column")
        if not (telemetry.unseen or accepts(kind)):
            raise RequestError(
                f"--column: {options.column!r} holds {kind}; text is needed, or integers"
            )
        expected = least_batch(options, telemetry.rows, "the search is planned for that number")
        try:
            plan = _planned(options, kind, expected, source, open_rng)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, plan.design.release)
        least = 1 if options.model == "local" and options.min_reports is None else expected
        return cls(
            options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
            design=plan.design, plan=plan, fill=_filled(options, plan.protocol.code),
        )  # fmt: skip

    @property
    def mechanism(self) -> Mechanism:
        # A report of any level reveals what one of the design's oracle alone would.
        return self.plan.protocol.levels

    @property
    def resolved(self) -> tuple[Protocol, Mechanism]:
        return self.plan.protocol, self.mechanism

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        released, local = super().guarantees
        return _by_levels(released), _by_levels(local)

    @property
    def prospect(self) -> str:
        """What will be found."""
        limit, n = self.plan.detection_limit, self.design.target.n
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
        release, report = self.guarantees
        lines = cautioned(release.delta, self.options.min_reports)
        if self.plan.detection_limit == math.inf:
            lines.append(self.prospect)
        return lines + next_to_nothing(release, report)

    @property
    def expected_error(self) -> str:
        """The share from which a string is sure to be found."""
        limit = self.plan.detection_limit
        return "nothing is sure to be found" if limit == math.inf else f"finds {100 * limit:.2g} %"

    @property
    def bits(self) -> float:
        return float((self.mechanism.codes - 1).bit_length())  # of which some say the level

    @property
    def fresh_only(self) -> str | None:
        return "the level of the tree is drawn anew for each report"

    def encoder(self, coins: Coins = FRESH) -> PrefixEncoder:
        protocol = self.plan.protocol
        instead = protocol.code.unusable if self.options.hides else self.fill
        return PrefixEncoder(self.options.column, protocol, instead)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.discover_counted import Discover

        plan, options = self.plan, self.options
        discover = Discover(plan.protocol, plan.search, options.top, options.confidence)
        return reports.messages | "Discover" >> discover

    @property
    def labelled(self) -> dict[str, str]:
        return {"value": self.options.column}

    @property
    def figures(self) -> dict[str, str]:
        return {result.TABLE: "share"}

    @property
    def title(self) -> str:
        return f"{self.options.column}: frequent strings"

    def tables(self, estimate: Discovered) -> dict[str, pa.Table]:
        return {result.TABLE: result.heavy_hitters_table(estimate.strings)}

    def poisoning(self, estimate: Discovered) -> Poisoning:
        return result.poisoning(self.plan, self.collects)

    @property
    def neighbours(self) -> str:
        other = self.another("string of the alphabet")
        return f"one {self.unit}'s string is replaced by {other}"

    def unusable_share(self, estimate: Discovered) -> dict[str, float]:
        unbiased, error = estimate.strings.unusable.tolist()
        reach = normal_quantile(self.options.confidence) * error
        ends = np.clip([unbiased, unbiased - reach, unbiased + reach], 0, 1).tolist()
        share, lower, upper = ends
        return {
            "share": share, "unbiased": unbiased, "standard_error": error,
            "lower": lower, "upper": upper,
        }  # fmt: skip

    def reported(self, estimate: Discovered) -> tuple[int, int]:
        return estimate.strings.n, estimate.invalid

    @property
    def request(self) -> dict[str, Any]:
        code = self.plan.protocol.code
        characters = code.characters or "all text, as UTF-8 bytes"
        return super().request | {"alphabet": characters, "max_length": code.max_length}

    def own_statement(self, estimate: Discovered) -> dict[str, Any]:
        return {"search": result.search_statement(self.plan, self.prospect, estimate.strings)}

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(table_of(tables), statement)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, result.TABLE)
        view.show(screen, table, self.options.confidence)


def _by_levels(guarantee: Guarantee) -> Guarantee:
    """What holds of a report whose level was drawn first."""
    return replace(guarantee, how=f"{guarantee.how}; {_BY_LEVELS}")


def _planned(
    options: HeavyHittersOptions,
    kind: pa.DataType,
    expected: int,
    source: inputs.Source,
    open_rng: Generator,
) -> FittedSearch:
    """The search.

    Raises:
        ValueError: the target is out of reach.
    """
    target = Target(
        **target_terms(options, options.model, expected, options.unit),
        task=FrequencyTask(2),  # the plan says how many buckets there are
    )
    return fit(
        target,
        code_of(options, kind),
        Search(max(Search.beam, _BEAM_PER_STRING * (options.top or 0)), options.false_strings),
        # Public, and drawn anew for each job, before it looks at a value.
        int(open_rng().words(1)[0]) if source.seed is None else source.seed,
        options.system,
        options.oracle,
    )


def _filled(options: HeavyHittersOptions, code: PrefixCode) -> Codes | None:
    """The code in the place of what is no string of the alphabet, if a string was named."""
    if options.fill is None:
        return None
    codes, inside = code.encode([options.fill])
    if not inside.all():
        raise RequestError("--unusable fill: the string has characters outside of the alphabet")
    return codes[0]


def code_of(options: HeavyHittersOptions, kind: pa.DataType) -> PrefixCode:
    """The code of the strings, by default as wide as the column's type calls for."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = bool(pa.types.is_integer(kind))
    names = options.alphabet or (("digits",) if whole else ("bytes",))
    length = options.max_length or (_INTEGER_LENGTH if whole else _TEXT_LENGTH)
    try:
        return PrefixCode(alphabet(names), length)
    except ValueError as error:
        raise RequestError(f"--alphabet: {error}") from None
