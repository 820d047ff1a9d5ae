"""`hushbeam check --output`: one page on which a privacy engineer reads a plan, and signs it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib import resources
from typing import Any

import numpy as np
from rich.progress import track

from pipelines.errors import RequestError
from pipelines.ledger.accounting import basic, total
from pipelines.ledger.entries import Loss
from pipelines.logs.inputs import Source
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import ReleaseOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.resolving import resolve
from pipelines.metrics.terms import answering_rows
from pipelines.plan.job import PlanJob
from pipelines.releases.statement import published_exactly
from pipelines.request import answers
from pipelines.request.spans import seconds_of
from pipelines.views import facts, pages
from pipelines.views.console import Screen
from pipelines.views.digits import three_digits
from pipelines.views.headline import Headline, Line, head, loss
from pipelines.wording import RAW_ROWS, changed, plain, upward

_FACTORS = (0.125, 0.25, 0.5, 1, 2, 4, 8)  # of the plan's epsilon, along its slider
_ROWS = (1, 4, 16)  # k, along its slider
# Where errors are searched for, some 0.2 CPU seconds each. In logarithms the others lie on a
# parabola: of counts, sums, means and tables within 1 % of a search, and at worst within 5 %.
_SOLVED = (0.125, 1, 8)
# Kinds whose figure lies within bounds, and how much of their width it may be: of a variance the
# standard deviation, half of it at the most.
_WITHIN = {"mean": 1.0, "ratio": 1.0, "variance": 0.5}
_YEAR, _DAY = 365, 86400
_LIMITS = {  # of numbers, and where they are cut; files of values are options that are files
    "bounds", "over_bounds", "number", "vector", "radius", "mean", "total", "quantile", "covariate",
}  # fmt: skip
_DELTA = 1e-5  # of a year, where no budget says another
_ERROR = re.compile(r"± ([\d.,]*\d(?:e[+-]\d+)?)( %)?")
_HEADS = (
    "metric", "figure", "error", "epsilon", "delta", "k", "declared", "published exactly",
    "mechanism",
)  # fmt: skip
_NOTE = (
    "k: how many rows of a user count at most, so many values times so many rows of each; where "
    "rows of a group are added up or averaged first, how many groups. Declared: what must be "
    "public knowledge, not taken from the log."
)
_SIGNED = ("name", "date", "decision", "remarks")
_BREAKS = (
    "A person with several ids is several units, and is protected as each of them alone.",
    "Bounds, domains or groups that were taken from the log give away what is in it.",
    "Who can read the log, or what the job stores while it runs, needs no release.",
    "A second ledger, or one that was restored from an old copy, counts less than was published.",
    "What else is published about the same people, outside this ledger, adds up with this.",
    "What holds of everybody, or of a whole group, is published: it is no secret of one person.",
)


def review(job: PlanJob, lines: Sequence[str]) -> bytes:
    """The sheet of a plan: a page that needs nothing but itself.

    Args:
        job: the plan, prepared without a look at any row.
        lines: what `check` says of its units and windows.
    """
    plan, released = job.plan, job.guarantees[0]
    title = f"Review of {plan.collection}, version {plan.version}"
    said = {**job.statement({}), "title": title}
    said["created"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    marks = f"Fingerprint {said['plan']['fingerprint'][:16]}, design {job.design.hex()[:16]}."
    window, year = loss(released.as_dict()), _year(job)
    first = [Line(window, "", "a window", (None, None)), Line(*year, (None, None))]
    neighbours: dict[str, list[str]] = {}
    for metric in job.metrics:
        price = promises(metric)[0]
        neighbours.setdefault(changed(price.neighbours, price.whose), []).append(metric.name)
    of_users = any(metric.unit == "user" for metric in job.metrics)
    limited = "; of each user at most k count, by metric" * of_users
    about = [
        ("unit", plan.unit + f", told apart by {plan.user_column}" * bool(plan.user_column)),
        ("neighbours", "; ".join(f"{text} ({', '.join(of)})" for text, of in neighbours.items())),
        ("rows that match", (" and ".join(plan.applies or ()) or "all") + limited),
        ("a window", f"{window}, delta {plain(upward(released.delta, 4))}"),
        (year[2], year[0]),
        *(("of note", line.replace("`", "")) for line in lines),
    ]
    trusted = dict.fromkeys(text for metric in job.metrics for text in metric.shared_words)
    signed = facts.listed((name, "") for name in _SIGNED)
    sections = {
        "What is published": f"<style>{_narrow()}</style>\n"
        + pages.boxed("the metrics", _HEADS, map(_row, job.metrics), 1, "sheet")
        + f'<p class="note">{_NOTE}</p>',
        "Privacy unit and price": facts.listed(about),
        "Whom it trusts": facts.paragraphs([RAW_ROWS, *trusted]),
        "Error, drawn on simulated data": _simulated(job),
        "What would break it": facts.paragraphs([*_BREAKS, *job.cautions]),
        "Signed": f'<div class="signed">\n{signed}</div>',
    }
    body = "".join(f"<h2>{name}</h2>\n{content}\n" for name, content in sections.items())
    return pages.whole(head(None, said, marks, "Written", Headline(first, "", "")), body)


def _row(metric: Metric) -> Sequence[str]:
    """What the table says of a metric, in the order of `_HEADS`."""
    price, exactly = promises(metric)[0], getattr(metric, "exactly", None)
    if exactly is None:
        exactly = [published_exactly("of reports", not metric.options.hides, metric.unit)]
    return (
        metric.name, metric.heading.title, metric.expected_error, f"{upward(price.epsilon, 4):g}",
        plain(upward(price.delta, 2)),
        f"{_rows(metric) * getattr(metric.options, 'per_value', 1):,}",
        "; ".join(_declared(metric.options)) or "nothing", " and ".join(exactly) or "nothing",
        metric.protection.system.replace("_", " "),
    )  # fmt: skip


def _declared(options: ReleaseOptions) -> Iterator[str]:
    """What figures presuppose of the values: bounds, domains, groups; files by their names."""
    for name in type(options).model_fields:
        said = getattr(options, name)
        if said and (name in options.files or name in _LIMITS):
            texts = [said] if isinstance(said, str) else said
            yield f"{name} {', '.join(_without_folder(str(text)) for text in texts)}"


def _without_folder(text: str) -> str:
    """`city=/log/cities.txt` as city=cities.txt."""
    column, equals, path = text.rpartition("=")
    return text if text.endswith("]") else column + equals + path.rpartition("/")[2]


def _narrow() -> str:
    """On a telephone a metric is a block of lines, of which each says what it is."""
    heads = "".join(
        f'.sheet td:nth-child({place})::before {{ content: "{head}: "; color: var(--quiet); }} '
        for place, head in enumerate(_HEADS[1:], 2)
    )
    return f"@media (max-width: 40rem) {{ {heads}}}"


def _rows(metric: Metric) -> int:
    return int(getattr(metric.options, "rows_per_user", 1))


def _year(job: PlanJob) -> tuple[str, str, str]:
    """What a unit loses that is in all windows of a year; "", and which windows these are."""
    plan = job.plan
    once = plan.permanent is not None or plan.drawn == "running" or plan.scope != "user"
    length = _DAY if plan.stream is None else seconds_of(plan.stream.window)
    windows = 1 if once or not plan.windowed else max(round(_YEAR * _DAY / length), 1)
    losses = Counter(Loss.of(*pair) for pair in zip(job.losses, job.profiles, strict=True))
    losses = Counter({one: times * windows for one, times in losses.items()})
    # No accountant goes below what no epsilon covers: the sum of all deltas is always enough.
    delta = max(plan.budget.delta if plan.budget else _DELTA, min(float(basic(losses)[1]), 1.0))
    summed = total(losses, delta) if windows > 1 else job.guarantees[0]
    said = (
        f"epsilon {three_digits(upward(summed.epsilon, 3))}, delta {plain(upward(summed.delta, 3))}"
    )
    one = "a year: one price covers all windows" if plan.windowed else "a year: one release"
    return said, "", f"a year of {windows:,} windows" if windows > 1 else one


def _simulated(job: PlanJob) -> str:
    """Bars that a script draws, with the error at each step of both sliders."""
    rows, screen = sorted({*_ROWS, *map(_rows, job.metrics)}), Screen()
    charts: list[dict[str, Any]] = []
    for metric in track(
        job.metrics, "errors at other epsilons", console=screen, transient=True,
        disable=answers.wanted() or not screen.is_terminal,
    ):  # fmt: skip
        errors = [_errors(metric, k) for k in rows]
        charts.append(
            {"name": f"{metric.name}: {metric.heading.title}", "own": _rows(metric),
             "scale": _scale(metric), "errors": errors}
        )  # fmt: skip
    used = [at for at in range(len(rows)) if any(any(chart["errors"][at]) for chart in charts)]
    charts = [chart | {"errors": [chart["errors"][at] for at in used]} for chart in charts]
    steps = [f"{job.plan.epsilon * factor:.3g}" for factor in _FACTORS]
    data = {"epsilons": steps, "rows": [rows[at] for at in used], "metrics": charts}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    script = resources.files("pipelines.plan").joinpath("review.js").read_text("utf-8")
    return (
        '<p class="note" id="sliders">The script of this page draws here.</p>\n<div id="charts">'
        f'</div>\n<script type="application/json" id="data">{text}</script>\n'
        f"<script>\n{script}</script>"
    )


def _errors(metric: Metric, rows: int) -> list[tuple[str, float, str] | None]:
    """At each factor in words, as a number, and its unit; None where a metric refuses that."""
    match = _ERROR.search(metric.expected_error)
    own = _alone(metric, 1, _rows(metric)) if match else None
    ends = [_alone(metric, factor, rows) for factor in _SOLVED] if own else []
    if not (match and own and ends and all(ends)):
        return [None] * len(_FACTORS)
    # The law that suits all metrics together may be another than suits this one alone.
    share = float(match[1].replace(",", "")) / own
    curve = np.polyfit(np.log(_SOLVED), np.log(np.array(ends, float) * share), 2)
    errors = np.exp(np.polyval(curve, np.log(_FACTORS))).tolist()
    unit, own_rows = match[2] or "", rows == _rows(metric)
    return [
        (
            metric.expected_error
            if factor == 1 and own_rows
            else _ERROR.sub(f"± {three_digits(error)}{unit}", metric.expected_error),
            error,
            unit,
        )
        for factor, error in zip(_FACTORS, errors, strict=True)
    ]


def _alone(metric: Metric, factor: float, rows: int) -> float | None:
    """The error of a metric by itself at another epsilon or k; None where it refuses them."""
    own, changes = metric.options, {"epsilon": factor * metric.options.epsilon}
    if rows != _rows(metric):
        changes["rows_per_user"] = rows
    request = {name: getattr(own, name) for name in own.model_fields_set} | changes
    try:
        words = resolve(type(own)(**request), Source(metric.telemetry, 0)).expected_error
    except (RequestError, ValueError):
        return None
    match = _ERROR.search(words)
    return float(match[1].replace(",", "")) if match else None


def _scale(metric: Metric) -> float:
    """How large a simulated figure may be: of numbers by their bounds, of totals by all units."""
    if "%" in metric.expected_error:
        return 100.0
    units = metric.min_reports or getattr(metric.options, "expected", None)
    bounds = re.findall(r"-?[\d.]+", str(getattr(metric.options, "bounds", None) or "0,1"))
    width = float(bounds[-1]) - min(float(bounds[0]), 0.0)
    if metric.kind in _WITHIN:
        return width * _WITHIN[metric.kind]
    return width * (units or answering_rows(metric) or 10_000)
