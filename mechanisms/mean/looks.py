"""How far intervals of an effect reach: looked at once, at planned looks, or at any number of them.

Each look is a release of its own over all units so far. What chance does at look i is a sum of i
steps that later looks share; the noise of each look is drawn anew.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from mechanisms.channel import Floats
from mechanisms.compat.roots import brentq

_STEP = 0.05  # of the quadrature, in standard deviations of what one look adds
_LEAST_NOISE = 0.1  # in the same: less is taken for so much, which the quadrature resolves
_ROUNDED = 200  # parts of a look's variance to which noise is rounded up, for the cache
_FAR = 10.0  # standard deviations that the quadrature reaches
_OF_NOISE = 0.1  # of the risk of a sequence: what is spent on noise, which is small


class Looks(NamedTuple):
    """How often an effect is looked at.

    Attributes:
        planned: how many looks are planned, equally many units apart; a hundred take a second.
        look: which of them this is, from 1; of a sequence without an end, any number.
        sequence: whether there may be any number of looks, and any reason to stop.

    >>> [round(Looks(5, look).half(0.05, 0.99, 0.01), 2) for look in (1, 3, 5)]
    [4.88, 2.68, 2.04]
    >>> round(Looks(sequence=True).half(0.05, 1.0, 0.0), 2)
    3.07
    """

    planned: int = 1
    look: int = 1
    sequence: bool = False

    def half(self, risk: float, sampling: float, noise: float, part: float = 1.0) -> float:
        """Half the length of an interval; that one of all looks misses has a small probability.

        Args:
            risk: that probability, in (0, 1).
            sampling: the variance that chance among units gives the effect.
            noise: the variance that is added for privacy.
            part: of a sequence: how many units there are, of those that were expected.
        """
        if self.sequence:
            least = _sequence(risk * (1 - _OF_NOISE), part) * math.sqrt(sampling)
            # A look's noise is no sum that goes on: the k-th look has a part of the risk, k (k + 1)
            # times smaller. Sums of geometric noises have lighter tails than one of them.
            own = risk * _OF_NOISE / (self.look * (self.look + 1))
            return least - math.log(own) * math.sqrt(noise / 2)
        quantile = -float(ndtri(risk / 2))
        if self.planned > 1:
            share = math.ceil(_ROUNDED * min(noise / max(sampling, 1e-300), 100.0)) / _ROUNDED
            quantile = boundary(risk, self.planned, self.look, share)
        return quantile * math.sqrt(sampling + noise)


@lru_cache(maxsize=64)
def boundary(risk: float, planned: int, look: int, noise: float = 0.0) -> float:
    """How many standard errors from 0 an effect is beyond chance, at one of several planned looks.

    The density of what chance has come to, among sequences that have crossed no boundary yet, goes
    from look to look by quadrature: Armitage, McPherson, Rowe, JRSS A 1969; here each look sees it
    through noise of its own. Risk is spent as of Lan and DeMets, Biometrika 1983, by their first
    function on either side, which is near the boundary of O'Brien and Fleming.

    Args:
        risk: that some look crosses where there is no effect, in (0, 1).
        planned: how many looks there are, equally many units apart.
        look: which of them, from 1.
        noise: the variance of the noise at this look, over that of chance; as much at every look.

    >>> [round(boundary(0.05, 2, look), 3) for look in (1, 2)]
    [2.963, 1.969]
    """
    own, most = max(math.sqrt(noise * look), _LEAST_NOISE), math.ceil(_FAR / _STEP * planned**0.5)
    places = _STEP * np.arange(-most, most + 1)
    step, density = (
        np.exp(-(x**2) / 2) * _STEP / math.sqrt(2 * math.pi)
        for x in (_STEP * np.arange(-160, 161), places)
    )
    spent, end = 0.0, math.inf
    for place in range(1, look + 1):
        scale, before = math.sqrt(place + own**2), spent
        spent = float(4 * ndtr(ndtri(risk / 4) / math.sqrt(place / planned)))

        def seen(end: float) -> Floats:
            """How likely each is seen beyond an end, on either side."""
            return np.asarray(ndtr((places - end) / own) + ndtr((-places - end) / own))

        def missing(end: float, density: Floats = density, here: float = spent - before) -> float:
            return float(density @ seen(end)) / here - 1

        if spent - before > 1e-300:  # else nothing would ever be beyond it
            end = brentq(missing, 0.0, (1 - float(ndtri(risk / 4))) * math.sqrt(planned) * scale)
        density = np.convolve(density * (1 - seen(end)), step, mode="same")
    return end / scale


def _sequence(risk: float, part: float) -> float:
    """Of how many standard errors an interval is, of those at all numbers of units together.

    Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, "Time-uniform central limit theory and
    asymptotic confidence sequences", Annals of Statistics 2024 (arXiv 2103.06476, 2021), Theorem
    2.2: the normal mixture of Robbins (1970), tightest where part is 1.
    """
    tight = -2 * math.log(risk)
    grown = (tight + math.log(1 + tight)) * part
    return math.sqrt((1 + 1 / grown) * (tight + math.log(1 + grown)))
