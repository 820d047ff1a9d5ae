"""Which last bits this machine's floating point gives: a digest that two machines may share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import fft, linalg, special
from threadpoolctl import threadpool_limits


def digest() -> str:
    """16 hexadecimal digits, equal where a release from the same seed is the same bit for bit.

    numpy and OpenBLAS take other instructions on other processors, and other versions of them
    other formulas; what they give differs in the last bits, and so do the parameters that a planner
    chooses, and the fingerprint of its design.
    """
    results = [result.tobytes() for result in _results()]
    versions = f"{np.__version__} {scipy.__version__}".encode()
    return hashlib.sha256(b"".join([versions, *results])).hexdigest()[:16]


def _results() -> Iterator[NDArray[np.float64]]:
    """What goes through each of the libraries' kernels, of numbers that divisions have rounded."""
    x = np.arange(1, 1025) / 255
    square = (np.arange(64 * 64) * 7919 % 1009 / 127).reshape(64, 64) + 64 * np.eye(64)
    for function in (np.exp, np.expm1, np.log, np.log1p, np.sin, np.tanh, np.sqrt):
        yield function(x)
    for function in (special.gammaln, special.ndtr, special.log_ndtr, special.erfinv):
        yield function(x / 5)
    yield special.betainc(3.5, 7.25, x / 4)
    yield x**1.7
    yield np.array([x.sum(), (x * x).mean()])
    yield fft.irfft(fft.rfft(x) ** 2)
    with threadpool_limits(1):
        yield square @ square
        yield linalg.solve(square, x[:64])
        yield np.linalg.solve(square, x[:64])
        yield linalg.eigvalsh(square + square.T)
