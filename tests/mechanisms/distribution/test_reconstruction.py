"""Weights of codes: unbiased to rounding, of least variance, and refused where there are none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import linalg

from mechanisms.catalog import build
from mechanisms.channel import Mechanism
from mechanisms.distribution.reconstruction import LARGEST_TABLE, Reconstruction

MEANS = ("pm", "nm", "im", "window_optimal", "dct", "laplace", "hybrid_optimal", "optimal")
ORACLES = ("grr", "olh", "srr", "hadamard", "projective")


def made(name: str, epsilon: float, bins: int) -> Mechanism:
    if name in ORACLES:
        return build(name, epsilon=epsilon, domain_size=bins)
    return build(name, epsilon=epsilon, cells=bins - 1)


@pytest.mark.parametrize("epsilon", [0.7, 3.0])
@pytest.mark.parametrize("name", MEANS + ORACLES)
def test_every_share_is_estimated_without_bias(name: str, epsilon: float) -> None:
    reconstruction = Reconstruction.of(made(name, epsilon, 24))
    mean = reconstruction.shares @ reconstruction.table
    assert np.abs(mean - np.eye(24)).max() < 1e-12


def test_bias_stays_at_rounding_for_many_bins() -> None:
    reconstruction = Reconstruction.of(made("nm", 0.5, 512))
    mean = np.cumsum(reconstruction.shares, axis=0) @ reconstruction.table
    assert np.abs(mean - np.tril(np.ones((512, 512)))).max() < 1e-12


@pytest.mark.parametrize("name", ["nm", "hybrid_optimal", "olh"])
def test_no_unbiased_weights_vary_less(name: str) -> None:
    """Gauss and Markov: whatever has mean 0 under every input only adds variance."""
    reconstruction = Reconstruction.of(made(name, 2.0, 12))
    spread = reconstruction.table.mean(axis=1)
    idle = linalg.null_space(reconstruction.table.T)
    assert idle.shape[1] > 0
    products = (reconstruction.shares * spread) @ idle
    assert np.abs(products).max() < 1e-10 * np.abs(reconstruction.shares).max()


def test_noise_is_the_variance_given_the_input() -> None:
    mechanism = made("nm", 1.0, 8)
    reconstruction = Reconstruction.of(mechanism)
    weights = reconstruction.shares[:3]
    for cell in range(8):
        numerators, denominator = mechanism.weights(cell)
        law = [Fraction(int(a), denominator) for a in numerators]
        for row, found in zip(weights, reconstruction.noise(weights)[:, cell], strict=True):
            exact = [Fraction(w) for w in row.tolist()]
            mean = sum(p * w for p, w in zip(law, exact, strict=True))
            variance = sum(p * (w - mean) ** 2 for p, w in zip(law, exact, strict=True))
            assert found == pytest.approx(float(variance), rel=1e-10)


def test_noise_of_equal_weights_is_none() -> None:
    reconstruction = Reconstruction.of(made("nm", 1.0, 8))
    even = np.full((1, reconstruction.table.shape[0]), 1e6)
    assert reconstruction.noise(even).max() < 1e-3  # of squares of 1e12


@pytest.mark.parametrize(
    ("name", "bins"), [("duchi", 3), ("ndm", 8), ("gaussian_analytic", 64), ("optimal", 100)]
)
def test_reports_that_do_not_determine_a_distribution_are_refused(name: str, bins: int) -> None:
    extra = {"delta": 1e-6} if name in ("ndm", "gaussian_analytic") else {}
    mechanism = build(name, epsilon=1.0, cells=bins - 1, **extra)
    with pytest.raises(ValueError, match="do not determine the shares"):
        Reconstruction.of(mechanism)


def test_two_points_determine_two_bins() -> None:
    weights = Reconstruction.of(build("duchi", epsilon=1.0, cells=1)).shares
    scale = np.e / (np.e - 1)
    assert np.abs(weights - [[scale, 1 - scale], [1 - scale, scale]]).max() < 1e-12


def test_one_law_for_two_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="do not determine"):
        Reconstruction(np.full((4, 2), 0.25))


def test_a_code_that_never_comes_is_no_trouble() -> None:
    table = np.array([[0.7, 0.2], [0.3, 0.8], [0.0, 0.0]])
    reconstruction = Reconstruction(table)
    assert np.abs(reconstruction.shares @ table - np.eye(2)).max() < 1e-12


def test_a_table_too_large_is_refused_before_it_is_made() -> None:
    mechanism = build("laplace", epsilon=0.1, cells=1000)
    assert mechanism.codes * mechanism.inputs > LARGEST_TABLE
    with pytest.raises(ValueError, match="use fewer bins"):
        Reconstruction.of(mechanism)
