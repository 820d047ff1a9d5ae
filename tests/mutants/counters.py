"""Bugs of noisy counters: noise, prices, slots."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_NOISE = "tests/mechanisms/counters/test_noise.py"
_PRICE = "tests/mechanisms/counters/test_price.py"
_DEVICES = "tests/mechanisms/counters/test_device_design.py"
_DESIGN = "tests/mechanisms/counters/test_design.py"
_DRAWING = "tests/pipelines/test_parties_drawing.py"

MUTANTS = (
    Mutant(
        "counters-mu-off-by-one",
        "The shuffler adds one dummy more to a counter than the collector takes away.",
        "mechanisms/counters/noise.py",
        "self._alias.draw(words)",
        "self._alias.draw(words) + 1",
        (_NOISE,),
    ),
    Mutant(
        "counters-table-cut-too-early",
        "The noise ends at half of where its end is rare enough.",
        "mechanisms/counters/noise.py",
        "cls(math.ceil(reach * sigma) + 1, sigma)",
        "cls(math.ceil(reach * sigma / 2) + 1, sigma)",
        (_NOISE,),
        known_by="ends",
    ),
    Mutant(
        "counters-noise-drawn-twice",
        "Every counter gets two draws, and with them twice the variance.",
        "mechanisms/counters/dummies.py",
        "(law.draw(size, rng) - law.mu)",
        "(law.draw(size, rng) + law.draw(size, rng) - 2 * law.mu)",
        (_DESIGN,),
        known_by="joint",
    ),
    Mutant(
        "counters-masks-do-not-cancel",
        "What masks add to a digit is added to the lowest one, too.",
        "mechanisms/counters/dummies.py",
        "effect - weight * unit[0]",
        "effect + weight * unit[0]",
        (_DESIGN,),
    ),
    Mutant(
        "counters-nulls-hardly-hidden",
        "A level's nulls get the noise of one counter, though a user may change several.",
        "mechanisms/counters/design.py",
        "for _ in range(level.slots):",
        "for _ in range(1):",
        (_DESIGN,),
    ),
    Mutant(
        "counters-slots-without-types",
        "A code counts in every slot, so that a liar fills all of them with one.",
        "mechanisms/counters/levels.py",
        "places[kept & own]",
        "places[kept]",
        (_DESIGN,),
        known_by="liar",
    ),
    Mutant(
        "counters-everybody-is-honest",
        "Devices share the noise among all that are enrolled, and some may send none of it.",
        "mechanisms/counters/device_design.py",
        "self.noise.shares(self.levels, self.honest)",
        "self.noise.shares(self.levels, self.enrolled)",
        (_DEVICES,),
        known_by="priced",
    ),
    Mutant(
        "devices-mu-off-by-one",
        "The collector takes one dummy fewer from a counter than devices send.",
        "mechanisms/counters/device_design.py",
        "[row - mean * self._more for row, mean in pairs]",
        "[row - mean * self._more + 1 for row, mean in pairs]",
        (_DEVICES,),
        known_by="one_job",
    ),
    Mutant(
        "devices-noise-drawn-twice",
        "Where one job draws for all devices, every dummy comes twice.",
        "mechanisms/counters/device_design.py",
        "return found, times.astype(np.int64)",
        "return found, 2 * times.astype(np.int64)",
        (_DEVICES,),
        known_by="one_job",
    ),
    Mutant(
        "devices-drawn-for-the-honest-alone",
        "Where one job draws for all devices, it leaves out those that may not be honest.",
        "mechanisms/counters/device_design.py",
        "self.enrolled * part // parts",
        "self.honest * part // parts",
        (_DEVICES,),
        known_by="one_job",
    ),
    Mutant(
        "counters-masks-of-one-sign",
        "A mask adds to a count and does not take away from it.",
        "mechanisms/sampling/dummy_shares.py",
        "np.concatenate([alone, pairs, pairs + self.bins])",
        "np.concatenate([alone, pairs, pairs])",
        (_DEVICES,),
        known_by="priced",
    ),
    Mutant(
        "counters-lowered-for-free",
        "Under replace, the counters that a user no longer raises are not paid for.",
        "mechanisms/counters/price.py",
        "min(2 * slots, counters)",
        "min(slots, counters)",
        (_PRICE,),
        known_by="brute",
    ),
    Mutant(
        "slots-noise-drawn-twice",
        "In three parties every counter gets two draws of dummies.",
        "transforms/dummies.py",
        "np.stack([codes, times])",
        "np.stack([codes, times + self._counters.draw(Range(*range_), self._rng)[1]])",
        (_DRAWING,),
        known_by="law",
    ),
    Mutant(
        "slots-window-drawn-again",
        "A window that was shuffled is shuffled again, with another draw.",
        "pipelines/parties/memory.py",
        """                self._destroy(shuffle)
                raise""",
        """                self._destroy(shuffle)
                continue
                raise""",
        (_DRAWING,),
        known_by="once",
    ),
    Mutant(
        "slots-dummy-shorter-than-a-report",
        "A dummy says no level, and so is two bytes shorter than the word of a report.",
        "transforms/slots.py",
        "yield seal_words(words.fingerprint, metric, levels, codes, self._key)",
        "yield seal_words(words.fingerprint, metric, levels, codes, self._key).recast("
        "Form(sealed=True, shuffled=True))",
        (_DRAWING,),
        known_by="dummies",
    ),
    Mutant(
        "slots-nulls-without-dummies",
        "How many slots are empty is seen as it is, and with it how many people report.",
        "transforms/slots.py",
        "records = _OPENED.empty(codes.size)",
        "codes = codes[codes < layout.starts[-1]]\n    records = _OPENED.empty(codes.size)",
        (_DRAWING,),
        known_by="dummies",
    ),
    Mutant(
        "slots-copied-seals-multiply",
        "Of words with one seal all are sent on.",
        "transforms/duplicates.py",
        "return _least(rows, np.unique(packed, return_inverse=True)[1].ravel())",
        "return rows",
        (_DRAWING,),
        known_by="copied",
    ),
    Mutant(
        "slots-summary-with-counts",
        "What a shuffle says of itself tells how many reports came.",
        "pipelines/parties/summary.py",
        "exclude=_TOLD[summary.words is None]",
        "exclude=_TOLD[1]",
        (_DRAWING,),
        known_by="whoever",
    ),
    Mutant(
        "counters-ends-for-free",
        "What an end of the noise gives away is no part of delta.",
        "mechanisms/privacy/loss_lattice.py",
        "float(law.occupied[law.free == 0].sum())",
        "0.0",
        (_PRICE,),
    ),
    Mutant(
        "losses-split-downwards",
        "More of an outcome goes to the smaller of two losses than keeps its probabilities.",
        "mechanisms/privacy/loss_lattice.py",
        "share = np.clip(share, 0, 1)",
        "share = np.clip(share, 0, 1) * 0.9",
        (_PRICE,),
    ),
)
