"""`make strangers`: files that nobody here wrote, by the commands that anybody would try first."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.strangers.trial import VERDICTS, Outcome

_FILES = 20  # of a process
_GOOD = ("right", "refused", "unverified")


def main() -> int:
    """0 if every figure is right and every refusal a line; or if there are no such files."""
    parser = argparse.ArgumentParser(prog="make strangers ARGS=", description=__doc__)
    parser.add_argument("folder", type=Path, help="of the files")
    parser.add_argument("--only", default="", help="part of files' names")
    parser.add_argument("--columns", type=int, default=2, help="of each kind and file (2)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--refusals", action="store_true", help="print every line of a refusal")
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"no folder {options.folder}: STRANGERS=FOLDER names one of files to try")
        return 0
    files = sorted(
        path
        for path in options.folder.rglob("*")
        if path.is_file() and path.suffix != ".md" and options.only in str(path)
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        found = [*pool.map(lambda some: _tried(some, options), _dealt(files, options.jobs))]
    return _told([outcome for each in found for outcome in each], len(files), options.refusals)


def _dealt(files: list[Path], jobs: int) -> list[list[Path]]:
    """A few files for each process: what one leaves in a library is not carried on for ever."""
    number = -(-len(files) // (_FILES * jobs)) * jobs
    return [files[k::number] for k in range(number)]


def _tried(files: list[Path], options: argparse.Namespace) -> list[Outcome]:
    """What came of some files, each a line of a process; if it dies, the next one goes on."""
    found: list[Outcome] = []
    while files:
        names = [str(path.relative_to(options.folder)) for path in files]
        words = [sys.executable, "-m", "tests.strangers.trial", str(options.folder)]
        ran = subprocess.run(
            [*words, str(options.columns), *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        lines = [json.loads(line) for line in ran.stdout.decode().splitlines()]
        found += [Outcome(*line) for line in lines if line is not None]
        done = lines.count(None)
        if done < len(files):
            said = f"the process ends with {ran.returncode}"
            found.append(Outcome(names[done], "(unknown)", "traceback", said, True))
        files = files[done + 1 :]
    return found


def _told(found: list[Outcome], files: int, refusals: bool) -> int:
    console = Console(width=160 if not sys.stdout.isatty() else None)
    table = Table(title=f"{files} files of strangers, {len(found):,} commands")
    for heading in ("format", *VERDICTS):
        table.add_column(heading, justify="left" if heading == "format" else "right")
    endings = sorted({Path(outcome.file).suffix for outcome in found})
    for ending in [*endings, ""]:
        some = [one for one in found if one.file.endswith(ending)]
        counts = Counter(one.verdict for one in some)
        table.add_row(ending or "all", *(f"{counts[verdict]:,}" for verdict in VERDICTS))
    console.print(table)
    for verdict in VERDICTS[1:]:
        shown = [one for one in found if one.verdict == verdict]
        # Of refusals those matter where another reader reads what was asked about.
        if verdict == "refused" and not refusals:
            shown = [one for one in shown if one.readable]
            print(f"\n{len(shown)} refusals of what another reader reads; --refusals shows all:")
        for one in shown:
            print(f"{verdict}: {one.file}: {one.command}: {one.said}")
    return int(any(one.verdict not in _GOOD for one in found))


if __name__ == "__main__":
    sys.exit(main())
