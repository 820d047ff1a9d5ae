"""What a release of a model holds: the model in two forms, its curve, its statement, its page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
import numpy as np

from mechanisms.channel import Floats
from mechanisms.learning.baseline import BaselineComparison
from pipelines.releases.statement import counted, parquet, recorded, versions
from pipelines.train.curve import Curve, Point, curve_table, verdict
from pipelines.train.estimator import as_joblib, as_json, kind
from pipelines.train.schema import Schema
from pipelines.views import facts, pages
from pipelines.views.digits import digits
from pipelines.views.headline import Headline, Line, head, written
from pipelines.views.pictures import AxisScale, Chart
from pipelines.wording import RAW_ROWS, protected

if TYPE_CHECKING:
    from pipelines.train.job import TrainJob


_HIDDEN = (
    "a row that lacks any value took part like any other, with a gradient of 0; errors are of the "
    "others"
)
_ADDS_NOTHING = "a row that lacks any value adds nothing to any sum, and is not among those told of"
_DROWNED = (
    "Of no use: noise drowns even the number of rows, so this model predicts the same for every "
    "row."
)
_LEFT_OUT = "left out, and counted as they are"

MODEL, ESTIMATOR, CURVE = "model.json", "model.joblib", "curve.parquet"


class Trained(NamedTuple):
    """What a run has come to.

    Attributes:
        weights: (parameters,) of the model that is published.
        n: how many rows were used.
        invalid: how many messages no client could have sent.
        curve: how the run went; empty if nobody reported on it.
        training: what the method did, for the statement.
        comparison: with the best constant, if anybody looked.
        heard: how many messages have come; none where nobody sends any.
        n_error: the standard error of n, where that is an estimate.
    """

    weights: Floats
    n: int
    invalid: int
    curve: Curve
    training: dict[str, Any]
    comparison: BaselineComparison | None = None
    heard: int = 0
    n_error: float | None = None


class Flowing(NamedTuple):
    """A run, and what is to be held against it.

    Attributes:
        trained: one, or None, or nothing.
        flow: (name, count) of what passed between its steps.
    """

    trained: beam.PCollection
    flow: tuple[beam.PCollection, ...] = ()


def content(
    job: TrainJob, trained: Trained, tallies: Mapping[str, int], stamp: Mapping[str, Any]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a release by name, and its statement."""
    made_with = versions() | {"scikit-learn": version("scikit-learn")}
    statement = train_statement(job, trained, tallies, stamp, made_with)
    schema, objective, weights = job.schema, job.objective, trained.weights
    layers = [np.asarray(matrix, np.float64) for matrix in objective.matrices(weights, np.empty(0))]
    files = {
        MODEL: as_json(schema, objective, weights, made_with),
        ESTIMATOR: as_joblib(schema, objective, weights),
        CURVE: parquet(curve_table(trained.curve)),
        "report.html": page(schema, layers, trained.curve, statement),
    }
    return files, statement


def train_statement(
    job: TrainJob,
    trained: Trained,
    tallies: Mapping[str, int],
    stamp: Mapping[str, Any],
    made_with: Mapping[str, str],
) -> dict[str, Any]:
    """The request, what was done, and what it guarantees."""
    known = {"release": job.guarantees[0]} | job.plan.beside
    return {
        "release": "model",
        **stamp,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "in_words": _in_words(job, trained),
        "guarantees": {name: guarantee.as_dict() for name, guarantee in known.items()},
        "design": recorded(job.plan.priced),
        "neighbours": job.plan.neighbours,
        **_counted(job, trained, tallies),
        "published_exactly": job.plan.exactly,
        "request": _request(job),
        "model": {
            "kind": kind(job.objective),
            "parameters": job.objective.parameters,
            "inputs": job.objective.inputs,
            "target": job.schema.target.column,
            "step_name": job.plan.step_name,
            "files": {
                MODEL: "for any program",
                ESTIMATOR: "for scikit-learn, of the version named below",
            },
        },
        "training": trained.training,
        "error": _error(job, trained),
        "versions": dict(made_with),
    }


def _counted(job: TrainJob, trained: Trained, tallies: Mapping[str, int]) -> dict[str, Any]:
    """How many rows there were, and what became of those that could not be used."""
    if job.options.hides_presence:
        estimated = {"n": trained.n, "n_standard_error": trained.n_error}
        return {**estimated, "unusable": {"treated": _ADDS_NOTHING}}
    exact = counted(trained.n, trained.invalid, tallies, not job.options.hides, job.options.unit)
    return {**exact, "unusable": {"treated": _HIDDEN if job.options.hides else _LEFT_OUT}}


