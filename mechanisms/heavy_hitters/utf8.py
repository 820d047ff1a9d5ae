"""UTF-8 as an automaton: which byte may follow which, so that no other text is looked for."""

import numpy as np
from numpy.typing import NDArray

BOUNDARY = 0  # the state in which a character is over

# In state k = 1, 2, 3 so many more bytes of 80 .. BF are due. In the states from 4 on the next byte
# is narrowed, by what comes after the lead bytes E0, ED, F0 and F4.
_LEADS = [
    (0x00, 0x7F, BOUNDARY),
    (0xC2, 0xDF, 1),
    (0xE0, 0xE0, 4),
    (0xE1, 0xEC, 2),
    (0xED, 0xED, 5),
    (0xEE, 0xEF, 2),
    (0xF0, 0xF0, 6),
    (0xF1, 0xF3, 3),
    (0xF4, 0xF4, 7),
]
_TAILS = [
    (1, 0x80, 0xBF, BOUNDARY),
    (2, 0x80, 0xBF, 1),
    (3, 0x80, 0xBF, 2),
    (4, 0xA0, 0xBF, 1),
    (5, 0x80, 0x9F, 1),
    (6, 0x90, 0xBF, 2),
    (7, 0x80, 0x8F, 2),
]


def transitions() -> NDArray[np.int64]:
    """The state after each byte.

    Returns:
        (states, 256) the next state, or -1 where a byte cannot come; text begins in state 0.

    Source: RFC 3629, section 4.

    >>> table = transitions()
    >>> [int(table[0, byte]) for byte in "aé".encode()[:2]], int(table[0, 0xFF])
    ([0, 1], -1)
    """
    table = np.full((8, 256), -1)
    for state, first, last, after in [(BOUNDARY, *lead) for lead in _LEADS] + _TAILS:
        table[state, first : last + 1] = after
    return table
