"""The logs, plans, ledgers and releases that `benchmarks.speed` reads, each made once.

Each is made in a process of its own: a process starts with what its parent had.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.measure import installed
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.snapshot import Snapshot, fact_of

ENTRIES = (10, 10_000, 50_000)
WIDTH, FEATURES = 400, 7
ROWS, USERS, WORDS, PART = 10_000_000, 2_500_000, 1_000_000, 1_000_000

_METRIC = """\
  - {{name: m{number}, kind: histogram, column: category, domain: 0..{most}, drawn_by: shuffler}}
"""
_DAILY = """\
collection: rows
version: 1
unit: user
user_column: user
input: rows.parquet
output: out/{window}
ledger: ledger.sqlite
budget: {epsilon: 700.0, delta: 0.01}
epsilon: 0.5
delta: 1.0e-9
metrics:
"""
_PLAN = """\
collection: wide
version: 1
unit: row
input: log.parquet
output: release
epsilon: {epsilon}
delta: 1.0e-6
metrics:
"""


def made(name: str, logs: Path) -> Path:
    """The folder of a log."""
    folder = logs / name.replace(" ", "-")
    if not folder.exists():
        folder.mkdir()
        command = [sys.executable, "-m", "benchmarks.speed_logs", name, str(folder)]
        subprocess.run(command, check=True, env=environment(logs))
    return folder


def environment(logs: Path) -> dict[str, str]:
    """Of commands beside the logs, whose ledgers have a key and witnesses of their own."""
    return installed(logs) | {"XDG_STATE_HOME": str(logs / "state")}


def rows(number: int, seed: int = 1) -> pa.Table:
    """Zipf values and words, numbers, groups and users, all drawn apart."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 916) ** 1.1
    words = np.minimum(rng.zipf(1.2, number), WORDS) - 1
    index = pa.array(words.astype(np.int32))
    return pa.table(
        {
            "user": rng.integers(0, USERS, number),
            "category": rng.choice(915, number, p=weights / weights.sum()).astype(np.int32),
            "hour": rng.integers(0, 20, number).astype(np.int32),
            "value": rng.normal(1.5, 1, number),
            "place": rng.integers(0, WORDS, number).astype(np.int32),
            "group": rng.integers(0, 100_000, number).astype(np.int32),
            "word": pa.DictionaryArray.from_arrays(index, _words()).cast(pa.string()),
        }
    )


def _words() -> pa.Array:
    return pa.array([f"word-{number:07d}" for number in range(WORDS)])


