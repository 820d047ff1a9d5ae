"""Every mechanism by name, for command lines and configuration.

A mechanism is described where it is defined (`mechanisms.registry.register`); a module that defines
some is a line of `MODULES`. Another distribution names its own modules as entry points of the group
`hushbeam.mechanisms`. Nothing is imported before somebody asks.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from mechanisms.channel import Mechanism
from mechanisms.nearest import meant
from mechanisms.plug_ins import entry_points
from mechanisms.registry import Registration, RegistrationError, explained, known

GROUP = "hushbeam.mechanisms"

_SHELF = "mechanisms.papers."

# Module -> the task of all its mechanisms, so that whoever asks for one task waits for no other's.
# Where two designs err alike, the one that is registered first is taken.
MODULES = {
    "mechanisms.frequency.hashed_responses": "frequency",
    "mechanisms.frequency.projective_geometry": "frequency",
    "mechanisms.papers.basic_rappor": "frequency",
    "mechanisms.frequency.unary": "frequency",
    "mechanisms.frequency.subset_selection": "frequency",
    "mechanisms.papers.bit_flips": "frequency",
    "mechanisms.papers.rappor": "frequency",
    "mechanisms.papers.random_projection": "frequency",
    "mechanisms.papers.count_sketch": "frequency",
    "mechanisms.papers.count_mean_sketch": "frequency",
    "mechanisms.frequency.dummies": "frequency",
    "mechanisms.papers.aue": "frequency",
    "mechanisms.frequency.correlated_noise": "frequency",
    "mechanisms.vector.divided_tables": "tables",
    "mechanisms.papers.dump": "frequency",
    "mechanisms.papers.hp_sdp": "frequency",
    "mechanisms.mean.optimal": "mean",
    "mechanisms.mean.hybrid": "mean",
    "mechanisms.mean.widths": "mean",
    "mechanisms.papers.windows": "mean",
    "mechanisms.papers.laplace": "mean",
    "mechanisms.papers.classical_gaussian": "mean",
    "mechanisms.mean.gaussian": "mean",
    "mechanisms.mean.two_point": "mean",
    "mechanisms.papers.two_points": "mean",
    "mechanisms.papers.published": "mean",
    "mechanisms.mean.key_value": "group means",
    "mechanisms.vector.multi": "vector",
    "mechanisms.papers.harmony": "vector",
    "mechanisms.papers.meanest": "vector",
    "mechanisms.papers.laplace_vector": "vector",
    "mechanisms.papers.rphm": "vector",
    "mechanisms.vector.privunit": "vector",
    "mechanisms.vector.mixed_choice": "attributes",
    "mechanisms.papers.privkv": "key value",
    "mechanisms.papers.ddps": "sum",
    "mechanisms.papers.central_histogram": "frequency",
    "mechanisms.papers.histograms": "frequency",
}


def registrations() -> Mapping[str, Registration]:
    """Every mechanism by its name; where tasks share one, the later is "task:name".

    Raises:
        RegistrationError: another distribution's module cannot be imported, or two mechanisms
            claim one name.
    """
    by_name: dict[str, Registration] = {}
    for registration in _ordered(*MODULES.values()):
        name = registration.name
        by_name[name if name not in by_name else f"{registration.task}:{name}"] = registration
    return by_name


def of_task(task: str, papers: bool = True) -> Mapping[str, Registration]:
    """The mechanisms of one task by name, those that keep what they claim.

    Args:
        task: its name.
        papers: whether to import those of papers as well, which nobody takes unless they are named.

    >>> list(of_task("vector"))[:2]
    ['multi_optimal', 'multi_hm']
    """
    ordered = _ordered(task, papers=papers)
    return {one.name: one for one in ordered if one.task == task and one.claims_hold}


def published(task: str) -> Mapping[str, Registration]:
    """Those of a task that are as their papers have them, and whose claims do not hold."""
    return {one.name: one for one in _ordered(task) if one.task == task and not one.claims_hold}


def names() -> list[str]:
    """The names that `build` knows.

    >>> "olh" in names()
    True
    """
    return list(registrations())


def build(name: str, **parameters: Any) -> Mechanism:
    """A mechanism from its name and parameters.

    Args:
        name: one of `names()`.
        **parameters: what its constructor takes: epsilon, domain_size, hash_range, ...

    Raises:
        ValueError: unknown name; unknown or missing parameter; a value out of range. The message
            lists what exists.

    >>> build("olh", epsilon=1.0, domain_size=100).guarantee.epsilon
    1.0
    """
    for parameter in ("epsilon", "delta"):
        # Python counts a truth as 1, and numpy's, too.
        if isinstance(parameters.get(parameter), (bool, np.bool_)):
            raise ValueError(f"{name}: {parameter} is a number, and no truth")
    return find(name, registrations()).build(**parameters)


def find(name: str, among: Mapping[str, Registration], what: str = "mechanism") -> Registration:
    """A mechanism's facts.

    Args:
        name: of it.
        among: name -> registration.
        what: they all are.

    Raises:
        ValueError: there is none of that name; the message lists those that there are.
    """
    if name not in among:
        registrations()  # any module may explain a name
        if name in explained():
            raise ValueError(f"{name} is not a {what}: {explained()[name]}")
        raise ValueError(
            f"unknown {what} {name!r}; there are: {', '.join(among)}{meant(name, among)}"
        )
    return among[name]


def _ordered(*tasks: str, papers: bool = True) -> list[Registration]:
    """All that is registered for some tasks, in an order that no earlier import changes."""
    modules = [module for module, task in MODULES.items() if task in tasks]
    if not papers:
        modules = [module for module in modules if not module.startswith(_SHELF)]
    for module in modules:
        import_module(module)
    _import_others()
    # By module and not by the time of import, for the order decides between designs that err alike.
    place = {module: place for place, module in enumerate(modules)}
    return sorted(known(), key=lambda one: place.get(one.constructor.__module__, len(place)))


@cache
def _import_others() -> None:
    """Have the modules of other distributions register their mechanisms."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        # Whatever a module of another distribution raises, it is to that one that it must be said.
        except Exception as error:
            owner = point.dist.name if point.dist else "an unnamed distribution"
            why = f"{type(error).__name__}: {error}"
            raise RegistrationError(
                f"{owner}: its mechanisms ({point.value}) are refused, {why}"
            ) from error
