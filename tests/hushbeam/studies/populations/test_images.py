"""Images are read from files and made, and a part of them is held back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushbeam.studies.populations.images import read_images


def test_images_are_square_and_their_last_fifth_is_held_back(tmp_path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (100, 16), dtype=np.uint8)
    path = str(tmp_path / "few.parquet")
    columns = {"image": pa.array([row.tobytes() for row in pixels], pa.binary(16))}
    pq.write_table(pa.table({**columns, "label": np.arange(100) % 3}), path)
    stored, made = read_images([path, "digits:200"])
    assert (stored.n, stored.trained, stored.d, stored.side) == (100, 80, 3, 4)
    np.testing.assert_allclose(stored.rows[:, :-1], pixels / 127.5 - 1, atol=1e-6)
    assert (stored.rows[:, -1] == 1).all()
    assert (made.n, made.d, made.side) == (200, 10, 12)
