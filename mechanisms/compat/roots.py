"""Roots of functions, by scipy's compiled code, mostly without the package that it is in.

`scipy.optimize` takes an eighth of a CPU second and 22 MB, with the linear algebra, the sparse
matrices and the spatial trees that it imports, and nearly every command looks for some root.
"""

import contextlib
import math
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

from mechanisms.compat.switch import on

_RTOL = 2.0**-50  # scipy takes nothing less
_REST = (100, (), False, True)  # steps, arguments, no report, an error if there is no root

_Function = Callable[[float], float]


def brentq(
    f: _Function, low: float, high: float, xtol: float = 2e-12, rtol: float = _RTOL
) -> float:
    """Where a continuous function crosses 0, to the last bit as by `scipy.optimize.brentq`.

    Args:
        f: of other signs at the two ends, or 0 at one.
        low: one end.
        high: the other.
        xtol, rtol: how far off the root may be: xtol + rtol * |root|.

    Raises:
        ValueError: the signs do not differ, or a value is not a number.
        RuntimeError: a hundred steps do not come so near.

    >>> round(brentq(lambda x: x * x - 2, 0, 2), 9)
    1.414213562
    """

    def number(x: float) -> float:
        if math.isnan(y := f(x)):  # which Brent's method would go on from
            raise ValueError(f"the function at {x} is not a number")
        return y

    return _brentq()(number, low, high, xtol, rtol)


@cache
def _brentq() -> Callable[[_Function, float, float, float, float], float]:
    """The function, which is looked for where the versions of scipy that we know have it."""
    import scipy  # a ledger is shown without it

    # As a part of this one: Python keeps it under its name, which a user's module may have.
    folder = str(Path(scipy.__file__).with_name("optimize"))
    spec = PathFinder.find_spec(f"{__name__}._zeros", [folder])
    if on() and spec is not None and spec.loader is not None:
        with contextlib.suppress(Exception):  # another version, whose function takes something else
            compiled = module_from_spec(spec)
            spec.loader.exec_module(compiled)
            if compiled._brentq(lambda x: x - 1, 0.0, 3.0, 2e-12, _RTOL, *_REST) == 1:
                return lambda *given: float(compiled._brentq(*given, *_REST))
    from scipy.optimize import brentq as brentq_of_scipy

    return lambda f, low, high, xtol, rtol: float(
        brentq_of_scipy(f, low, high, xtol=xtol, rtol=rtol)
    )
