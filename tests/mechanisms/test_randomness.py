"""The keystream: uniform where it says so, exact in its bounds, and never shared."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from mechanisms import randomness
from mechanisms.randomness import SecureRandom, SeededRandom
from tests.oracles.enumeration import changes
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 1000, 2**16 + 1])
def test_integers_are_uniform_and_a_tilted_die_is_not(bound):
    law = np.full(bound, 1 / bound)
    wrong = tilted(law) if bound > 1 else law
    n = sample_size(law, wrong) if bound > 1 else 100
    counts = np.bincount(SeededRandom(bound).integers(bound, n).astype(int), minlength=bound)
    assert follows(counts, law)
    assert bound == 1 or not follows(counts, wrong)


@pytest.mark.parametrize(
    "bound", [2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64]
)
def test_wide_bounds_are_met_without_modulo_bias(bound):
    """Taking a remainder instead would make the lower third of 2^63 + 1 twice as likely."""
    draws = SeededRandom(1).integers(bound, 200_000)
    assert draws.dtype == np.uint64
    assert int(draws.max()) < bound
    eighths = np.minimum(draws.astype(float) / bound * 8, 7).astype(int)
    assert follows(np.bincount(eighths, minlength=8), np.full(8, 1 / 8))


class Raw(SeededRandom):
    """Fills with one number over and over, and with zeros from the second time on."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self.number, self.fills = number, 0

    def _fill(self, array):
        array[:] = 0 if self.fills else self.number
        self.fills += 1


