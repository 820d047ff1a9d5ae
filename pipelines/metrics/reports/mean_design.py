"""What users run for a mean: the best mechanism for numbers, and the round that chooses bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mechanisms.catalog import of_task
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.mean.key_value import GroupTask, KeyValue
from mechanisms.mean.magnitudes import BoundsRule, bins
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import MeanTask, UsableMeanTask
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design, search
from mechanisms.targets.rules import Target, default_delta
from pipelines.errors import RequestError
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.terms import counted_share, target_terms
from transforms.encoders.numbers import GroupColumn

SCOUTS = 0.1  # the share of users who take part in the choice of bounds
_LARGEST_MEMORY = 1 << 31  # bytes for the counters of one batch, in each of many bundles
_OUTSIDE = 0.001  # the share of users whose numbers chosen bounds may clip
_FEWEST = 1000  # reports that two rounds can be cut from, in the shuffle model
_SPREAD = 5.0  # standard deviations by which a round may fall short of its expected size


@dataclass(frozen=True)
class Scouts:
    """The first round of two, where bounds are chosen.

    Attributes:
        design: what its users run.
        min_reports: the least batch of theirs.
        rule: what bounds follow from it.
    """

    design: Design[FrequencyOracle]
    min_reports: int
    rule: BoundsRule


def grouping(statistic: Mean) -> GroupColumn | None:
    """The column of groups, if there is one, and where those hide who are in none.

    Args:
        statistic: what is asked.
    """
    options = statistic.options
    for column, domain in statistic.domains:
        # Where groups are public, being in none is public, too.
        hidden = not options.groups_public and options.unusable != "count"
        return GroupColumn(column, domain, domain.size if hidden else None)
    return None


def require_memory(codes: int) -> None:
    """Refuse more counters than one worker should hold."""
    if not 8 * codes <= _LARGEST_MEMORY:
        raise ValueError(f"--groups: {codes:,} counters are too many; declare fewer groups")


def best_design(
    options: MeanOptions, least: int, groups: GroupColumn | None
) -> Design[ScalarMean] | Design[WithUnusable] | Design[KeyValue]:
    """What hides numbers; or numbers and groups together, where these are private."""
    terms = target_terms(options, options.model, least, options.unit)
    if groups is None or options.groups_public:
        if options.hides:
            hiding = UsableMeanTask(options.cells)
            return search(Target(**terms, task=hiding), options.mechanism)
        return search(Target(**terms, task=MeanTask(options.cells)), options.mechanism)
    serving = of_task(GroupTask.name)
    if options.mechanism not in (AUTO, *serving):
        raise ValueError(
            f"--mechanism: {options.mechanism} does not hide groups; with --group-by it serves "
            f"--groups-public, and {', '.join(serving)} serves without"
        )
    joint = GroupTask(groups.size, options.cells)
    return search(Target(**terms, task=joint), options.mechanism)


def two_rounds(options: MeanOptions, whole: int) -> tuple[int, Scouts]:
    """The least batch of the mean, and the round before it."""
    shuffled = options.model == "shuffle"
    if shuffled and whole < _FEWEST:
        raise RequestError(
            f"--choose-bounds: {whole:,} reports are too few to be divided between two rounds; "
            f"have at least {_FEWEST:,}, or declare --bounds"
        )
    slack = _SPREAD * math.sqrt(whole * SCOUTS * (1 - SCOUTS))
    scouts = max(1, math.floor(whole * SCOUTS - slack))
    least = max(1, math.floor(whole * (1 - SCOUTS) - slack))
    delta = options.delta or default_delta(options.model, least)
    target = Target(
        model=options.model,
        epsilon=options.epsilon,
        delta=delta if shuffled else 0.0,
        n=scouts,
        task=FrequencyTask(bins() + options.hides),
        epsilon_local=options.epsilon_local,
        unit=options.unit,
        honest_share=counted_share(options.honest_share),
    )
    return least, Scouts(search(target), scouts, BoundsRule(_OUTSIDE))
