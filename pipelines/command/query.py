"""`hushbeam query`: a query, compiled to a plan, and published."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import yaml

from pipelines.command.query_options import QueryOptions
from pipelines.errors import DONE, Caution, RequestError
from pipelines.jobs.engine import prepared
from pipelines.ledger.paying import Payment
from pipelines.logs import inputs
from pipelines.metrics.first_round import SHARE, ChosenBounds, chosen_of, first_metrics
from pipelines.metrics.metric import Metric
from pipelines.plan.document import PlanBudget, PlanDocument
from pipelines.plan.job import PlanJob, headed, open_job, unread_job
from pipelines.plan.queries import plan_of, text_of
from pipelines.plan.run import code_of, of_files, price, release_window, show_answers
from pipelines.query.clause import QueryTerms
from pipelines.query.compiler import Compiled, compiled
from pipelines.query.public import PublicTable
from pipelines.releases import release
from pipelines.request import answers
from pipelines.storage.paths import beside
from pipelines.views.console import Screen, numbers_table
from pipelines.wording import one_line
from transforms.files.source import format_of

_SQL = ".sql"
_WINDOW = "all"
_NONE: Mapping[str, tuple[float, float]] = {}


def publish(
    name: str, options: QueryOptions, beam_arguments: list[str], pays: Payment | None = None
) -> int:
    """As `run`, under the name that it has elsewhere."""
    return run(options, beam_arguments, pays)


def run(options: QueryOptions, beam_arguments: list[str], pays: Payment | None = None) -> int:
    """Answer a query, or explain it.

    Args:
        options: of the request.
        beam_arguments: what is for Beam.
        pays: where it is paid for, if it is.

    Returns:
        The exit code.

    Raises:
        RequestError: the query, the request or its input is wrong.
        WithheldError: too little budget is left.
        FailedError: the job ended without a release.
    """
    query = _compiled(options)
    if query.unbounded:
        query = _bounded(query, options, beam_arguments, pays)
    plan = _plan(query, options, pays, options.output)
    if options.explain:
        return _explain(query, plan)
    for_beam = prepared(beam_arguments)
    _require_same(plan)
    screen = Screen()
    before = release.holds_release(plan.output)
    folder = release_window(plan, _WINDOW, open_job, of_files, for_beam, screen=screen)
    if before and folder is not None:
        show_answers(plan, folder, screen)
    return code_of(folder)


def _compiled(options: QueryOptions, bounds: Mapping[str, tuple[float, float]] = _NONE) -> Compiled:
    """A query that is answered, and has all that it needs."""
    text, name = options.query, "query"
    if text.endswith(_SQL) and "\n" not in text:
        text, name = text_of(text), text
    named = (one.partition("=") if "=" in one else ("", "", one) for one in options.public)
    public = {
        key or os.path.basename(path).split(".")[0]: PublicTable.read(path, options.reading)
        for key, _, path in named
    }
    query = compiled(text, QueryTerms(
        options.user_column, options.epsilon, options.delta, options.max_groups,
        options.rows_per_user, dict(map(_pair, options.groups)), public,
        bounds if options.choose_bounds else None,
    ), name)  # fmt: skip
    if query.files and options.input:
        raise RequestError("--input: the query names its files behind FROM: leave it out")
    if not (query.files or options.input):
        raise RequestError(
            "--input is missing: which files are the log, or write them behind FROM, in quotes"
        )
    if not (options.output or options.explain):
        raise RequestError("--output is missing: a new folder for the answer")
    return query


def _bounded(
    query: Compiled, options: QueryOptions, beam_arguments: list[str], pays: Payment | None
) -> Compiled:
    """A query within bounds that a first round chooses, with the rest of epsilon.

    The second round may depend on what the first has published: what both spend is fixed before,
    and adds up (Dwork and Roth 2014, theorem B.1).
    """
    output = f"{(options.output or 'nowhere').rstrip('/')}-bounds"
    labels, of_users = query.unbounded, query.terms.unit is not None
    metrics = first_metrics([*labels], of_users, query.where)
    first = replace(query, metrics=metrics, terms=query.terms.part(SHARE))
    whole = _plan(query, options, pays, options.output)
    headed(whole, _WINDOW)  # types are refused at their places
    plan = _plan(first, options, pays, output).answering(())
    job = unread_job(plan, _WINDOW, seen=headed(plan, _WINDOW))
    if not options.explain:
        _require_same(whole)
        if release.holds_release(output) and not release.holds_release(whole.output):
            Screen().say(f"released before: {output}; its bounds are taken")
        elif pays is not None and not release.holds_release(output):
            _require_both(job, whole)
        with answers.apart(), warnings.catch_warnings():
            # One row of a user counts in this round: that others do not is no news.
            warnings.simplefilter("ignore", Caution)
            release_window(
                plan, _WINDOW, open_job, of_files, prepared(beam_arguments),
                screen=Screen(quiet=True),
            )  # fmt: skip
    pairs = {}
    if release.holds_release(output):
        tables = (release.read_table(output, f"{one['name']}/count.parquet") for one in metrics)
        pairs = dict(zip(labels, map(chosen_of, tables), strict=True))
        query = _compiled(options, pairs)
    elif not options.explain:
        raise RequestError(f"--choose-bounds: {output} is made elsewhere: run this again after it")
    spent, name = (job.guarantees[0], job.accounts_as_data), os.path.basename(output)
    chosen = ChosenBounds(pairs, labels, name, *spent)
    answer = replace(query.answer, chosen=chosen)
    return replace(query, answer=answer, terms=query.terms.part(1 - SHARE))


def _plan(
    query: Compiled, options: QueryOptions, pays: Payment | None, output: str
) -> PlanDocument:
    """The plan that a query is, or its first round."""
    said: dict[str, Any] = {
        "input": query.files or options.input, "output": output or "nowhere",
        "types": (*options.types, *_types(query, options)), "delimiter": options.delimiter,
        "header": options.header, "encoding": options.encoding, "derive": options.derive,
        "where": options.where, "large_delta": options.large_delta,
    }  # fmt: skip
    if pays is not None:
        said |= _paid(output, pays, query.answer.text)
    metrics = tuple({**one, "confidence": options.confidence} for one in query.metrics)
    return plan_of(replace(query, metrics=metrics), said)


def _types(query: Compiled, options: QueryOptions) -> tuple[str, ...]:
    """What columns of text files hold, as the query uses them, where nobody has said it."""
    seen = inputs.headed(query.files or options.input, options.reading, beginnings=True).columns
    texts = [schema for file, schema in seen if format_of(file).text]
    said = {one.partition("=")[0] for one in options.types}
    return tuple(
        f"{name}={kind}"
        for name, kind in query.types.items()
        if name not in said
        if texts and all(name in one.names and one.field(name).type == pa.string() for one in texts)
    )


def _pair(text: str) -> tuple[str, str]:
    column, equals, values = text.partition("=")
    if not (column and equals and values):
        raise RequestError("--groups: a column and its values, as in city=cities.txt")
    return column, values


def _paid(output: str, pays: Payment, text: str) -> dict[str, Any]:
    """What a plan says of the ledger that pays for it."""
    from pipelines.ledger.ledger import CollectionLedger
    from pipelines.ledger.rules import population_of

    where, output = beside("", pays.ledger), beside("", output)
    known = population_of(pays.population, CollectionLedger.open(where).read().populations, where)
    budget = PlanBudget(epsilon=known.budget.epsilon, delta=known.budget.delta)
    own = hashlib.sha256(f"{text} {output}".encode()).hexdigest()[:8]
    return {
        "ledger": where, "population": pays.population, "budget": budget, "output": output,
        "collection": f"query-{own}",
    }  # fmt: skip


def _require_both(first: PlanJob, whole: PlanDocument) -> None:
    """Refuse a first round where the ledger has too little for the second."""
    from pipelines.ledger.ledger import CollectionLedger
    from pipelines.ledger.rules import require_affordable

    spend, delta = price(first), sum(one.delta for one in first.losses) / SHARE
    loss = replace(first.losses[0], epsilon=whole.epsilon, delta=whole.delta or delta)
    spend = replace(spend, losses=(loss,), metrics=("query",), profiles=(), output=whole.output)
    known = CollectionLedger.open(whole.ledger or "").read().entries
    require_affordable(spend, known.of_people(spend.people))


def _require_same(plan: PlanDocument) -> None:
    if release.holds_release(plan.output):
        said = release.statement_of(plan.output).get("queries") or {}
        if [*said.values()] != [one.text for one in plan.queries]:
            release.require_vacant(plan.output)


def _explain(query: Compiled, plan: PlanDocument) -> int:
    """What a query compiles to, and what is known of its answer before a row is read."""
    job = unread_job(plan, _WINDOW, seen=headed(plan, _WINDOW))
    by_name: dict[str, Metric] = {metric.name: metric for metric in job.metrics}
    screen, facts = Screen(), []
    table = numbers_table(("figure", "metric", "of"), ("predicted error", "epsilon", "delta"))
    for figure in query.answer.figures:
        if figure.over:  # at no price
            table.add_row(figure.label, "", figure.meaning, "that of both", "", "")
            continue
        metric, own = by_name[figure.metric], by_name[figure.metric].guarantees[0]
        free = query.unbounded and figure.kind != "count"
        error = "known when bounds are chosen" if free else metric.expected_error
        said = (figure.label or "(not shown)", figure.metric, figure.meaning, error)
        table.add_row(*said, f"{own.epsilon:.4g}", f"{own.delta:.2g}")
        facts.append(dict(zip(("figure", "metric", "meaning", "error"), said, strict=True)))
    screen.print(table)
    plan_said = json.loads(json.dumps(query.metrics))  # no part of it twice: YAML would say &id001
    screen.say("metrics:\n" + yaml.safe_dump(plan_said, sort_keys=False, width=1000).rstrip())
    together, chosen = job.guarantees[0], query.answer.chosen
    words = [chosen.words] if chosen else []
    for line in (f"together: {one_line(together)}", *words, *job.cautions):
        screen.say(line)
    answers.tell(figures=facts, plan=plan_said, guarantee=together.as_dict())
    return DONE
