"""`python -m tests.golden`: list the cases, check some, or rewrite what is expected of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.golden.cases import BY_NAME
from tests.golden.comparison import differences, rewrite
from tests.golden.record import record

_CODE = re.compile(r"commands > \d+ > code: expected \d")
_SHOWN = 20  # differences: the first ones teach most


def main() -> int:
    """Run the cases that were named; 1 if some differ from what is expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("action", choices=("list", "check", "rewrite"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names or beginnings of names")
    arguments = parser.parse_args()
    names = [name for name in BY_NAME if name.startswith((*(arguments.cases or [""]),))]
    if not names:
        parser.error(f"there is no such case among {', '.join(BY_NAME)}")
    if arguments.action == "list":
        print(*names, sep="\n")
        return 0
    return max(_act(name, arguments.action == "rewrite") for name in names)


def _act(name: str, anew: bool) -> int:
    """One case: compared, and made what is expected if that was asked for."""
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        made = record(BY_NAME[name], Path(folder))
    lines = differences(name, made)
    outcome = f"{len(lines)} differences" if lines else "as expected"
    print(f"{name}: {outcome} ({time.process_time() - begin:.1f} CPU seconds)", flush=True)
    print(*(f"  {line}" for line in lines[:_SHOWN]), sep="\n", end="\n" if lines else "")
    # What fails for a while would be expected to fail from then on.
    ends = [line for line in lines if _CODE.match(line)]
    if ends and anew:
        print(f"  not rewritten: a command ends otherwise; remove {name}.json if that is meant")
    if anew and not ends:
        rewrite(name, made)
    return int(bool(lines) and not (anew and not ends))


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Work in a folder, and come back."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    sys.exit(main())
