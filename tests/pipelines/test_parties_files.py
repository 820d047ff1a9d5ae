"""What parties read from each other's files: any bytes whatever, and never a word of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary, screening
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import create_key, key_id, public_key, seal
from pipelines.errors import RequestError
from pipelines.parties import summary
from pipelines.parties.report_files import ReadAll, ReadAllDoFn, find, require_new
from tests.oracles.transforms import run
from tests.oracles.wire import EXAMPLES, MECHANISMS, PLAN, expected, fields
from transforms.elements.progress import REPORTS
from transforms.reports import report_tables

FORM = Form()
SAID = {
    "shuffle_id": "a", "created": "b", "collection": "c", "version": 1, "fingerprint": "d",
    "window": "all", "sealed": False, "reports": 1, "dropped": {}, "metrics": {},
}  # fmt: skip


def made(size: int = 40) -> Reports:
    """Reports of the tests' plan."""
    messages = MECHANISMS[1].perturb(np.arange(size), SeededRandom(1))
    return Reports.submitted(PLAN, 1, messages, SeededRandom(2))


def read(file: Path, keys: tuple[bytes, ...] = (), form: Form = FORM):
    """The blocks of a file, and what was dropped."""
    told = list(ReadAllDoFn(expected(form), keys).process(str(file)))
    blocks = [each for each in told if isinstance(each, Reports)]
    return blocks, dict(e.value for e in told if isinstance(e, beam.pvalue.TaggedOutput))


@settings(max_examples=EXAMPLES, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(st.binary(max_size=60), st.integers(0, 1200), st.integers(0, 1200), st.booleans())
def test_fuzz_no_bytes_stop_a_reader(tmp_path, noise, at, cut, whole) -> None:
    """Foreign bytes put anywhere into a file that is then cut anywhere, or foreign bytes alone."""
    honest = binary.encode(made())
    data = (honest[:at] + noise + honest[at + len(noise) :])[: len(honest) - cut * (not whole)]
    for content in (data, noise):
        (tmp_path / "file").write_bytes(content)
        blocks, dropped = read(tmp_path / "file")
        assert set(dropped) <= set(screening.REASONS)
        assert all(size > 0 for size in dropped.values())
        for block in blocks:
            assert block.fingerprint == PLAN
            assert (block.records["metric"] < 2).all()
            for metric, mechanism in enumerate(MECHANISMS):
                assert mechanism.valid(block.of_metric(metric).records["message"]).all()


_NONE = r"is no summary of a shuffle$|this hushbeam keeps|is cut off, or is no JSON"


@settings(max_examples=EXAMPLES, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    st.one_of(
        st.binary(max_size=40),
        st.dictionaries(
            st.sampled_from([*SAID, "summary_version"]),
            st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers(), max_size=2)),
        ).map(lambda wrong: json.dumps({"summary_version": 1} | SAID | wrong).encode()),
    )
)
def test_fuzz_a_summary_is_one_or_is_refused(tmp_path, content) -> None:
    (tmp_path / summary.SUMMARY).write_bytes(content)
    try:
        said = summary.Summary.model_validate_json(content)
    except ValueError:
        with pytest.raises(RequestError, match=_NONE):
            summary.read(str(tmp_path))
    else:
        assert summary.read(str(tmp_path)) == said


def test_a_summary_comes_back_as_it_was_written(tmp_path) -> None:
    said = summary.Summary(**SAID)
    summary.write(str(tmp_path), said)
    assert summary.read(str(tmp_path)) == said
    assert summary.read(str(tmp_path / "nothing*")) is None


def test_a_folder_of_everything_gives_its_reports_and_counts_the_rest(tmp_path) -> None:
    pq.write_table(report_tables.to_table(made(1000)), tmp_path / "a.parquet")
    files = {
        "b.reports": binary.encode(replace(made(1000), fingerprint=bytes(16))),
        "c.parquet": b"PAR1 half",
        "d.reports.gz": binary.encode(made(10))[:-1],  # not compressed, whatever it is called
        "e.txt": b"secret 12345",
        "f": b"",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = find([str(tmp_path / "*")]).files
    outcome = run(lambda p: (p | ReadAll(found, expected(FORM))).reports)
    got = [row for block in outcome.elements for row in fields(block)]
    packed = made(1000)
    packed.records["report_id"][:, 1] = 0  # of ids a Parquet file has 8 bytes
    assert sorted(got) == sorted([*fields(packed), *fields(made(10))[:9]])
    assert outcome.counters == {
        REPORTS: 1009,
        screening.OTHER_PLAN: 1000,
        screening.NOT_REPORTS: 3,
        screening.TRUNCATED: 1,
    }


def test_reports_to_other_keys_are_dropped(tmp_path) -> None:
    """Ids apart by one, and above 2^53, are told apart."""
    sealed = Form(sealed=True)
    keys = [public_key((tmp_path / f"{create_key(tmp_path).hex()}.public.pem").read_bytes())
            for _ in range(2)]  # fmt: skip
    mine, near = seal(made(30), keys[0]), seal(made(4), keys[1])
    near.records["key_id"] = mine.records["key_id"][:4] ^ np.uint64(1)
    (tmp_path / "file").write_bytes(binary.encode(mine) + near.records.tobytes())
    blocks, dropped = read(tmp_path / "file", (key_id(keys[0]),), sealed)
    assert sum(map(len, blocks)) == 30
    assert dropped == {screening.UNKNOWN_KEY: 4}


def test_a_file_is_found_once_by_whatever_names(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.bin").write_bytes(b"12345")
    Path("two.bin").write_bytes(b"123")
    Path("link.bin").symlink_to("one.bin")
    found = find([str(tmp_path / "*.bin"), "one.bin", str(tmp_path / "two.bin")])
    assert (len(found.files), sorted(found.sizes)) == (2, [3, 5])
    with pytest.raises(RequestError, match="no file matches"):
        find(["three*"])
    with pytest.raises(RequestError, match="is there already"):
        require_new("one.bin")
    require_new("new.bin")
