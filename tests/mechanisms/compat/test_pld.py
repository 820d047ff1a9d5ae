"""dp-accounting without scipy's larger modules: the same numbers, and the modules for who asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import signal, special

from mechanisms.compat.pld import accounting, deltas, epsilon, fftconvolve, logsumexp
from tests.fakes.few import few

_COMPOSED = """
import sys
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss
laws = [PrivacyLoss.from_profile([0.0, e], [d, 0.0]) for e, d in ((1.0, 0.4), (0.5, 0.2))]
compose({laws[0]: 2, laws[1]: 1})
assert not {"scipy.optimize", "scipy.signal", "scipy.stats"} & {*sys.modules}
from dp_accounting import get_epsilon_gaussian
assert 4 < get_epsilon_gaussian(1.0, 1e-6) < 6  # of who calls scipy.stats and scipy.optimize
import scipy.stats
assert scipy.stats is sys.modules["scipy.stats"]
assert isinstance(scipy.stats.norm, scipy.stats.rv_continuous)
assert scipy.signal.fftconvolve.__module__ != "mechanisms.compat.pld"
"""
_CALLED = """
from mechanisms.compat.pld import accounting
accounting()
import dp_accounting
from dp_accounting.pld import common, privacy_loss_distribution as pld, privacy_loss_mechanism as of
assert isinstance(of.stats.norm(), of.stats.distributions.rv_frozen)  # as it might ask when called
assert 4 < pld.from_gaussian_mechanism(1.0).get_epsilon_for_delta(1e-6) < 6
assert 0.9 < pld.from_laplace_mechanism(1.0).get_epsilon_for_delta(0.0) < 1.1
accountant = lambda: dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
sigma = dp_accounting.calibrate_dp_mechanism(accountant, dp_accounting.GaussianDpEvent, 1.0, 1e-6)
assert 4 < sigma < 5
assert common.signal.fftconvolve([1, 2], [1], mode="full").tolist() == [1, 2]
assert common.signal.fftconvolve([[1, 2]], [[3]], "same").tolist() == [[3, 6]]
"""
_MEANWHILE = """
import sys, threading
from mechanisms.compat.pld import accounting
met, left = threading.Event(), threading.Event()
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "dp_accounting.pld.pld_pmf":
            met.set(), left.wait(60)
sys.meta_path.insert(0, Slow())
def other():
    met.wait(60)
    try:
        from scipy import stats
        class Mine(stats.rv_continuous): pass
    finally:
        left.set()
    print("a class of its own")
thread = threading.Thread(target=other)
thread.start()
accounting()
thread.join()
"""
_INTERRUPTED = """
import sys
from mechanisms.compat.pld import accounting
class Stopped:
    def find_spec(self, name, path=None, target=None):
        if name == "dp_accounting.pld.pld_pmf":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stopped())
try:
    accounting()
except KeyboardInterrupt:
    from scipy.stats import rv_continuous
    class Mine(rv_continuous): pass
    print("a class of its own")
"""
_ANOTHER = """
from scipy import signal, stats
from scipy.optimize import OptimizeResult
class Law(stats.rv_continuous): pass
Whole = signal.lfilter
"""
_PLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from mechanisms.compat.pld import accounting
from scipy.stats import rv_continuous
assert issubclass(accounting().Law, rv_continuous)
assert accounting().Whole([1.0], [1.0], [2.0]) == [2.0]
"""


@pytest.mark.parametrize("a", [1, 2, 7, 1_001, 40_000])
@pytest.mark.parametrize("b", [1, 5, 1_001, 131_072])
def test_vectors_are_convolved_as_by_scipy_to_the_last_bit(a: int, b: int) -> None:
    rng = np.random.default_rng(a * b)
    left, right = rng.random(a), rng.random(b)
    assert fftconvolve(left, right).tobytes() == signal.fftconvolve(left, right).tobytes()


