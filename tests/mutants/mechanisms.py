"""Bugs of mechanisms: samplers, dummies, thresholds."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_EXACT = "tests/mechanisms/test_exact_samplers.py"

MUTANTS = (
    Mutant(
        "no-number-too-rare-a-code",
        "Whoever has no number sends the codes of numbers half as often as epsilon asks for.",
        "mechanisms/mean/with_unusable.py",
        "ceiling(share * weight / lower)",
        "ceiling(share * weight / lower / 2)",
        ("tests/mechanisms/mean/test_with_unusable.py",),
    ),
    Mutant(
        "made-up-reports-weigh-nothing-more",
        "A statement bounds made-up reports by what lies about values can do.",
        "mechanisms/frequency/oracle.py",
        "return (most - fewest) / self.contrast",
        "return float(most - fewest)",
        ("tests/mechanisms/contract/test_contract_influence.py",),
    ),
    Mutant(
        "sampler-one-percent-off",
        "A client lies 1 % less often than its channel says.",
        "mechanisms/frequency/linear_hash.py",
        "// np.uint64(self.miss_weight)",
        "// np.uint64(self.miss_weight * 99 // 100)",
        (_EXACT,),
    ),
    Mutant(
        "bits-one-percent-off",
        "A client keeps its own bit 1 % more often than its channel says.",
        "mechanisms/frequency/unary.py",
        "rng.bernoulli(self.keep_weight, own.size)",
        "rng.bernoulli(self.keep_weight * 101 // 100, own.size)",
        (_EXACT,),
    ),
    Mutant(
        "thresholds-rounded-down",
        "The weight of a lie is rounded down, so that the truth is likelier than e^epsilon allows.",
        "mechanisms/frequency/linear_hash.py",
        "return ceiling(Fraction(_WORD) / (lower",
        "return int(Fraction(_WORD) / (lower",
        ("tests/mechanisms/contract/test_contract_privacy.py",),
        known_by="privacy",
    ),
    Mutant(
        "poisson-dummies-one-percent-short",
        "Users send 1 % fewer dummies than the accountant counts on.",
        "mechanisms/frequency/dummies.py",
        "integer_tables.poisson(self.dummies).draw(",
        "integer_tables.poisson(0.99 * self.dummies).draw(",
        (_EXACT,),
    ),
    Mutant(
        "correlated-mask-one-percent-short",
        "Users send 1 % fewer pairs of the mask that hides their noise.",
        "mechanisms/sampling/dummy_shares.py",
        "paired * _UP / self.users",
        "0.99 * paired * _UP / self.users",
        (_EXACT,),
    ),
    Mutant(
        "everybody-counts-as-honest",
        "The reports of users who may not follow the protocol are counted on.",
        "mechanisms/privacy/honesty.py",
        "return math.floor(honest_share * (n - 1)) + 1",
        "return n",
        ("tests/mechanisms/privacy/test_honesty.py",),
        known_by="counted",
    ),
    Mutant(
        "the-true-message-first",
        "A user's true message comes before the dummies, and can be told from them.",
        "mechanisms/frequency/dummy_batch.py",
        "keys = np.sort(np.concatenate([own, self._extras(block.size, rng)]))",
        "keys = np.concatenate([own, self._extras(block.size, rng)])",
        ("tests/mechanisms/frequency/test_dummies.py",),
        known_by="order",
    ),
    Mutant(
        "lots-of-fixed-size",
        "A step takes a fixed number of rows, for which no Poisson accounting holds.",
        "mechanisms/learning/dp_sgd.py",
        "return rng.bernoulli(math.floor(self.rate * 2.0**64), n)",
        "return np.isin(np.arange(n), rng.choice(n, round(self.rate * n)))",
        ("tests/mechanisms/learning/test_dp_sgd.py",),
        known_by="lots",
    ),
    Mutant(
        "noise-one-percent-small",
        "The noise of a training step is 1 % smaller than what is accounted.",
        "mechanisms/learning/dp_sgd.py",
        "spread = self.sigma * 2.0**self.gradients.bits",
        "spread = 0.99 * self.sigma * 2.0**self.gradients.bits",
        ("tests/mechanisms/learning/test_dp_sgd.py",),
        known_by="noise",
    ),
    Mutant(
        "a-cell-in-an-error",
        "An error quotes the value that was out of range.",
        "mechanisms/channel.py",
        "of {array.size} cells lie outside 0 ..",
        "of {array.size} cells, {array.max()} among them, lie outside 0 ..",
        ("tests/transforms/test_perturb.py",),
    ),
)
