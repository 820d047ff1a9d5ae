"""Roots: scipy's, whether or not its package is imported for them."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import scipy
from scipy import optimize

from mechanisms.compat import roots

FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "square": (lambda x: x * x - 2, 0.0, 2.0),
    "steep": (lambda x: math.exp(40 * x) - 3, -1.0, 1.0),
    "nearly flat": (lambda x: (x - 0.3) * (x * x + 1e-3), -1.0, 1.0),
    "root at an end": (lambda x: x, 0.0, 1.0),
    "ends swapped": (lambda x: x - 0.1, 1.0, -1.0),
}


@pytest.fixture(params=["compiled", "another version of scipy"])
def _version(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """With scipy's function where we know it to be, and with none there."""
    roots._brentq.cache_clear()
    if request.param != "compiled":
        monkeypatch.setattr(scipy, "__file__", str(tmp_path / "__init__.py"))
    yield
    roots._brentq.cache_clear()


@pytest.mark.usefixtures("_version")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("precision", [{}, {"xtol": 1e-3, "rtol": 1e-3}, {"rtol": 1e-12}], ids=str)
def test_roots_are_those_of_scipy_to_the_last_bit(name: str, precision: dict[str, float]) -> None:
    f, low, high = FUNCTIONS[name]
    xtol, rtol = precision.get("xtol", 2e-12), precision.get("rtol", 2.0**-50)
    expected = optimize.brentq(f, low, high, xtol=xtol, rtol=rtol)
    assert roots.brentq(f, low, high, **precision) == expected


@pytest.mark.usefixtures("_version")
@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: x * x + 1, "different signs"),
        (lambda x: math.nan, "not a number"),
        (lambda x: x if abs(x) > 0.5 else math.nan, "not a number"),
    ],
    ids=["no root", "nowhere a number", "not a number between"],
)
def test_what_has_no_root_is_refused(f: Callable[[float], float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        roots.brentq(f, -1.0, 2.0)


@pytest.mark.usefixtures("_version")
def test_a_root_that_is_not_reached_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="converge"):
        roots.brentq(lambda x: (x - 0.3) ** 9, -1.0, 1.0)


def test_what_a_function_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        roots.brentq(lambda x: 1 / x, 0.0, 1.0)


def test_no_package_is_imported_for_a_root() -> None:
    program = (
        "import sys; from mechanisms.compat.roots import brentq; brentq(lambda x: x, -1.0, 2.0); "
        "assert not {'scipy.optimize', '_zeros'} & {*sys.modules}; "
        "from scipy.optimize import brentq as scipys; assert scipys(lambda x: x, -1.0, 2.0) == 0"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
