"""What the three parties type in a folder with `plan.yaml` and the collector's `keys`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.counters.noise import ShufflerNoise
from mechanisms.wire.sealing import create_key
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.releases.key_list import Role

TRUNCATED = "had more than was counted"
"""What a release says by a noisy number, so now and then of nobody: one time in two thousand."""
BY_NOISE = (TRUNCATED, "that cannot be used")
"""All that it says so."""


def key(kind: str = "public") -> str:
    """The file of one half of the collector's key."""
    return str(next(Path("keys").glob(f"*.{kind}.pem")))


def client(*words: str, window: str = "d1") -> list[str]:
    return ["parties", "client", "plan.yaml", "--window", window, "--seal", key(), *words]


def shuffle(*files: str, into: str = "out", window: str = "d1") -> list[str]:
    words = ["parties", "shuffle", "plan.yaml", "--window", window, "--input", *files]
    return [*words, "--seal", key(), "--output", into]


def collect(folder: str = "out", window: str = "d1") -> list[str]:
    words = ["parties", "collect", "plan.yaml", "--window", window, "--input", folder]
    return [*words, "--key", key("private")]


def prepared(plan: str, log: pa.Table, *windows: str) -> None:
    """A plan, a log, the collector's keys and those of who evaluates strings of some windows."""
    Path("plan.yaml").write_text(plan)
    pq.write_table(log, "log.parquet")
    Path("keys").mkdir()
    create_key(Path("keys"))
    made_keys(*windows)


def made_keys(*windows: str, folder: str = "party", role: Role = "strings") -> None:
    """Keys of windows of the plan."""
    for window in windows:
        KeyFolder(folder).make(window, split(load("plan.yaml"), window).fingerprint, role)


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is 0, and thresholds as they are."""

    def draw(self: ShufflerNoise, size: int, rng: Any) -> np.ndarray:
        return np.full(size, self.mean)

    monkeypatch.setattr(ShufflerNoise, "draw", draw)


def masked(text: str, window: str, drawn: str = "created|release_id") -> str:
    """A statement without what is drawn: ids, times, what was estimated of what was cut, and said
    of it.
    """
    text = json.dumps(_certain(json.loads(text.replace(window, "window"))))
    text = re.sub(r'"estimate": -?[0-9.e]+', '"estimate": ...', text)
    return re.sub(rf'"({drawn})": "[^"]*"', '"drawn"', text)


def _certain(value: Any) -> Any:
    """A statement without the cautions that noise alone may bring."""
    if isinstance(value, list):
        texts = (
            one for one in value if not (isinstance(one, str) and any(x in one for x in BY_NOISE))
        )
        return [_certain(one) for one in texts]
    if not isinstance(value, dict):
        return value
    certain = {name: _certain(part) for name, part in value.items()}
    return {name: part for name, part in certain.items() if name != "cautions" or part}
