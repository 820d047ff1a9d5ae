"""What the script `hushbeam` runs: in no package, so that it can speak where one is hidden."""

from __future__ import annotations

import sys


def entry() -> int:
    """The process behind the `hushbeam` command; returns where nothing of ours can be imported."""
    try:
        import hushbeam  # noqa: F401 - it looks whether the floors are its own
    except ImportError as error:
        print(f"hushbeam: {error}", file=sys.stderr)
        return 2
    from pipelines.cli import entry as command

    command()
