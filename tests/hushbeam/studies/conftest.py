"""What tests of studies share."""

from __future__ import annotations

import pytest


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, which takes seconds; other tests look at figures."""
    monkeypatch.setattr("hushbeam.studies.engine.study.figures", lambda *arguments: ())
