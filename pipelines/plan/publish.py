"""All metrics of a plan as one Beam pipeline: the log is read once, and released whole."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import AsDict

from pipelines.metrics.joined import JoinedMetrics, joined
from pipelines.metrics.metric import PAGE, Content, Metric, columns_read
from pipelines.plan.run import ReleaseTarget
from pipelines.releases import release
from pipelines.releases.schema import joinable
from pipelines.views.headline import Headline, chosen
from pipelines.views.pages import placed
from pipelines.views.plan_page import page
from pipelines.wording import shared
from transforms.elements.progress import SETTLED, tally
from transforms.encoders.users import UserDigest
from transforms.rows.telemetry import ReadTelemetry
from transforms.units.divide import DrawParts

if TYPE_CHECKING:
    from pipelines.query.answer import QueryResult


def drawn(tables: beam.PCollection, metrics: Iterable[Metric]) -> beam.PCollection:
    """Tables of a plan's input, with what was drawn for each unit if metrics divide them.

    It stands before the metrics' ways part: drawn once for each, a row could answer several.

    Args:
        tables: with the metrics' columns.
        metrics: that read them.
    """
    for metric in metrics:
        if metric.part is not None:
            column = metric.options.user_column
            # As text: files of one window may hold integers, and others their decimals.
            users = None if column is None else UserDigest(column, metric.part.key, as_text=True)
            return tables | "Divide units" >> DrawParts(users, metric.open_rng)
    return tables


@dataclass
class PublishPlan(beam.PTransform):
    """From files to one release with a folder for each metric.

    Attributes:
        metrics: all of the same files.
        target: where the release goes.
        read: from nothing to tables of the window; by default all that the files hold.
    """

    metrics: Sequence[Metric]
    target: ReleaseTarget
    read: beam.PTransform | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        names = tuple(metric.name for metric in self.metrics)
        tables = drawn(begin | "Read" >> (self.read or self._files()), self.metrics)
        sets = joined(self.metrics)
        together = {metric.name for some in sets for metric in some}
        alone = [metric for metric in self.metrics if metric.name not in together]
        contents = [tables | metric.name >> Whole(metric) for metric in alone]
        for number, some in enumerate(sets):
            contents.append(tables | f"Counters {number}" >> JoinedMetrics(some))
        return released(begin, ReleaseWholeDoFn(self.target, names), tuple(contents))

    def _files(self) -> ReadTelemetry:
        columns = frozenset().union(*(columns_read(metric) for metric in self.metrics))
        return self.metrics[0].telemetry.read(columns)


def released(
    begin: beam.pvalue.PBegin, step: beam.DoFn, contents: tuple[beam.PCollection, ...], *beside: Any
) -> beam.PCollection:
    """One call of a step that makes a release.

    Args:
        begin: of the pipeline.
        step: takes nothing, contents by name, and what stands beside them.
        contents: of the metrics, each with its name.
        *beside: side inputs.
    """
    named = contents | "Contents" >> beam.Flatten()
    return called_once(begin, "Release", step, AsDict(named), *beside)


def called_once(
    begin: beam.pvalue.PBegin, label: str, step: beam.DoFn, *beside: Any
) -> beam.PCollection:
    """One call of a step, when all that it looks at beside is there."""
    return begin | "Once" >> beam.Create([None]) | label >> beam.ParDo(step, *beside)


@dataclass
class Whole(beam.PTransform):
    """One metric from tables to what is published, and its name on it."""

    metric: Metric

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        # Reports that this job has drawn itself are not tested as those that anybody can send are:
        # to count each message twice took 0.1 CPU seconds a metric of 10^7 rows.
        return self.metric.whole(tables) | named(self.metric.name)


def named(metric: str) -> beam.PTransform:
    """Says of a content whose it is."""
    return "Name" >> beam.Map(_under, metric).with_output_types(tuple[str, Content])


def _under(content: Content, metric: str) -> tuple[str, Content]:
    return metric, content


class ReleasePlanDoFn(beam.DoFn):
    """Writes the release, if any metric has something to publish.

    Metrics that had too few reports are named in the statement and published never.
    """

    def __init__(self, target: ReleaseTarget, names: tuple[str, ...]) -> None:
        self._target, self._names = target, names

    def process(self, _: None, contents: Mapping[str, Content]) -> None:
        if not any(content.files for content in contents.values()):
            return
        # Asked here, at the last moment before anything is written: the run may have taken hours
        # since its budget was reserved.
        if not self._target.stands():
            tally(SETTLED, 1)
            return
        target = self._target
        whole = gathered(self._names, contents, target.statement, target.queries)
        release.publish(self._target.output, *whole)


class ReleaseWholeDoFn(ReleasePlanDoFn):
    """The same where one job has made all contents: then each metric says that it was withheld.

    One that says nothing has met files that changed, or the engine has lost it. Then nothing is
    published: as "withheld" it would be gone without a word, and its price with it.
    """

    def process(self, _: None, contents: Mapping[str, Content]) -> None:
        if contents.keys() == {*self._names}:
            super().process(_, contents)


def _place(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What the statement of each metric says of the release that it belongs to."""
    plan = statement["plan"]
    time = statement.get("stream", plan)  # a stream knows how long its windows are
    window = {"name": plan["window"], "start": time["from"], "end": time["until"]}
    collection = {"collection": plan["collection"], "window": window}
    return {"release_id": statement["release_id"], **collection}


