"""The codes of counters: what counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CountCodes:
    """What counts the codes of counters.

    Attributes:
        codes: how many there are.
    """

    codes: int
    several = False

    def valid(self, messages: np.ndarray) -> np.ndarray:
        """(n,) which messages are codes."""
        return np.asarray(messages < np.uint64(self.codes))

    def count(self, messages: np.ndarray) -> np.ndarray:
        """(codes,) how often each came."""
        return np.bincount(
            messages.view(np.int64) if messages.dtype == np.uint64 else messages,
            minlength=self.codes,
        )
