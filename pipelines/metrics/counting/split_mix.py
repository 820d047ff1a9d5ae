"""`hushbeam sum --mechanism split-mix`: one total at the least error, by shares of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from mechanisms.channel import Guarantee
from mechanisms.counters.split_mix import LOST_SHARE, ONE_LIAR, SplitMix
from mechanisms.privacy import honesty
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SecureRandom
from mechanisms.sampling.integer_noise import IntegerNoise
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.counting import result
from pipelines.metrics.counting.options import DELTA, SumOptions
from pipelines.metrics.counting.sum import SumMetric, told
from pipelines.metrics.metric import Reports
from pipelines.metrics.options import CLIENTS_SHARE
from pipelines.numbers import open_numbers, read_bounds
from pipelines.options import flag
from transforms.blocks import Generator
from transforms.collect_counts import Counted
from transforms.conservation import Shuffled, entering, leaving
from transforms.encoders.block import SlotBlock
from transforms.encoders.reports import Clip, SplitReporting, reach
from transforms.mix import RANGES, AddShares
from transforms.shuffle import Batches

if TYPE_CHECKING:
    from typing_extensions import Self

_WHO = (
    "Every number was split into {shares} random shares, which tell nothing but their total once "
    "they are shuffled among those of others; each of {enrolled:,} enrolled devices sends, zero if "
    "it has no rows, and here the job that read the log did so for all of them. The shuffler, here "
    "the job, added noise, and knows the exact sum; the promise is against who sees this release "
    "or the shuffled messages, if it drew honestly and has told nobody what it drew, and if "
    "{honest:,} devices split honestly and tell nobody their shares. What was clipped, or could "
    "not be used, is not told."
)


@dataclass(frozen=True)
class TotalOfWords:
    """What adds up words mod q.

    Attributes:
        codes: q, a power of two: what wraps around at 2^64 is right.
    """

    codes: int
    several = True

    def valid(self, messages: np.ndarray) -> np.ndarray:
        """(n,) which messages are words."""
        return np.asarray(messages < np.uint64(self.codes))

    def count(self, messages: np.ndarray) -> np.ndarray:
        """(1,) uint64 what they add up to."""
        return np.array([messages.sum(dtype=np.uint64)], np.uint64)


@dataclass(frozen=True, kw_only=True)
class MixedSum(SumMetric):
    """How much there is, by split and mix."""

    design: SplitMix  # type: ignore[assignment]
    reporting: SplitReporting  # type: ignore[assignment]

    @classmethod
    def resolve(
        cls,
        options: SumOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        others = {
            "group_by": options.group_by, "groups": options.groups,
            "rows_per_user": options.rows_per_user > 1, "dummies": options.dummies == "devices",
        }  # fmt: skip
        named = [name for name, value in others.items() if value]
        if named:
            raise RequestError(
                f"{flag(named[0])}: with --mechanism split-mix the shuffler draws one noise for "
                "one total: leave it out, or take --mechanism counters"
            )
        if options.enrolled is None:
            raise RequestError(
                "--enrolled is missing: with --mechanism split-mix every enrolled device sends, "
                "whether it has rows or not; say how many are, which is public knowledge"
            )
        telemetry = open_numbers(options, source, empty=True)
        clip = told(options, read_bounds(options.bounds))
        design = _designed(options, clip)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, design=design,
            reporting=SplitReporting(design, clip),
        ).rounding_less()  # fmt: skip

    # What is decided before a row is read.

    @property
    def system(self) -> str:
        return "split-mix"

    @property
    def mechanism(self) -> TotalOfWords:  # type: ignore[override]
        return TotalOfWords(self.design.modulus)

    @property
    def counters(self) -> None:
        return None

    @property
    def messages(self) -> float:
        return float(self.design.shares)

    @property
    def bits(self) -> float:
        return self.messages * (self.design.modulus.bit_length() - 1)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        # The device of a user whose rows are removed sends zero: its number is replaced.
        released = replace(
            self.design.guarantee, unit=self.unit, neighbours=self.options.neighbours
        )
        return released, Guarantee.none("all shares of a report together tell its number")

    @property
    def profile(self) -> PrivacyLoss:
        own = self.design.profile()
        return replace(own, apart=own) if self.options.neighbours == "add or remove" else own

    @property
    def honest_share(self) -> float:
        return float(self.options.honest_share or CLIENTS_SHARE)

    @property
    def unit_error(self) -> float:
        return self.design.variance

    @property
    def prospect(self) -> str | None:
        own = f"{self.design.shares} messages a {self.unit}"
        return f"standard error {self.error:.3g}, of {own}, each of which has to arrive"

    def divided(self) -> Self:
        return self

    @property
    def undivided(self) -> str | None:
        return "its shuffler has to see that every share of every report is there"

    @property
    def drowns(self) -> tuple[float, str] | None:
        if self.options.expected is None:
            return None
        return self.expected * self.clip.bound, "narrower --bounds"

    def errors(self) -> result.Errors:
        noise, unit = self.design.noise, self.clip.bound / self.clip.units
        rounding = 0.0 if self.options.whole_numbers else unit * math.sqrt(self.expected) / 2
        law = IntegerNoise(-noise.mu, noise.pmf)
        least = 0 if self.clip.low >= 0 else None
        return result.Errors(law, math.sqrt(noise.variance), unit, rounding, least)

    # The clients, and the shuffler.

    def reports(self, tables: beam.PCollection) -> Reports:
        blocks, tallies, bounded = self.contributions(tables)
        words = blocks | "Words" >> beam.Map(_words).with_output_types(np.ndarray)
        sizes = blocks | "Units of block" >> beam.Map(_size).with_output_types(int)
        return Reports(words, sizes, tallies, (entering(blocks), *bounded))

    @property
    def shuffled_batches(self) -> Shuffled:
        return Shuffled(0, Batches(self.design.modulus), RANGES)

    def shuffled(self, reports: Reports) -> Reports:
        add = AddShares(self.design, reports.users, self.open_rng)
        words, drawn = reports.messages | "Shares" >> add
        sent = leaving(words, self.shuffled_batches.batches)
        mixed = words | "Shuffle" >> self.shuffler
        return Reports(mixed, None, reports.tallies, (*reports.flow, drawn, sent))

    # The collector.

    def enough(self, estimate: Counted) -> bool:
        """Whether every share of every enrolled device, and of the noise, is there.

        Where more report than are enrolled, theirs are there, too: a release that waits for so many
        and no more would tell of one that is too many.
        """
        reports, broken = divmod(estimate.messages, self.design.shares)
        if broken or estimate.invalid or reports <= self.design.most:
            return False
        try:
            self.design.decode(int(estimate.counts[0]) % self.design.modulus)
        except ValueError:  # no people and no noise add up to that
            return False
        return True

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        units = self.design.decode(int(estimate.counts[0]) % self.design.modulus)
        unit = self.clip.sign * self.clip.bound / self.clip.units
        totals = np.array([units * unit])
        columns = result.columns(totals, self.errors(), self.options.confidence)
        return {"sum.parquet": pa.table(columns)}

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        return (
            "the shares that came are not all of those of whole reports, of at least as many as "
            "--enrolled says, so that they add up to nothing"
        )

    @property
    def influence(self) -> float:
        """Nothing bounds it."""
        return math.inf

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        lies = {"per_liar": None, "figure": "the sum, without a bound"}
        return super().statement(estimate, tallies) | {"poisoning": lies}

    def _who(self) -> str:
        return _WHO.format(
            shares=self.design.shares, enrolled=self.design.most, honest=self.design.honest
        )

    def _liars(self) -> str:
        return f"{LOST_SHARE} {ONE_LIAR}"

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        design = self.design
        return {
            "name": self.system,
            "source": "Ishai, Kushilevitz, Ostrovsky, Sahai, FOCS 2006; how many shares: "
            "mechanisms/counters/shares.py",
            "constants": {
                "low": design.low, "high": design.high, "modulus": design.modulus,
                "shares": design.shares, "noise": repr(design.noise),
            },
            "dummies": "shuffler",
            "messages_per_user": self.messages,
            "bits_per_message": design.modulus.bit_length() - 1,
        }  # fmt: skip


def _words(block: SlotBlock) -> np.ndarray:
    return block.words.ravel()


def _size(block: SlotBlock) -> int:
    return block.size


def _designed(options: SumOptions, clip: Clip) -> SplitMix:
    """Shares and noise of a request.

    Raises:
        RequestError: the target is out of reach, or takes more messages than a user may send.
    """
    if options.epsilon is None:
        raise RequestError("--epsilon is missing: say what the release may reveal, as in 1")
    enrolled = options.enrolled or 0
    try:
        honest = honesty.crowd(enrolled, options.honest_share or CLIENTS_SHARE)
        design = SplitMix.meeting(
            *reach(clip), enrolled, honest, "replace", options.epsilon, options.delta or DELTA
        )
    except ValueError as error:
        raise RequestError(f"--enrolled, --bounds, --epsilon, --delta: {error}") from None
    if design.shares > (options.max_messages or math.inf):
        raise RequestError(
            f"--max-messages: {enrolled:,} devices have to send {design.shares} shares each; allow "
            "as many, or take --mechanism counters"
        )
    return design