def _verdict(job: TrainJob, trained: Trained) -> str:
    if job.options.hides_presence and trained.comparison is None:
        return _DROWNED
    line = verdict(trained.comparison, _measure(job))
    return line if job.schema.classes is None else line + _one_class(trained.comparison)


def _one_class(comparison: BaselineComparison | None) -> str:
    """That perhaps no row is of another class, if noise leaves that open and would show a few.

    The best constant errs by the share of all classes but one: it is published anyway.
    """
    if comparison is None:
        return ""
    far = comparison.reach * comparison.standard_error
    most = comparison.constant + far
    if not (comparison.constant <= far and most <= _RARE):
        return ""
    return (
        f" All classes but one make up {100 * max(most, 0.0):.2g} % at most, and perhaps nothing: "
        "they are rare, or are not written in the log as --target declares them."
    )


def _in_words(job: TrainJob, trained: Trained) -> list[str]:
    """What is promised; and before it, that a model is of no use, if it may be so."""
    comparison = trained.comparison
    words = [*job.plan.promises(), *job.cautions, job.plan.poisoning, RAW_ROWS]
    if not job.options.hides_presence:
        words.insert(1, protected(job.options.unit, job.options.hides, None))
    line = _verdict(job, trained)
    gained = comparison is not None and comparison.gained
    return [*words, line] if gained else [line, *words]


def _measure(job: TrainJob) -> str:
    return "mean squared error" if job.schema.classes is None else "share of wrong classes"


def _request(job: TrainJob) -> dict[str, Any]:
    hidden = {"input", "output", "validation", "number", "vector", "category", "target"}
    request = job.options.model_dump(exclude=hidden | job.options.unsaid, exclude_none=True)
    return request | {
        "unit": job.options.unit,
        "model": job.guarantees[0].model,
        "columns": job.schema.columns,
        "target": job.schema.target.column,
        "validation": job.public is not None,
    }


def _error(job: TrainJob, trained: Trained) -> dict[str, Any]:
    """How wrong the published model is, if that was measured."""
    numbers = job.schema.classes is None
    described: dict[str, Any] = {"measure": _measure(job), "measured_on": "nothing"}
    described["verdict"] = _verdict(job, trained)
    if not trained.curve:
        return described
    last, comparison = trained.curve[-1], trained.comparison
    if comparison is not None:
        described["best_constant"] = comparison._asdict() | {"gained": comparison.gained}
    if job.public is not None:
        described["measured_on"] = f"{last.n:,} public rows"
    else:
        described["measured_on"] = job.plan.judged_by(last.n)
        if numbers and not job.options.hides_presence:
            described["cut"] = "predictions beyond the declared bounds count as the bound"
    return described | {"of_the_published_model": last._asdict()}


_RARE = 0.05  # a share of rows above which a class is no slip of the pen
_ROWS = 200  # of the table of weights
_COLUMNS = 12
_WIDE = 48  # characters of a name that are shown


def page(schema: Schema, layers: list[Floats], curve: Curve, statement: Mapping[str, Any]) -> bytes:
    """The page of a release.

    Args:
        schema: the columns.
        layers: of the model; the table shows the weights of the first.
        curve: how the run went.
        statement: the release's.
    """
    names = [*schema.features.names[:-1], "(intercept)"]
    table = layers[0][:_ROWS, :_COLUMNS]
    title = f"{schema.target.column}: {statement['model']['kind']}"
    verdict = statement["error"]["verdict"]  # that stands beside the figure
    words = [text for text in statement["in_words"] if text != verdict]
    heads = ["input", *_heads(schema, layers)]
    rows = [
        [facts.shortened(name, _WIDE), *(f"{weight:.4g}" for weight in weights)]
        for name, weights in zip(names[:_ROWS], table, strict=True)
    ]
    columns = ", ".join(schema.columns[:20]) + (", …" if len(names) > 20 else "")
    said = {**statement, "title": title, "in_words": words}
    return pages.whole(
        head(None, said, first=_first(curve, statement)),
        f"<p><strong>{html.escape(verdict)}</strong></p>\n{_section(curve, statement)}"
        f"<h2>The weights</h2>\n{pages.boxed('the numbers', heads, rows)}"
        + pages.folded({
            "Reading this page": facts.paragraphs([_shown(layers), _READING]),
            "How to use it": facts.paragraphs([_USE]) + _CODE.format(html.escape(columns)),
            "How it was made": facts.listed(_facts(statement)),
        })
        + pages.files(["model.json"]),
    )  # fmt: skip


