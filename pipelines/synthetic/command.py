"""`hushbeam synthetic` on the command line."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from mechanisms.randomness import SecureRandom
from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions, Whole

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.synthetic.published import Tables
    from transforms.elements.blocks import Generator

_DOC = (
    "Synthetic records, whose tables of two columns are those of a published cross-tab. They are "
    "made from the release alone: nobody's data are looked at again, so they cost no privacy."
)

_EXAMPLE = """\
examples:
  hushbeam synthetic flights-tabs --output flights.parquet
  hushbeam synthetic releases/2026-11-21/by --rows 10000 --output made.csv

Each row says that it is synthetic, and a statement beside the file says of which release it is
made and how far its tables are from those that were published: docs/synthetic.md.
"""

_MOST = 1_000_000  # rows that nobody asked for
_SYNTHETIC = "synthetic"
_SAID = (
    "These rows are synthetic: no row is a person's. They were drawn from the published tables of "
    "one release, and from nothing else. What it promises of its tables holds of these rows, at no "
    "further cost. Their tables of {of} columns are those of the release, noise included, but for "
    "the distances that are given here; what {more} columns or more say together was not measured, "
    "and is as random as these tables allow."
)


class SyntheticOptions(RequestOptions):
    """Of which release, and how many."""

    release: str = option(
        "the folder of a cross-tab; local or gs://", metavar="RELEASE", positional=True
    )
    rows: Whole | None = option(
        f"how many (default: as many as the release counts, and {_MOST:,} at the most)",
        None, metavar="N", ge=1, le=100_000_000,
    )  # fmt: skip
    output: str = option("a new file: .parquet or .csv", metavar="FILE")


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "synthetic", SyntheticOptions, run, _DOC, _EXAMPLE)


def run(options: SyntheticOptions, open_rng: Generator = SecureRandom) -> int:
    """Make rows, and say how near their tables are.

    Raises:
        RequestError: there is no such release, or too many rows, or the file is there already.
    """
    from pipelines.releases import release
    from pipelines.storage import table_files

    output = options.output
    beside = f"{os.path.splitext(output)[0]}.{release.STATEMENT}"
    table_files.require_writable(output)
    table_files.require_new(output, beside)
    from mechanisms.postprocess.synthetic_rows import synthetic_rows
    from pipelines.synthetic.published import read

    tables = read(options.release)
    try:
        rows = synthetic_rows(
            tables.singles, tables.whole_pairs, options.rows or min(tables.total, _MOST), open_rng()
        )
    except ValueError as error:
        raise RequestError(f"--rows: {error}; ask for fewer rows") from None
    said = statement(tables, rows)
    made = _table(tables, rows, said)
    table_files.write(output, made.schema, [made])
    table_files.write_whole(beside, release.written(said))
    answers.tell(output=output, rows_statement=beside, rows=len(rows), distance=said["distance"])
    print(f"{len(rows):,} synthetic rows in {output}; {beside} says what they are made from")
    if tables.pairs:
        print(
            f"tables of {tables.ways} columns, total variation distance on average: "
            f"{said['distance']:.2g} from those published, whose noise alone is up to "
            f"{said['noise']:.2g}"
        )
    return DONE


def statement(tables: Tables, rows: Any) -> dict[str, Any]:
    """What rows are, and how near to what was published.

    Args:
        tables: of the release.
        rows: (n, columns) places of values.
    """
    from importlib.metadata import version

    whole = tables.published.statement
    apart = tables.distances(rows)
    noise = {pair: tables.noise(pair) for pair in apart}
    return {
        "synthetic": True,
        "in_words": _SAID.format(of=tables.ways, more="three" if tables.ways == "two" else "four"),
        "rows": len(rows),
        "columns": list(tables.names),
        "release": {
            name: whole.get(name)
            for name in ("release_id", "release", "metric", "window", "created")
        },
        "guarantee": whole["guarantees"]["release"],
        "further_cost": {"epsilon": 0.0, "delta": 0.0, "how": "post-processing of the release"},
        "distance": _mean(apart),
        "noise": _mean(noise),
        "tables": [
            {"table": tables.name(pair), "distance": apart[pair], "noise": noise[pair]}
            for pair in apart
        ],
        "tables_not_used": list(tables.left_out),
        "versions": {"hushbeam": version("hushbeam")},
    }  # fmt: skip


def _mean(numbers: dict[Any, float]) -> float | None:
    """None: the release is of one column, and has no table of two."""
    return sum(numbers.values()) / len(numbers) if numbers else None


def _table(tables: Tables, rows: Any, said: dict[str, Any]) -> pa.Table:
    """The rows, each of which says that it is made."""
    import pyarrow as pa

    from pipelines.metrics.counting.result import free

    columns = {
        name: labels.take(pa.array(rows[:, place]))
        for place, (name, labels) in enumerate(zip(tables.names, tables.labels, strict=True))
    }
    mark = {free(_SYNTHETIC, columns): pa.repeat(True, len(rows))}
    metadata = {f"hushbeam.{_SYNTHETIC}": json.dumps(said)}
    return pa.table(mark | columns).replace_schema_metadata(metadata)