def _big(folder: Path) -> None:
    for part in range(ROWS // PART):
        pq.write_table(rows(PART, part), folder / f"{part}.parquet", row_group_size=1 << 18)
    _domain(folder)


def _few_words(folder: Path) -> None:
    pq.write_table(rows(1000), folder / "0.parquet")
    _domain(folder)


def _domain(folder: Path) -> None:
    (folder / "words.txt").write_text("\n".join(_words().to_pylist()) + "\n")


def _files(folder: Path) -> None:
    table = rows(200)
    for number in range(5000):
        pq.write_table(table, folder / f"{number:04}.parquet")


def _texts(folder: Path) -> None:
    import fastavro
    import orjson

    table = rows(PART).select(["user", "category", "value", "word"])
    pq.write_table(table, folder / "log.parquet")
    pyarrow.csv.write_csv(table, folder / "log.csv")
    with gzip.open(folder / "log.csv.gz", "wb", 6) as file:
        file.write((folder / "log.csv").read_bytes())
    records = table.to_pylist()
    with (folder / "log.jsonl").open("wb") as file:
        file.writelines(orjson.dumps(record) + b"\n" for record in records)
    kinds = {"user": "long", "category": "int", "value": "double", "word": "string"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    with (folder / "log.avro").open("wb") as file:
        fastavro.writer(file, schema, records, "deflate")


def _vectors(folder: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({f"f{i}": rng.uniform(0, 1, 100_000) for i in range(WIDTH)})
    pq.write_table(table, folder / "log.parquet", row_group_size=1 << 15)


def _examples(folder: Path) -> None:
    rng = np.random.default_rng(1)
    table = {f"x{i}": rng.uniform(0, 1, PART) for i in range(FEATURES)}
    table["y"] = np.clip(sum(table.values()) + rng.normal(0, 0.1, PART), 0, 8)
    pq.write_table(pa.table(table), folder / "log.parquet", row_group_size=1 << 17)


def _plans(folder: Path) -> None:
    pq.write_table(rows(1000), folder / "log.parquet")
    for number in (1, 3, 10, 40):
        metrics = (_METRIC.format(number=i, most=99 + i) for i in range(number))
        plan = _PLAN.format(epsilon=number) + "".join(metrics)
        (folder / f"{number}.yaml").write_text(plan)


def _ledger(folder: Path, entries: int, metrics: int = 1) -> Snapshot:
    """A ledger of a plan with one release, of whose entry it has copies of other windows."""
    pq.write_table(pa.table({"user": np.arange(5000)}), folder / "rows.parquet")
    daily = (f"  - {{name: rows-{number}, kind: count}}\n" for number in range(metrics))
    (folder / "plan.yaml").write_text(_DAILY + "".join(daily))
    hushbeam = [sys.executable, "-m", "pipelines.cli.cli"]
    for words in ("ledger init plan.yaml", "run plan.yaml --window 2029-12-31"):
        subprocess.run([*hushbeam, *words.split()], check=True, cwd=folder, capture_output=True)
    ledger = CollectionLedger.open(str(folder / "ledger.sqlite"))
    snapshot = ledger.read()
    (*_, last), state = snapshot.entries.stream(), snapshot.state
    loss = last.losses[0].model_copy(update={"epsilon": 1e-4, "delta": 0.0, "profile": ()})
    day = np.datetime64("1890-01-01")
    for first in range(0, entries - 1, 128):
        facts = []
        for place in range(first, min(first + 128, entries - 1)):
            start, until = (f"{day + place + more}" for more in (0, 1))
            ends = {"start": f"{start}T00:00:00Z", "until": f"{until}T00:00:00Z"}
            new = {
                "id": ledger.word(), "window": start, "output": f"{last.output}-{start}",
                "release_id": ledger.word() * 2, "losses": (loss,), "files": (f"{place:012x}",),
                "span": last.span and last.span.model_validate(ends), "state": "reserved",
                "operations": (ledger.word(),),
            }  # fmt: skip
            copy = last.model_copy(update=new)
            ended = {"state": "committed", "operations": (*copy.operations, ledger.word())}
            facts += [fact_of(copy), fact_of(copy.model_copy(update=ended))]
        state = ledger._journal.add(state, facts)  # as many at once as no run ever adds
    filled = Snapshot(state, "")
    ledger._tell(snapshot.beginning.witness, filled.seen)
    return filled


def _site(folder: Path, windows: int, metrics: int) -> None:
    """Releases of so many windows: copies of one of them."""
    first, *others = _ledger(folder, windows, metrics).entries.stream()
    for entry in others:
        at = shutil.copytree(first.output, entry.output)
        for path in Path(at).rglob("statement.json"):
            text = path.read_text().replace(first.release_id, entry.release_id)
            path.write_text(text.replace(first.window, entry.window).replace(first.id, entry.id))


MAKERS: dict[str, Callable[[Path], object]] = {
    "big": _big, "few words": _few_words, "files": _files, "texts": _texts, "vectors": _vectors,
    "examples": _examples, "plans": _plans,
    "site 356": partial(_site, windows=356, metrics=1),
    "site 3650": partial(_site, windows=365, metrics=10),
    **{f"ledger {entries}": partial(_ledger, entries=entries) for entries in ENTRIES},
}  # fmt: skip


if __name__ == "__main__":
    MAKERS[sys.argv[1]](Path(sys.argv[2]))