_READING = (
    "Numbers are scaled to −1 … 1 by their declared bounds, so weights of inputs can be compared. "
    "A weight is as uncertain as the noise makes it: read none by itself as a finding."
)
_USE = (
    "`model.joblib` is a plain scikit-learn estimator; hushbeam need not be installed. As any file "
    "of its kind it runs code when it is loaded, so load it only if you trust where it came from. "
    "`model.json` has the same weights and says how to predict with them."
)
_CODE = """
<pre tabindex="0">import joblib
model = joblib.load("model.joblib")
model.predict(table)  # columns in this order: {}</pre>"""


def _first(curve: Curve, statement: Mapping[str, Any]) -> Headline:
    """How wrong the published model is, as far as that was measured."""
    known = [point for point in curve if point.error is not None]
    about = f"fitted to {used(statement)} {statement['request']['unit']}s"
    if not known:
        unknown = "its error was not measured: name public rows with --validation"
        return Headline([], "", f"{about}; {unknown}")
    last, error = known[-1], statement["error"]
    number = written(last.error, None, last.lower, last.upper)
    line = Line(number, error["measure"], f"on {error['measured_on']}", (None, None))
    return Headline([line], "", about)


def used(statement: Mapping[str, Any]) -> str:
    """How many rows were used, as far as that is told.

    >>> used({"n": 1500}), used({"n": 1500, "n_standard_error": 30.2})
    ('1,500', 'about 1,500 ± 30')
    """
    if "n_standard_error" not in statement:
        return f"{statement['n']:,}"
    n, error = statement["n"], statement["n_standard_error"]
    return f"about {digits(n, error)} ± {digits(error, error)}"


def _heads(schema: Schema, layers: list[Floats]) -> list[str]:
    """What the columns of the table of weights are."""
    width = layers[0].shape[1]
    if len(layers) > 1:
        heads = [f"unit {place + 1}" for place in range(width)]
    elif width > 1 and schema.classes is not None:
        heads = [str(label) for label in schema.classes]
    else:
        heads = ["weight"]
    return heads[:_COLUMNS]


def _shown(layers: list[Floats]) -> str:
    """What of the weights is left out, in words."""
    rows, columns = layers[0].shape
    line = "" if len(layers) == 1 else f"The first of {len(layers)} layers. "
    if rows > _ROWS or columns > _COLUMNS:
        line += f"{min(rows, _ROWS)} of {rows:,} inputs, {min(columns, _COLUMNS)} of {columns:,} "
        line += "columns; `model.json` has all."
    return line


def _section(curve: Curve, statement: Mapping[str, Any]) -> str:
    known = [point for point in curve if point.error is not None]
    if len(known) < 2:
        return ""
    drawn = _chart(known, statement["error"]["measure"], statement["model"]["step_name"])
    label = 'role="img" aria-label="The learning curve"'
    return f'<figure class="scroll" {label}>\n{drawn}\n</figure>\n'


def _chart(curve: list[Point], measure: str, step_name: str) -> str:
    steps = [point.step for point in curve]
    errors, lower, upper = (
        np.array([getattr(point, name) for point in curve], float)
        for name in ("error", "lower", "upper")
    )
    chart = Chart(AxisScale.over(steps), AxisScale.over(errors, lower, upper, [0.0]))
    chart.area(steps, lower, upper, "band")
    chart.line(steps, errors)
    chart.points(steps, errors)
    return chart.svg(measure, step_name)


def _facts(statement: Mapping[str, Any]) -> list[facts.Fact]:
    request, model = statement["request"], statement["model"]
    return [
        ("model", f"{model['kind']}, {model['parameters']:,} parameters"),
        ("method", request["method"]),
        *(
            (name.replace("_", " "), facts.noise(value) if name == "noise" else facts.word(value))
            for name, value in statement["training"].items()
        ),
        ("rows used", used(statement)),
        *_read_and_left_out(statement),
        ("neighbours", statement["neighbours"]),
        facts.made_with(statement),
    ]


def _read_and_left_out(statement: Mapping[str, Any]) -> list[facts.Fact]:
    """What was read, and what could not be used, where that is published."""
    said = []
    if "rows_read" in statement:
        said.append(("rows read", f"{statement['rows_read']:,}"))
    if rejects := statement.get("rejects"):
        left_out = ", ".join(f"{name}: {amount:,}" for name, amount in rejects.items())
        said.append(("rows left out", left_out))
    return said
