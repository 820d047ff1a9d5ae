"""The only source of randomness: an AES-256 counter-mode keystream read as integers.

A report is private only while its noise cannot be predicted, so the key comes from the
operating system, lives in one process and is never pickled, copied or inherited by a fork.
"""

import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LOW = np.uint64((1 << 32) - 1)
_ZEROS = bytes(1 << 20)  # encrypting zeros yields the bare keystream


class _Keystream(ABC):
    """Integers of any law from one AES-CTR stream; subclasses say where the key comes from."""

    def __init__(self, key: bytes) -> None:
        self._start(key)

    def _start(self, key: bytes) -> None:
        # The key is fresh for every stream, so a fixed first counter block repeats nothing.
        self._cipher: CipherContext = Cipher(
            algorithms.AES256(key), modes.CTR(bytes(16))
        ).encryptor()
        self._process = os.getpid()

    @abstractmethod
    def _after_fork(self) -> None:
        """What to do when the process turns out to be a copy of the one that drew the key."""

    def _fill(self, array: NDArray[Any]) -> None:
        """Overwrite an array with keystream."""
        # Two processes with one key would draw the same noise, and the difference of their reports
        # would have none.
        if self._process != os.getpid():
            self._after_fork()
        target = array.data.cast("B")
        for start in range(0, len(target), len(_ZEROS)):
            piece = target[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(piece)], piece)

    def words(self, size: int) -> Words:
        """Uniform 64-bit words.

        Args:
            size: how many.

        Returns:
            (size,) uint64, each uniform on 0 .. 2^64 - 1.
        """
        array = np.empty(size, np.uint64)
        if size:
            self._fill(array)
        return array

    def integers(self, bound: int, size: int) -> Words:
        """Exactly uniform integers below a bound, by rejection.

        Args:
            bound: 1 .. 2^64, exclusive.
            size: how many.

        Returns:
            (size,) uint64, each uniform on 0 .. bound - 1.

        Raises:
            ValueError: the bound is out of range.
        """
        if not 1 <= bound <= 1 << 64:
            raise ValueError(f"bound must lie in 1 .. 2^64, not {bound}")
        narrow = bound <= 1 << 32
        width, dtype = (32, np.dtype(np.uint32)) if narrow else (64, np.dtype(np.uint64))
        # `step` draws out of 2^width fall on each result; the few left over are drawn again.
        step, last = (1 << width) // bound, dtype.type(bound - 1)

        def draw(count: int) -> NDArray[Any]:
            raw = np.empty(count, dtype)
            if count:
                self._fill(raw)
            # bound = 1 makes step 2^width, which the dtype cannot hold; every draw is then 0.
            return raw // dtype.type(step) if bound > 1 else np.zeros(count, dtype)

        result = draw(size)
        # A remainder in place of rejection would favour small integers: a bias that no epsilon
        # counts.
        while (rejected := np.flatnonzero(result > last)).size:
            result[rejected] = draw(rejected.size)
        return result.astype(np.uint64, copy=False)

    def below(self, bounds: Words) -> Words:
        """Exactly uniform integers, each below a bound of its own.

        Args:
            bounds: (n,) uint64, each 1 .. 2^32, exclusive.

        Returns:
            (n,) uint64, the i-th uniform on 0 .. bounds[i] - 1.

        Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019, Alg. 5.

        >>> SeededRandom(7).below(np.ones(3, np.uint64))
        array([0, 0, 0], dtype=uint64)
        """
        words = np.empty(bounds.size, np.uint32)
        if bounds.size:
            self._fill(words)
        products = words * bounds
        low = products & _LOW
        # Of the words that fall on a result, one more for some results: those are drawn again.
        few = np.flatnonzero(low < bounds)
        few = few.compress(low.take(few) < np.uint64(1 << 32) % bounds.take(few))
        result = products >> np.uint64(32)
        if few.size:
            result[few] = self.below(bounds.take(few))
        return result

    def bernoulli(self, threshold: int, size: int) -> NDArray[np.bool_]:
        """Coins that fall heads with probability exactly threshold / 2^64.

        Args:
            threshold: 0 .. 2^64.
            size: how many.

        Returns:
            (size,) bool.

        Raises:
            ValueError: the threshold is out of range.
        """
        if not 0 <= threshold <= 1 << 64:
            raise ValueError(f"threshold must lie in 0 .. 2^64, not {threshold}")
        if threshold == 1 << 64:
            return np.ones(size, np.bool_)
        # The first 16 of a coin's 64 bits decide it, unless they are the threshold's own; only
        # then are the other 48 drawn.
        leading, rest = divmod(threshold, 1 << 48)
        first = np.empty(size, np.uint16)
        if size:
            self._fill(first)
        heads: NDArray[np.bool_] = first < np.uint16(leading)
        undecided = np.flatnonzero(first == np.uint16(leading))
        heads[undecided] = self.words(undecided.size) >> np.uint64(16) < np.uint64(rest)
        return heads

    def choice(self, population: int, size: int) -> Words:
        """Distinct integers below `population`: an ordered sample without replacement.

        Args:
            population: how many there are to choose from, at most 2^64.
            size: how many to choose, at most `population`.

        Returns:
            (size,) uint64; each ordered tuple of distinct integers is equally likely.

        Raises:
            ValueError: more are asked for than there are.
        """
        if not 0 <= size <= population:
            raise ValueError(f"cannot choose {size} of {population} without replacement")
        if 2 * size > population:
            return self.permutation(population)[:size]
        chosen = np.empty(0, np.uint64)
        while chosen.size < size:
            # Drawing on and ignoring what was seen before is sampling without replacement.
            draws = np.concatenate([chosen, self.integers(population, size - chosen.size)])
            _, first = np.unique(draws, return_index=True)
            chosen = draws[np.sort(first)]
        return chosen

    def permutation(self, size: int) -> Words:
        """A uniform random order, by sorting on independent 128-bit keys.

        The 32 high bits of each key are sorted by two radix passes; the other 96 are drawn only
        where those tie, which gives the same law as drawing all 128 at once. Two full keys tie
        with probability below size^2 / 2^129; such an order is discarded and drawn again.

        Args:
            size: how many items.

        Returns:
            (size,) uint64: the numbers 0 .. size - 1 in random order.
        """
        while (order := self._sorted_by_random_keys(size)) is None:
            pass
        return order.astype(np.uint64, copy=False)

    def shuffled(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The same numbers in a uniform random order.

        Narrow ones are sorted as the low bits of words whose high bits are random keys: three times
        as fast as to sort places and to look numbers up there. Keys that tie draw further ones.

        Args:
            numbers: (n,) unsigned integers.
        """
        width = 8 * numbers.dtype.itemsize
        if width == 64:
            return np.asarray(numbers[self.permutation(numbers.size)])
        dtype = np.dtype(np.uint32 if width == 8 else np.uint64)
        keyed = np.empty(numbers.size, dtype)
        if keyed.size:
            self._fill(keyed)
        keyed >>= dtype.type(width)
        keyed <<= dtype.type(width)
        keyed |= numbers
        keyed.sort()
        keys = keyed >> dtype.type(width)
        equal = keys[1:] == keys[:-1]
        if equal.any():
            tied = np.zeros(keys.size, np.bool_)
            tied[1:] |= equal
            tied[:-1] |= equal
            places = np.flatnonzero(tied)
            # A permutation of those that tie, sorted stably by their keys, is one of each group.
            order = places[self.permutation(places.size)]
            keyed[places] = keyed[order[np.argsort(keys[order], kind="stable")]]
        return keyed.astype(numbers.dtype)

    def _sorted_by_random_keys(self, size: int) -> NDArray[np.intp] | None:
        """One attempt at `permutation`; None if two 128-bit keys tied."""
        high = np.empty(size, np.uint32)
        if size:
            self._fill(high)
        # numpy's stable sort of 16-bit integers is a radix sort: twice as fast as sorting words.
        order = np.argsort(high.astype(np.uint16), kind="stable")
        order = order[np.argsort((high >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
        ranked = high[order]
        equal = ranked[1:] == ranked[:-1]
        if not equal.any():
            return order
        tied = np.zeros(size, np.bool_)
        tied[1:] |= equal
        tied[:-1] |= equal
        places = np.flatnonzero(tied)
        keys = ranked[places]
        middle, low = self.words(places.size) >> np.uint64(32), self.words(places.size)
        within = np.lexsort((low, middle, keys))
        triples = np.stack([keys.astype(np.uint64), middle, low])[:, within]
        if (triples[:, 1:] == triples[:, :-1]).all(axis=0).any():
            return None
        order[places] = order[places[within]]
        return order

    def __reduce__(self) -> NoReturn:
        # A copy would repeat the stream wherever it is opened.
        raise TypeError(
            f"{type(self).__name__} must not be pickled or copied: two holders of one key draw "
            "the same noise. Open a generator where it is used (in Beam: in DoFn.setup)."
        )


class SecureRandom(_Keystream):
    """Randomness for real reports, keyed by the operating system.

    >>> rng = SecureRandom()
    >>> bool((rng.integers(6, 1000) < 6).all())
    True
    """

    def __init__(self) -> None:
        super().__init__(os.urandom(32))

    def _after_fork(self) -> None:
        self._start(os.urandom(32))


class SeededRandom(_Keystream):
    """Repeatable, hence NOT private: for tests and simulation only.

    >>> int(SeededRandom(7).integers(100, 1)[0]) == int(SeededRandom(7).integers(100, 1)[0])
    True
    """

    def __init__(self, seed: int) -> None:
        super().__init__(hashlib.sha256(b"hushbeam simulation %d" % seed).digest())

    def generator(self) -> np.random.Generator:  # noqa: TID251
        """A numpy generator for the sums of a simulated population; never for a report.

        Its binomials and the like are computed in floating point from a generator that was not
        made to keep a secret: good enough to predict errors, useless as protection.

        Returns:
            A generator of its own, seeded with the next 256 bits of this stream.
        """
        return np.random.Generator(np.random.PCG64(self.words(4)))  # noqa: TID251

    def _after_fork(self) -> None:
        raise RuntimeError("a SeededRandom does not survive a fork: both processes would repeat it")


class PermanentRandom(_Keystream):
    """One keystream for ever: private as long as its 256-bit key, from a keyed hash, is secret.

    >>> bool(PermanentRandom(bytes(32)).words(1) == PermanentRandom(bytes(32)).words(1))
    True
    """

    def __init__(self, key: bytes) -> None:
        if not len(key) == 32:
            raise ValueError(f"a key has 32 bytes, not {len(key)}")
        super().__init__(key)

    def _after_fork(self) -> None:
        raise RuntimeError("a PermanentRandom does not survive a fork: open it where it is used")


def keyed_random(secret: bytes, *names: bytes) -> PermanentRandom:
    """The stream of a secret and of names: whoever draws for these names again draws the same.

    Args:
        secret: 32 bytes, drawn once.
        *names: what the noise is for; other names have a stream of their own.

    >>> one, again, other = (keyed_random(bytes(32), b"trips", name) for name in (b"a", b"a", b"b"))
    >>> bool(one.words(1) == again.words(1)), bool(again.words(1) == other.words(1))
    (True, False)
    """
    if not len(secret) == 32:
        raise ValueError(f"a secret has 32 bytes, not {len(secret)}")
    # Each name behind its length: no two lists of names are written alike.
    written = b"".join(len(name).to_bytes(8, "big") + name for name in names)
    return PermanentRandom(hmac.digest(secret, written, "sha256"))


RandomSource = SecureRandom | SeededRandom | PermanentRandom
