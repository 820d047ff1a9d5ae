"""Two noisy counters a bin whose difference is Laplace noise, behind a mask that they share.

The collector of a bin sees (x + A + Z, B + Z): x true messages, A and B of one law, and a mask Z.
All three are negative binomial, so that they can be sums of many users' shares. If A and B are
geometric, P(A = k) = (1 - a) a^k, their difference is discrete Laplace and

    P(u, w) = (1 - a)^2 a^(u + w) G(min(u, w)),   G(m) = sum over z <= m of P(Z = z) a^(-2 z),

so that one more true message multiplies the probability by 1/a where u > w, and elsewhere by
G(u - 1) / (a G(u)), which depends on u alone.

Source: Ghazi, Kumar, Manurangsi, Pagh, "Private counting from anonymous messages: near-optimal
    accuracy with vanishing communication overhead", ICML 2020, whose analysis splits the budget
    between noise and mask and between bins; here the law of both bins is evaluated.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.dummy_laws import DummyLaw, negative_binomial
from mechanisms.privacy.two_bins import BinLaw

_UNIT = 2.0**-53
_FAINT = 1e-22  # noise that the general law cuts off
_LARGEST = 1 << 28  # multiplications for which the general law is computed
_FINENESS = 1e-4  # of the noise's decay: outcomes with gains that close are counted together


@dataclass(frozen=True)
class MaskedLaplace:
    """The noise of one bin.

    Attributes:
        decay: a, in (0, 1): how fast A and B fall.
        shape: of the mask, positive.
        ratio: of the mask, in (0, 1).

    >>> noise = MaskedLaplace(decay=math.exp(-0.2), shape=15.74, ratio=0.9442)
    >>> round(noise.variance, 1), round(noise.messages)
    (49.8, 542)
    """

    decay: float
    shape: float
    ratio: float

    @property
    def variance(self) -> float:
        """Of A - B."""
        return 2 * self.decay / (1 - self.decay) ** 2

    @property
    def messages(self) -> float:
        """Of A, B and twice the mask, on average."""
        mask = self.shape * self.ratio / (1 - self.ratio)
        return 2 * (self.decay / (1 - self.decay) + mask)

    def bin_law(self, share: float = 1.0) -> BinLaw | None:
        """What is seen in one bin.

        Args:
            share: how many of the users whose shares make up this noise send them; above 1 where
                more users do.

        Returns:
            The law, or None if it is too large to compute for a share other than 1.
        """
        return _bin_law(self, share)

    def difference(self, share: float = 1.0) -> tuple[int, Floats]:
        """The law of A - B: its least integer, and probabilities that lack less than 10^-16."""
        law = _trimmed(negative_binomial(share, self.decay))
        return 1 - law.pmf.size, np.convolve(law.pmf, law.pmf[::-1])


@lru_cache(maxsize=8)
def _bin_law(noise: MaskedLaplace, share: float) -> BinLaw | None:
    """As `MaskedLaplace.bin_law`."""
    mask = negative_binomial(share * noise.shape, noise.ratio)
    if share == 1:
        return _closed(noise.decay, mask)
    part = _trimmed(negative_binomial(share, noise.decay))
    if not part.pmf.size**2 / 2 * mask.pmf.size <= _LARGEST:
        return None
    return _summed(part, mask).merged(-math.log(noise.decay) * _FINENESS)


def _closed(decay: float, mask: DummyLaw) -> BinLaw:
    """The bin's law for geometric A and B, over "u > w" and the values of u where u <= w."""
    from scipy.linalg.blas import dtbsv  # dear to import, and few requests come here

    reach = math.ceil(48 / -math.log(decay))  # a^(2 reach) < 10^-41
    with_end = np.append(mask.pmf, np.zeros(reach))
    # level[u] = mask[u] + a^2 level[u - 1], which is a^(2u) G(u); a solver that looks for pivots
    # takes seven times as long.
    bands = np.full((2, with_end.size), -decay * decay, order="F")
    level = dtbsv(1, bands, with_end, lower=1, diag=1)
    above = 1 / (1 + decay)
    raised = np.append(above, (1 - decay) * decay * np.append(0.0, level[:-1]))
    free = np.append(decay * above, (1 - decay) * level)
    relative = mask.relative + 16 * _UNIT / (1 - decay)
    return BinLaw(raised, free, mask.missing + 1e-40, relative)


def _summed(noise: DummyLaw, mask: DummyLaw) -> BinLaw:
    """The bin's law for any A and B: diagonal by diagonal of (u, w), sums over the mask."""
    f = noise.pmf
    rows = [np.convolve(mask.pmf, _padded(f[: f.size - e] * f[e:], f.size)) for e in range(f.size)]
    table = np.stack([*rows, np.zeros_like(rows[0])])  # [|u - w|, min(u, w)]
    before = np.concatenate([np.zeros((f.size, 1)), table[1:, :-1]], axis=1)
    raised = np.concatenate([table[:-2].ravel(), before.ravel()])  # u > w; u <= w
    free = np.concatenate([table[1:-1].ravel(), table[:-1].ravel()])
    missing = 2 * noise.missing + mask.missing + float(f[-1] + mask.pmf[-1])
    relative = 2 * noise.relative + mask.relative + 2 * _UNIT * (f.size + 8)
    return BinLaw(raised, free, missing, relative)


def _padded(values: Floats, size: int) -> Floats:
    return np.append(values, np.zeros(size - values.size))


def _trimmed(law: DummyLaw) -> DummyLaw:
    """Without its faint end; negative binomial laws of small shape begin at 0."""
    kept = int(np.flatnonzero(law.pmf > _FAINT)[-1]) + 1
    cut = float(law.pmf[kept:].sum()) * (1 + law.relative)
    return DummyLaw(law.first, law.pmf[:kept], law.missing + cut, law.relative)
