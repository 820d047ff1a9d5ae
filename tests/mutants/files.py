"""Bugs of readers: files of strangers read as what they are not."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STRANGE = ("tests/transforms/files/test_strange_files.py",)

MUTANTS = (
    Mutant(
        "rows-of-texts-go-missing",
        "What readers said of a text's rows is not held against what came.",
        "pipelines/logs/inputs.py",
        "return (files, read) == (self.counts.files, came)",
        "return True",
        ("tests/pipelines/test_long_texts.py",),
    ),
    Mutant(
        "rows-without-columns-are-forgotten",
        "Small files that are put together lose their rows where no column is read.",
        "transforms/rows/telemetry.py",
        "        if not table.num_columns:  # put together",
        "        if False:  # put together",
        ("tests/transforms/test_telemetry.py",),
    ),
    Mutant(
        "int96-by-nanoseconds",
        "Spark's times beyond 2262 come round to another century.",
        "transforms/files/parquet.py",
        'stream, coerce_int96_timestamp_unit="us", pre_buffer=',
        "stream, pre_buffer=",
        _STRANGE,
    ),
    Mutant(
        "int96-beyond-microseconds",
        "A time that came round is taken for the one that was written.",
        "transforms/files/parquet.py",
        "lost = pa.array(here // 1000 != there)",
        "lost = pa.array(here != here)",
        _STRANGE,
    ),
    Mutant(
        "nanoseconds-towards-1970",
        "A nanosecond before midnight is the next day, before 1970.",
        "transforms/files/kinds.py",
        ".to_numpy()) // 1000",
        ".to_numpy() / 1000).astype(np.int64)",
        _STRANGE,
    ),
    Mutant(
        "bytes-that-avro-does-not-bound",
        "Arrays of what takes no bytes are read: a few bytes may say two billion items.",
        "transforms/files/avro_kinds.py",
        "if not inner.least:",
        "if False and not inner.least:",
        _STRANGE,
    ),
    Mutant(
        "globs-before-names",
        "A file whose name has brackets is taken for a pattern, and another one is read.",
        "transforms/files/systems.py",
        "while folder and not os.path.exists(folder):",
        "while folder and (set(folder) & _GLOB or not os.path.exists(folder)):",
        ("tests/pipelines/test_inputs.py",),
    ),
    Mutant(
        "a-name-that-matches-nothing",
        "A mistyped glob is paid for as a log without rows.",
        "pipelines/plan/job.py",
        "plan.reading, hidden and _due(plan, window))",
        "plan.reading, hidden)",
        ("tests/end_to_end/test_counting_release.py",),
        known_by="matches_nothing",
    ),
)
