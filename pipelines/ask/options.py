"""What a person asks of a log, question by question."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Literal

from mechanisms.privacy.gaussian_filter import WHOLE, GaussianFilter
from pipelines.command.arguments import add_command
from pipelines.errors import RequestError
from pipelines.metrics.counting.options import DELTA, CountOptions, SumOptions
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import PROMISE, RESULT, flag, option
from pipelines.request.requests import Delta, Epsilon, large_delta

QuestionOptions = CountOptions | SumOptions | MeanOptions
Kind = Literal["count", "sum", "mean", "most-common", "first-above"]

_PRICE = "what it may cost"
_TERMS = ("user_column", "delta", "large_delta")  # that a session is begun with
_KINDS: dict[str, type[QuestionOptions]] = {"sum": SumOptions, "mean": MeanOptions}
_SELECTING = ("most-common", "first-above")


def _same(name: str, of: type[QuestionOptions] = CountOptions) -> Any:
    """An option of a kind, which means the same here."""
    return copy(of.model_fields[name])


class AskOptions(ReleaseOptions):
    """A session that is begun or looked at, or a question in it."""

    subject: ClassVar[str] = "the question"
    withheld: ClassVar[str] = "too little budget"
    files: ClassVar[tuple[str, ...]] = ("domain", "by_domain", "groups")
    brief: ClassVar[str] = "interactive queries within a budget"
    description: ClassVar[str] = (
        "A session of questions about one log, each chosen after the answers before, within one "
        "budget: begin it with --epsilon, then ask. Every answer has the noise that its share of "
        "the budget buys, and the same question asked again is answered better: both answers are "
        "combined. What is left, and all answers, are shown without a question, for nothing."
    )
    examples: ClassVar[str] = """\
questions:
  count        how many rows (or users), in all or of each value of --column
  sum, mean    of the numbers in --column, clipped to --bounds, in all or by --group-by
  most-common  the value of --column that most have; nothing but its name is told
  first-above  the first value of --domain, in its order, that more than --threshold have: however
               many come before it, they cost nothing
The last two err no more where a user has many values (--rows-per-user), and counts do.

example, with the files of the repository:
  hushbeam ask flights-session --epsilon 1
  hushbeam ask flights-session count --where 'distance > 1000' --share 0.05 \\
      --input examples/flights.parquet
  hushbeam ask flights-session mean --column distance --bounds 0,6000 --share 0.2 \\
      --input examples/flights.parquet
  hushbeam ask flights-session count --column destination --domain examples/airports.txt \\
      --share rest --input examples/flights.parquet
  hushbeam ask flights-session
