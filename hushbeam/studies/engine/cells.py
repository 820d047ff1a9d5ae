"""What a study is made of: settings to be measured, how, and what came of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hushbeam.studies.engine.journal import Entry
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

_DASHES = {"exact": "-", "published": "--"}


@dataclass(frozen=True)
class FigureLine:
    """One system under one bound in one model: a line of a figure.

    Attributes:
        system: a name that no other system has; the noise of its releases depends on it.
        bound: "exact" or "published".
        model: "shuffle", "central" or "local".
        label: as legends say it.
        reference: whether it is no rival of the others, but there to compare them with.
    """

    system: str
    bound: str = "exact"
    model: str = "local"
    label: str = field(default="", compare=False, kw_only=True)
    reference: bool = field(default=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        return self.label or self.system

    @property
    def dashes(self) -> str:
        """How it is drawn; colours and markers tell systems apart."""
        if self.reference:
            return ":"
        return "-." if "@" in self.label else _DASHES[self.bound]

    def columns(self, cell: Cell) -> dict[str, Any]:
        """What tables say of one of its cells."""
        return {
            "system": self.system,
            "bound": self.bound,
            "model": self.model,
            "epsilon": cell.epsilon,
            "delta": cell.delta,
        }


def expanded(
    names: Sequence[str], known: Collection[str], sets: Mapping[str, Sequence[str]]
) -> list[str]:
    """Names of systems, and the members of sets, each once.

    Args:
        names: of systems or of sets.
        known: all systems.
        sets: name -> systems.

    Raises:
        RequestError: a name is unknown.

    >>> expanded(["b", "all", "b"], ["a", "b"], {"all": ["a", "b"]})
    ['b', 'a']
    """
    members = dict.fromkeys(member for name in names for member in sets.get(name, (name,)))
    for name in members:
        if name not in known:
            there_are = ", ".join([*sets, *known])
            raise RequestError(f"--systems: unknown system {name!r}; there are: {there_are}")
    return list(members)


@dataclass(frozen=True)
class Cell:
    """One setting: a system, on a population, for a privacy target.

    Attributes:
        data: the name of the population.
        line: which system, under which bound, in which model.
        epsilon: of the release, in nats.
        delta: of the shuffle model; the others ignore it.
        paired: whether a repetition has the same seed in every setting on a population, so that
            settings differ in nothing else.
    """

    data: str
    line: FigureLine
    epsilon: float
    delta: float
    paired: bool = field(default=False, compare=False)

    @property
    def shuffled_delta(self) -> float:
        """Delta as the model of the line can make use of it."""
        return self.delta if self.line.model == "shuffle" else 0.0

    def seed(self, seed: int, repetition: int) -> int:
        """The seed of one repetition: it depends on nothing else that is run."""
        line = self.line
        own = (line.system, line.bound, line.model, self.epsilon, self.delta)
        named = (seed, self.data, *(() if self.paired else own), repetition)
        return int.from_bytes(hashlib.sha256(repr(named).encode()).digest(), "big")

    def __str__(self) -> str:
        return f"{self.line} on {self.data} at epsilon {self.epsilon:g}, delta {self.delta:g}"


@dataclass(frozen=True)
class Simulation:
    """A cell, ready to be repeated: what a study makes of a mechanism and a population.

    Attributes:
        known: column -> value, equal in all repetitions; of JSON's types.
        release: simulates one release: column -> value.
    """

    known: Mapping[str, Any]
    release: Callable[[SeededRandom], Mapping[str, float]]


@dataclass
class Outcome:
    """What is known of a cell.

    Attributes:
        known: column -> value, equal in all repetitions.
        runs: repetition -> column -> value.
        refused: why the system cannot serve the cell, or None.
        failed: the type of an error that no system should raise, or None.
    """

    known: dict[str, Any] = field(default_factory=dict)
    runs: dict[int, dict[str, float]] = field(default_factory=dict)
    refused: str | None = None
    failed: str | None = None

    def add(self, entry: Entry) -> None:
        """Take in one piece of work."""
        self.refused, self.failed = entry.get("refused"), entry.get("failed")
        self.known.update(entry.get("known", {}))
        self.runs.update({int(run["repetition"]): run for run in entry.get("runs", ())})

    def missing(self, repetitions: int) -> list[int]:
        """What is still to be run."""
        if self.refused is not None or self.failed is not None:
            return []
        return [number for number in range(repetitions) if number not in self.runs]
