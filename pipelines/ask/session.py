"""A session: a folder with a budget, and every question that was answered out of it.

One journal holds what an answer costs and what it says, and is added to, under a lock, before
anybody sees the answer. So what is not there was never seen, and what is there is paid for: there
is nothing to reserve, to give back or to settle, however many ask at a time and are killed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from mechanisms.channel import Floats, Guarantee
from mechanisms.privacy.gaussian_filter import WHOLE, OverspentError, Spent
from mechanisms.randomness import RandomSource
from pipelines.ask.questions import Question, distance
from pipelines.errors import RequestError, WithheldError
from pipelines.journal.ask_session import FILE, KIND, AskSession, journal_of
from pipelines.journal.checkpoint import Fact, canonical
from pipelines.journal.object_keeping import written
from pipelines.ledger.paying import Payment, ReleasePrice, paid
from pipelines.releases import release
from pipelines.releases.statement import head, versions
from pipelines.running.kept import in_use, lock


def _locked(folder: str) -> contextlib.AbstractContextManager[None]:
    if "://" in folder:
        raise RequestError(f"{folder}: a session is a folder on this machine")
    return lock({in_use(folder): 0o777}, folder)


def begun(folder: str, terms: Mapping[str, Any], payment: Payment | None) -> AskSession:
    """A session, begun and paid for if none stands in the folder.

    Args:
        folder: local.
        terms: of a new one; of one that stands, the same.
        payment: the ledger that pays for all answers at once, and whose budget it is.

    Raises:
        RequestError: another session stands there, or something else; or a ledger is to pay twice.
        WithheldError: too little budget is left in the ledger.
    """
    with _locked(folder):
        if not release.holds_release(folder):
            session = AskSession(terms)
            _begin(folder, session, payment)
            return session
        session = AskSession.read(folder)
        if session.terms != terms:
            raise RequestError(
                f"{folder} holds a session that was begun with other terms; they cannot change: "
                "name a new folder, and pay for it"
            )
        if payment is not None:
            raise RequestError(
                f"--ledger: the session in {folder} stands, and what paid for it is settled; leave "
                "it out"
            )
        return session


def _begin(folder: str, session: AskSession, payment: Payment | None) -> None:
    budget, unit = session.budget, session.terms["unit"]
    promise = budget.guarantee(budget.epsilon, unit)
    release.require_vacant(folder)
    with paid(payment, lambda: ReleasePrice(KIND, promise, budget.profile, folder, None)) as right:
        if right.published:
            raise RequestError(f"{folder}: a session was begun there and is gone: bring it back")
        said = _statement(session, promise) | right.stamp
        journal = journal_of(folder)
        first = journal.first(canonical(session.terms).decode())
        release.publish(folder, {FILE: written(first, journal.keeping.form)}, said)
        right.conclude(True)


def _statement(session: AskSession, promise: Guarantee) -> dict[str, Any]:
    """What holds of all answers together, before there is one."""
    unit = promise.unit
    who = (
        "Nothing that is asked is randomised beforehand: the job that reads the log counts it as "
        "it is, and adds noise to what it tells. The promise is against who sees the answers, if "
        "the job draws honestly."
    )
    first = f"The promise covers all that any one {unit} contributes: whether it is there or not."
    words = [
        f"It holds of every answer in {FILE} and to come together, though each question, "
        "and its price, may depend on all answers before.",
        who,
    ]
    nobody = Guarantee.none("the job sees exact values, and adds noise to answers alone")
    return {
        **head(KIND, (promise, nobody), first, words, 0, session.budget),
        "neighbours": f"all that a {unit} contributes is there or not",
        "published_exactly": "the questions, and their prices",
        "request": session.terms,
        "mechanism": {"name": "privacy filter", "mu": session.budget.mu},
        "versions": versions(),
    }


def answered(
    folder: str, question: Question, kind: str, parts: int, files: str, id: str,
    levels: Sequence[Floats], rng: RandomSource,
) -> AskSession:  # fmt: skip
    """Draw an answer, if the budget holds it, and keep it.

    Args:
        folder: of the session.
        question: what is asked.
        kind: of question.
        parts: of the budget.
        files: a hash of the names of what was asked.
        id: of this asking: a worker that is retried asks nothing more.
        levels: what a job has counted, exactly.
        rng: of this process.

    Raises:
        RequestError: the session cannot be read, or the answer not be kept.
        WithheldError: too little is left, perhaps since others have asked meanwhile.
        ArithmeticError: the noise would not be what is paid for.
    """
    with _locked(folder):
        journal = journal_of(folder)
        state = journal.read()
        session = AskSession.of(state)
        if any(answer["id"] == id for answer in session.answers):
            return session
        price = require(session, question, parts)
        budget = session.budget
        mechanism = question.mechanism(budget.mu_of(parts))
        budget.require_priced(parts, question.mu(mechanism))
        names, once = state.once("names", question.names)
        answer = {
            "id": id,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "question": kind,
            "request": dict(question.request),
            "names": names,
            "files": files,
            "parts": parts,
            "share": parts / WHOLE,
            "distance": price.distance,
            "guarantee": replace(
                budget.guarantee(budget.epsilon_of(parts), session.terms["unit"]),
                how=f"{question.how}; of this answer alone",
            ).as_dict(),
            "answer": question.answer(levels, mechanism, rng),
        }  # fmt: skip
        after = journal.add(state, [*once, Fact("answers", id, answer)])
        release.sign_again(folder, {FILE: release.read(folder, FILE)})
        return AskSession.of(after)


def require(session: AskSession, question: Question, parts: int) -> Spent:
    """The price of an answer, if the budget holds it.

    Raises:
        RequestError: there is no answer at such a price.
        WithheldError: too little is left.
    """
    if parts < 1:
        if session.left < 1:
            raise WithheldError("nothing is left of the budget")
        raise RequestError("--epsilon: it is too little a part of the budget; take more")
    price = Spent(parts, distance(question, session.budget.mu_of(parts)))
    try:
        session.budget.require(session.spent, price)
    except OverspentError as error:
        more = "; --share rest takes all of it, and what was answered stands"
        if parts <= session.left:
            more = ": ask a count, or begin a session of a smaller epsilon or a larger delta"
        raise WithheldError(f"{error}{more}") from None
    return price
