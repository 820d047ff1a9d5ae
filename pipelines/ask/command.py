"""`hushbeam ask` on the command line."""

from __future__ import annotations

import hashlib
import math
import uuid
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.text import Text

from mechanisms.privacy.gaussian_filter import WHOLE
from pipelines.ask import questions
from pipelines.ask.options import AskOptions
from pipelines.ask.questions import rows
from pipelines.ask.session import answered, begun, require
from pipelines.errors import DONE, Caution, RequestError, WithheldError
from pipelines.journal.ask_session import AskSession
from pipelines.ledger.paying import Payment
from pipelines.logs.inputs import Source, open_telemetry
from pipelines.metrics.counting.exactly import WITHHELD, counted_here, take
from pipelines.metrics.counting.options import DELTA
from pipelines.metrics.resolving import resolve
from pipelines.request import answers
from pipelines.request.requests import no_more
from pipelines.views.console import Screen, numbers_table
from pipelines.views.digits import digits
from pipelines.views.facts import cell
from pipelines.wording import one_line

_SHOWN = 10  # figures of an answer on the screen
_OF_ANSWER = ("id", "at", "question", "request", "share", "guarantee")  # said to programs


def run(options: AskOptions, beam_arguments: list[str], pays: Payment | None) -> int:
    """Begin a session, show it, or answer a question in it.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too little budget is left.
        FailedError: the job ended without an answer.
    """
    if options.question is not None:
        if pays is not None:
            raise RequestError("--ledger: a session is paid for when it is begun; leave it out")
        return _answer(options, beam_arguments)
    options.require_alone()
    no_more(beam_arguments)
    if options.epsilon is None:
        options.require_no_terms()
        if pays is not None:
            raise RequestError("--epsilon is missing: say how much is to be paid for")
        session = AskSession.read(options.output)
    else:
        terms = {
            "epsilon": options.epsilon, "delta": options.delta or DELTA, "unit": options.unit,
            "user_column": options.user_column,
        }  # fmt: skip
        session = begun(options.output, terms, pays)
    shown = {tuple(one["id"] for one in session.alike(answer)) for answer in session.answers}
    last = {ids[-1] for ids in shown}
    _show(session, options, [answer for answer in session.answers if answer["id"] in last])
    return DONE


def _answer(options: AskOptions, beam_arguments: list[str]) -> int:
    session, for_beam = AskSession.read(options.output), counted_here(beam_arguments)
    release = options.counted_as(session.terms["user_column"], session.budget)
    parts = options.parts(session.budget, session.left)
    telemetry = open_telemetry(release.input, True, release.reading)
    metric: Any = resolve(release, Source(telemetry=telemetry))
    said = {*release.model_fields_set} - {
        "input", "output", "epsilon", "delta", "large_delta", "confidence", "drawn_by",
        "user_column", "expected",
    }  # fmt: skip
    terms = {name: metric.request[name] for name in sorted(said - release.unsaid)}
    kind = str(options.question)
    question = questions.question(kind, metric, terms, options.threshold or 0)
    require(session, question, parts)
    if question.worse(session.budget.mu_of(parts)):
        warnings.warn(
            f"at this price `count` of the same values errs less, and tells more: {kind} is for "
            "users with many values each (--rows-per-user), on which its error does not depend",
            Caution, stacklevel=2,
        )  # fmt: skip
    id = uuid.uuid4().hex
    # Answers of other files are not averaged. No path is kept.
    files = hashlib.sha256(repr(sorted(options.input)).encode()).hexdigest()
    adds = partial(answered, options.output, question, kind, parts, files, id)
    refused = take(metric, for_beam, adds, Screen())
    session = AskSession.read(options.output)
    mine = [answer for answer in session.answers if answer["id"] == id]
    if not mine:
        short = [why.removeprefix(WITHHELD) for why in refused if why.startswith(WITHHELD)]
        if short or not refused:
            raise WithheldError("; ".join(short) or "the job ended without an answer")
        raise RequestError("; ".join(refused))
    _show(session, options, mine)
    return DONE


def _show(session: AskSession, options: AskOptions, entries: list[Mapping[str, Any]]) -> None:
    """Answers, each combined with earlier ones to its question, and what is left."""
    screen, records = Screen(), []
    for answer in entries:
        alike = session.alike(answer)
        own, together = (rows(part, options.confidence) for part in ([answer], alike))
        combined = len(alike) > 1 and "value" not in together[0]
        records.append(
            {name: answer[name] for name in _OF_ANSWER}
            | {"rows": own, "answers": len(alike)} | ({"combined": together} if combined else {})
        )  # fmt: skip
        _print(screen, answer, together if combined else own, len(alike) if combined else 1)
    budget, left = session.budget, session.left
    promise = budget.guarantee(budget.epsilon, session.terms["unit"])
    alone = budget.epsilon_of(left) if left else 0.0
    # Shares are whole parts, rounded down: 0.1 of the budget leaves 0.9, and not 0.9000000000005.
    share = math.floor(left / WHOLE * 1e9) / 1e9
    answers.tell(
        session=options.output, answers=records, share_left=share, epsilon_left=alone,
        guarantee=promise.as_dict(),
    )  # fmt: skip
    for line in (
        f"all answers together, {one_line(promise)}",
        f"left: {left / WHOLE:.4g} of the budget, by which one answer could reveal {alone:.3g}",
    ):
        screen.say(line)


def _print(screen: Any, answer: Mapping[str, Any], rows: list[dict[str, Any]], times: int) -> None:
    request = {
        name: " and ".join(said) if isinstance(said, list) else said
        for name, said in answer["request"].items()
    }
    words = (f"{name} {said}" for name, said in request.items())
    title = cell(", ".join([answer["question"], *words]))
    title += f" ({times} answers together)" * (times > 1)
    if "value" in rows[0]:
        terms = ", ".join(f"{name} {x:.4g}" for name, x in rows[0].items() if name != "value")
        value = rows[0]["value"]
        title += f": {'none' if value is None else cell(value)} ({terms})"
    screen.say(title)
    if "value" in rows[0]:
        return
    shown = numbers_table(("of",), ("estimate", "standard error"))
    known = [row for row in rows if math.isfinite(row["estimate"])]
    for row in sorted(known, key=lambda row: -row["estimate"])[:_SHOWN]:
        error = row["standard_error"]
        of = Text(cell(row["of"]))  # a plain string would be read as markup
        shown.add_row(of, digits(row["estimate"], error), f"{error:.3g}")
    screen.print(shown)
    if len(rows) > _SHOWN:
        line = f"{len(rows) - _SHOWN:,} more: --json tells all"
        screen.print(line, highlight=False, markup=False)
