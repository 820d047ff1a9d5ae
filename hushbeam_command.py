"""What the script `hushbeam` runs: in no package, so that it can speak where one is hidden."""

from __future__ import annotations

import os
import sys

# A matrix product gets one thread, unless somebody has said how many: ours are small, and threads
# that wait for each other, turning, doubled the CPU time of a `check`. Whoever runs Beam's workers
# has one for each core already.
_THREADS = "OPENBLAS_NUM_THREADS"


def entry() -> int:
    """The process behind the `hushbeam` command; returns where nothing of ours can be imported."""
    os.environ.setdefault(_THREADS, "1")  # before numpy is imported
    try:
        import hushbeam  # noqa: F401 - it looks whether the floors are its own
    except ImportError as error:
        print(f"hushbeam: {error}", file=sys.stderr)
        return 2
    from pipelines.cli.cli import entry as command

    command()