@pytest.mark.parametrize("bound", [2, 3, 6, 100])
def test_exactly_as_many_words_lead_to_each_integer(bound):
    """Of 2^32 words; a remainder's bias of 2^-25 is too small for any sample."""

    def kept(word):
        rng = Raw(word)
        drawn = int(rng.integers(bound, 1)[0])
        return drawn if rng.fills == 1 else None

    starts = changes(kept, 1 << 32)
    shares = {kept(start): end - start for start, end in itertools.pairwise([*starts, 1 << 32])}
    assert len(starts) == len(shares)  # so many words, and nowhere else
    assert shares.pop(None, 0) == (1 << 32) % bound
    assert shares == dict.fromkeys(range(bound), (1 << 32) // bound)


@pytest.mark.parametrize("bound", [0, -1, 2**64 + 1])
def test_impossible_bounds_are_refused(bound):
    with pytest.raises(ValueError, match="bound"):
        SeededRandom(1).integers(bound, 1)


class Given(SeededRandom):
    """Fills with given words, and with the largest word from the second time on."""

    def __init__(self, words: np.ndarray) -> None:
        super().__init__(0)
        self.words_first, self.fills = words, 0

    def _fill(self, array):
        array[:] = self.words_first if not self.fills else (1 << 32) - 1
        self.fills += 1


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 100, 1 << 16, (1 << 31) + 1, 1 << 32])
def test_bounds_of_their_own_are_met_by_exactly_as_many_words(bound):
    """Of the words that fall on a result, only the first may be one too many."""
    results = range(bound) if bound <= 100 else [0, 1, bound // 2, bound - 1]
    for result in results:
        first, end = (-(-(place << 32) // bound) for place in (result, result + 1))
        words = np.arange(max(first - 1, 0), min(first + 3, end), dtype=np.uint32)
        left = []
        for word in words.tolist():
            rng = Given(np.array([word], np.uint32))
            drawn = int(rng.below(np.array([bound], np.uint64))[0])
            if rng.fills == 1 and drawn == result:
                left.append(word)
        assert {*left} | {first} == {*range(first, min(first + 3, end))}
        assert end - first - (first not in left) == (1 << 32) // bound


def test_each_bound_has_its_own_law():
    bounds = np.tile(np.array([1, 3, 1000], np.uint64), 60_000)
    drawn = SeededRandom(3).below(bounds)
    assert drawn.dtype == np.uint64
    for bound, size in ((1, 1), (3, 3), (1000, 8)):
        part = drawn[bounds == bound]
        assert int(part.max()) < bound
        law = np.full(size, 1 / size)
        assert follows(np.bincount(part.astype(int) * size // bound, minlength=size), law)


@pytest.mark.parametrize("share", [0.0, 1e-3, 0.5, 0.9, 1.0])
def test_bernoulli_has_its_probability(share):
    n = 400_000
    heads = int(SeededRandom(3).bernoulli(int(share * 2**64), n).sum())
    low, high = stats.binom.interval(1 - FALSE_ALARM, n, share)
    assert low <= heads <= high


class EqualLeads(SeededRandom):
    """Coins whose first 16 bits are always 7, so that the other 48 decide every one."""

    def _fill(self, array):
        super()._fill(array)
        if array.dtype == np.uint16:
            array[:] = 7


@pytest.mark.parametrize("rest", [0, 1 << 45, 3 << 46, (1 << 48) - 1])
def test_bits_beyond_the_first_sixteen_decide_a_tied_coin(rest):
    n, share = 100_000, rest / 2**48
    assert not EqualLeads(1).bernoulli(7 << 48, n).any()
    assert not EqualLeads(1).bernoulli(rest, n).any()
    assert EqualLeads(1).bernoulli((8 << 48) + rest, n).all()
    heads = int(EqualLeads(1).bernoulli((7 << 48) + rest, n).sum())
    low, high = stats.binom.interval(1 - FALSE_ALARM, n, share)
    assert low <= heads <= high


@pytest.mark.parametrize("threshold", [-1, 2**64 + 1])
def test_impossible_thresholds_are_refused(threshold):
    with pytest.raises(ValueError, match="threshold"):
        SeededRandom(1).bernoulli(threshold, 1)


@pytest.mark.parametrize(("population", "size"), [(5, 5), (5, 2), (9, 2), (7, 3)])
def test_every_ordered_sample_is_equally_likely(population, size):
    rng = SeededRandom(population)
    samples = list(itertools.permutations(range(population), size))
    index = {sample: i for i, sample in enumerate(samples)}
    law = np.full(len(samples), 1 / len(samples))
    n = 100 * len(samples)
    drawn = [index[tuple(rng.choice(population, size).tolist())] for _ in range(n)]
    assert follows(np.bincount(drawn, minlength=len(samples)), law)


def test_choice_from_a_huge_population_is_distinct():
    chosen = SeededRandom(1).choice(2**60, 10_000)
    assert np.unique(chosen).size == 10_000
    assert int(chosen.max()) < 2**60
    with pytest.raises(ValueError, match="cannot choose 4 of 3"):
        SeededRandom(1).choice(3, 4)


@pytest.mark.parametrize("size", [0, 1, 2, 70_000])
def test_permutation_holds_every_item_once(size):
    order = SeededRandom(1).permutation(size)
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def shuffles(permute, size: int, runs: int) -> np.ndarray:
    index = {order: i for i, order in enumerate(itertools.permutations(range(size)))}
    drawn = [index[tuple(permute(size).tolist())] for _ in range(runs)]
    return np.bincount(drawn, minlength=len(index))


def test_every_order_is_equally_likely_and_a_rotation_is_caught():
    law = np.full(24, 1 / 24)
    runs = sample_size(law, tilted(law))
    assert follows(shuffles(SeededRandom(2).permutation, 4, runs), law)
    rng = SeededRandom(2)
    rotation = shuffles(lambda n: np.roll(np.arange(n), int(rng.integers(n, 1)[0])), 4, runs)
    assert not follows(rotation, law)


class NarrowKeys(SeededRandom):
    """Draws keys whose first 32 bits take two values, so that ties decide nearly everything."""

    def _fill(self, array):
        super()._fill(array)
        if array.dtype == np.uint32:
            array &= np.uint32(1)


class EqualKeys(SeededRandom):
    """The first permutation's keys all tie in all 128 bits."""

    tries = 0

    def _sorted_by_random_keys(self, size):
        self.tries += 1
        return super()._sorted_by_random_keys(size)

    def _fill(self, array):
        super()._fill(array)
        if self.tries == 1:
            array[:] = 7


def test_ties_in_the_high_bits_are_broken_uniformly():
    law = np.full(24, 1 / 24)
    assert follows(shuffles(NarrowKeys(4).permutation, 4, sample_size(law, tilted(law))), law)


@pytest.mark.parametrize(
    ("source", "dtype"), [(NarrowKeys, "u1"), (SeededRandom, "u2"), (SeededRandom, "u8")]
)
def test_every_order_of_numbers_is_as_likely_whatever_they_are(source, dtype):
    """Ties of keys must not leave numbers in their own order, which is that they are sorted by."""
    law, rng = np.full(24, 1 / 24), source(5)
    runs = sample_size(law, tilted(law))
    assert follows(shuffles(lambda n: rng.shuffled(np.arange(n, dtype=dtype)), 4, runs), law)
    numbers = np.repeat(np.array([0, 7, np.iinfo(dtype).max], dtype), 1000)
    mixed = rng.shuffled(numbers)
    assert mixed.dtype == numbers.dtype
    assert np.sort(mixed).tolist() == numbers.tolist()
    assert rng.shuffled(numbers[:0]).size == 0


def test_full_ties_are_drawn_again():
    rng = EqualKeys(1)
    assert sorted(rng.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    assert rng.tries == 2


def test_large_draws_are_one_stream():
    """A request larger than the internal block equals the same words asked for in parts."""
    size = 3 * len(randomness._ZEROS) // 8 + 17
    whole = SeededRandom(9).words(size)
    rng = SeededRandom(9)
    parts = [rng.words(part) for part in (5, size // 2, size - size // 2 - 5)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("rng", [SecureRandom(), SeededRandom(1)], ids=["secure", "seeded"])
@pytest.mark.parametrize("carry", [pickle.dumps, copy.copy, copy.deepcopy])
def test_generators_do_not_travel(rng, carry):
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        carry(rng)


def test_a_generator_for_simulations_is_repeatable_and_a_stream_of_its_own():
    rng, again = SeededRandom(5), SeededRandom(5)
    first, second = rng.generator(), rng.generator()
    assert first.integers(1 << 62, size=8).tolist() == (
        again.generator().integers(1 << 62, size=8).tolist()
    )
    assert first.integers(1 << 62) != second.integers(1 << 62)
    assert rng.words(1) != again.words(1)  # the second generator's seed came from the stream
    assert not hasattr(SecureRandom(), "generator")


# ---- keys ----------------------------------------------------------------------------------------


def keystream(key: bytes, size: int) -> list[int]:
    """AES-256 in counter mode by its definition: each block of the counter enciphered alone."""
    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    counters = b"".join(block.to_bytes(16, "big") for block in range(-(-size // 2)))
    return np.frombuffer(cipher.update(counters), np.uint64)[:size].tolist()


@pytest.fixture
def keys(monkeypatch) -> list[bytes]:
    """All that the operating system is asked for."""
    given: list[bytes] = []
    system = os.urandom

    def urandom(size: int) -> bytes:
        given.append(system(size))
        return given[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    return given


def test_a_key_is_256_bits_of_the_system_and_nothing_else(keys):
    """A shorter key, stretched, looks as random as this one; the stream is that of 32 bytes."""
    rng = SecureRandom()
    (key,) = keys
    assert len(key) == 32
    assert rng.words(6).tolist() == keystream(key, 6)


def test_every_generator_of_a_process_has_a_key_of_its_own(keys):
    rngs = [SecureRandom() for _ in range(20)]
    with ThreadPoolExecutor(4) as threads:
        rngs += threads.map(lambda _: SecureRandom(), range(20))
    streams = {tuple(rng.words(4).tolist()) for rng in rngs}
    assert streams == {tuple(keystream(key, 4)) for key in keys}
    assert len(streams) == len(keys) == 40


def in_a_fork(work) -> bytes:
    """What a child of this process answers."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def test_every_fork_has_a_key_of_its_own_and_leaves_its_parents_alone(keys):
    rng = SecureRandom()
    before = rng.words(2).tolist()
    children = [in_a_fork(lambda: rng.words(4).tobytes() + b"".join(keys[1:])) for _ in range(3)]
    for child in children:
        drawn, key = np.frombuffer(child[:32], np.uint64).tolist(), child[32:]
        assert len(key) == 32  # one new key, of the whole length
        assert drawn == keystream(key, 4)
    assert len({child[32:] for child in children}) == 3
    assert before + rng.words(4).tolist() == keystream(keys[0], 6)


def test_a_seeded_generator_refuses_to_be_forked(monkeypatch):
    rng = SeededRandom(1)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="fork"):
        rng.words(1)
