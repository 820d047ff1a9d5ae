"""`hushbeam heavy-hitters --dummies shuffler`: frequent strings, by counters of prefixes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Floats, Guarantee
from mechanisms.counters.design import Counters
from mechanisms.heavy_hitters.counted import BEAM, CountedSearch, noise_of
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.counting import result, view
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.heavy_hitters.metric import code_of
from pipelines.metrics.heavy_hitters.options import HeavyHittersOptions
from pipelines.metrics.heavy_hitters.result import TABLE
from pipelines.metrics.heavy_hitters.view import labels
from pipelines.metrics.metric import Reports
from pipelines.metrics.schema import read_own
from pipelines.views.wording import upward
from transforms.blocks import Generator, bucket_count
from transforms.conservation import Shuffled, entering, reporting
from transforms.contributions import Contributions, EncodeContributions
from transforms.discover_counted import DiscoverCounted
from transforms.encoders.block import CellBlock, applicable
from transforms.encoders.prefixes import PrefixEncoder, accepts
from transforms.encoders.users import UserDigest, fresh_digest
from transforms.shuffle import Batches

if TYPE_CHECKING:
    from typing_extensions import Self

_OTHERS = frozenset({"system", "oracle", "rows_per_user"})


@dataclass(frozen=True, kw_only=True)
class CountedHeavyHitters(Counting):
    """The strings that many units hold, and how many do."""

    kind = "heavy-hitters"
    Options = HeavyHittersOptions
    unstated = _OTHERS

    options: HeavyHittersOptions
    design: Counters
    reporting: CountedSearch  # type: ignore[assignment]

    @classmethod
    def resolve(
        cls,
        options: HeavyHittersOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options, _OTHERS)
        if options.dummies == "devices":
            raise RequestError(
                "--dummies: devices cannot know which counters earlier levels let stand; take "
                "shuffler"
            )
        telemetry = source.open(options, empty=True)
        kind = telemetry.column_type(options.column, "--column")
        if not (telemetry.unread or pa.types.is_null(kind) or accepts(kind)):
            raise RequestError(
                f"--column: {options.column!r} holds {kind}; text is needed, or integers"
            )
        seed = int(open_rng().words(1)[0]) if source.seed is None else source.seed
        try:
            search = CountedSearch(code_of(options, kind), seed)
        except ValueError as error:
            raise RequestError(str(error)) from None
        design = cast(Counters, meeting(options, search.levels, ()))
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, design=design,
            reporting=search,
        )  # fmt: skip

    def redesigned(self) -> Self:
        raise RequestError(
            "its counters are what earlier levels let stand, so a shuffler would have to be told "
            "them level by level; leave `dummies` out, or run it in one job"
        )

    @property
    def model(self) -> str:
        return "central"  # what no counter is made for, no dummy hides from the job

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        why = "it is not randomised, and the job counts it as it is"
        return replace(super().guarantees[0], model="central"), Guarantee.none(why)

    def _who(self) -> str:
        return (
            f"Nothing that a {self.unit} sends is randomised: the job that read the log counted it "
            "as it is, and drew dummies for every counter that it looked at. The promise is "
            "against who sees this release, if the job drew honestly and has told nobody what it "
            "drew; it knows the exact counts."
        )

    @property
    def limit(self) -> float:
        """How many units must hold a string so that it is all but sure to be found."""
        return self.reporting.detection_limit(self.design, self.options.false_strings)

    @property
    def error(self) -> float:
        return math.sqrt(self.design.variances[-1])

    @property
    def _typical(self) -> None:
        return None

    @property
    def cautions(self) -> list[str]:
        if self.limit <= self.expected:
            return super().cautions
        return [
            *super().cautions,
            f"of {self.expected:,} {self.unit}s no string is sure to be found",
        ]

    @property
    def prospect(self) -> str | None:
        return (
            f"every string that at least {math.ceil(self.limit):,} {self.unit}s hold is found with "
            f"probability {1 - MISSED:g} or more, and how many do is told with a standard error of "
            f"{self.error:.3g}"
        )

    @property
    def expected_error(self) -> str:
        return f"finds {math.ceil(self.limit):,} of {self.expected:,}"

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.options.column: pa.string()}

    def encoder(self, coins: Any = None) -> PrefixEncoder:  # type: ignore[override]
        search = self.reporting
        return PrefixEncoder(self.options.column, search, search.code.unusable)

    # A string of each unit, one key a level.

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> Contributions:
        users = named or fresh_digest(self.options.user_column)
        buckets, keep = bucket_count(self.telemetry.rows), named is not None
        step = EncodeContributions(self.viewed(), users, buckets, self.open_rng, keep)
        return tables | "Contributions" >> step

    def reports(self, tables: beam.PCollection) -> Reports:
        blocks, tallies, bounded = self.contributions(tables)
        entered = entering(blocks)
        if self.options.where:
            blocks = blocks | "Applicable" >> beam.Map(applicable).with_output_types(CellBlock)
        keys = blocks | "Keys" >> beam.Map(_keys, self.reporting).with_output_types(np.ndarray)
        return Reports(keys, None, tallies, (entered, reporting(blocks, "Sent"), *bounded))

    @property
    def shuffled_batches(self) -> Shuffled:
        return Shuffled(0, Batches(1 << 64))

    def shuffled(self, reports: Reports) -> Reports:
        return reports  # nobody but the job sees a key; it draws the dummies of the candidates

    def estimated(self, reports: Reports) -> beam.PCollection:
        false_strings = self.options.false_strings
        step = DiscoverCounted(self.reporting, self.design, false_strings, self.open_rng)
        return reports.messages | "Discover" >> step

    def arrived(self, estimate: Any) -> int:
        return estimate.messages // len(self.reporting.steps)

    def totals(self, counts: Any) -> Floats:
        raise TypeError("strings are no total")

    def errors(self) -> result.Errors:
        """Of how many units hold a string."""
        return result.Errors(noise_of(self.design), self.error, least=0)

    @property
    def influence(self) -> float:
        return 1.0

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: f"{self.unit}s"}

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        found, top = estimate.found, self.options.top
        columns = result.columns(found.holders, self.errors(), self.options.confidence)
        first = {"value": pa.array(found.values, pa.string()), "whole": pa.array(found.whole)}
        table = pa.table(first | columns | {"expected_false": found.expected_false})
        return {TABLE: table.slice(0, top)}

    def _cut(self, estimate: Any) -> dict[str, Any]:
        what = f"{self.unit}s whose value is missing, or no string of the alphabet"
        count = float(estimate.found.unusable)
        return {"unusable": {"what": what, "estimate": count, "standard_error": self.error}}

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        search = {
            "prospect": self.prospect,
            "detection_limit": self.limit,
            "steps": list(self.reporting.steps),
            "public_seed": self.reporting.seed,
            "beam": BEAM,
            "strings": len(estimate.found.values),
        }
        return super().statement(estimate, tallies) | {"search": search}

    @property
    def error_statement(self) -> dict[str, Any]:
        return super().error_statement | {
            "covers": "the noise of the dummies"
            + "; of each user one string, drawn uniformly among its rows" * (self.unit == "user"),
            "reading": "Strings were chosen by the counts of all levels of a tree of beginnings; "
            f"how many {self.unit}s hold one was counted apart, with noise that had no part in the "
            "choice, and is unbiased.",
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        chance = upward(self.options.false_strings, 3)
        return [
            f"Of strings that nobody holds there are {chance:g} here on average, at the most. "
            f"Candidates of a level were the beginnings that earlier levels had let stand."
        ]

    @property
    def request(self) -> dict[str, Any]:
        code = self.reporting.code
        characters = code.characters or "all text, as UTF-8 bytes"
        return super().request | {"alphabet": characters, "max_length": code.max_length}

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(self.options.brief, _readable(tables[TABLE]), statement)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, TABLE)
        if not len(table):
            screen.print("no string stands out of the noise")
            return
        view.show(screen, _readable(table), self.options.confidence)


def _keys(block: CellBlock, search: CountedSearch) -> np.ndarray:
    """The keys of a block, one a level of each row."""
    return search.keys(block.cells).ravel()


def _readable(table: pa.Table) -> pa.Table:
    """A table whose strings can be shown."""
    values = pa.array(labels(table), pa.string())
    return table.drop_columns(["whole", "expected_false"]).set_column(0, "string", values)
