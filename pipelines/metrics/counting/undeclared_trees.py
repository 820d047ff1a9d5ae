"""Quantiles of groups that nobody declared: a tree of counters of each that enough units have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Portion
from mechanisms.counters.tree import Tree
from mechanisms.heavy_hitters.group_selection import GroupSelection
from pipelines.logs.inputs import read_domain
from pipelines.metrics.counting.by_job import ByJob
from pipelines.metrics.counting.shapes.shape import parts_of
from pipelines.metrics.counting.shapes.tree import FANOUTS, on_average
from pipelines.metrics.counting.undeclared import OfUndeclaredGroups
from pipelines.metrics.statistics.labels import joined_labels
from transforms.collector.collect_counts import Counted
from transforms.encoders.group_trees import GroupTrees
from transforms.encoders.paths import PathReporting


@dataclass(frozen=True, kw_only=True)
class OfUndeclaredTrees(OfUndeclaredGroups):
    """A distribution by groups that are found in the log."""

    reporting: GroupTrees

    @classmethod
    def least(cls, statistic: Any, sealed: bool = False) -> tuple[GroupSelection, GroupTrees]:
        options, work, made = statistic.options, statistic.workload, []
        parts = parts_of(options) if work.rows is None else 1
        for tree in (Tree.uniform(statistic.bins, fanout) for fanout in FANOUTS):
            own = (Portion(1, 0, parts),) * len(tree.levels)
            design = cls.meeting(options, work.rows or work.most_groups, own, work.rows or 1)
            made.append((on_average(tree, design.variances[:-1]), design, tree))
        _, design, tree = min(made, key=lambda one: one[0])
        more = {"tree": tree, "bounds": statistic.bounds, "parts": parts}
        return design, GroupTrees(design, rows=work.rows, **more)

    def _as_declared(self, groups: int) -> ByJob:
        """What is known of trees with such noise, had so many groups been declared."""
        own, rows = self.design, self.reporting.rows
        known = {"bins": self.statistic.bins, "undeclared": "drop"}
        options = self.options.model_copy(update=known)
        domain = read_domain(f"0..{groups - 1}", pa.int64(), other=False, least=1)
        statistic = replace(self.statistic, options=options, domains=(("group", domain),))
        most = min(own.most_groups, groups)
        paths = PathReporting(self.reporting.tree, groups, most, rows, self.reporting.parts)
        laws = (*own.laws, own.laws[0])  # the last of what nobody counts here
        design = JobTotals(
            paths.levels, laws, own.neighbours, own.epsilon, own.delta, 1, own.parts, own.rows
        )
        return ByJob(
            statistic=statistic, options=options, telemetry=self.telemetry, open_rng=self.open_rng,
            design=design, reporting=paths,
        )  # fmt: skip

    def _evidence(self, estimate: Any) -> Any:
        release = self._as_declared(max(len(estimate.totals), 1))
        counts, levels = np.zeros(release.design.codes, np.int64), self.reporting.tree.levels
        ends = np.cumsum([level.counters for level in levels])[:-1]
        by_level = [part.ravel() for part in np.split(estimate.totals, ends, axis=1)]
        counts[: estimate.totals.size] = np.concatenate(by_level)
        return release.evidence(Counted(counts, estimate.messages, 0))

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        labels = joined_labels([*self.heading.labels], self.encoder().labels(estimate.groups))
        (name, values), made = next(iter(labels.items())), dict[str, pa.Table]()
        statistic = self._as_declared(max(len(values), 1)).statistic
        for file, table in statistic.tables(self.evidence(estimate)).items():
            table = table if len(values) else table.slice(0, 0)
            of = np.repeat(np.arange(len(values)), len(table) // max(len(values), 1))
            made[file] = table.set_column(table.column_names.index(name), name, values.take(of))
        return made
