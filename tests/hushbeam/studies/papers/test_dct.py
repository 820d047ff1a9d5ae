"""One report of DCT as published gives its user away; one of a private mechanism does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushbeam.studies.papers.dct import best_guesses, guess
from hushbeam.studies.systems.means import lines
from mechanisms.mean import two_point, widths
from mechanisms.papers.published import dct_published
from mechanisms.randomness import SeededRandom


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_one_report_of_published_dct_gives_its_user_away(epsilon) -> None:
    values = np.linspace(-1, 1, 20_001)
    guesses = guess(dct_published(epsilon), values, SeededRandom(1))
    assert np.abs(guesses - values).max() <= 0.2 / epsilon + 2 / 1024


@pytest.mark.parametrize("name", ["duchi", "pm", "dct", "laplace", "optimal"])
def test_one_report_of_a_private_mechanism_does_not(name) -> None:
    epsilon, n = 1.0, 20_000
    values = np.linspace(-1, 1, n)
    (system,) = lines([name], ["5"], {})
    near = np.mean(
        np.abs(guess(system.build(epsilon, 0.0), values, SeededRandom(1)) - values) <= 0.2
    )
    # Whoever sees no report is right for a fifth of the users, and a report multiplies no chance
    # by more than e^epsilon; a standard error is 0.0035.
    assert near < 0.2 * math.exp(epsilon) + 0.03


def test_guesses_are_the_best_there_are() -> None:
    mechanism = two_point.duchi(1.0)
    scale = (math.e + 1) / (math.e - 1)
    assert best_guesses(mechanism) == pytest.approx([-1 / 3 / scale, 1 / 3 / scale], rel=3e-3)
    mechanism = widths.piecewise(1.0, 16)
    table = np.stack([mechanism.channel(cell) for cell in range(17)])
    assert best_guesses(mechanism) == pytest.approx(mechanism.grid @ table / table.sum(axis=0))
