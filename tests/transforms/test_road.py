"""The road as a whole: the same messages give the same counts, however and wherever they travel."""

from __future__ import annotations

import base64
import os

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from mechanisms import catalog
from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import encoded
from tests.oracles.transforms import run
from transforms.collector.collect import CollectFrequencies
from transforms.elements.progress import REPORTS
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder
from transforms.rows.encode import CellBlock
from transforms.rows.perturb import Perturb
from transforms.rows.telemetry import ReadTelemetry
from transforms.shuffle.shuffle import Shuffle
from transforms.units.contributions import EncodeContributions

N, D = 5000, 40
MECHANISM = catalog.build("olh", epsilon=2.0, domain_size=D)


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """Messages perturbed once and written, two of them impossible."""
    folder = tmp_path_factory.mktemp("messages")
    cells = np.arange(N, dtype=np.uint32) % D
    perturbed = MECHANISM.perturb(cells, SeededRandom(42))
    perturbed[[17, 170]] = MECHANISM.codes, 2**64 - 1
    table = pa.table({"message": perturbed})
    pq.write_table(table, folder / "perturbed.parquet", row_group_size=700)
    return folder


@pytest.fixture(scope="module")
def expected(messages):
    """Counted at once, without Beam."""
    words = pa.concat_tables(map(pq.read_table, messages.iterdir()))["message"].to_numpy()
    assert len(words) == N
    valid = words[words < MECHANISM.codes]
    return (N - 2, 2, MECHANISM.estimate(MECHANISM.count(valid)).tobytes())


def words_of(table: pa.Table) -> np.ndarray:
    return table.column("message").to_numpy()


def collected(pattern, *steps):
    def build(pipeline):
        tables = pipeline | ReadTelemetry((str(pattern),), ("message",))
        blocks = tables | "Messages" >> beam.Map(words_of).with_output_types(np.ndarray)
        for step in steps:
            blocks |= step
        return blocks | CollectFrequencies(MECHANISM, "none")

    return build


def summary(outcome):
    (frequencies,) = outcome.elements
    return frequencies.n, frequencies.invalid, frequencies.unbiased.tobytes()


@pytest.mark.verify
@pytest.mark.parametrize(("files", "group"), [(1, N), (1, 13), (3, 500), (20, 50)])
def test_files_and_row_groups_do_not_matter(messages, expected, tmp_path, files, group):
    table = pa.concat_tables(map(pq.read_table, messages.iterdir()))
    for file in range(files):
        part = table.take(np.arange(file, N, files))
        pq.write_table(part, tmp_path / f"{file}.parquet", row_group_size=group)
    assert summary(run(collected(tmp_path / "*"))) == expected
    assert summary(run(collected(tmp_path / "*", Shuffle(1, MECHANISM.codes)))) == expected


@pytest.mark.parametrize(
    ("runner", "flags"),
    [
        ("FnApiRunner", []),
        ("BundleBasedDirectRunner", []),
    ],
)
def test_runners_and_bundles_do_not_matter(messages, expected, runner, flags):
    build = collected(messages / "*", Shuffle(1, MECHANISM.codes, buckets=7))
    assert summary(run(build, *flags, runner=runner)) == expected


@pytest.mark.verify
def test_processes_do_not_matter_and_share_no_noise(messages, expected, tmp_path):
    """Two worker processes; what they find comes back through files."""
    blocks = [CellBlock(np.zeros(1000, np.uint32), None)] * 40
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    with beam.Pipeline("FnApiRunner", options) as pipeline:
        (
            collected(messages / "*", Shuffle(1, MECHANISM.codes, buckets=7))(pipeline)
            | beam.Map(lambda f: (f.n, f.invalid, base64.b64encode(f.unbiased.tobytes()).decode()))
            | beam.Map(lambda line: f"{os.getpid()} {line[0]} {line[1]} {line[2]}")
            | "Write counts" >> beam.io.WriteToText(str(tmp_path / "counts"))
        )
        (
            pipeline
            | beam.Create(blocks).with_output_types(CellBlock)
            | beam.Reshuffle()
            | Perturb(MECHANISM)
            | beam.Map(lambda noise: f"{os.getpid()} {base64.b64encode(noise.tobytes()).decode()}")
            | "Write noise" >> beam.io.WriteToText(str(tmp_path / "noise"))
        )
    ((worker, n, invalid, unbiased),) = words(tmp_path, "counts*")
    assert int(worker) != os.getpid()
    assert (int(n), int(invalid), base64.b64decode(unbiased)) == expected
    assert len({noise for _, noise in words(tmp_path, "noise*")}) == 40


def words(folder, pattern):
    """The words of every line."""
    return [line.split() for path in folder.glob(pattern) for line in path.read_text().splitlines()]


def test_rows_become_estimates(tmp_path):
    """From a log with every kind of reject to a histogram, one value a user, at almost no noise."""
    mechanism = catalog.build("grr", epsilon=40.0, domain_size=3)
    values = ["a", "b", "c", None, "z"] * 400
    users = [None if i % 100 == 7 else f"user {i % 500}" for i in range(2000)]
    table = pa.table({"value": values, "user": users})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=300)
    domain = DeclaredValues(("a", "b", "c"))
    rows, _ = encoded(domain, values, users)

    def build(pipeline):
        read = ReadTelemetry((str(tmp_path / "log.parquet"),), ("value", "user"))
        encode = EncodeContributions(ValueEncoder("value", domain), UserDigest("user", 5))
        cells = (pipeline | read | encode).blocks
        messages = cells | Perturb(mechanism) | Shuffle(10, mechanism.codes)
        return messages | CollectFrequencies(mechanism)

    outcome = run(build)
    (frequencies,) = outcome.elements
    # A user's rows all hold one value here, so that the choice does not matter.
    truth = np.bincount([place for place, _ in set(rows)], minlength=3)
    assert frequencies.n == truth.sum() == len({user for _, user in rows})
    np.testing.assert_allclose(frequencies.estimate, truth / truth.sum(), atol=1e-9)
    assert outcome.counters == {REPORTS: frequencies.n}  # of users no rows are counted