docs/ask.md says what an answer costs, and what holds of all of them.
"""

    output: str = option(
        "the session: a local folder, new if it is begun", metavar="SESSION", positional=True,
        min_length=1,
    )  # fmt: skip
    question: Kind | None = option("kind of question", None, positional=True, essential=True)
    input: tuple[str, ...] = option(
        f"of a question: {copy(ReleaseOptions.model_fields['input']).json_schema_extra}",
        (), metavar="FILE", essential=True,
    )  # fmt: skip
    column: str | None = option("the column that is asked about", None, essential=True)
    domain: str | None = _same("domain")
    by: str | None = _same("by")
    by_domain: str | None = _same("by_domain")
    bounds: str | None = option(
        "of sum and mean: the least and the largest number of a user, or of a row; numbers beyond "
        "are clipped. They must be public knowledge",
        None, metavar="L,U", hint="--bounds=-5,5, with an equals sign, if L is below 0",
    )  # fmt: skip
    group_by: str | None = _same("group_by", SumOptions)
    groups: str | None = _same("groups", SumOptions)
    whole_numbers: bool = _same("whole_numbers", SumOptions)
    threshold: int | None = option(
        "of first-above: how many; public knowledge", None, metavar="N", ge=-(1 << 60), le=1 << 60
    )
    epsilon: Epsilon | None = option(
        "of a new session: the privacy loss of all answers together; 1 is a common choice. Of a "
        "question: what its answer alone may reveal",
        None, group=_PRICE, essential=True,
    )  # fmt: skip
    share: str | None = option(
        "of a question: the part of the budget that it takes, or rest: noise falls with its root",
        None, group=_PRICE, metavar="S|rest", essential=True,
    )  # fmt: skip
    delta: Delta | None = option(
        f"of a new session: the probability that epsilon may fail (default: {DELTA:g})",
        None, group=PROMISE, gt=0,
    )  # fmt: skip
    large_delta: bool = large_delta()
    user_column: str | None = option(
        "of a new session: protect users, not rows: all rows of a user together, whether they are "
        "there or not",
        None, group=PROMISE, metavar="COLUMN", essential=True,
    )  # fmt: skip
    rows_per_user: int = _same("rows_per_user")
    per_value: int = _same("per_value")
    expected: int | None = option(
        "of sum and mean: about how many users, or rows, take part, as far as that is public: "
        "numbers are rounded finely enough for them (default: 1,000,000)",
        None, group=RESULT, metavar="N", ge=1,
    )  # fmt: skip

    def require_alone(self) -> None:
        """Refuse words of a question where there is none.

        Raises:
            RequestError: there is one.
        """
        of_session = {"output", "epsilon", "question", *_TERMS}
        for name in sorted(self.model_fields_set - of_session):
            raise RequestError(
                f"{flag(name)}: belongs to a question, and there is none: say which right behind "
                "the session (hushbeam ask --help lists them)"
            )

    def require_no_terms(self) -> None:
        """Refuse terms of a session where none is begun.

        Raises:
            RequestError: there is one.
        """
        for name in _TERMS:
            if name in self.model_fields_set:
                raise RequestError(
                    f"{flag(name)}: is a term that a session is begun with: name --epsilon, too"
                )

    def counted_as(self, user_column: str | None, budget: GaussianFilter) -> QuestionOptions:
        """The release whose exact numbers answer the question.

        Args:
            user_column: of the session.
            budget: of the session; no answer is nearer than all of it buys.

        Raises:
            RequestError: the question lacks something, or something of another was said.
        """
        kind, said = _KINDS.get(str(self.question), CountOptions), self.model_fields_set
        for name in _TERMS:
            if name in said:
                raise RequestError(f"{flag(name)}: is a term of the session, and holds of all")
        if not self.input:
            raise RequestError("--input is missing: name the files that are asked")
        needed = {"threshold"} if self.question == "first-above" else set()
        needed |= {"column", "domain"} if self.question in _SELECTING else set()
        needed |= {"column", "bounds"} if kind is not CountOptions else set()
        known = {*kind.model_fields, "question", "share"} | needed
        for name in sorted(needed - said):
            raise RequestError(f"{flag(name)} is missing: {self.question} needs it")
        for name in sorted(said - known):
            raise RequestError(f"{flag(name)}: says nothing of {self.question}; leave it out")
        words = {name: getattr(self, name) for name in said & {*kind.model_fields}}
        words |= {"user_column": user_column, "epsilon": budget.epsilon, "delta": budget.delta}
        words["large_delta"] = True  # if it is, the session was begun so
        words["drawn_by"] = "shuffler"  # whose counters carry digits, which are added up here
        return kind(**words)

    def parts(self, budget: GaussianFilter, left: int) -> int:
        """What the answer may take of a budget.

        Args:
            budget: of the session.
            left: how many parts of it are.

        Raises:
            RequestError: nobody says, or it is none.
        """
        if (self.epsilon is None) == (self.share is None):
            raise RequestError(
                "--share or --epsilon, and not both: say what the answer may cost, a share of the "
                "budget (0.1, or rest) or what it alone may reveal"
            )
        if self.epsilon is not None:
            return budget.parts(self.epsilon)
        if self.share == "rest":
            return left
        try:
            share = float(str(self.share))
        except ValueError:
            share = 0.0
        if not 1e-9 <= share <= 1:
            raise RequestError(f"--share must be a number in 0 .. 1, or rest, not {self.share!r}")
        return int(share * WHOLE)


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add_command(commands, "ask", AskOptions, "pipelines.ask.command:run")
