"""`python -m benchmarks [NAME ...]`: run them all, or some, and print their tables."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "mechanisms",
    "systems",
    "accounting",
    "accuracy",
    "releases",
    "startup",
    "installed",
    "job",
    "speed",  # with cores, stream and sealing
    "conserved",
    "vectors",
    "learning",
    "ledger",
    "plans",
    "counters",
    "central",
    "questions",
    "experiments",
    "synthetic",
    "house",
    "serving",
    "oblivious",
    "engines",  # the last: it needs mvn and java
)


def main() -> None:
    """Run the named benchmarks in order."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    for name in parser.parse_args().names or NAMES:
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