@pytest.mark.parametrize("size", [1, 2, 9, 1_001, 40_000])
def test_sums_of_powers_are_scipys_to_the_last_bit(size: int) -> None:
    rng = np.random.default_rng(size)
    weights = rng.random(size) ** 40
    weights[rng.random(size) < 0.2] = 0.0
    for order in np.arange(-20, 21) / size:
        powers = np.arange(size) * order
        found, wanted = (of(powers, b=weights) for of in (logsumexp, special.logsumexp))
        assert np.float64(found).tobytes() == np.float64(wanted).tobytes()


def test_sums_of_powers_of_all_else_are_scipys() -> None:
    one, none, huge = np.ones(3), np.zeros(3), np.array([1.0, np.inf, 2.0])
    for a, b in ((one, none), (huge, one), (one, -one), (one, np.array([1.0, -5.0, 1.0]))):
        with np.errstate(divide="ignore", invalid="ignore"):
            assert np.array_equal(logsumexp(a, b=b), special.logsumexp(a, b=b), equal_nan=True)
    assert logsumexp([1.0, 2.0]) == special.logsumexp([1.0, 2.0])
    assert logsumexp(one, b=[1.0, 2.0, 3.0]) == special.logsumexp(one, b=[1.0, 2.0, 3.0])


def test_where_a_convolution_is_cut_is_asked_of_the_short_sum() -> None:
    accounting()
    from dp_accounting.pld import common

    assert common.special.logsumexp is logsumexp
    assert common.special.erfc is special.erfc  # another version may ask for more


def test_composing_imports_little_and_leaves_the_rest_to_who_asks_for_it() -> None:
    _run(_COMPOSED)


@pytest.mark.verify
def test_who_calls_what_composing_does_not_has_all_of_it() -> None:
    _run(_CALLED)


@pytest.mark.parametrize("program", few((_MEANWHILE, _INTERRUPTED), bool))
def test_nobody_else_meets_what_stands_in(program: str) -> None:
    assert _run(program) == "a class of its own\n"


@pytest.mark.verify
def test_another_version_that_needs_the_modules_at_once_has_them(tmp_path: Path) -> None:
    package = tmp_path / "dp_accounting" / "pld"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(_ANOTHER)
    _run(_PLAIN, str(tmp_path))


def _run(program: str, *words: str) -> str:
    """In a process of its own, where nothing has been imported yet."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_deltas_are_dp_accountings() -> None:
    laplace = accounting().privacy_loss_distribution.from_laplace_mechanism(
        2.0, value_discretization_interval=1e-3
    )
    composed = accounting().pld_pmf.compose_pmfs(*[laplace._pmf_remove.to_dense_pmf()] * 2)
    unbounded = accounting().pld_pmf.DensePLDPmf(0.5, -1, np.array([0.2, 0.3, 0.4]), 0.1, True)
    for pmf in (composed, unbounded):
        epsilons = np.array([0.0, 0.25, 0.5, 0.500001, 0.9, 1.0, 1.5, 700.0])
        assert np.array_equal(deltas(pmf, epsilons), pmf.get_delta_for_epsilon(epsilons))
        for delta in (1e-15, 1e-9, 1e-3, 0.1, 0.5, 1.0):
            assert epsilon(pmf, delta) == pmf.get_epsilon_for_delta(delta)
    giant = accounting().pld_pmf.DensePLDPmf(1000.0, 0, np.array([0.5, 0.5]), 0.0, True)
    assert [epsilon(giant, delta) for delta in (0.0, 0.3, 0.5, 0.8, 1.0)] == [
        giant.get_epsilon_for_delta(delta) for delta in (0.0, 0.3, 0.5, 0.8, 1.0)
    ]


def test_deltas_of_another_version_are_its_own() -> None:
    class Other:
        def get_delta_for_epsilon(self, epsilons):
            return [0.5 for _ in epsilons]

        def get_epsilon_for_delta(self, delta):
            return 2 * delta

    assert deltas(Other(), np.zeros(2)).tolist() == [0.5, 0.5]
    assert epsilon(Other(), 0.5) == 1.0
