"""Synthetic records: how far their two-way tables are from the truth, and what they take.

The anchor is AIM (McKenna et al., VLDB 2022) as its authors publish it, with its own settings, on
the same columns of *adult*, at the same epsilon and delta and of the same neighbours. It looks at
the rows many times, and needs them in one place; docs/synthetic.md says which version was run.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.counters import counted, people
from mechanisms.postprocess.synthetic_rows import distance, synthetic_rows, table
from mechanisms.randomness import SeededRandom

RUNS = 5
AIM = {("adult", 1.0): 0.01154}  # of one run
MOST = 1.2  # times AIM


def main() -> None:
    """One row for each population and epsilon."""
    shown = Table(title=f"synthetic rows: mean two-way total variation distance, {RUNS} releases")
    for heading in ("rows of", "epsilon", "rows to release", "release to truth", "rows to truth"):
        shown.add_column(heading, justify="left" if heading == "rows of" else "right")
    for heading in ("AIM to truth", "CPU s"):
        shown.add_column(heading, justify="right")
    over = []
    for name, values, _ in people():
        for epsilon in (1.0,) if len(values) > 100_000 else (0.2, 1.0, 5.0):
            near, given, far, seconds = _errors(values, epsilon)
            anchor = AIM.get((name, epsilon))
            shown.add_row(
                name, f"{epsilon:g}", f"{near:.5f}", f"{given:.5f}", f"{far:.5f}",
                "" if anchor is None else f"{anchor:.5f}", f"{seconds:.1f}",
            )  # fmt: skip
            if anchor is not None and not far <= MOST * anchor:
                over.append(f"{name}, epsilon {epsilon:g}")
    Console(width=150).print(shown)
    if over:
        raise SystemExit(f"above {MOST} times AIM: {', '.join(over)}")


def _errors(values: np.ndarray, epsilon: float) -> tuple[float, float, float, float]:
    """(rows to release, release to truth, rows to truth, CPU seconds of a table of rows)."""
    tabs, design, raised, true = counted(values, epsilon)
    columns = range(values.shape[1])
    errors, seconds = [], 0.0
    for seed in range(RUNS):
        rng = SeededRandom(seed)
        counts = design.centred(design.simulate(raised, rng))
        fitted = tabs.published(tabs.fitted(tabs.estimate(counts, design.variances)))
        singles = [fitted[((column, 1),)] for column in columns]
        given: dict[tuple[int, ...], NDArray[np.int64]] = {
            (one[0], other[0]): fitted[one, other] for one, other in true
        }
        start = time.process_time()
        rows = synthetic_rows(singles, given, int(fitted[()]), rng)
        seconds += time.process_time() - start
        sizes = [single.size for single in singles]
        for (one, other), truth in true.items():
            pair = one[0], other[0]
            found = table(rows, pair, sizes)
            errors.append(
                (distance(found, given[pair]), distance(given[pair], truth), distance(found, truth))
            )
    near, release, far = np.mean(errors, axis=0).tolist()
    return near, release, far, seconds / RUNS


if __name__ == "__main__":
    main()
