"""What to expect of a histogram after its projection, for a guess of the truth."""

import math

import numpy as np
from scipy import special

from mechanisms.channel import Floats
from mechanisms.compat.roots import brentq
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.planner.search import Design
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom

_MANY = 1 << 17  # values, of which the projection takes away all but the same from each
_SUPPORT = 1000  # values that are left above 0, on average, for that to hold to a few parts in 100
_RATIO = 1.01  # of the ranks of values that are taken for equally frequent
_DRAWS = 4000  # of noise: the error of a prediction is about the root of two over it


def error_after_projection(
    design: Design[FrequencyOracle], frequencies: Floats, runs: int | None = None
) -> float:
    """Predicted mean squared error per value after POP, for a guess of the truth.

    Args:
        design: the mechanism.
        frequencies: (domain_size,) the guess; adds up to 1.
        runs: how many simulated releases are averaged; by default, as many as a prediction to 3 %
            takes, the more the fewer values there are.

    Returns:
        In squared frequency units. The noise is simulated as normal, and the estimates' sum varies
        as the mechanism's does; with a fixed seed, so that equal questions get equal answers. Of
        very many values it is the limit of that, which nobody needs to simulate.
    """
    if runs is None and len(frequencies) >= _MANY:
        limit = _limit(design, frequencies)
        if limit is not None:
            return limit
    rng, d = SeededRandom(0), len(frequencies)
    runs = max(3, _DRAWS // d) if runs is None else runs
    variance = design.mechanism.variance(frequencies, design.target.n)
    # What all estimates have in common, and what is left to each.
    common = design.mechanism.sum_variance(design.target.n) / d**2
    alone = np.sqrt(np.maximum(variance - common, 0) / (1 - 1 / d))
    squares = []
    for _ in range(runs):
        # 53 bits fill a double; the half keeps the quantile of 0, which is infinite, from being
        # asked for.
        uniform = (rng.words(d + 1) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
        normal = special.ndtri(uniform)
        noise = alone * (normal[1:] - normal[1:].mean()) + math.sqrt(common) * normal[0]
        released = project(frequencies + noise)
        squares.append(float(np.mean((released - frequencies) ** 2)))
    return float(np.mean(squares))


def _limit(design: Design[FrequencyOracle], frequencies: Floats) -> float | None:
    """The same for ever more values: the projection subtracts what it takes for them to add up.

    What all estimates have in common a projection undoes. None if few values are left above 0: then
    what it subtracts is as random as they are.
    """
    d = len(frequencies)
    descending = frequencies
    if not (np.diff(frequencies) <= 0).all():
        descending = np.sort(frequencies)[::-1]
    ranks = _RATIO ** np.arange(math.ceil(math.log(d) / math.log(_RATIO)))
    starts = np.unique(np.minimum(ranks.astype(np.int64) - 1, d - 1))
    sizes = np.diff(np.append(starts, d))
    f = np.add.reduceat(descending, starts) / sizes
    mechanism, n = design.mechanism, design.target.n
    common = mechanism.sum_variance(n) / d**2
    sigma = np.sqrt(np.maximum(mechanism.variance(f, n) - common, 0) / (1 - 1 / d))
    if not (sigma > 0).all():
        return None

    def standing(shift: float) -> tuple[Floats, Floats, Floats]:
        """Where 0 is in each value's noise, and the normal density and distribution there."""
        a = (f - shift) / sigma
        return a, np.exp(-a * a / 2) / math.sqrt(2 * math.pi), special.ndtr(a)

    def excess(shift: float) -> float:
        a, density, above = standing(shift)
        return float(sizes @ (sigma * (density + a * above))) - 1

    # Without a shift there is more than 1, for noise that is cut at 0 adds to every value.
    high = float(f.max())
    while excess(high) > 0:
        high *= 2
    shift = float(brentq(excess, 0.0, high, rtol=1e-12))
    a, density, above = standing(shift)
    if not float(sizes @ above) >= _SUPPORT:
        return None
    kept = sigma**2 * (above - a * density) - 2 * shift * sigma * density + shift**2 * above
    return float(sizes @ (kept + f**2 * special.ndtr(-a)) / d)


def zipf(domain_size: int, exponent: float = 1.1) -> Floats:
    """Zipf frequencies: the usual guess for telemetry."""
    weights = np.arange(1, domain_size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())
