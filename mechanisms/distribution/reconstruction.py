"""Unbiased estimates of anything linear in the inputs' distribution, from any channel.

A number w for each code, averaged over the reports, estimates sum_j f_j E[w | j] without bias,
whatever the distribution f. So whoever wants sum_j f_j r_j needs weights with E[w | j] = r_j for
every input j. They exist for every target r if and only if the channel determines f.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from mechanisms.channel import Floats, Mechanism
from mechanisms.postprocess.channel_products import Dense

LARGEST_TABLE = 1 << 24  # probabilities: 128 MB
_BIAS = 1e-10  # more than rounding leaves, and far less than any noise


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The weights with the least variance when all inputs are equally frequent.

    Attributes:
        table: (codes, inputs) probabilities; every column adds up to 1.
        hides: whether the last input stands for no value.

    Raises:
        ValueError: different distributions of the inputs give the codes one law, as far as
            doubles can tell.

    >>> response = Reconstruction(np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> response.shares.round(3).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """

    table: Floats
    hides: bool = False

    def __post_init__(self) -> None:
        codes, inputs = self.table.shape
        determined = codes >= inputs
        if determined:
            bias = self._weights @ self.table - np.eye(inputs)
            determined = bool(np.abs(bias).max() <= _BIAS)  # NaN included
        if not determined:
            raise ValueError(
                f"the {codes} codes do not determine the shares of {inputs} bins: different "
                "distributions lead to the same reports, or to reports that doubles cannot tell "
                "apart"
            )

    @classmethod
    def of(cls, mechanism: Mechanism, hides: bool = False) -> "Reconstruction":
        """That of a mechanism whose users send one message each.

        Raises:
            ValueError: its table is too large, or its codes do not determine the distribution.
        """
        entries = mechanism.codes * mechanism.inputs
        if not entries <= LARGEST_TABLE:
            raise ValueError(
                f"a table of {mechanism.codes:,} codes and {mechanism.inputs:,} bins is more than "
                f"{LARGEST_TABLE:,} probabilities; use fewer bins"
            )
        return cls(Dense.of(mechanism).matrix, hides)

    @property
    def bins(self) -> int:
        """How many inputs stand for values."""
        return int(self.table.shape[1]) - self.hides

    @property
    def shares(self) -> Floats:
        """(bins, codes) the weights that estimate each bin's share of all users."""
        return self._weights[: self.bins]

    @cached_property
    def presence(self) -> Floats:
        """(codes,) the weights that estimate the share of users who have a value."""
        whole = np.ones(self.table.shape[0])
        return whole - self._weights[-1] if self.hides else whole

    @property
    def present(self) -> Floats:
        """(inputs,) 1 where an input stands for a value."""
        return np.where(np.arange(self.table.shape[1]) < self.bins, 1.0, 0.0)

    @cached_property
    def _weights(self) -> Floats:
        """(inputs, codes) the weights that estimate each input's share.

        Generalised least squares: with D the law of the codes under uniform inputs and M the
        table, they are (M^T D^-1 M)^-1 M^T D^-1, by way of a triangular factor.
        """
        spread = np.sqrt(self.table.mean(axis=1))[:, None]
        scaled = self.table / np.where(spread > 0, spread, 1)  # a code that never comes has none
        # By way of QR: forming M^T D^-1 M would square the condition number of a nearly singular
        # channel.
        basis, factor = linalg.qr(scaled, mode="economic", check_finite=False)
        with np.errstate(all="ignore"):
            try:
                solved = linalg.solve_triangular(factor, basis.T, check_finite=False)
            except linalg.LinAlgError:
                return np.full(self.table.T.shape, np.nan)
        weights: Floats = solved / np.where(spread > 0, spread, 1).T
        return weights

    def forged_reach(self, weights: Floats, ratios: Floats, present: float, share: float) -> float:
        """How far made-up reports can have moved any of some quotients, at most.

        A quotient r of averages, W / P, changes by the change of W - r P over what P then is.

        Args:
            weights: (k, codes) whose averages are the numerators.
            ratios: (k,) the quotients as they were published, by the average of `presence`.
            present: that average.
            share: of reports that are made up.

        Returns:
            A difference of two quotients; infinite where so many liars can take P to 0.
        """
        deviations = weights - ratios[:, None] * self.presence
        left = present - share * float(np.ptp(self.presence))
        return share * float(np.ptp(deviations, axis=1).max()) / left if left > 0 else math.inf

    def noise(self, weights: Floats) -> Floats:
        """How much weights vary between reports of one input.

        Args:
            weights: (k, codes).

        Returns:
            (k, inputs) the variance of one report's weight, given the input.
        """
        # Centred at each row's own middle: a variance is a small difference of large squares.
        centred = weights - (weights @ self.table).mean(axis=1, keepdims=True)
        moments = centred**2 @ self.table - (centred @ self.table) ** 2
        return np.asarray(np.maximum(moments, 0))
