"""How blocks go from stage to stage: as Beam would pickle them, but weighed without a copy.

Beam weighs samples of what every step yields, all of the first ten, to say how many bytes went
through. What has no coder of its own is pickled to be weighed, and then thrown away: for the table
of a row group that costs more than reading it did.
"""

from __future__ import annotations

import pickle
from typing import Any, TypeVar

from apache_beam import coders

Kind = TypeVar("Kind", bound=type)


class BlockCoder(coders.Coder):
    """Blocks of arrays, or tables, to bytes and back.

    >>> import numpy as np
    >>> coder, block = BlockCoder(), np.arange(1000)
    >>> coder.decode(coder.encode(block)).size, coder.estimate_size(block)
    (1000, 8000)
    """

    def encode(self, block: Any) -> bytes:
        """One block, with all that it holds."""
        return pickle.dumps(block, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> Any:
        """What `encode` was given."""
        return pickle.loads(encoded)

    def estimate_size(self, block: Any) -> int:
        """The bytes of its arrays: of an array, a table, or a tuple of arrays."""
        parts = block if isinstance(block, tuple) else (block,)
        return sum(int(getattr(part, "nbytes", 0)) for part in parts)

    def is_deterministic(self) -> bool:
        """Blocks are no keys."""
        return False


def weighed(kind: Kind) -> Kind:
    """Register the coder for a kind of block; also a decorator of it."""
    coders.registry.register_coder(kind, BlockCoder)
    return kind
