"""What an evaluation is made of: settings to be measured, how, and what came of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Protocol

from mechanisms.randomness import SeededRandom
from pipelines.evaluate.journal import Entry


@dataclass(frozen=True)
class Line:
    """One system under one bound in one model: a line of a figure.

    Attributes:
        system: by its name.
        bound: "exact" or "published".
        model: "shuffle", "central" or "local".
        label: as legends say it.
    """

    system: str
    bound: str
    model: str
    label: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.label or self.system


@dataclass(frozen=True)
class Cell:
    """One setting: a system, on a data set, for a privacy target.

    Attributes:
        data: the name of the data set.
        line: which system, under which bound, in which model.
        epsilon: of the release, in nats.
        delta: of the shuffle model; the others ignore it.
        paired: whether a repetition has the same seed in every setting on a data set, so that
            settings differ in nothing else.
    """

    data: str
    line: Line
    epsilon: float
    delta: float
    paired: bool = field(default=False, compare=False)

    def seed(self, seed: int, repetition: int) -> int:
        """The seed of one repetition: it depends on nothing else that is run."""
        if self.paired:
            digest = hashlib.sha256(repr((seed, self.data, repetition)).encode()).digest()
            return int.from_bytes(digest, "big")
        line = self.line
        named = (seed, self.data, line.system, line.bound, line.model, self.epsilon, self.delta)
        digest = hashlib.sha256(repr((*named, repetition)).encode()).digest()
        return int.from_bytes(digest, "big")

    def __str__(self) -> str:
        return f"{self.line} on {self.data} at epsilon {self.epsilon:g}, delta {self.delta:g}"


class Experiment(Protocol):
    """What is measured; pickled once into each worker."""

    def fit(self, cell: Cell) -> Any:
        """What repetitions have in common, such as the mechanism with its parameters.

        Raises:
            ValueError: the system cannot serve the cell, and why.
        """

    def known(self, fitted: Any) -> dict[str, Any]:
        """Column -> value, equal in all repetitions; of JSON's types."""

    def measure(self, cell: Cell, fitted: Any, rng: SeededRandom) -> dict[str, float]:
        """Column -> value of one simulated release."""


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
        return [each for each in range(repetitions) if each not in self.runs]
