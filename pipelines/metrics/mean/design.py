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
from pipelines.logs import inputs
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.terms import counted_share, target_terms
from transforms.encoders.domain import Domain
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


def declared_groups(options: MeanOptions, telemetry: inputs.Telemetry) -> GroupColumn | None:
    """The declared groups, held against the column."""
    if options.group_by is None or options.groups is None:
        return None
    kind = telemetry.column_type(options.group_by, "--group-by")
    try:
        domain: Domain = inputs.read_domain(options.groups, kind, other=False)
    except RequestError as error:
        # What groups must be is what a domain must be; only the flag has another name.
        complaint = (
            str(error).replace("--domain", "--groups").replace("a histogram needs", "needed are")
        )
        raise RequestError(complaint.replace(" (or --out-of-domain other)", "")) from None
    # Whoever is in no group hides among those who are; where groups are public, that is public too.
    hidden = not options.groups_public and options.unusable != "count"
    return GroupColumn(options.group_by, domain, domain.size if hidden else None)


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
