"""The files of a release's tables: laid out by what stands in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.releases.statement import parquet

ROWS = 50_000


def test_columns_that_repeat_alone_have_dictionaries() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 40, ROWS)
    table = pa.table(
        {
            "label": [f"value-{number}" for number in range(ROWS)],
            "kind": pa.array(["count"] * ROWS).dictionary_encode(),
            "whole": counts.astype(np.float64),
            "share": rng.random(ROWS),
            "several": pa.array([[1, 2]] * ROWS),
        }
    )
    file = pq.ParquetFile(pa.BufferReader(parquet(table)))
    group = file.metadata.row_group(0)
    columns = (group.column(place) for place in range(group.num_columns))
    encoded = {one.path_in_schema for one in columns if one.has_dictionary_page}
    assert encoded == {"kind", "whole"}
    written = file.read()
    assert written.column_names == table.column_names
    for name in table.column_names:
        assert written[name].to_pylist() == table[name].to_pylist()
    assert not written.schema.field("kind").type.equals(table.schema.field("kind").type)
