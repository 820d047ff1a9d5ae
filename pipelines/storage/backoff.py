"""How long to go on trying, and how long to wait between two attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mechanisms.randomness import RandomSource

_FIRST, _LONGEST = 0.01, 2.0  # seconds


@dataclass(frozen=True)
class Backoff:
    """Attempts with ever longer pauses, of random length so that rivals do not meet again.

    Attributes:
        rng: draws the pauses.
        seconds: after which no further attempt is begun.
        sleep: waits; a test may pass its own.
    """

    rng: RandomSource
    seconds: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def attempts(self) -> Iterator[int]:
        """0, 1, 2, ... with a pause before each but the first, until backoff ends."""
        ends = time.monotonic() + self.seconds
        attempt = 0
        while attempt == 0 or time.monotonic() < ends:
            yield attempt
            bound = min(_LONGEST, _FIRST * 2 ** min(attempt, 20))
            # Anywhere below the bound: rivals that failed together would otherwise return together.
            self.sleep(bound * self.rng.integers(1 << 20, 1)[0] / (1 << 20))
            attempt += 1
