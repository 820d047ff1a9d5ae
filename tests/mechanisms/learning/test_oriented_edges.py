"""Edges by direction: what they see, what they ignore, and that images do not mix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushbeam.studies.systems.oriented_edges import OrientedEdges


def slow(pixels, edges):
    """Pixel by pixel."""
    side, cell = edges.side, edges.cell
    image = pixels.reshape(side, side)

    def at(i, j):
        return image[min(max(i, 0), side - 1), min(max(j, 0), side - 1)]

    count = side // cell
    sums = np.zeros((count, count, edges.directions))
    for i in range(side):
        for j in range(side):
            across, down = at(i, j + 1) - at(i, j - 1), at(i + 1, j) - at(i - 1, j)
            for k in range(edges.directions):
                angle = 2 * math.pi * k / edges.directions
                rise = max(0.0, math.cos(angle) * across + math.sin(angle) * down)
                sums[i // cell, j // cell, k] += rise**2
    found = np.sqrt(sums).reshape(-1)
    return np.append(found * edges.length / math.sqrt(found @ found + 1e-6), 1.0)


@pytest.mark.parametrize(("side", "cell", "directions"), [(8, 4, 8), (6, 2, 5), (5, 5, 2)])
def test_it_is_what_a_loop_over_pixels_gives(side, cell, directions):
    edges = OrientedEdges(side, cell, directions, length=3.0)
    pixels = np.random.default_rng(1).uniform(-1, 1, (4, side**2))
    rows = edges.rows(pixels)
    assert rows.shape == (4, edges.features + 1)
    for row, image in zip(rows, pixels, strict=True):
        np.testing.assert_allclose(row, slow(image, edges), atol=2e-5)


def test_brightness_and_contrast_do_not_count_and_lengths_are_as_declared():
    edges = OrientedEdges(8)
    pixels = np.random.default_rng(2).uniform(-0.4, 0.4, (5, 64))
    rows = edges.rows(pixels)
    np.testing.assert_allclose(edges.rows(2 * pixels + 0.1), rows, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(rows[:, :-1], axis=1), edges.length, rtol=1e-4)


def test_a_blank_image_has_no_edges():
    assert OrientedEdges(8).rows(np.full((1, 64), 0.3))[0].tolist() == [0.0] * 32 + [1.0]


def test_an_images_row_does_not_depend_on_the_others():
    edges = OrientedEdges(28)
    pixels = np.random.default_rng(3).uniform(-1, 1, (37, 784)).astype(np.float32)
    rows = edges.rows(pixels)
    for i in (0, 13, 36):
        assert np.array_equal(rows[i : i + 1], edges.rows(pixels[i : i + 1]))


@pytest.mark.parametrize(
    "bad",
    [{"side": 0}, {"side": 8.0}, {"cell": 3}, {"cell": 0}, {"directions": 1}]
    + [{"length": bad} for bad in (math.nan, 0.0, math.inf)],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        OrientedEdges(**({"side": 8} | bad))


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="64 pixels"):
        OrientedEdges(8).rows(np.zeros((2, 63)))
