"""Plant every bug in a copy of its own, and name the test that caught it.

First the tests that ought to know are run on a copy without a bug: what fails there catches
nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import (
    accounting,
    counters,
    figures,
    ledgers,
    mechanisms,
    planted,
    randomness,
    reading,
    transforms,
)  # fmt: skip
from tests.mutants.mutant import AnchorError, Mutant
from tests.mutants.trial import Verdict, tried

ROOT = Path(__file__).parents[2]
MUTANTS: tuple[Mutant, ...] = (
    *randomness.MUTANTS,
    *mechanisms.MUTANTS,
    *counters.MUTANTS,
    *planted.MUTANTS,
    *figures.MUTANTS,
    *accounting.MUTANTS,
    *ledgers.MUTANTS,
    *transforms.MUTANTS,
    *reading.MUTANTS,
)

Selection = tuple[str, str]  # (a file or a test, what a test's name has to contain)


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


def run(root: Path, mutants: Sequence[Mutant], jobs: int) -> int:
    """Try all of them; say, line by line, what became of each.

    Args:
        root: of the tree.
        mutants: to plant.
        jobs: runs at a time.

    Returns:
        0 if all were caught, else 1.
    """
    begun, width = time.monotonic(), max(len(mutant.name) for mutant in mutants)
    lost: list[tuple[Mutant, str]] = []
    with ThreadPoolExecutor(jobs) as pool:
        sound = dict(_sound(root, mutants, pool))
        for mutant, verdict in zip(
            mutants, pool.map(lambda one: _verdict(root, one, sound), mutants), strict=True
        ):
            row = f"{verdict.kind:9} {mutant.name:{width}} {verdict.seconds:5.1f} s"
            print(f"{row}  {verdict.detail}", flush=True)
            if verdict.kind != "caught":
                lost.append((mutant, verdict.kind))
    taken = time.monotonic() - begun
    caught = len(mutants) - len(lost)
    print(f"{len(mutants)} planted, {caught} caught, in {taken // 60:.0f}:{taken % 60:02.0f}")
    for mutant, kind in lost:
        print(f"\n{mutant.name} ({kind}): {mutant.wrong}")
        print(f"  planted in {mutant.file}; ought to be known by {', '.join(mutant.tests)}")
    return 1 if lost else 0


def _sound(
    root: Path, mutants: Iterable[Mutant], pool: ThreadPoolExecutor
) -> Iterator[tuple[Selection, Verdict]]:
    """What the tests say of a tree without a bug."""
    wanted = list(dict.fromkeys(each for mutant in mutants for each in _selections(mutant)))

    def passed(selection: Selection) -> Verdict:
        return tried(root, {}, [selection[0]], selection[1])

    for selection, verdict in zip(wanted, pool.map(passed, wanted), strict=True):
        said = "sound" if verdict.kind == "survived" else "UNSOUND"
        what = " -k ".join(word for word in selection if word)
        print(f"{said:9} {what} {verdict.seconds:5.1f} s  {verdict.detail}", flush=True)
        yield selection, verdict


def _selections(mutant: Mutant) -> list[Selection]:
    return [(test, mutant.known_by) for test in mutant.tests]


def _verdict(root: Path, mutant: Mutant, sound: dict[Selection, Verdict]) -> Verdict:
    """What became of one."""
    for selection in _selections(mutant):
        if sound[selection].kind != "survived":
            return Verdict("unsound", f"{selection[0]} fails without the bug", 0.0)
    try:
        changes = mutant.planted(root)
    except AnchorError as error:
        return Verdict("unplanted", f"to be anchored anew: {error}", 0.0)
    return tried(root, changes, mutant.tests, mutant.known_by)


if __name__ == "__main__":
    sys.exit(main())
