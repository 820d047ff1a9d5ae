"""Strings as sequences of symbols, all of one length, and the ways in which a prefix can go on."""

import operator
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields, require_integer
from mechanisms.heavy_hitters import utf8
from mechanisms.nearest import nearest

Codes = NDArray[np.uint16]
States = NDArray[np.int8]

END, MORE = 0, 1  # the last symbol of a code: whether the string ends there, or was cut
LONGEST = 256  # symbols

_BLOCK = 1 << 12  # strings encoded at a time, in a core's cache

_OPEN, _ENDED = 0, 1  # states: a character is over; the string is over
_NEVER = -1

BYTES = "bytes"
SETS = {
    "printable": "".join(map(chr, range(0x20, 0x7F))),
    "digits": string.digits,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
}


class Extensions(NamedTuple):
    """The ways in which a prefix can go on by some symbols.

    Attributes:
        open: (m, steps) codes after which the string goes on.
        states: (m,) what may follow each of them.
        complete: (k, steps) codes after which nothing is left to learn.
    """

    open: Codes
    states: States
    complete: Codes


@dataclass(frozen=True)
class PrefixCode(AsFields):
    """Strings cut to a length, ended by a symbol of their own and padded with it.

    A code has `max_length` symbols and one more, which tells a string that ends there from one
    that was longer and is cut: of those the beginning is still counted.

    Attributes:
        characters: the ASCII characters a string may hold, or "" for all text: its UTF-8 bytes.
        max_length: how many symbols are kept, 1 .. 256.

    >>> code = PrefixCode("abc", max_length=3)
    >>> codes, usable = code.encode(["ab", "abcc", "cab", "x"])
    >>> codes.tolist(), usable.tolist()
    ([[1, 2, 0, 0], [1, 2, 3, 1], [3, 1, 2, 0], [0, 0, 0, 0]], [True, True, True, False])
    >>> [code.text(row) for row in codes[:3]]
    [('ab', True), ('abc', False), ('cab', True)]
    """

    characters: str
    max_length: int

    def __post_init__(self) -> None:
        require_integer("max_length", self.max_length, 1, LONGEST)
        if not self.characters.isascii():
            raise ValueError(
                f"an alphabet is made of ASCII characters; for other text name {BYTES!r}"
            )
        if len(set(self.characters)) != len(self.characters):
            raise ValueError("an alphabet must not name a character twice")

    @property
    def symbols(self) -> int:
        """How many symbols there are, the end included."""
        return 1 + (len(self.characters) or 256)

    @property
    def unusable(self) -> Codes:
        """(positions,) what stands for no string: a symbol that no string's code has."""
        return np.full(self.positions, self.symbols, np.uint16)

    @property
    def positions(self) -> int:
        """How many symbols a code has."""
        return self.max_length + 1

    @cached_property
    def _letters(self) -> bytes:
        """The byte that each symbol but the end stands for."""
        return self.characters.encode() or bytes(range(256))

    @cached_property
    def transitions(self) -> States:
        """(states, symbols) the state after each symbol, -1 where it cannot come."""
        if self.characters:
            table = np.full((2, self.symbols), _NEVER)
            table[_OPEN] = _OPEN
        else:
            # Our second state is that of a string that is over; what follows it moves up by one.
            bytes_ = np.insert(utf8.transitions(), _ENDED, _NEVER, axis=0)
            table = np.insert(np.where(bytes_ >= _ENDED, bytes_ + 1, bytes_), 0, _NEVER, axis=1)
        table[_OPEN, END] = table[_ENDED, END] = _ENDED
        return table.astype(np.int8)

    # ---- strings to codes and back -----------------------------------------------------------

    def encode(self, texts: Sequence[str]) -> tuple[Codes, NDArray[np.bool_]]:
        """As `encode_bytes`, of strings."""
        pieces = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, pieces)])
        return self.encode_bytes(np.frombuffer(b"".join(pieces), np.uint8), ends)

    def encode_bytes(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[Codes, NDArray[np.bool_]]:
        """Strings as codes.

        Args:
            data: (bytes,) the UTF-8 of all strings, one after the other.
            offsets: (n + 1,) where in it each string begins, and the last one ends.

        Returns:
            ((n, positions) codes; (n,) whether a string holds characters of the alphabet only, as
            far as it is kept: the codes of others mean nothing).
        """
        symbol = np.zeros(256, np.uint16)
        symbol[np.frombuffer(self._letters, np.uint8)] = np.arange(1, self.symbols)
        lengths, places = np.diff(offsets), np.arange(self.positions)
        codes = np.zeros((lengths.size, self.positions), np.uint16)
        usable = np.ones(lengths.size, np.bool_)
        for first in range(0, lengths.size, _BLOCK):
            ends = offsets[first : first + _BLOCK + 1]
            kept = np.minimum(lengths[first : first + _BLOCK], self.max_length)
            inside, total = places < kept[:, None], int(kept.sum())
            if total == ends[-1] - ends[0]:  # of most logs no string is cut
                read = symbol[data[ends[0] : ends[-1]]]
            else:
                read = symbol[data[(ends[:-1, None] + places)[inside]]]
            codes[first : first + _BLOCK][inside] = read
            strange = np.searchsorted(np.cumsum(kept), np.flatnonzero(read == END), side="right")
            usable[first + strange] = False
        # A cut string would otherwise be taken for a shorter one that somebody holds.
        codes[:, -1] = np.where(lengths > self.max_length, MORE, END)
        return codes, usable

    def text(self, code: Codes) -> tuple[str, bool]:
        """The string of a code, and whether it is whole: a cut one stands for all that begin so."""
        kept = code[: self.max_length]
        whole = bool(code[-1] == END)
        data = bytes(self._letters[symbol - 1] for symbol in kept.tolist() if symbol != END)
        # A cut may fall inside a character, of which nothing is shown then.
        return data.decode("utf-8", errors="replace" if whole else "ignore"), whole

    # ---- what may follow ---------------------------------------------------------------------

    def growth(self, steps: int, last: bool = False) -> tuple[int, int]:
        """How many ways there are to begin a string, or to go on after a whole character.

        Args:
            steps: by how many symbols.
            last: whether the code then has no more but the symbol that tells if it was cut.

        Returns:
            (ways after which the string goes on; ways after which it is complete). No prefix has
            more of either.
        """
        return _growth(self, steps, last)

    @cached_property
    def ways_into(self) -> list[list[int]]:
        """For each state, how many symbols lead to it from each state."""
        states = range(len(self.transitions))
        return [
            [int(np.count_nonzero(self.transitions[before] == state)) for before in states]
            for state in states
        ]

    def extensions(self, state: int, steps: int, last: bool = False) -> Extensions:
        """All the ways in which a prefix can go on.

        Args:
            state: of the prefix; 0 for none, or one that ends with a whole character.
            steps: by how many symbols.
            last: whether the symbol that tells if the string was cut comes next, and is added.
        """
        return _extensions(self, state, steps, last)


@lru_cache(maxsize=1 << 10)  # who looks for a schedule asks some ten thousand times
def _growth(code: PrefixCode, steps: int, last: bool) -> tuple[int, int]:
    """`PrefixCode.growth`, remembered."""
    ways = [int(state == _OPEN) for state in range(len(code.transitions))]
    for _ in range(steps):
        ways = [sum(map(operator.mul, ways, into)) for into in code.ways_into]
    if last:
        return 0, sum(ways) + ways[_OPEN]
    return sum(ways) - ways[_ENDED], ways[_ENDED]


@lru_cache(maxsize=8)
def _extensions(code: PrefixCode, state: int, steps: int, last: bool) -> Extensions:
    """`PrefixCode.extensions`, remembered."""
    codes, states = np.empty((1, 0), np.uint16), np.array([state], np.int8)
    symbols = np.arange(code.symbols, dtype=np.uint16)
    for _ in range(steps):
        # By a mask: there are two million ways, and two places of each would take sixteen bytes.
        follows = code.transitions[states]
        allowed = follows != _NEVER
        columns = [
            np.repeat(codes, np.count_nonzero(allowed, axis=1), axis=0),
            np.broadcast_to(symbols, allowed.shape)[allowed],
        ]
        codes, states = np.column_stack(columns), follows[allowed]
    if last:
        # A string that is over was not cut; inside a character it was; else it may be either.
        whole, cut = codes[states <= _ENDED], codes[states != _ENDED]
        codes = np.concatenate([_closed(whole, END), _closed(cut, MORE)])
        return Extensions(codes[:0], states[:0], codes)
    over = states == _ENDED
    return Extensions(codes[~over], states[~over], codes[over])


def _closed(codes: Codes, symbol: int) -> Codes:
    """Codes with one more symbol."""
    return np.pad(codes, ((0, 0), (0, 1)), constant_values=symbol)


def alphabet(names: Sequence[str]) -> str:
    """The characters of an alphabet that is named in parts.

    Args:
        names: each "bytes", "printable", "digits", "lower", "upper", or characters as they are.

    Returns:
        The characters in the order of their codes; "" stands for all text.

    Raises:
        ValueError: a part is not ASCII, or misspells a name, or there is no character.

    >>> alphabet(["digits", "./-"]), alphabet(["bytes"])
    ('-./0123456789', '')
    """
    for name in names:
        # Its letters would be an alphabet, too, in which hardly a string of the log could be spelt.
        like = None if name in (BYTES, *SETS) else nearest(name, (BYTES, *SETS))
        if like is not None:
            raise ValueError(
                f"{name} is none of {', '.join((BYTES, *SETS))}; did you mean {like}? If its "
                f"letters are meant, write them in another order, as in {''.join(sorted(name))}"
            )
    if BYTES in names:
        return ""
    characters = "".join(SETS.get(name, name) for name in names)
    if not characters:
        raise ValueError("an alphabet needs at least one character")
    if not characters.isascii():
        raise ValueError(f"an alphabet is made of ASCII characters; for other text name {BYTES!r}")
    return "".join(sorted(set(characters)))
