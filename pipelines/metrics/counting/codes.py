"""The codes of counters: which of a report's are sent, and what counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mechanisms.counters.choose import NoisyCounters
from transforms.elements.numbers import is_numbered, numbered
from transforms.encoders.block import SlotBlock


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


def sent(block: SlotBlock, design: NoisyCounters) -> np.ndarray:
    """The messages of a block, empty slots left out (see `AddDummies`); of numbers, their sums."""
    words: Any = block.words.ravel("K")
    if is_numbered(words):
        kept = words[words["code"] < np.uint64(design.layout.starts[-1])]
        codes, places = np.unique(kept["code"], return_inverse=True)
        totals = np.zeros(codes.size, np.int64)
        np.add.at(totals, places, kept["times"])
        return numbered(codes, totals)
    sent = words.take(np.flatnonzero(words < int(design.layout.starts[-1])))
    return sent.astype(np.min_scalar_type(design.codes), copy=False)
