"""The mechanisms that the contract takes: every registration at its small parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from importlib import import_module
from typing import Any

import pytest

from mechanisms.catalog import registrations
from mechanisms.channel import Mechanism
from mechanisms.registry import Registration


@dataclass(frozen=True)
class Case:
    """A mechanism of the registry at one set of parameters.

    Attributes:
        name: of the registration.
        facts: the registration.
        parameters: what the mechanism is built with.
    """

    name: str
    facts: Registration
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        return "-".join(map(str, (self.name, *self.parameters.values())))

    @cached_property
    def mechanism(self) -> Any:
        """Built once for all tests, which share what it has computed."""
        return self.facts.build(**self.parameters)

    @cached_property
    def listed(self) -> Any:
        """What can be enumerated: the mechanism, or what it says stands in for it."""
        if self.facts.stands_in is None:
            return self.mechanism
        return stand_in(self.facts)(self.mechanism)

    def at(self, **parameters: Any) -> Case:
        """The same mechanism at other parameters, those that it takes."""
        known = {key: value for key, value in parameters.items() if key in self.parameters}
        return Case(self.name, self.facts, {**self.parameters, **known})


def stand_in(facts: Registration) -> Callable[[Mechanism], Any]:
    """What a registration names in place of an enumeration: "module:class of the mechanism"."""
    module, _, name = (facts.stands_in or "").partition(":")
    found: Callable[[Mechanism], Any] = getattr(import_module(module), name)
    return found


def among(chosen: Callable[[Registration], bool]) -> list[Case]:
    """The cases of some registrations."""
    return [case for case in every() if chosen(case.facts)]


def every() -> Iterator[Case]:
    """All cases, those of other distributions that are installed included."""
    for name, facts in registrations().items():
        for parameters in facts.small:
            yield Case(name, facts, parameters)


def over(cases: list[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each mechanism, with one of its cases after another.

    Were each case a test, they would be four thousand, of which most take less than a test costs.
    """
    own: dict[str, list[Case]] = {}
    for case in cases:
        own.setdefault(case.name, []).append(case)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(case: list[Case], **others: Any) -> None:
            for one in case:
                try:
                    test(case=one, **others)
                except Exception as error:
                    raise AssertionError(f"at {one}") from error

        return pytest.mark.parametrize("case", own.values(), ids=own.keys())(run)

    return decorated


def local(facts: Registration) -> bool:
    """Whether one report is private by itself."""
    return not (facts.batch or central(facts))


def central(facts: Registration) -> bool:
    """Whether a curator sees the values, and only what is released is private."""
    return facts.models == ("central",)


ALONE = among(local)
TOGETHER = among(lambda facts: facts.batch)
CENTRAL = among(central)
LISTED = [case for case in ALONE + TOGETHER if case.facts.stands_in is None]
"""Those whose reports `weights` and `reports` list."""


def first(cases: list[Case]) -> list[Case]:
    """One case of each mechanism."""
    return list({case.name: case for case in reversed(cases)}.values())[::-1]
