"""How often each code came, as a block: in the place of as many messages, where a job counts.

Dummies are drawn as numbers. A job that counts what it shuffles would only write them out to count
them again: a sum of 229 groups has 24 million of them, one of 100,000 groups a thousand times more.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from transforms.encoders.block import NUMBERED


def numbered(codes: ArrayLike, times: ArrayLike) -> NDArray[np.void]:
    """(k,) a block that says how often each code came.

    Args:
        codes: (k,) in any order; one that stands twice came as often as both say.
        times: (k,) at least 0; of numbers that are added up, any.

    >>> block = numbered([7, 9], [2, 3])
    >>> is_numbered(block), amount(block), is_numbered(np.array([7, 7, 9])), amount(np.arange(4))
    (True, 5, False, 4)
    """
    block = np.empty(np.size(codes), NUMBERED)
    block["code"], block["times"] = codes, times
    return block


def is_numbered(block: NDArray[Any]) -> bool:
    """Whether a block says how often codes came, and does not hold them."""
    return block.dtype == NUMBERED


def amount(block: NDArray[Any]) -> int:
    """How many messages a block stands for."""
    return int(block["times"].sum()) if is_numbered(block) else block.size
