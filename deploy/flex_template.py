"""What a Flex Template launches: `hushbeam run PLAN --window WINDOW`, from named options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pipelines.cli import entry


def command(arguments: Sequence[str]) -> list[str]:
    """The words of `hushbeam`, from those of the launcher.

    Args:
        arguments: --plan and --window among Beam's options.

    >>> command(["--plan=gs://b/p.yaml", "--runner=DataflowRunner", "--window=2026-11-20"])
    ['run', 'gs://b/p.yaml', '--window', '2026-11-20', '--runner=DataflowRunner']
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--window")
    known, for_beam = parser.parse_known_args(arguments)
    window = ["--window", known.window] if known.window else []
    return ["run", known.plan, *window, *for_beam]


if __name__ == "__main__":
    sys.argv[1:] = command(sys.argv[1:])
    entry()
