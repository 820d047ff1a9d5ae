"""Small images with labels: those of a Parquet file, and made ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushbeam.studies.populations import sources
from hushbeam.studies.populations.population import StudyPopulation, fingerprint
from mechanisms.channel import Counts
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

FORMS = "digits:N, or FILE.parquet with the columns image (bytes of a square) and label"

_HOLDOUT = 5  # the last fifth
_SIDE = 12  # pixels of made images
_LEAST, _MOST = 100, 1_000_000


@dataclass(frozen=True, eq=False)
class Images(StudyPopulation):
    """Images with their labels; the last fifth is held back.

    Attributes:
        rows: (n, side^2 + 1) float32 brightness in [-1, 1], and the constant 1.
        labels: (n,) 0 .. d - 1.
    """

    rows: Numbers
    labels: Counts

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def side(self) -> int:
        """Pixels along a side."""
        return math.isqrt(self.rows.shape[1])

    @property
    def trained(self) -> int:
        """How many are trained on: the first ones."""
        return self.n - self.n // _HOLDOUT

    @property
    def title(self) -> str:
        return f"{self.name} ({self.trained:,} trained on, {self.n - self.trained:,} held back)"

    @property
    def digest(self) -> str:
        return fingerprint(self.rows, self.labels.astype("<i8"))


def read_images(texts: Sequence[str]) -> tuple[Images, ...]:
    """Every data set that is named, once: `digits:N`, made, or `FILE.parquet`.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    return sources.once(texts, lambda text: [_read(text)])


def _read(text: str) -> Images:
    """One data set."""
    made = sources.made(text, {"digits": (1,)}, 1, FORMS)
    name, brightness, labels = _of_file(text) if made is None else _drawn(text, int(made[1][0]))
    rows = np.ones((len(labels), brightness.shape[1] + 1), np.float32)
    rows[:, :-1] = brightness
    return Images(name, rows, labels)


def _of_file(path: str) -> tuple[str, Numbers, Counts]:
    """Every image of a file, in its order."""
    table = sources.read_columns(path, ["image", "label"])
    try:
        content, labels = table["image"].to_pylist(), table["label"].to_numpy().astype(np.int64)
        pixels = np.frombuffer(b"".join(content), np.uint8).reshape(len(labels), -1)
    except (TypeError, ValueError):
        raise RequestError(f"--data: {path} is not {FORMS}") from None
    if not (math.isqrt(pixels.shape[1]) ** 2 == pixels.shape[1] and labels.size >= _LEAST):
        raise RequestError(f"--data: {path} must hold {_LEAST} square images or more")
    return sources.stem(path), pixels / np.float32(127.5) - 1, labels


def _drawn(text: str, n: int) -> tuple[str, Numbers, Counts]:
    """Ten drawings of a few dots each, moved by a pixel or none, under noise."""
    sources.require_size(text, n, _LEAST, _MOST, "images")
    chance = SeededRandom(0).generator()
    drawings = np.zeros((10, _SIDE, _SIDE))
    for drawing in drawings:
        for x, y in chance.integers(2, _SIDE - 2, (6, 2)):
            drawing[x - 1 : x + 2, y - 1 : y + 2] += 0.5
    chance = SeededRandom(n).generator()
    labels = chance.integers(0, 10, n)
    moved = np.stack([np.roll(drawings, (x, y), (1, 2)) for x in (-1, 0, 1) for y in (-1, 0, 1)])
    brightness = moved[chance.integers(0, 9, n), labels].reshape(n, -1)
    noisy = 2 * np.minimum(brightness, 1) - 1 + chance.normal(0, 0.6, brightness.shape)
    return f"digits[{n}]", np.clip(noisy, -1, 1).astype(np.float32), labels
