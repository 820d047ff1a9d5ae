"""`hushbeam strings --search levels`: by one randomised report of each unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters.fitting import FittedSearch, fit
from mechanisms.heavy_hitters.prefix_code import Codes, PrefixCode
from mechanisms.heavy_hitters.schedule import MISSED, Search
from mechanisms.mean.intervals import NOBODY, quotient_reach
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.metrics.metric import FRESH, Coins, MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.protection import Protection
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.statistics.strings import StringEvidence, UndeclaredStrings
from pipelines.metrics.strings.levels import alphabet_statement, code_of, public_seed
from pipelines.metrics.strings.options import StringsOptions
from pipelines.metrics.terms import least_batch, require_proven, rows_needed, target_terms
from pipelines.views import report
from pipelines.wording import upward
from transforms.encoders.prefixes import PrefixEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from pipelines.metrics.statistics.statistic import Workload
    from transforms.collector.discover_counted import Discovered

_BEAM_PER_STRING = 4  # prefixes followed for each string that is wanted

_BY_LEVELS = (
    "users are divided among the levels of a prefix tree by dice that do not look at the value, "
    "and a report of any level loses what a report of the bucket alone would"
)
_ESTIMATES = (
    "unbiased before it is known which strings are published; given that one is, its share is too "
    "large on average: by about 0.8 standard errors if it is found every second time, by 0.2 if "
    "nine times in ten. lower_simultaneous and upper_simultaneous cover all the same."
)


@dataclass(frozen=True, kw_only=True)
class LevelsByReports(ByReports):
    """The strings that many units hold, found by randomised reports of their beginnings.

    Attributes:
        plan: what users run, what it guarantees and what it will find.
        fill: (positions,) the code in the place of what is no string of the alphabet, or None.
    """

    statistic: UndeclaredStrings
    plan: FittedSearch
    fill: Codes | None = field(default=None, compare=False)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        return None

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options = given.statistic.options
        rows = rows_needed(options, given.telemetry)
        expected = least_batch(options, rows, "the search is planned for that number")
        seed, code = public_seed(given.source, given.open_rng), code_of(options, given.telemetry)
        try:
            plan = _planned(options, code, expected, seed)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, plan.design.release)
        least = 1 if options.model == "local" and options.min_reports is None else expected
        fields = {**given.fields, "min_reports": least, "fill": _filled(options, code)}
        return cls(**fields, design=plan.design, plan=plan)

    @property
    def mechanism(self) -> Mechanism:
        # A report of any level reveals what one of the design's oracle alone would.
        return self.plan.protocol.levels

    @property
    def protection(self) -> Protection:
        bits = float((self.mechanism.codes - 1).bit_length())  # of which some say the level
        made = self.plan.protocol, self.mechanism
        return super().protection._replace(made=made, bits=bits)

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
        return [*super().cautions, *[self.prospect] * (self.plan.detection_limit == math.inf)]

    @property
    def expected_error(self) -> str:
        """The share from which a string is sure to be found."""
        limit = self.plan.detection_limit
        return "nothing is sure to be found" if limit == math.inf else f"finds {100 * limit:.2g} %"

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

    def evidence(self, estimate: Discovered) -> StringEvidence:
        strings = estimate.strings
        return StringEvidence.of(strings.values, strings.whole, strings._asdict())

    def poisoning(self, estimate: Discovered) -> Poisoning:
        return poisoning(self.plan, self.collects)

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
        return super().request | alphabet_statement(self.plan.protocol.code)

    def own_statement(self, estimate: Discovered) -> dict[str, Any]:
        """How strings were searched for, and how many there are."""
        plan, schedule = self.plan, self.plan.protocol.schedule
        search = {
            "prospect": self.prospect,
            "detection_limit": _known(plan.detection_limit),
            "planned_for": plan.design.target.n,
            "steps": list(schedule.steps),
            "rows": list(schedule.rows),
            "shares": list(schedule.shares),
            "public_seed": plan.protocol.seed,
            "beam": plan.search.beam,
            "candidates": estimate.strings.candidates,
            "strings": len(estimate.strings.values),
            "estimates": _ESTIMATES,
        }
        return {"search": search}

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return report.page_words(_reading(statement), _facts(statement))


def _by_levels(guarantee: Guarantee) -> Guarantee:
    """What holds of a report whose level was drawn first."""
    return replace(guarantee, how=f"{guarantee.how}; {_BY_LEVELS}")


def _planned(options: StringsOptions, code: PrefixCode, expected: int, seed: int) -> FittedSearch:
    target = Target(
        **target_terms(options, options.model, expected, options.unit),
        task=FrequencyTask(2),  # the plan says how many buckets there are
    )
    search = Search(max(Search.beam, _BEAM_PER_STRING * (options.top or 0)), options.false_strings)
    return fit(target, code, search, seed, options.system, options.oracle)


def _filled(options: StringsOptions, code: PrefixCode) -> Codes | None:
    """The code in the place of what is no string of the alphabet, if a string was named."""
    if options.fill is None:
        return None
    codes, inside = code.encode([options.fill])
    if not inside.all():
        raise RequestError("--unusable fill: the string has characters outside of the alphabet")
    return codes[0]


def poisoning(plan: FittedSearch, forgeable: bool) -> Poisoning:
    """How far liars can move the share of a string, and how many of them make up a string.

    Args:
        plan: what users run.
        forgeable: whether others than the job make reports.
    """
    protocol, limit = plan.protocol, plan.detection_limit
    oracle, shares = protocol.oracle, protocol.schedule.group_shares
    # A string that is judged by one group alone, the smallest of those at the last level: reports
    # say their group, so all liars can be in it.
    least = shares[-1] / sum(shares)
    width = oracle.domain_size
    reports = np.append(oracle.extreme_reports, NOBODY, axis=0)
    reports[:2, 0] = (reports[:2, 0] - 1 / width) / (1 - 1 / width)  # others share its bucket
    moved = max(
        float(quotient_reach((share * least, least), reports, LIARS)) for share in (0.0, 1.0)
    )
    # So many reports for its prefixes as so many holders would make, and none astray.
    needed = limit * oracle.contrast / (1 - oracle.other)
    more, also = (
        f"; {100 * enough:.2g} % are enough to have a string of theirs found, and fewer may be"
        * (limit < math.inf)
        for enough in (limit, needed)
    )
    return Poisoning(
        "the share of any string",
        LIARS,
        moved if forgeable else None,
        more=more,
        also=also,
        beside={"found": {"lies": _known(limit), "forged": _known(needed) if forgeable else None}},
    )


def _known(share: float) -> float | None:
    """A share as JSON can hold it."""
    return share if share < math.inf else None


def _reading(statement: Mapping[str, Any]) -> list[str]:
    """How the strings of a release are to be read."""
    request, search = statement["request"], statement["search"]
    return [
        f"Nobody declared these strings: they were built up from the reports of {request['unit']}s."
        f" Planned was: {search['prospect']}. Rarer strings are identified by chance or not at "
        "all, so a string that is missing may still be frequent.",
        f"Of {search['candidates']:,} candidates those are listed that chance would bring up "
        f"{request['false_strings']:g} times in a release like this, on average, at most. A share "
        "is of the reports that were counted. Its standard error covers the randomisation of "
        "reports, the division of users among levels, and strings that share a bucket.",
    ]


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    request, search = statement["request"], statement["search"]
    levels = "+".join(map(str, search["steps"]))
    return [
        ("system", f"{request['system']}, levels of {levels} symbols"),
        ("symbols that are looked at", f"{request['max_length']} of {request['alphabet']}"),
        ("seed of the public hash", str(search["public_seed"])),
    ]
