"""Bugs of the source of randomness."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FILE = "mechanisms/randomness.py"
_TESTS = ("tests/mechanisms/test_randomness.py",)

MUTANTS = (
    Mutant(
        "one-key-for-two-generators",
        "All generators of a process share one key, so two workers draw the same noise.",
        _FILE,
        "super().__init__(os.urandom(32))",
        'super().__init__(globals().setdefault("_KEY", os.urandom(32)))',
        _TESTS,
    ),
    Mutant(
        "key-of-32-bits",
        "The system gives 32 bits, which are stretched to a key: all keys can be tried.",
        _FILE,
        "super().__init__(os.urandom(32))",
        "super().__init__(hashlib.sha256(os.urandom(4)).digest())",
        _TESTS,
    ),
    Mutant(
        "no-new-key-after-a-fork",
        "A forked worker goes on with its parent's keystream, so both draw the same noise.",
        _FILE,
        "self._start(os.urandom(32))",
        "self._process = os.getpid()",
        _TESTS,
    ),
    Mutant(
        "modulo-bias",
        "Integers are remainders of 32-bit words, so the small ones are a little likelier.",
        _FILE,
        "return raw // dtype.type(step) if bound > 1",
        "return raw % dtype.type(bound) if 1 < bound < 1 << 31 else raw // dtype.type(step)"
        " if bound > 1",
        _TESTS,
    ),
    Mutant(
        "coins-of-16-bits",
        "A coin is decided by its first 16 bits, so small chances round to none.",
        _FILE,
        "heads[undecided] = self.words(undecided.size) >> np.uint64(16) < np.uint64(rest)",
        "heads[undecided] = False",
        _TESTS,
    ),
    Mutant(
        "ties-keep-their-order",
        "Messages whose first sort keys tie leave a shuffler in the order in which they came.",
        _FILE,
        "order[places] = order[places[within]]",
        "order[places] = order[places]",
        _TESTS,
    ),
    Mutant(
        "narrow-ties-keep-their-order",
        "Short messages whose sort keys tie leave a shuffler in the order of what they say.",
        _FILE,
        'keyed[places] = keyed[order[np.argsort(keys[order], kind="stable")]]',
        "keyed[places] = keyed[np.sort(order)]",
        _TESTS,
    ),
    Mutant(
        "a-generator-that-travels",
        "A generator can be pickled, so every worker that unpickles it repeats its noise.",
        _FILE,
        "def __reduce__(self) -> NoReturn:",
        "def _reduce(self) -> NoReturn:",
        _TESTS,
    ),
)
