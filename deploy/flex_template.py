"""What a Flex Template launches: `hushbeam run PLAN --window WINDOW`, from named options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pipelines.cli.cli import entry
from pipelines.ledger.key import VARIABLE


def command(arguments: Sequence[str]) -> list[str]:
    """The words of `hushbeam`, from those of the launcher.

    Args:
        arguments: --plan, --window and --ledger_key among Beam's options. The key's place goes
            into the environment, where `hushbeam` looks for it.

    >>> command(["--plan=gs://b/p.yaml", "--runner=DataflowRunner", "--window=2026-11-20"])
    ['run', 'gs://b/p.yaml', '--window', '2026-11-20', '--runner=DataflowRunner']
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--window")
    parser.add_argument("--ledger_key")
    known, for_beam = parser.parse_known_args(arguments)
    if known.ledger_key:
        os.environ[VARIABLE] = known.ledger_key
    window = ["--window", known.window] if known.window else []
    return ["run", known.plan, *window, *for_beam]


if __name__ == "__main__":
    sys.argv[1:] = command(sys.argv[1:])
    entry()
