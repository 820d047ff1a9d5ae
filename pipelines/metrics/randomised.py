"""Metrics to which each unit sends one randomised report: the report alone protects it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mechanisms.channel import Guarantee
from mechanisms.designs import MODELS, RandomisedReports
from mechanisms.planner.search import Design
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.privacy.loss import PrivacyLoss, worst_profile
from pipelines.metrics.metric import Metric, MetricReports, viewed
from pipelines.metrics.permanent import promises
from pipelines.metrics.poisoning import UNKNOWN, Poisoning
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling, mixed
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.metrics.unusable.share import Share
from pipelines.releases.statement import counted, head, versions
from pipelines.wording import (
    ALIKE,
    FUSED,
    LEFT_OUT,
    among,
    counting_on,
    number_of,
    one_of_many,
    protected,
)
from transforms.elements.progress import REPORTS
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam

    from transforms.units.contributions import EncodedContributions


@dataclass(frozen=True, kw_only=True)
class Randomised(Metric):
    """A statistic of what each unit randomises by itself.

    A kind must say how a request is settled (`resolve`), what it reads (`encoder`), and what is
    made of the reports (`estimated`, `tables`). All else has a default that is right for a kind
    with one design and one message a user, and stands here to be said better by who knows more.
    """

    @property
    def designs(self) -> tuple[Design[Any], ...]:
        """Those of which a user takes part in one; the first is the release's own."""
        return (self.design,)

    @property
    def protection(self) -> Protection:
        design, target, messages = self.design, self.design.target, float(self.design.messages)
        return Protection(
            str(design.name), target.model, self.mechanism, messages,
            bits=design.bits * max(1.0, messages),
            honest_share=target.honest_share if target.model == "shuffle" else None,
        )  # fmt: skip

    @property
    def mechanism(self) -> Any:
        return self.design.mechanism

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        return self.design.release, self.design.local

    @property
    def priced(self) -> RandomisedReports | None:
        target, (released, _) = self.design.target, promises(self)
        if len(self.designs) > 1 or target.bound != "exact" or released.model not in MODELS:
            return None
        distinct = None if self.permanent is None else self.permanent.distinct
        return RandomisedReports(
            self.design.mechanism, released.model, released.epsilon, released.delta, target.n,
            target.honest_share, distinct,
        )  # fmt: skip

    @property
    def profile(self) -> PrivacyLoss:
        from mechanisms.planner.release_profile import release_profile

        return worst_profile([release_profile(design) for design in self.designs])

    @property
    def unit_error(self) -> float:
        return float(self.design.error * self.design.target.n)

    @property
    def cautions(self) -> list[str]:
        release, report = self.guarantees
        declared = self.options.min_reports
        return [*cautioned(release.delta, declared), *next_to_nothing(release, report)]

    @property
    def expected_error(self) -> str:
        return f"± {math.sqrt(self.design.error):.2g}"

    # The clients.

    @property
    def undivided(self) -> str | None:
        # The average may well be 1 where some send none and others two.
        if self.protection.messages != 1 or self.mechanism.several:
            return "its users send several messages, and only who has counted users can decode them"
        return None

    @property
    def fresh_only(self) -> str | None:
        if self.design.registration.seeded:
            return "its hash is another in each window"
        return None

    def reports(self, tables: beam.PCollection) -> MetricReports:
        import apache_beam as beam

        from transforms.elements.conservation import summed
        from transforms.rows.perturb import PerturbAndCount, users_of

        blocks, tallies, bounded = self.contributions(tables)
        users = None
        if self.protection.messages != 1 or self.mechanism.several:
            users = blocks | "Count users" >> beam.Map(users_of).with_output_types(int)
        batches = self.shuffling.passed.batches
        step = PerturbAndCount(self.mechanism, batches, self.open_rng)
        messages, flow = blocks | "Perturb" >> step
        # Added up once, for the shuffler, whose batch may be too small, and for the collector.
        return MetricReports(messages, users, tallies, sums=summed(flow, *bounded))

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> EncodedContributions:
        from transforms.elements.blocks import bucket_count
        from transforms.units.contributions import EncodeContributions

        users = named or fresh_digest(self.options.user_column)
        buckets, encoder = bucket_count(self.telemetry.about), viewed(self)
        keep = named is not None
        step = EncodeContributions(encoder, users, buckets, self.open_rng, keep, self.part)
        return tables | "Contributions" >> step

    # The shuffler.

    @property
    def shuffling(self) -> Shuffling:
        from transforms.elements.blocks import bucket_count
        from transforms.elements.conservation import Batches, Shuffled
        from transforms.shuffle.shuffle import Shuffle

        why, shuffle = None, None
        if self.protection.model != "shuffle":
            why = f"nothing is shuffled in the {self.protection.model} model"
        elif self.batches > 1:
            why = (
                "each public group is withheld for itself if it is too small, and that the "
                "shuffler does"
            )
        if self.protection.model == "shuffle" and not self.options.fused:
            buckets = bucket_count(self.telemetry.about * max(1.0, self.protection.messages))
            shuffle = Shuffle(
                self.min_reports, self.mechanism.codes, buckets, self.open_rng,
                batches=self.batches, counted=True,
            )  # fmt: skip
        # What is not shuffled is counted before it is withheld.
        least = 0 if shuffle is None else self.min_reports
        passed = Shuffled(least, Batches(self.mechanism.codes, self.batches))
        return Shuffling(passed, partial(mixed, shuffle=shuffle), why)

    # The collector.

    def enough(self, estimate: Any) -> bool:
        return self.reported(estimate)[0] >= self.min_reports

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        permanent, lies = self.permanent, self.poisoning(estimate)
        words = [*([] if permanent is None else [permanent.words]), *self.words, *self.cautions]
        otherwise = ALIKE if self.options.hides else LEFT_OUT
        words += among(self.options.where, self.unit, otherwise)
        words.append(UNKNOWN if lies is None else lies.in_words(self.unit))
        if self.protection.model == "shuffle" and permanent is None:
            words.insert(0, counting_on(self.options.honest_share, self.unit))
        words += [FUSED] * self.options.fused
        if self.part is not None:
            words.insert(0, one_of_many(self.unit, self.part.share))
        covered = protected(self.unit, self.options.hides, self.options.fill)
        exact = not (self.options.hides or self.options.fill)
        return {
            **head(self.kind, promises(self), covered, words, self.min_reports, self.priced),
            "neighbours": self.neighbours if permanent is None else permanent.neighbours,
            **counted(*self.reported(estimate), tallies, exact, self.unit),
            "unusable": _treatment(self, estimate),
            "poisoning": lies and lies.statement(),
            "request": self.request,
            "mechanism": self.mechanism_statement,
            **self.own_statement(estimate),
            "versions": versions(),
        }

    @property
    def shared_words(self) -> list[str]:
        return [protected(self.unit, self.options.hides, self.options.fill)]

    @property
    def neighbours(self) -> str:
        """Which two inputs the promises make hard to tell apart."""
        return f"one {self.unit}'s value is replaced by {self.another('that can be used')}"

    def another(self, which: str) -> str:
        """What a value may be replaced by.

        Args:
            which: what is known of the values that can be used.
        """
        return f"any other {which}" + (", or by none that can be used" * self.options.hides)

    def poisoning(self, estimate: Any) -> Poisoning | None:
        """What one liar in a hundred can do to it; None if nobody has worked that out."""
        return None

    def unusable_share(self, estimate: Any) -> dict[str, Any]:
        """The share of units whose value cannot be used: share, standard_error, lower, upper."""
        return {}

    def unusable_parts(self, estimate: Any, confidence: float) -> Mapping[str, Share]:
        said = self.unusable_share(estimate) if self.options.hides else {}
        if "share" not in said:
            return {}
        # Of two figures that are published: whoever has the statement can do the sum again.
        middle = said.get("unbiased", said["share"])
        reach = normal_quantile(confidence) * said["standard_error"]
        return {"": Share.of(middle, middle - reach, middle + reach)}

    def reported(self, estimate: Any) -> tuple[int, int]:
        """How many users reported, and how many messages no client could have sent."""
        return estimate.n, estimate.invalid

    def arrived(self, estimate: Any) -> int | None:
        return sum(self.reported(estimate))

    @property
    def request(self) -> dict[str, Any]:
        permanent = self.permanent
        return super().request | {
            "honest_share": self.protection.honest_share,
            "delta": self.design.target.delta,
            "min_reports": self.min_reports,
            **({} if permanent is None else {"distinct_values": permanent.distinct}),
        }

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        """What clients ran, so that anybody can build it again."""
        return {
            "name": self.design.name,
            "source": self.design.source,
            "constants": self.mechanism.constants(),
            "messages_per_user": self.protection.messages,
            "bits_per_message": max(1, (self.mechanism.codes - 1).bit_length()),
        }

    def own_statement(self, estimate: Any) -> dict[str, Any]:
        """What no other kind has to say."""
        return {}

    # Afterwards.

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        reports = counted.get(REPORTS, 0)
        if reports >= self.min_reports:
            return None
        return f"{number_of(reports, 'report')} came, fewer than --min-reports {self.min_reports:,}"


def _treatment(metric: Randomised, estimate: Any) -> dict[str, Any]:
    """What became of values that cannot be used."""
    if metric.options.hides:
        return {"treated": "reported as one more value"} | metric.unusable_share(estimate)
    if metric.options.fill is not None:
        return {"treated": f"reported as {metric.options.fill}"}
    return {"treated": "left out, and counted as they are"}