def _first(files: Mapping[str, bytes], name: str, said: Mapping[str, Any]) -> pa.Table | None:
    """The table of a metric whose figure a reader meets first, if it has one."""
    table = f"{name}/{chosen(said)['table']}"
    return pq.ParquetFile(io.BytesIO(files[table])).read() if table in files else None


def _of_all(statements: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Between which inputs nobody can tell, and what is published as it is, of all metrics."""
    return {
        key: "; ".join(shared({name: [said[key]] for name, said in statements.items()}))
        for key in ("neighbours", "published_exactly")
        if all(key in said for said in statements.values())
    }


def gathered(
    names: Sequence[str],
    contents: Mapping[str, Content],
    statement: Mapping[str, Any],
    queries: Sequence[QueryResult] = (),
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of all metrics, each under its metric's folder, and the statement.

    Args:
        names: of the metrics, in the order of the plan.
        contents: by name; those that are missing, or without files, were withheld.
        statement: of the release, but for what the metrics have come to.
        queries: what else is made of their figures.
    """
    files: dict[str, bytes] = {}
    place = _place(statement)
    statements: dict[str, dict[str, Any]] = {}
    drawn = [name for name in names if name in contents and contents[name].files]
    # Of these the share of values that cannot be used is published, in the statement, and no more.
    alone = [name for name in drawn if "withheld" in contents[name].statement]
    published = [name for name in drawn if name not in alone]
    for name in published:
        statements[name] = {**contents[name].statement, **place, "metric": name}
        own = joinable(contents[name].files, statements[name])
        own[PAGE] = placed(own[PAGE], statements[name])
        files |= {f"{name}/{file}": data for file, data in own.items()}
        files[f"{name}/{release.STATEMENT}"] = release.written(statements[name])
    diagnostics = {name: part["doubts"] for name, part in statements.items() if "doubts" in part}
    cautions = {name: part["cautions"] for name, part in statements.items() if "cautions" in part}
    said = {name: contents[name].statement for name in alone}
    shares = {
        name: {"why": one["withheld"], "unusable": one["unusable"]} for name, one in said.items()
    }
    first = [diagnostics, cautions, {name: [share["why"]] for name, share in shares.items()}]
    words = [f"{name}: {text}" for of in first for name, texts in of.items() for text in texts]
    promise, more = statement["in_words"][:1], statement["in_words"][1:]
    words += [*promise, *shared({name: contents[name].shared for name in drawn}), *more]
    statement = {**statement, **_of_all(statements | said), "in_words": words}
    tables = {name: _first(files, name, statements[name]) for name in published}
    shown = {name: table for name, table in tables.items() if table}
    withheld = [name for name in names if name not in published]
    made = [(query, table) for query in queries if (table := query.of_files(files)) is not None]
    whole = {**statement, "cautions": cautions}
    answers, only = [query.page(table) for query, table in made], _only(names, made, whole)
    files[PAGE] = page([*published, *withheld], statements, whole, shown, [*shares], answers, only)
    for query, table in made:
        files |= query.files(table)
    if queries:
        statement["queries"] = {query.name: query.text for query in queries}
    missing = {name: contents[name].statement for name in withheld if name in contents} | shares
    return files, {
        **statement,
        "metrics": published,
        "withheld": withheld,
        "missing": missing,
        "doubts": diagnostics,
        **({"cautions": cautions} if cautions else {}),
    }


def _only(
    names: Sequence[str], made: Sequence[tuple[QueryResult, pa.Table]], whole: Mapping[str, Any]
) -> tuple[str, Headline] | None:
    """Title and figures of the one query that a release is made for, if there is no other plan."""
    own = {figure.metric for query, _ in made for figure in query.figures}
    if len(made) != 1 or not {*names} <= own:
        return None
    query, table = made[0]
    return query.title, query.headline(table, whole)
