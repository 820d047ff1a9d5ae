"""Questions about one log, each chosen after the answers before: `hushbeam ask`, from Python."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

from hushbeam.calls import called
from hushbeam.commands import answered
from hushbeam.frames import Handed

if TYPE_CHECKING:
    import pyarrow as pa

_DECLARED = ("domain", "by_domain", "groups")


class Session:
    """A budget for one log, and answers out of it; an answer costs its share, `0.1` or "rest".

    The same question words again is answered better: both answers are combined. Nothing but what
    was answered, and its price, is kept.

    Attributes:
        folder: where the answers stand. Without an `output` it is a temporary one, which goes with
            this object.
    """

    def __init__(
        self,
        log: Any,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        user_column: str | None = None,
        output: str | os.PathLike[str] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        population: str | None = None,
    ) -> None:
        """Begin a session; or go on with the one in `output`, whose terms stand.

        Args:
            log: as of `hushbeam.count`: paths or globs, a pyarrow table, a pandas or polars frame.
            epsilon: of all answers together; needed to begin.
            delta: the probability that it may fail (default: 1e-6).
            user_column: protect users, all rows of each together; without it rows.
            output: a folder on this machine in which the session is kept.
            ledger, population: what it is paid out of, at once.

        Raises:
            RequestError: the terms are wrong, or not those with which it was begun.
            WithheldError: too little budget is left in the ledger.
        """
        around = tempfile.mkdtemp(prefix="hushbeam-") if output is None else None
        self.folder = os.path.join(around, "session") if around else os.fspath(output or "")
        self._handed = Handed()
        if around:
            weakref.finalize(self, shutil.rmtree, around, ignore_errors=True)
        weakref.finalize(self, self._handed.__exit__)
        self._log = log
        terms = {"epsilon": epsilon, "delta": delta, "user_column": user_column}
        self._ask([], terms | {"ledger": ledger, "population": population})

    def count(self, **question: Any) -> pa.Table:
        """How many rows (or users), in all or of each value: `column`, `domain`, `where`, `share`.

        Returns:
            of, estimate, standard_error, lower, upper: a row for each figure.

        Raises:
            RequestError: the question is wrong.
            WithheldError: too little budget is left.
        """
        return self._answer("count", question)

    def sum(self, **question: Any) -> pa.Table:
        """The total of the numbers in `column`, clipped to `bounds`; as of `count`."""
        return self._answer("sum", question)

    def mean(self, **question: Any) -> pa.Table:
        """The average of the numbers in `column`, clipped to `bounds`; as of `count`."""
        return self._answer("mean", question)

    def most_common(self, **question: Any) -> pa.Table:
        """The value of `column` that most have; nothing but its name is answer."""
        return self._answer("most-common", question)

    def first_above(self, **question: Any) -> pa.Table:
        """The first value of `domain` that more than `threshold` have."""
        return self._answer("first-above", question)

    @property
    def left(self) -> float:
        """The share of the budget that is left."""
        return float(self._ask([], {})["share_left"])

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What was answered, for nothing: the last answer to each question, with all `combined`."""
        return list(self._ask([], {})["answers"])

    def _answer(self, kind: str, question: dict[str, Any]) -> pa.Table:
        import pyarrow as pa

        with Handed() as handed, called(handed.named):
            for name in {*_DECLARED} & question.keys():
                question[name] = handed.values(name, question[name])
            if isinstance(bounds := question.get("bounds"), tuple | list):
                question["bounds"] = ",".join(map(str, bounds))
            # By the same name each time: answers to one question are combined by their files.
            files = self._handed.log(self._log, " ".join(map(str, question.values())))
            answer = self._ask([kind], {"input": [*files], **question})
        answer = answer["answers"][-1]
        return pa.Table.from_pylist(answer.get("combined", answer["rows"]))

    def _ask(self, kind: list[str], words: dict[str, Any]) -> dict[str, Any]:
        return answered("ask", [self.folder, *kind], words)

    def __repr__(self) -> str:
        answer = self._ask([], {})
        many, left = len(answer["answers"]), answer["share_left"]
        return f"<hushbeam.Session of {many} answers, {left:.3g} of the budget left>"
