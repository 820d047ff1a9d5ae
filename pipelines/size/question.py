"""Questions of `hushbeam size`: of histograms, of rows, and those that kinds of counters bring.

A kind's options say where its question is (`sizing`). Its fields are options of the command; one
of them asks it, and the others mean nothing without that one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.metrics.counting.options import DELTA
from pipelines.request import answers
from pipelines.request.options import Description, description, flag, option
from pipelines.request.requests import Neighbours, RequestOptions, Whole, request

SENT = 82
"""Bytes of a sealed word, see docs/appendix/wire.md."""

OUT_OF_REACH = "out of reach"
_ALSO = {"reports": ["--users"]}  # another name of an option


def _separated(written: object) -> object:
    return tuple(written.split(",")) if isinstance(written, str) else written


def _positive(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if not (numbers and min(numbers) >= 1):
        raise PydanticCustomError("numbers", "name whole numbers of at least 1, as in 1,10")
    return numbers


Several = Annotated[tuple[Whole, ...], BeforeValidator(_separated), AfterValidator(_positive)]
"""Whole numbers of at least 1, with commas between them."""

Users = Annotated[Whole, Field(ge=1, le=1 << 40)]
"""How many of them are expected."""


class SizingQuestion(RequestOptions, ABC):
    """A request to `hushbeam size`.

    Attributes:
        asks: the option that asks it.
        title: the heading of its options.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    asks: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def answer(self, screen: Console) -> None:
        """Print the answer.

        Raises:
            RequestError: there is none.
        """


class PlannerQuestion(SizingQuestion):
    """A request to size noisy counters."""

    title: ClassVar[str] = "noisy counters, whatever they count"

    neighbours: Neighbours = option(
        "which two logs must look alike", "add or remove", metavar="add-or-remove|replace"
    )
    epsilon: float = Field(gt=0)
    delta: float = Field(DELTA, gt=0, lt=1)

    @abstractmethod
    def table(self) -> Table:
        """The answer.

        Raises:
            RequestError: there is none.
        """

    def answer(self, screen: Console) -> None:
        screen.print(self.table())

    @property
    def target(self) -> tuple[Neighbours, float, float]:
        """What counters must meet."""
        return self.neighbours, self.epsilon, self.delta

    @property
    def terms(self) -> str:
        """What is asked of all, in words."""
        return f"epsilon {self.epsilon:g}, delta {self.delta:g}, {self.neighbours}"


def empty(
    title: str, caption: str, *headings: str, texts: int = 0, padding: Any = (0, 1, 0, 0)
) -> Table:
    """A table of numbers without rows; its cells take more lines where a screen is narrow.

    Args:
        title, caption: above and below it.
        *headings: of its columns.
        texts: how many of these, from the left, hold no numbers.
        padding: around cells.
    """
    table = Table(
        title=title, caption=caption, box=box.SIMPLE_HEAD, padding=padding, show_edge=False
    )
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < texts else "right", overflow="fold")
    return table


def filled(
    table: Table, key: str, values: Iterable[int],
    row: Callable[[int], tuple[Mapping[str, Any], Iterable[str]]],
) -> Table:  # fmt: skip
    """A table with a row for each number that something may be.

    Args:
        table: without rows.
        key: what programs call that number.
        values: the numbers.
        row: a number -> the facts and the cells behind it; raises ValueError where the target is
            out of reach.
    """
    for value in values:
        try:
            facts, cells = row(value)
        except ValueError:
            facts, cells = {"refused": OUT_OF_REACH}, [OUT_OF_REACH]
        answers.add("rows", {key: value, **facts})
        table.add_row(f"{value:,}", *cells)
    return table


@cache
def planned() -> tuple[type[PlannerQuestion], ...]:
    """The questions about counters, of all kinds that have one."""
    places = dict.fromkeys(registry.options(name).sizing for name in registry.names())
    return tuple(EntryPoint("", place, registry.GROUP).load() for place in places if place)


def add_to(parser: Any, shared: Any, questions: Iterable[Any]) -> None:
    """Add the options of all questions, each once.

    Args:
        parser: of the command.
        shared: has the options that stand under no heading.
        questions: in their order.
    """
    added: set[str] = set()
    for question in (shared, *questions):
        group = parser if question is shared else parser.add_argument_group(question.title)
        for name, field in question.model_fields.items():
            if name in added or not isinstance(field.json_schema_extra, Description):
                continue
            added.add(name)
            about, kind = description(field), field.annotation
            how: dict[str, Any] = {"metavar": about.metavar}
            if kind is bool:
                how = {"action": "store_true"}
            elif get_origin(kind) is Literal and about.metavar is None:
                how = {"choices": get_args(kind)}
            text = str(about).replace("%", "%%")
            group.add_argument(flag(name), *_ALSO.get(name, ()), default=None, help=text, **how)


def question_of(typed: Mapping[str, Any], shared: Any, questions: Sequence[Any]) -> SizingQuestion:
    """What is asked.

    Args:
        typed: option -> what was typed; None for what was not.
        shared: has the options that go with several questions.
        questions: that there are, by precedence.

    Raises:
        RequestError: nothing is, or an option is out of range or means nothing beside the others.
    """
    said = {name: given for name, given in typed.items() if given is not None}
    for question in questions:
        if question.asks not in said:
            continue
        for name in said:
            if name not in question.model_fields and (name, said[name]) != ("model", "shuffle"):
                raise RequestError(f"{flag(name)} means nothing beside {flag(question.asks)}")
        own = {name: given for name, given in said.items() if name in question.model_fields}
        return request(question, own)
    for name in said:
        if name not in shared.model_fields:
            needed = [flag(one.asks) for one in questions if name in one.model_fields]
            raise RequestError(f"{flag(name)} needs {' or '.join(needed)}")
    raise RequestError(
        "--domain-size or --dimension is missing: say how many values there are, or how many "
        "numbers a row has"
    )
