"""How far intervals of an effect reach: looked at once, at planned looks, or at any number of them.

Each look is a release of its own over all units so far. What chance does at look i is a sum of i
steps that later looks share; the noise of each look is drawn anew.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from mechanisms.channel import Floats
from mechanisms.compat.roots import brentq

MOST_LOOKS = 100

_STEP = 0.05  # of the quadrature, in standard deviations of what one look adds
_LEAST_NOISE = 0.1  # in the same: less is taken for so much, which the quadrature resolves
_ROUNDED = 200  # parts of a look's variance to which noise is rounded up, for the cache
_FAR = 10.0  # standard deviations that the quadrature reaches
_OF_NOISE = 0.1  # of the risk of a sequence: what is spent on noise, which is small
_LEVELS = np.linspace(0.0, 40.0, 4001)  # normal quantiles among which a p-value is looked up


class ErrorParts(NamedTuple):
    """What an effect errs by.

    Attributes:
        sampling: the variance that chance among units gives it.
        noise: the variance that is added for privacy.
        fourth: the fourth cumulant of that; a normal law has none.
    """

    sampling: float
    noise: float
    fourth: float = 0.0

    @property
    def standard_error(self) -> float:
        """Of both."""
        return math.sqrt(self.sampling + self.noise)

    def wider(self, quantile: Floats | float) -> Floats | float:
        """A normal quantile, wider where geometric noise is much of the error.

        Source: the fourth term of Cornish and Fisher, "Moments and cumulants in the specification
        of distributions", Revue de l'Institut International de Statistique, 1938.
        """
        excess = min(self.fourth / (self.sampling + self.noise) ** 2, 6.0)  # monotone up to 8
        return quantile + (quantile**3 - 3 * quantile) * excess / 24

    def p_value(self, effect: float) -> float:
        """How often chance and noise alone show as much, of an effect that is looked at once."""
        quantile = np.interp(abs(effect) / self.standard_error, self.wider(_LEVELS), _LEVELS)
        return float(2 * ndtr(-quantile))


@dataclass(frozen=True)
class Looks:
    """How often an effect is looked at.

    Attributes:
        planned: how many looks are planned, equally many units apart, at most `MOST_LOOKS`.
        look: which of them this is, from 1; of a sequence without an end, any number.
        sequence: whether there may be any number of looks, and any reason to stop.

    >>> error = ErrorParts(sampling=0.99, noise=0.01)
    >>> [round(Looks(5, look).half(0.05, error), 2) for look in (1, 3, 5)]
    [4.88, 2.68, 2.04]
    >>> round(Looks(sequence=True).half(0.05, ErrorParts(1.0, 0.0)), 2)
    3.07
    """

    planned: int = 1
    look: int = 1
    sequence: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.planned <= MOST_LOOKS and self.look >= 1):
            raise ValueError(f"there are 1 .. {MOST_LOOKS} planned looks")
        if not (self.sequence or self.look <= self.planned):
            raise ValueError("the look must be one of those that are planned")

    def half(self, risk: float, error: ErrorParts, part: float = 1.0) -> float:
        """Half the length of an interval; no interval of all looks misses but with a probability.

        Args:
            risk: that probability, in (0, 1).
            error: of the effect at this look.
            part: of a sequence: how many units there are of those that were expected.
        """
        if self.sequence:
            least = _sequence(risk * (1 - _OF_NOISE), part) * math.sqrt(error.sampling)
            # A look's noise is no sum that goes on: each look has a risk of its own, k (k + 1)
            # times smaller at the k-th. A sum of geometric noises has lighter tails than one.
            own = risk * _OF_NOISE / (self.look * (self.look + 1))
            return least - math.log(own) / math.sqrt(2) * math.sqrt(error.noise)
        if self.planned == 1:
            quantile = -float(ndtri(risk / 2))
        else:
            share = math.ceil(_ROUNDED * error.noise / max(error.sampling, 1e-300)) / _ROUNDED
            quantile = boundary(risk, self.planned, self.look, min(share, 100.0))
        return float(error.wider(quantile)) * error.standard_error


def spent(risk: float, part: float) -> float:
    """How much of the risk is spent once a part of all units is there.

    Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983,
    the first spending function, which is near the boundary of O'Brien and Fleming; on either side
    for half of the risk.

    Args:
        risk: of all looks together.
        part: in (0, 1].
    """
    return float(4 * ndtr(ndtri(risk / 4) / math.sqrt(part)))


@lru_cache(maxsize=64)
def boundary(risk: float, planned: int, look: int, noise: float = 0.0) -> float:
    """How many standard errors from 0 an effect is beyond chance, at one of several planned looks.

    The density of what chance has come to, among sequences that have crossed no boundary yet, goes
    from look to look by quadrature (Armitage, McPherson, Rowe, JRSS A 1969), here of an effect that
    is seen through noise which is drawn anew at each look.

    Args:
        risk: that some look crosses where there is no effect, in (0, 1).
        planned: how many looks there are, equally many units apart.
        look: which of them, from 1.
        noise: the variance of the noise at this look, in that of chance; so much at every look.

    >>> [round(boundary(0.05, 2, look), 3) for look in (1, 2)]
    [2.963, 1.969]
    """
    own = max(math.sqrt(noise * look), _LEAST_NOISE)
    reach = _FAR * math.sqrt(planned)
    places = _STEP * np.arange(-math.ceil(reach / _STEP), math.ceil(reach / _STEP) + 1)
    step = np.exp(-((_STEP * np.arange(-160, 161)) ** 2) / 2) * _STEP / math.sqrt(2 * math.pi)
    density = np.exp(-(places**2) / 2) * _STEP / math.sqrt(2 * math.pi)
    for place in range(1, planned + 1):
        scale = math.sqrt(place + own**2)
        risk_here = spent(risk, place / planned) - (
            spent(risk, (place - 1) / planned) if place > 1 else 0.0
        )

        def seen(end: float) -> Floats:
            """How likely each sequence is seen beyond an end, on either side."""
            return np.asarray(ndtr((places - end) / own) + ndtr((-places - end) / own))

        def missing(end: float, density: Floats = density, wanted: float = risk_here) -> float:
            return float(density @ seen(end)) / wanted - 1

        if risk_here < 1e-300:  # nothing would ever be beyond it
            end = math.inf
        else:
            end = brentq(missing, 0.0, (1 - float(ndtri(risk / 4))) * math.sqrt(planned) * scale)
        if place == look:
            return end / scale
        density = np.convolve(density * (1 - seen(end)), step, mode="same")
    raise ValueError(f"there is no look {look} of {planned}")


def _sequence(risk: float, part: float) -> float:
    """Of how many standard errors an interval is, of those at all numbers of units together.

    Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, "Time-uniform central limit theory and
    asymptotic confidence sequences", Annals of Statistics 2024 (arXiv 2103.06476, 2021), Theorem
    2.2, the normal mixture of Robbins (1970), tightest where all units that were expected are there
    (their choice of rho).
    """
    tight = -2 * math.log(risk)
    grown = (tight + math.log(1 + tight)) * part
    return math.sqrt((1 + 1 / grown) * (tight + math.log(1 + grown)))
