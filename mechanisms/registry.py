"""What is known of each mechanism, said in its own file: `register` stands on its constructor.

Planners, command lines, documentation and contract tests read it here, so that a mechanism is
added by its file and by one line of `mechanisms.catalog.MODULES`, and nowhere else.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from mechanisms.channel import Mechanism, require_integer

_INTEGERS = (int, int | None, "int", "int | None", "Optional[int]")
_MODELS = ("local", "shuffle", "central")

_Constructor = TypeVar("_Constructor", bound=Callable[..., Any])


class RegistrationError(ValueError):
    """A registration that contradicts its mechanism, or another registration."""


Rule = Callable[[Any], Mechanism]
"""From a `planner.target.Target` to the mechanism with the best parameters that meets it."""


@dataclass(frozen=True, eq=False)
class Registration:
    """The facts of one mechanism.

    Attributes:
        name: as people type it; unique within its task.
        task: what it estimates: "frequency", "mean", "vector", or any other name.
        constructor: the class or function that makes it.
        source: who published it.
        small: sets of parameters for tests, at which all that one user may send can be listed.
        sends: what a user sends, in a few words, for tables.
        models: those that it serves: of "local", "shuffle" and "central".
        searched: the models in which "auto" looks at it; papers' systems are there to be named.
        seeded: whether it rests on a public seed, which is then one of its parameters.
        stands_in: where even there too much is sent to be listed, what the contract tests enumerate
            in its place: "module:name" of what takes the mechanism, as `tests.oracles.stand_ins`
            has some.
        several: whether a user sends several messages, where the task allows one by default.
        postprocess: what is done with its unbiased estimates by default, by a name of
            `mechanisms.frequency.choice.POSTPROCESSING`.
        claims_hold: False where it is as published and its paper claims what does not hold.
        batch: whether nothing protects one report, only a shuffled batch of them.
        biased: whether its estimates stay wrong, however many users report.
        baseline: whether its error is shown beside those of what "auto" looks at, to compare with.
        rules: how its parameters follow from a target, where `planner.rules` does not say it:
            "local" for reports that spend what they may, "shuffle" for what a batch lets them
            spend, "central", and "published" for the closed form of its paper.
        own: parameters that it chooses better than its task does.
        second_to: another mechanism of the task, at which "auto" looks in a batch in its place
            wherever that works: to solve for either takes time.
        largest_epsilon: the most that "auto" lets a report spend on it.
        largest_batch: users of a shuffled batch beyond which "auto" does not wait for its
            accounting.
        distributions: its rank among what "auto" estimates distributions from, or None.
    """

    name: str
    task: str
    constructor: Callable[..., Any]
    source: str
    small: tuple[Mapping[str, Any], ...]
    sends: str = ""
    models: tuple[str, ...] = ("local", "shuffle")
    searched: tuple[str, ...] = ()
    seeded: bool = False
    stands_in: str | None = None
    several: bool = False
    postprocess: str = "none"
    claims_hold: bool = True
    batch: bool = False
    biased: bool = False
    baseline: bool = False
    rules: Mapping[str, Rule] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    second_to: str | None = None
    largest_epsilon: float = math.inf
    largest_batch: int = 1 << 40
    distributions: int | None = None

    def __post_init__(self) -> None:
        if self.seeded != ("seed" in self.parameters):
            # A seed that a planner does not know of would be 0 in every collection, silently.
            raise RegistrationError(
                f"{self.name}: seeded is {self.seeded}, and its constructor "
                f"{'takes a' if 'seed' in self.parameters else 'takes no'} seed"
            )
        if not self.small:
            raise RegistrationError(
                f"{self.name}: small is missing: name parameters at which its reports can be listed"
            )
        if not (self.models and set(self.models) <= set(_MODELS)):
            raise RegistrationError(f"{self.name}: models must be some of {', '.join(_MODELS)}")
        if not set(self.searched) <= set(self.models):
            raise RegistrationError(f"{self.name} is searched where it does not serve")
        if not self.source:
            raise RegistrationError(f"{self.name}: source is missing: say who published it")

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """What the constructor takes."""
        return inspect.signature(self.constructor).parameters

    @property
    def serves(self) -> tuple[tuple[str, str], ...]:
        """(model, bound) of the targets that it serves."""
        published = [("shuffle", "published")] if "published" in self.rules else []
        return (*((model, "exact") for model in self.models), *published)

    @property
    def of_reports(self) -> bool:
        """Whether users randomise what they send, and no curator sees it as it is."""
        return self.models != ("central",)

    @property
    def default_model(self) -> str:
        """The model in which it is meant where nobody says."""
        return "shuffle" if "shuffle" in self.models else self.models[0]

    def build(self, **parameters: Any) -> Mechanism:
        """The mechanism with these parameters.

        Raises:
            ValueError: one is unknown or missing, or out of range.
        """
        try:
            # Bound first, so that a wrong name is told from a TypeError of the constructor's own.
            inspect.Signature(list(self.parameters.values())).bind(**parameters)
        except TypeError as error:
            accepted = ", ".join(
                key if p.default is p.empty else f"{key} (optional)"
                for key, p in self.parameters.items()
            )
            raise ValueError(f"{self.name}: {error}; it takes: {accepted}") from None
        for key, value in parameters.items():
            taken = self.parameters[key]
            if taken.annotation in _INTEGERS and not (value is None and taken.default is None):
                require_integer(key, value)
        built: Mechanism = self.constructor(**parameters)
        return built


_known: dict[tuple[str, str], Registration] = {}
_explained: dict[str, str] = {}


def register(
    name: str,
    *,
    task: str,
    source: str,
    models: Sequence[str] = ("local", "shuffle"),
    small: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    searched: bool | Sequence[str] = False,
    **facts: Any,
) -> Callable[[_Constructor], _Constructor]:
    """Make a mechanism known; stands on its constructor, once for each of its names.

    Args:
        name: see `Registration`.
        task: see `Registration`.
        source: see `Registration`.
        models: those that it serves.
        small: a set of parameters, or several.
        searched: whether "auto" looks at it, or in which of the models it does.
        **facts: the other attributes of `Registration`.

    Returns:
        A decorator that changes nothing.

    Raises:
        RegistrationError: the facts contradict the constructor, or the name is taken.

    >>> from mechanisms.catalog import registrations
    >>> registrations()["oue"].source
    'Wang, Blocki, Li, Jha, USENIX Security 2017'
    """

    def registered(constructor: _Constructor) -> _Constructor:
        registration = Registration(
            name,
            task,
            constructor,
            source,
            (small,) if isinstance(small, Mapping) else tuple(small),
            models=tuple(models),
            searched=tuple(models) if searched is True else tuple(searched or ()),
            **facts,
        )
        _enter(registration)
        return constructor

    return registered


def _enter(registration: Registration) -> None:
    """Keep a registration, unless its name is another's."""
    key = registration.task, registration.name
    other = _known.get(key)
    if other is not None and _place(other) != _place(registration):
        raise RegistrationError(
            f"the {key[0]} mechanism {key[1]!r} is registered twice, by {_place(other)} and by "
            f"{_place(registration)}"
        )
    _known[key] = registration  # a module that is imported again says the same again


def _place(registration: Registration) -> str:
    """Where a constructor is defined."""
    constructor = registration.constructor
    return f"{constructor.__module__}.{constructor.__qualname__}"


def known() -> list[Registration]:
    """What has been registered so far, in that order: whoever wants all of it asks `catalog`."""
    return list(_known.values())


def explain(name: str, why: str) -> None:
    """Say why a name that people may type is no mechanism."""
    _explained[name] = why


def explained() -> Mapping[str, str]:
    """Name -> why it is no mechanism."""
    return dict(_explained)
