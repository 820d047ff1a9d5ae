"""Plant every bug in a copy of its own, and name the test that caught it.

In the end the tests that have caught one are run on a copy without a bug: what fails there, too,
has caught nothing. A test that takes longer than a minute has failed, for a bug may make it hang.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import (
    accounting,
    counters,
    evidence,
    figures,
    files,
    ledgers,
    mechanisms,
    pages,
    planted,
    promises,
    queries,
    randomness,
    reading,
    rows,
    services,
    transforms,
)  # fmt: skip
from tests.mutants.forks import Forks
from tests.mutants.mutant import AnchorError, Mutant
from tests.mutants.trial import LONGEST, Verdict, passing, tried

ROOT = Path(__file__).parents[2]
MUTANTS: tuple[Mutant, ...] = (
    *randomness.MUTANTS,
    *mechanisms.MUTANTS,
    *counters.MUTANTS,
    *evidence.MUTANTS,
    *figures.MUTANTS,
    *planted.MUTANTS,
    *accounting.MUTANTS,
    *ledgers.MUTANTS,
    *promises.MUTANTS,
    *queries.MUTANTS,
    *transforms.MUTANTS,
    *files.MUTANTS,
    *reading.MUTANTS,
    *rows.MUTANTS,
    *services.MUTANTS,
    *pages.MUTANTS,
)


def main(words: Sequence[str] | None = None) -> int:
    """Run `python -m tests.mutants`; 0 if every bug is caught, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the bugs; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--list", action="store_true", help="say what is planted, and run nothing")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no such bug: {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTANTS if m.name in arguments.names or not arguments.names]
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name}: {mutant.wrong}")
        return 0
    return run(ROOT, chosen, arguments.jobs)


def run(root: Path, mutants: Sequence[Mutant], jobs: int, longest: float = LONGEST) -> int:
    """Try all of them; say, line by line, what became of each.

    Args:
        root: of the tree.
        mutants: to plant.
        jobs: runs at a time.
        longest: seconds that a test has.

    Returns:
        0 if all were caught, else 1.
    """
    begun, width = time.monotonic(), max(len(mutant.name) for mutant in mutants)
    free: SimpleQueue[Forks] = SimpleQueue()
    verdicts: dict[Mutant, Verdict] = {}

    def planted(mutant: Mutant) -> Verdict:
        with _taken(free) as forks:
            return _verdict(root, mutant, forks, longest)

    def passed(tests: Sequence[str]) -> set[str]:
        with _taken(free) as forks:
            return passing(root, tests, forks, longest)

    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        for forks in (Forks() for _ in range(jobs)):
            stack.callback(forks.close)
            free.put(forks)
        for mutant, verdict in zip(mutants, pool.map(planted, mutants), strict=True):
            row = f"{verdict.kind:9} {mutant.name:{width}} {verdict.seconds:5.1f} s"
            print(f"{row}  {verdict.detail}", flush=True)
            verdicts[mutant] = verdict
        # What fails without a bug, too, has caught nothing.
        caught = [verdict.detail for verdict in verdicts.values() if verdict.kind == "caught"]
        files = {test.partition("::")[0] for test in caught}
        own = [[*dict.fromkeys(t for t in caught if t.startswith(f"{f}::"))] for f in sorted(files)]
        sound = {test for found in pool.map(passed, own) for test in found}
    lost = [(mutant, kind) for mutant, kind in _kinds(verdicts, sound) if kind != "caught"]
    taken, found = time.monotonic() - begun, len(mutants) - len(lost)
    print(f"{len(mutants)} planted, {found} caught, in {taken // 60:.0f}:{taken % 60:02.0f}")
    for mutant, kind in lost:
        print(f"\n{mutant.name} ({kind}): {mutant.wrong}")
        if kind == "unsound":
            print(f"  {verdicts[mutant].detail} fails without the bug")
        print(f"  planted in {mutant.file}; ought to be known by {', '.join(mutant.tests)}")
    return 1 if lost else 0


@contextmanager
def _taken(free: SimpleQueue[Forks]) -> Iterator[Forks]:
    """A process that does nothing else meanwhile."""
    forks = free.get()
    try:
        yield forks
    finally:
        free.put(forks)


def _kinds(
    verdicts: Mapping[Mutant, Verdict], sound: Container[str]
) -> Iterator[tuple[Mutant, str]]:
    """What became of each, by the tests that pass without a bug."""
    for mutant, verdict in verdicts.items():
        fooled = verdict.kind == "caught" and verdict.detail not in sound
        yield mutant, "unsound" if fooled else verdict.kind


def _verdict(root: Path, mutant: Mutant, forks: Forks, longest: float) -> Verdict:
    """What became of one."""
    try:
        changes = mutant.planted(root)
    except AnchorError as error:
        return Verdict("unplanted", f"to be anchored anew: {error}", 0.0)
    return tried(root, changes, mutant.tests, mutant.known_by, forks, longest)


if __name__ == "__main__":
    sys.exit(main())
