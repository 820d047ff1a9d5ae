"""What users run for a mean: the best mechanism for numbers, and for their groups."""

from __future__ import annotations

from mechanisms.catalog import of_task
from mechanisms.mean.key_value import GroupTask, KeyValue
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import MeanTask, UsableMeanTask
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design, search
from mechanisms.targets.rules import Target
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.terms import target_terms
from transforms.encoders.numbers import GroupColumn

_LARGEST_MEMORY = 1 << 31  # bytes for the counters of one batch, in each of many bundles


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
