"""All metrics of a plan as one Beam pipeline: the log is read once, and released whole."""

from __future__ import annotations

import html
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.pvalue import AsDict

from pipelines.metrics.joined import JoinedMetrics, joined
from pipelines.metrics.metric import PAGE, Content, Metric, columns_read
from pipelines.plan.run import ReleaseTarget
from pipelines.releases import release, schema
from pipelines.releases.schema import joinable
from pipelines.views import pages
from pipelines.views.drawing import largest
from pipelines.views.headline import MIDDLE, Headline, chosen, head, headline, title
from pipelines.views.pages import placed
from pipelines.wording import plain, upward
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


def shared(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Each sentence once, and of which metrics it is, if not of all of them.

    Args:
        texts: of each metric, by name.

    >>> shared({"a": ["Trust.", "Hide."], "b": ["Trust."]})
    ['Trust.', 'a: Hide.']
    """
    names: dict[str, list[str]] = {}
    for name, own in texts.items():
        for text in own:
            names.setdefault(text, []).append(name)
    return [
        text if len(whose) == len(texts) else f"{', '.join(whose)}: {text}"
        for text, whose in names.items()
    ]


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
    files[PAGE] = page([*published, *withheld], statements, whole, shown, [*shares], made)
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


_BARS, _FIRST = 5, 3  # of a metric; of metrics whose figures stand at the top


def page(
    names: Sequence[str],
    metrics: Mapping[str, Any],
    statement: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    shares: Collection[str] = (),
    answers: Sequence[tuple[QueryResult, pa.Table]] = (),
) -> bytes:
    """The first page of a release.

    Args:
        names: of all metrics, those that were published first.
        metrics: the statements of those that were published, by name.
        statement: of the whole release.
        tables: the first table of each, with the columns that all kinds share.
        shares: names of those of which nothing but the share of unusable values is published.
        answers: queries, and the tables that they have asked for.
    """
    plan = statement["plan"]
    lead = f"Window {html.escape(plan['window'])}, version {plan['version']} of the plan."
    name, first = plan["collection"], _first_figures(names, metrics, tables)
    own = {figure.metric for query, _ in answers for figure in query.figures}
    if len(answers) == 1 and {*names} <= own:  # there is no plan but the query
        query, table = answers[0]
        lead, name, first = "", query.title, query.headline(table, statement)
    heads = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
    rows = "".join(_row(n, metrics.get(n), tables.get(n), n in shares) for n in names)
    drawn = "".join(
        _picture(name, tables[name], metrics[name])
        for name in names
        if name in tables and chosen(metrics[name])["rows"] != MIDDLE
    )
    return pages.whole(
        head(None, {**statement, "title": name}, lead, first=first),
        drawn * (not lead)
        + "".join(query.page(table) for query, table in answers)
        + '<div class="scroll" tabindex="0" role="region" aria-label="the metrics">\n'
        f'<table class="whole">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n'
        f"</table>\n</div>\n{drawn * bool(lead)}"
        f'<p class="note">Fingerprint of the plan: <code>{plan["fingerprint"]}</code></p>\n'
        + pages.files(()),
    )


def _first_figures(
    names: Sequence[str], metrics: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> Headline:
    """The first figure of the first metrics that have one."""
    first = ((name, headline(tables.get(name), metrics[name])) for name in names if name in metrics)
    lines = [(name, one.lines[0]) for name, one in first if one.lines]
    named = [one._replace(label=f"{name} · {one.label}".rstrip(" ·")) for name, one in lines]
    which = f"the first {_FIRST} of {len(named)} metrics" if len(named) > _FIRST else ""
    return Headline(named[:_FIRST], which, "")


_HEADS = ("metric", "figure", "what", "epsilon", "delta")


def _row(
    name: str, said: Mapping[str, Any] | None, table: pa.Table | None, unusable: bool = False
) -> str:
    """One metric, with a link to its page if it has one."""
    shown = html.escape(name)
    if said is None:
        why = "nearly no value can be used" if unusable else "too few reports"
        return f'<tr><th>{shown}</th><td colspan="4">withheld: {why}</td></tr>\n'
    promised = said["guarantees"]["release"]
    epsilon, delta = upward(promised["epsilon"], 4), upward(promised["delta"], 2)
    return (
        f'<tr><th><a href="{shown}/report.html">{shown}</a></th>'
        f"<td>{_figure(table, said)}</td><td>{html.escape(title(said))}</td>"
        f"<td>{epsilon:g}</td><td>{plain(delta)}</td></tr>\n"
    )


def _figure(table: pa.Table | None, said: Mapping[str, Any]) -> str:
    """The figure of a metric that comes first, and among how many."""
    figure = headline(table, said)
    if not figure.lines:
        return html.escape(figure.which)
    line, many = figure.lines[0], len(table or ())
    of = f" ({many - 1:,} more)" if many > 1 else ""
    return html.escape(" ".join(part for part in (line.number, line.unit, line.label) if part) + of)


def _picture(name: str, table: pa.Table, said: Mapping[str, Any]) -> str:
    """The largest figures of a metric that has several."""
    if not (picture := largest(schema.own(table), said, _BARS)):
        return ""
    link = f'<a href="{html.escape(name)}/report.html">{html.escape(title(said))}</a>'
    return f"<h2>{link}</h2>\n{picture}"
