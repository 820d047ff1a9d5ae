"""`dp_accounting.pld`, without the modules of scipy that it imports and we have no use for.

Of `scipy.signal` composing takes one function, and nothing of what comes with it, `scipy.stats` and
`scipy.optimize` among it: a CPU second, a third of what `hushbeam check` took.
"""

import contextlib
import math
import pkgutil
import sys
import threading
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.compat.switch import on

Floats = NDArray[np.float64]
_NAMES = ("scipy.optimize", "scipy.signal", "scipy.stats")


def accounting() -> ModuleType:
    """The package `dp_accounting.pld`, which a device that only perturbs does not need.

    Raises:
        ImportError: it is not installed.
    """
    _import_alone()
    try:
        from dp_accounting import pld
    except ImportError as missing:
        raise ImportError(
            "composing privacy losses needs the package dp-accounting (pip install dp-accounting)"
        ) from missing
    package: ModuleType = pld
    _shorten(package)
    return package


def deltas(pmf: Any, epsilons: Floats) -> Floats:
    """`pmf.get_delta_for_epsilon(epsilons)`, whose loop takes half a CPU second, without one.

    The same sums in the same order; another version may keep its distribution otherwise.

    Args:
        pmf: dense, of `accounting()`.
        epsilons: (m,) ascending and finite.
    """
    if (known := _masses(pmf)) is None:
        return np.asarray(pmf.get_delta_for_epsilon(epsilons))
    losses, upper, below = known
    greater = losses.size - np.searchsorted(losses[::-1], epsilons, side="right")
    return np.asarray(upper[greater] - np.exp(epsilons) * below[greater])


def epsilon(pmf: Any, delta: float) -> float:
    """`pmf.get_epsilon_for_delta(delta)`, whose loop takes as long, without one.

    Args:
        pmf: as of `deltas`.
        delta: in [0, 1].
    """
    known = _masses(pmf)
    if known is None or not known[1][0] <= delta:
        return float(pmf.get_epsilon_for_delta(delta))
    losses, upper, below = known
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.log((upper - delta) / below)
    enough = (upper > delta) & (below > 0) & (crossing >= np.append(losses, -np.inf))
    first = int(np.argmax(enough)) if enough.any() else losses.size
    giant = (upper[1 : first + 1] >= delta) & (below[1 : first + 1] == 0)
    if giant.any():
        return max(0.0, float(losses[np.argmax(giant)]))
    if upper[first] <= below[first] + delta:
        return 0.0
    return math.log((upper[first] - delta) / below[first])


def _masses(pmf: Any) -> tuple[Floats, Floats, Floats] | None:
    """(n,) losses, the greatest first; (n + 1,) the mass of so many of them, and e^-loss times it.

    None of another version's distribution.
    """
    names = ("_probs", "_lower_loss", "_discretization", "_infinity_mass")
    if not (on() and all(hasattr(pmf, name) for name in names)):
        return None
    probs, lower, pitch, unbounded = (getattr(pmf, name) for name in names)
    losses = ((np.arange(len(probs)) + lower) * pitch)[::-1]
    upper = np.cumsum(np.append(unbounded, probs[::-1]))
    with np.errstate(over="ignore", invalid="ignore"):  # of losses that are negative and huge
        return losses, upper, np.cumsum(np.append(0.0, probs[::-1] * np.exp(-losses)))


def fftconvolve(a: Any, b: Any, *others: Any, **named: Any) -> Any:
    """`scipy.signal.fftconvolve`, of two vectors to the last bit, and itself of all else."""
    usual = all(isinstance(of, np.ndarray) and of.dtype == np.float64 for of in (a, b))
    if others or named or not usual or not a.ndim == b.ndim == 1 or not min(len(a), len(b)):
        from scipy import signal

        return signal.fftconvolve(a, b, *others, **named)
    from scipy import fft  # a ledger of one entry composes nothing

    if min(len(a), len(b)) == 1:
        return a * b
    size = len(a) + len(b) - 1
    fast = fft.next_fast_len(size, real=True)
    return fft.irfft(fft.rfft(a, fast) * fft.rfft(b, fast), fast)[:size]


@cache
def _shorten(package: ModuleType) -> None:
    """Let the package ask for sums of powers here; another version may ask for them elsewhere."""
    common: Any = getattr(package, "common", None)
    special = getattr(common, "special", None)
    if on() and hasattr(special, "logsumexp"):
        common.special = SimpleNamespace(**{**vars(special), "logsumexp": logsumexp})


def logsumexp(a: Any, *others: Any, **named: Any) -> Any:
    """`scipy.special.logsumexp`, of a vector and weights to the last bit, and itself of all else.

    Where a convolution may be cut it asks for 40 of them, two exponentials of each cell and a dozen
    copies: 6 of 100 CPU seconds of tests of plans and ledgers, and a fourth of that here.
    """
    b: Any = named.get("b")
    usual = all(isinstance(of, np.ndarray) and of.dtype == np.float64 for of in (a, b))
    if not others and len(named) == 1 and usual and a.ndim == b.ndim == 1 and 0 < a.size == b.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.where(b == 0, -np.inf, a)
            greatest = powers.max()
            first = powers == greatest
            powers[first] = -np.inf
            mass, rest = (b * first).sum(), (b * np.exp(powers - greatest)).sum()
            found = np.log1p(rest / mass if rest else rest) + np.log(mass) + greatest
        # A rest below -1 has another logarithm there.
        if np.isfinite(found) and mass > 0 and rest >= 0:
            return found
    from scipy import special

    return special.logsumexp(a, *others, **named)


class _Later(ModuleType):
    """A module, or a name in one, that is imported when something of it is asked for.

    What is asked for while it stands in, but for what who imports a part of a package asks for, is
    another one.
    """

    def __getattr__(self, name: str) -> Any:
        standing = any(isinstance(sys.modules.get(module), _Later) for module in _NAMES)
        if standing and not name.startswith("__"):
            return _Later(f"{self.__name__}.{name}")
        return getattr(self._imported(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._imported()(*args, **kwargs)

    def _imported(self) -> Any:
        _stand_aside()
        return pkgutil.resolve_name(self.__name__)


@cache
def _import_alone() -> None:
    """Import the package while others stand in for what it imports, as far as that goes.

    Who imports one of those modules afterwards gets it itself, and what is there already stays.
    Another thread might import one meanwhile, and keep what stands in for it: then nothing does.
    """
    if not on() or threading.active_count() > 1:
        return
    later = {name: _Later(name) for name in _NAMES}
    vars(later["scipy.signal"]).update(fftconvolve=fftconvolve)
    try:
        for name, module in later.items():
            sys.modules.setdefault(name, module)
        # Another version may need more than names of them: it is imported as ever, then.
        with contextlib.suppress(Exception):
            import dp_accounting.pld  # noqa: F401
    finally:  # also of who is interrupted
        _stand_aside()


def _stand_aside() -> None:
    """Take away what stands in for a module."""
    for name in _NAMES:
        if isinstance(sys.modules.get(name), _Later):
            del sys.modules[name]
