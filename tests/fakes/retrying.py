"""An engine that runs a failed bundle again, as Dataflow and Flink do; Beam's local one does not.

What the first attempt has sent to later stages is dropped; what it has done outside stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import BundleManager


@contextmanager
def retrying() -> Iterator[list[str]]:
    """While the context lasts, Beam's local runner runs each failed bundle once more.

    Yields:
        Why bundles failed.
    """
    once, failures = BundleManager.process_bundle, list[str]()

    def again(self: Any, *given: Any, **more: Any) -> Any:
        try:
            return once(self, *given, **more)
        except Exception as error:
            failures.append(str(error))
            return once(self, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BundleManager, "process_bundle", again)
        yield failures


class SinkDoFn(beam.DoFn):
    """Writes what it is handed to a file, at once, and goes on."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def process(self, element: Any) -> Iterator[Any]:
        with open(self._path, "a") as file:
            file.write(f"{element}\n")
        yield element


class FailOnceDoFn(beam.DoFn):
    """Fails at the first element of all, and never again."""

    def __init__(self, mark: Path) -> None:
        self._mark = str(mark)

    def process(self, element: Any) -> Iterator[Any]:
        if not Path(self._mark).exists():
            Path(self._mark).touch()
            raise OSError("a sink that does not answer")
        yield element
