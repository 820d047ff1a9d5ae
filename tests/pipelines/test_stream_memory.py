"""Where a stream remembers: a folder that others should not read."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pipelines.errors import Caution
from pipelines.stream.memory import StreamMemory


def test_a_folder_that_others_can_enter_is_told_of(tmp_path: Path) -> None:
    """Digests of users lie in it, beside their key."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.warns(Caution, match="chmod 700"):
        StreamMemory(str(tmp_path / "open"), "f00d").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StreamMemory(str(tmp_path / "new"), "f00d").close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
