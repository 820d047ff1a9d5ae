"""Questions of `hushbeam size` about noisy counters: each kind brings its own.

A kind's options say where its question is (`sizing`). Its fields are options of the command; one
of them asks it, and the others mean nothing without that one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.errors import DONE, RequestError
from pipelines.metrics import registry
from pipelines.metrics.counting.options import DELTA
from pipelines.request.options import Description, description, flag, option
from pipelines.request.requests import Neighbours, Whole, request

SENT = 82
"""Bytes of a sealed word, see docs/appendix/wire.md."""

_SHARED = {"epsilon", "delta", "reports", "model"}  # of the other requests, too


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


class PlannerQuestion(BaseModel, ABC):
    """A request to size noisy counters.

    Attributes:
        asks: the option that asks it.
        title: the heading of its options.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    asks: ClassVar[str]
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

    @property
    def terms(self) -> str:
        """What is asked of all, in words."""
        return f"epsilon {self.epsilon:g}, delta {self.delta:g}, {self.neighbours}"


def empty(title: str, caption: str, *headings: str) -> Table:
    """A table of numbers without rows."""
    table = Table(
        title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    return table


@cache
def questions() -> tuple[type[PlannerQuestion], ...]:
    """Those of all kinds that have one."""
    places = dict.fromkeys(registry.options(name).sizing for name in registry.names())
    return tuple(EntryPoint("", place, registry.GROUP).load() for place in places if place)


@cache
def own() -> frozenset[str]:
    """The options that belong to counters alone."""
    return frozenset(name for one in questions() for name in one.model_fields) - _SHARED


def add_to(parser: Any) -> None:
    """Add the options of all questions, each once."""
    added: set[str] = set()
    own_fields = [(question.title, question.model_fields) for question in questions()]
    for title, fields in ((PlannerQuestion.title, PlannerQuestion.model_fields), *own_fields):
        group = parser.add_argument_group(title)
        for name, field in fields.items():
            if name in added or not isinstance(field.json_schema_extra, Description):
                continue
            added.add(name)
            about = description(field)
            how = {"action": "store_true"} if field.annotation is bool else {}
            typed: dict[str, Any] = how or {"metavar": about.metavar}
            text = str(about).replace("%", "%%")
            group.add_argument(flag(name), default=None, help=text, **typed)


def question_of(typed: Mapping[str, Any]) -> type[PlannerQuestion] | None:
    """Which question is asked of counters; None if none is.

    Raises:
        RequestError: options mean nothing without it.
    """
    for question in questions():
        if typed[question.asks] is not None:
            return question
    for name in sorted(own()):
        if typed[name] is not None:
            needed = [flag(one.asks) for one in questions() if name in one.model_fields]
            raise RequestError(
                f"{flag(name)} needs {' or '.join(needed)}: it is for noisy counters"
            )
    return None


def run(question: type[PlannerQuestion], typed: Mapping[str, Any]) -> int:
    """Print the answer.

    Raises:
        RequestError: what was asked is out of range.
    """
    fields = question.model_fields
    for name, given in typed.items():
        if name not in fields and given is not None and (name, given) != ("model", "shuffle"):
            raise RequestError(f"{flag(name)} means nothing beside {flag(question.asks)}")
    Console().print(request(question, {name: typed[name] for name in fields}).table())
    return DONE
