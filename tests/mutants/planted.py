"""Mechanisms that spend three times their epsilon: a file each, and its line of the catalogue."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CONTRACT = "tests/mechanisms/contract/test_contract_privacy.py"
_CATALOG = "mechanisms/catalog.py"

_MEAN = '''"""Duchi's mechanism with the odds of three times its epsilon."""

from dataclasses import dataclass
from functools import cached_property

from mechanisms.mean.scalar import SMALL
from mechanisms.mean.two_point import TwoPoint, TwoPointLaw
from mechanisms.registry import register


@register("thrice", task="mean", source="nobody", searched=True, small=SMALL)
@dataclass(frozen=True)
class Thrice(TwoPoint):
    @cached_property
    def law(self):
        return TwoPointLaw.within(1 << 64, 3 * self.epsilon, self.delta, self.cells)
'''

_VECTOR = '''"""One coordinate through Duchi's mechanism, at three times the epsilon of the row."""

from dataclasses import dataclass, replace

from mechanisms.mean.two_point import duchi
from mechanisms.registry import register
from mechanisms.vector.sampled import SampledCoordinates


@dataclass(frozen=True)
class Thrice(SampledCoordinates):
    @property
    def guarantee(self):
        return replace(super().guarantee, epsilon=self.epsilon / 3)


@register(
    "thrice",
    task="vector",
    source="nobody",
    searched=True,
    small={"epsilon": 1.0, "dimension": 2, "cells": 3},
)
def thrice(epsilon: float, dimension: int, cells: int = 1024):
    return Thrice(3 * epsilon, dimension, 1, duchi(3 * epsilon, cells))
'''

_BATCH = '''"""Poisson dummies, as few as suffice for three times the epsilon."""

from dataclasses import dataclass
from functools import cached_property

from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.privacy import dummy_laws
from mechanisms.registry import register


@register(
    "thrice",
    task="frequency",
    source="nobody",
    models=["shuffle"],
    batch=True,
    searched=True,
    several=True,
    small={"epsilon": 1.0, "delta": 0.05, "n": 4, "domain_size": 2, "honest_share": 0.75},
    rules={"shuffle": lambda target: Thrice.meeting(target)},
)
@dataclass(frozen=True)
class Thrice(PoissonDummies):
    @cached_property
    def bin_mean(self) -> float:
        return dummy_laws.least_poisson_mean(3 * self.epsilon, self.delta)
'''


def _planted(name: str, wrong: str, neighbour: str, file: str, text: str, test: str) -> Mutant:
    """A mechanism that is registered like any other, and met by the tests of all."""
    module = file.removesuffix(".py").replace("/", ".")
    _, task, _ = module.split(".")
    return Mutant(
        name,
        wrong,
        _CATALOG,
        f'    "{neighbour}": "{task}",\n',
        f'    "{neighbour}": "{task}",\n    "{module}": "{task}",\n',
        (_CONTRACT,),
        {file: text},
        known_by=test,
    )


MUTANTS = (
    _planted(
        "a-mean-of-three-epsilon",
        "A mean mechanism spends three times its epsilon; nothing knows it but the registry.",
        "mechanisms.mean.two_point",
        "mechanisms/mean/thrice.py",
        _MEAN,
        "test_privacy_by_enumeration",
    ),
    _planted(
        "a-vector-of-three-epsilon",
        "A mechanism for rows spends three times its epsilon; nothing knows it but the registry.",
        "mechanisms.vector.multi",
        "mechanisms/vector/thrice.py",
        _VECTOR,
        "test_privacy_by_enumeration",
    ),
    _planted(
        "a-batch-of-three-epsilon",
        "A batch mechanism spends three times its epsilon; nothing knows it but the registry.",
        "mechanisms.frequency.dummies",
        "mechanisms/frequency/thrice.py",
        _BATCH,
        "test_batch_privacy_by_enumeration",
    ),
)
