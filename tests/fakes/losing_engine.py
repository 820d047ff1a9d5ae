"""An engine that loses the first thing that a step is handed, as Beam did in threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest


def nothing(*_: Any) -> list[Any]:
    """What a step yields that was handed nothing."""
    return []


def losing(
    patch: pytest.MonkeyPatch, step: type, method: str, instead: Callable[..., Any] = nothing
) -> None:
    """Let the first call of a method come to something else.

    Args:
        patch: takes it back.
        step: whose method it is.
        method: of the step.
        instead: what is called the first time.
    """
    honest, calls = getattr(step, method), []

    @functools.wraps(honest)  # Beam reads which side inputs, and which window, it takes
    def careless(self: Any, *given: Any, **more: Any) -> Any:
        calls.append(None)
        return honest(self, *given, **more) if len(calls) > 1 else instead(self, *given)

    patch.setattr(step, method, careless)
