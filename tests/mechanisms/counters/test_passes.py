"""Passes over one batch: what they show together by brute force, and what their noise is."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.passes import layer, layered
from mechanisms.counters.price import Price
from mechanisms.privacy.loss_sums import COARSE
from mechanisms.randomness import SeededRandom
from tests.oracles.joint_law import joint

SMALL = Counters.meeting([Level(1, 1)], "add or remove", epsilon=3.0, delta=0.01)
KNOWN = Counters.meeting([Level(1, 1)], "replace", epsilon=3.0, delta=0.01)
NOBODY, USER = (0, 0), (1, 0)  # the counter and its nulls


def excess(p: dict, q: dict, epsilon: float) -> float:
    """The hockey-stick divergence of two laws, outcome by outcome."""
    scale = math.exp(epsilon)
    return math.fsum(max(chance - scale * q.get(key, 0.0), 0.0) for key, chance in p.items())


def law_of(design: Counters, raised: tuple[int, ...]) -> dict:
    return {counts: float(chance) for counts, chance in joint(design, raised).items()}


def shown(design: Counters, raised: tuple[int, ...], *layers: Counters) -> dict:
    """The law of what is seen of a batch under layers, and of each layer but the first when it is
    taken away: keys hold the batch's counts, and then the layers that are known."""
    law = {(counts, ()): chance for counts, chance in law_of(design, raised).items()}
    for place, each in enumerate(layers):
        after: dict = defaultdict(float)
        for added, more in law_of(each, (0,) * design.codes).items():
            known = (added,) if place else ()
            for (counts, before), chance in law.items():
                seen = tuple(a + b for a, b in zip(counts, added, strict=True))
                after[seen, (*known, *before)] += chance * more
        law = after
    return law


def twice(design: Counters, over: Counters, raised: tuple[int, ...]) -> dict:
    """The law of what both passes show: the batch, and what to take away from it."""
    law: dict = defaultdict(float)
    for added, more in law_of(over, (0,) * design.codes).items():
        for counts, chance in law_of(design, raised).items():
            law[tuple(x + y for x, y in zip(counts, added, strict=True)), added] += chance * more
    return law


@pytest.mark.parametrize(
    ("design", "one", "other"), [(SMALL, NOBODY, USER), (KNOWN, (1, 0), (0, 1))]
)
def test_both_passes_show_what_the_last_one_shows(design, one, other) -> None:
    """Who has the batch, and then what to take away, has lost as much as by one pass: exactly."""
    over = layer(design, 0.5)
    pairs = [(one, other), (other, one)]
    for epsilon in (1.0, design.epsilon):
        alone = [excess(shown(design, a), shown(design, b), epsilon) for a, b in pairs]
        both = [excess(twice(design, over, a), twice(design, over, b), epsilon) for a, b in pairs]
        assert both == pytest.approx(alone, rel=1e-9)
        low, high = design.price.delta(epsilon)
        assert low * (1 - 1e-6) <= max(alone) <= high * (1 + 1e-6)


def test_a_quick_look_shows_no_more_than_its_share() -> None:
    """Alone, and in the middle of several, where the layer that was taken away is known, too."""
    half, most = layer(SMALL, 0.5), layer(SMALL, 0.8)
    for epsilon in (1.5,):
        found = [
            excess(shown(SMALL, a, most, half), shown(SMALL, b, most, half), epsilon)
            for a, b in ((NOBODY, USER), (USER, NOBODY))
        ]
        # Here the outer layer is known: what is left is the price of the inner one, and more than
        # that of the outer one.
        assert max(found) <= most.price.upper(epsilon)
        assert max(found) > half.price.upper(epsilon)
        quick = [
            excess(shown(SMALL, a, half), shown(SMALL, b, half), epsilon)
            for a, b in ((NOBODY, USER), (USER, NOBODY))
        ]
        assert max(quick) <= layered(SMALL, (0.5,)).price.upper(epsilon)
        assert layered(SMALL, (0.5, 0.8)).price.upper(epsilon) == half.price.upper(epsilon)
    assert layered(SMALL, (0.5,)).guarantee.epsilon == 1.5


@pytest.mark.parametrize(
    ("amounts", "times"),
    [(Amounts(200_000), 1), (Amounts(20_000, 10), 10), (Amounts(2_000, 1, 5), 100)],
    ids=["one value", "ten values", "digits that share one noise"],
)
def test_two_passes_err_as_one_does(amounts, times) -> None:
    """The mean squared error is within 5 % of that of one pass, and the quick look's is known.

    A variance over n counters with kurtosis k has the relative error sqrt((k - 1) / n): of two of
    200,000 with k = 6 at most 0.72 %, and 5 % are seven times that: false alarms below 1e-11.
    """
    digits = amounts.most > 1
    design = Counters.meeting(amounts.levels, "add or remove", 1.0, 1e-6, correlated=digits)
    share, rng = 0.25, SeededRandom(11)
    nobody, weights = np.zeros(design.codes, np.int64), [level.weight for level in design.levels]
    quick, own = layered(design, (share,)), layer(design, share)
    assert len(quick.dummies.groups) == 1
    squares = np.zeros(3)
    for _ in range(times):
        over = own.simulate(nobody, rng)
        batch = design.simulate(nobody, rng) + over
        passes = quick.centred(batch), design.centred(batch - over)
        once = design.centred(design.simulate(nobody, rng))
        squares += [np.mean((weights @ np.array(each)) ** 2) for each in (*passes, once)]
    first, both, alone = squares / times
    assert both / alone == pytest.approx(1, abs=0.05)
    assert both / design.column_variance == pytest.approx(1, abs=0.05)
    assert first / quick.column_variance == pytest.approx(1, abs=0.05)
    assert first / alone > 10  # a pass of noise as large as the first one's would be convicted


def test_simulated_as_one_a_pass_has_the_same_law() -> None:
    """Nulls included, which have as many draws of the layer as of the dummies under it."""
    for design in (SMALL, KNOWN):
        quick = layered(design, (0.5,))
        law: dict = defaultdict(float)
        for (counts, _), chance in twice(design, layer(design, 0.5), (0,) * design.codes).items():
            law[counts] += chance
        joint = law_of(quick, (0,) * design.codes)
        assert joint.keys() == law.keys()
        for key, chance in joint.items():
            assert chance == pytest.approx(law[key], rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, math.nan])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        layer(SMALL, share)


def test_layers_of_noises_that_are_chosen_together_keep_to_their_share_together() -> None:
    """Of thirty counts at epsilon 0.3 each: layers that err least alone would cost five shares."""
    design = Counters.meeting([Level(1, 1)], "add or remove", 0.3, 3.3e-8, releases=30)

    def of_thirty(one: Counters) -> float:
        charges = one.dummies.charges(one.levels, one.neighbours)
        several = [charge.repeated(30) for charge in charges]
        return Price(several, one.neighbours, COARSE).met(1e-6, 3e-3)

    assert of_thirty(layer(design, 0.25)) <= 0.25 * of_thirty(design)
