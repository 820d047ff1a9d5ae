"""Small images with labels: those of a Parquet file, and made ones."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mechanisms.channel import Counts
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.evaluate.data import Data

FORMS = "digits:N, or FILE.parquet with the columns image (bytes of a square) and label"

_HELD_BACK = 5  # the last fifth
_SIDE = 12  # pixels of made images
_LEAST, _MOST = 100, 1_000_000


@dataclass(frozen=True)
class Images(Data):
    """Images with their labels; the last fifth is held back.

    Attributes:
        side: pixels along a side.
        rows: (n, side^2 + 1) float32 brightness in [-1, 1], and the constant 1.
        labels: (n,) 0 .. d - 1.
    """

    side: int
    rows: Numbers
    labels: Counts

    @property
    def trained(self) -> int:
        """How many are trained on: the first ones."""
        return self.n - self.n // _HELD_BACK

    @property
    def title(self) -> str:
        return f"{self.name} ({self.trained:,} trained on, {self.n - self.trained:,} held back)"

    @property
    def digest(self) -> str:
        content = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        content.update(self.labels.astype("<i8").tobytes())
        return content.hexdigest()


def read_all_images(texts: Sequence[str]) -> tuple[Images, ...]:
    """Every data set that was asked for, once.

    Raises:
        RequestError: one of them cannot be read, or two have one name.
    """
    found: dict[str, Images] = {}
    for text in dict.fromkeys(texts):
        family, _, number = text.partition(":")
        images = _made(text, number) if family == "digits" else _of_file(text)
        if images.name in found:
            raise RequestError(f"--data: two data sets are called {images.name}")
        found[images.name] = images
    return tuple(found.values())


def _images(name: str, brightness: Numbers, labels: Counts) -> Images:
    side = math.isqrt(brightness.shape[1])
    rows = np.ones((len(brightness), side**2 + 1), np.float32)
    rows[:, :-1] = brightness
    return Images(name, np.bincount(labels).astype(np.int64), side, rows, labels)


def _of_file(path: str) -> Images:
    """Every image of a file, in its order."""
    try:
        table = pq.read_table(path, columns=["image", "label"])
        content, labels = table["image"].to_pylist(), table["label"].to_numpy().astype(np.int64)
        pixels = np.frombuffer(b"".join(content), np.uint8).reshape(len(labels), -1)
    except FileNotFoundError:
        raise RequestError(f"--data: there is no file {path}") from None
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        raise RequestError(f"--data: {path} is not {FORMS}") from None
    if not (math.isqrt(pixels.shape[1]) ** 2 == pixels.shape[1] and labels.size >= _LEAST):
        raise RequestError(f"--data: {path} must hold {_LEAST} square images or more")
    name = os.path.basename(path).removesuffix(".parquet")
    return _images(name, pixels / np.float32(127.5) - 1, labels)


def _made(text: str, number: str) -> Images:
    """Ten drawings of a few dots each, moved by a pixel or none, under noise."""
    try:
        n = int(float(number))
    except ValueError:
        raise RequestError(f"--data: {text} is not {FORMS}") from None
    if not _LEAST <= n <= _MOST:
        raise RequestError(f"--data: {text} must have {_LEAST} to {_MOST:,} images")
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
    return _images(f"digits[{n}]", np.clip(noisy, -1, 1).astype(np.float32), labels)
