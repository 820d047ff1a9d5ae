"""The ledger: seconds to compose a year, rivals for the last share, and runs that are killed."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import seconds
from mechanisms.channel import Guarantee
from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution
from pipelines.ledger import accounting
from pipelines.ledger.entries import Budget, Loss
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes import ledger_rivals
from tests.fakes.bucket_server import serving

ROUNDS, KILLS, WINDOWS = 200, 50, 250


def main() -> None:
    """Print the three tables; end with an error if a budget was overspent or an entry lost."""
    screen = Console(width=120)
    warnings.simplefilter("ignore", Caution)
    screen.print(_compositions())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"  # a key for these ledgers alone
        screen.print(_races(folder))
        screen.print(_kills(folder))


def _compositions() -> Table:
    table = Table(title="composing windows, CPU seconds (the accountant imported)")
    for heading in ("windows", "kinds", "sum of epsilons", "epsilon at 1e-5", "seconds"):
        table.add_column(heading, justify="right")
    accounting.total(_windows(2, 1), 1e-5)
    for windows, kinds in ((30, 1), (365, 1), (1000, 1), (1000, 3), (1000, 30), (1000, 1000)):
        losses = _windows(windows, kinds)
        composed = accounting.total(losses, 1e-5).epsilon
        added = accounting.summed(losses).epsilon
        taken = seconds(partial(_uncached, losses), 3)
        table.add_row(str(windows), str(kinds), f"{added:.4g}", f"{composed:.4g}", f"{taken:.2f}")
    return table


def _windows(windows: int, kinds: int) -> list[Loss]:
    """Releases of epsilon 0.1 to 0.2."""
    claims = (
        Guarantee("shuffle", 0.1 * (1 + k % kinds / kinds), 1e-9, "user", "")
        for k in range(windows)
    )
    return [Loss.of(claim) for claim in claims]


def _uncached(losses: list[Loss]) -> None:
    accounting._joint.cache_clear()
    accounting.fits(losses, Budget(epsilon=1.0, delta=1e-5))


def _races(folder: str) -> Table:
    table = Table(title=f"{ledger_rivals.RIVALS} processes race for the last share")
    for heading in ("store", "rounds", "exactly one won", "spent of the budget", "seconds"):
        table.add_column(heading, justify="right")
    with ledger_rivals.rivals() as pool:
        _race(table, pool, "SQLite", f"{folder}/{{}}.sqlite", folder)
    try:
        import google.cloud.storage  # noqa: F401
    except ImportError:
        table.caption = "no race in a bucket: the package google-cloud-storage is missing"
        return table
    with serving() as (bucket, address), ledger_rivals.rivals(address) as pool:
        os.environ["STORAGE_EMULATOR_HOST"] = address
        _race(table, pool, "bucket", "gs://bucket/{}.json", folder)
        faults: list[int | str] = [429, 503, "lost 503"] * 4
        name, path = "bucket, bad days", "gs://bucket/bad-{}.json"
        _race(table, pool, name, path, folder, lambda: bucket.faults.extend(faults))
    return table


def _nothing() -> None:
    """A round on a good day."""


def _race(
    table: Table, pool: Any, name: str, path: str, folder: str,
    before: Callable[[], None] = _nothing,
) -> None:  # fmt: skip
    """All rounds of one store."""
    begun = time.perf_counter()
    outcomes = []
    for number in range(ROUNDS):
        output = f"{folder}/{name}/{number}"
        os.makedirs(output)
        before()
        outcomes.append(ledger_rivals.one_round(pool, path.format(number), output))
    taken = time.perf_counter() - begun
    single = sum(won == 1 for won, _ in outcomes)
    largest = max(spent for _, spent in outcomes)
    table.add_row(name, str(ROUNDS), str(single), f"{largest:g} of 1", f"{taken:.0f}")
    if not (single == ROUNDS and largest == 1):
        raise SystemExit(f"{name}: a budget was overspent, or its last share was lost")


def _kills(folder: str) -> Table:
    """Kill a run at random moments, again and again, and let the last one finish."""
    path, out = f"{folder}/killed.sqlite", Path(folder, "killed")
    out.mkdir()
    entries: dict[str, str] = {}
    pauses = SecureRandom().integers(300, KILLS)
    for pause in pauses.tolist():
        first = max(0, len(list(out.glob("[!.]*"))) - 1)  # the last one is found, others follow
        process = ledger_rivals.started(
            ledger_rivals.publish_windows, path, str(out), WINDOWS, "", True, 1, first
        )
        time.sleep(pause / 1000)
        process.kill()
        process.join()
        entries = _require_kept(path, out, entries)
    ledger_rivals.publish_windows(path, str(out), WINDOWS)
    entries = _require_kept(path, out, entries)
    table = Table(title=f"kill -9 at {KILLS} random moments of a run over {WINDOWS} windows")
    for heading in ("releases", "entries", "committed", "left for an operator"):
        table.add_column(heading, justify="right")
    states = list(entries.values())
    table.add_row(
        str(len(list(out.glob("[!.]*")))), str(len(states)), str(states.count("committed")),
        str(states.count("reserved")),
    )  # fmt: skip
    return table


def _require_kept(path: str, out: Path, before: dict[str, str]) -> dict[str, str]:
    """End if an entry was lost, or a release has none."""
    snapshot = CollectionLedger.open(path).entries() if Path(path).exists() else ()
    outputs = {entry.output for entry in snapshot if entry.counted}
    now: dict[str, str] = {entry.id: entry.state for entry in snapshot}
    lost = [id for id, state in before.items() if now.get(id) not in (state, "committed")]
    if lost or not {str(release) for release in out.glob("[!.]*")} <= outputs:
        raise SystemExit("an entry of the ledger was lost")
    windows = [entry.window for entry in snapshot if entry.counted]
    if len(windows) != len({*windows}):
        raise SystemExit("a window was paid for twice")
    return now


if __name__ == "__main__":
    main()
