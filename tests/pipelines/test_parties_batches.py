"""Each batch of shuffled reports counts once, whatever its files are called."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from pipelines.errors import Caution, RequestError
from pipelines.parties import batches, samples
from pipelines.parties.batches import BatchSink, distinct, mark_in, require_disjoint
from pipelines.parties.samples import SIZE, SampleIds, hashed, key_name, least, shared
from pipelines.parties.summary import Summary
from tests.oracles.wire import PLAN

SAID = {
    "created": "b", "collection": "c", "version": 1, "fingerprint": "d", "window": "all",
    "sealed": False, "reports": 1, "dropped": {}, "metrics": {},
}  # fmt: skip


def sink(path: Path, batch: str, size: int = 5) -> str:
    """A file as a shuffle writes it."""
    with path.open("wb") as file:
        written = BatchSink(batch, Form(shuffled=True))
        written.open(file)
        for start in range(0, size, 3):
            written.write(Reports.shuffled(PLAN, 0, np.arange(start, min(size, start + 3))))
        written.flush()
    return str(path)


def reports(size: int, seed: int) -> Reports:
    return Reports.submitted(PLAN, 0, np.zeros(size, np.uint64), SeededRandom(seed))


# ---- files -------------------------------------------------------------------------------------


def test_a_file_names_its_batch_and_its_part(tmp_path: Path) -> None:
    one, other = (sink(tmp_path / name, "ab" * 16) for name in ("one", "other"))
    first, second = mark_in(one), mark_in(other)
    assert (first.batch, first.reports) == ("ab" * 16, 5)
    assert first.part != second.part
    table = pq.ParquetFile(one).read()
    assert table.column_names == ["version", "fingerprint", "metric", "message"]
    assert table["message"].to_pylist() == [*range(5)]
    assert set(table.schema.metadata) == {b"hushbeam.batch", b"hushbeam.part"}


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 9, b"\x89HUSHB\r\n" + bytes(20)])
def test_what_names_no_batch_has_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert mark_in(str(tmp_path / "file")).batch is None
    assert mark_in(str(tmp_path / "nothing")).batch is None
    pq.write_table(pq.ParquetFile(sink(tmp_path / "a", "aa")).read().replace_schema_metadata(None),
                   tmp_path / "bare")  # fmt: skip
    assert mark_in(str(tmp_path / "bare")).batch is None


def test_of_copies_one_is_taken_and_the_others_are_counted(tmp_path: Path) -> None:
    files = [sink(tmp_path / f"{k}", "aa") for k in range(2)]
    files.append(sink(tmp_path / "2", "bb"))
    for k in range(2):
        shutil.copy(files[k], tmp_path / f"copy{k}")
        files.append(str(tmp_path / f"copy{k}"))
    with pytest.warns(Caution, match="copies of other files count once: 2 files with 10 reports"):
        chosen = distinct(files)
    assert chosen.files == tuple(files[:3])
    assert chosen.copies == 10
    assert chosen.batches == {"aa": files[0], "bb": files[2]}


def test_equal_files_that_name_no_batch_are_refused(tmp_path: Path) -> None:
    names = []
    for k, seed in enumerate([1, 2, 1]):
        path = tmp_path / f"{k}.bin"
        path.write_bytes(binary.encode(Reports.shuffled(PLAN, 0, [seed])))
        names.append(str(path))
    with pytest.warns(Caution, match="2 files name no batch, so nobody can tell"):
        assert distinct(names[:2]).files == tuple(names[:2])
    with pytest.raises(RequestError, match=r"2\.bin holds the same bytes as .*0\.bin"):
        distinct(names)
    assert distinct(names[:1]).files == (names[0],)  # one file alone is not doubted


# ---- samples -----------------------------------------------------------------------------------


SECRET = bytes(range(32))


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of the shuffler's secret."""
    path = tmp_path_factory.mktemp("shuffler") / "secret"
    path.write_bytes(SECRET)
    sampler.file = str(path)
    return str(path)


def sampler() -> SampleIds:
    combine = SampleIds(sampler.file)
    combine.setup()
    return combine


def test_a_hash_is_of_what_every_carrier_has_of_an_id_under_the_shufflers_secret() -> None:
    """One shuffler reads a report from a binary file, and another one from a Parquet file."""
    ids = np.array([[1, 2], [2, 1], [3, 2], [1, 0]], np.uint64)
    words = hashed(ids, SECRET)
    assert words[0] == words[3]
    assert len({*words.tolist()}) == 3
    assert hashed(np.empty((0, 2), np.uint64), SECRET).size == 0
    assert set(hashed(ids, bytes(32)).tolist()).isdisjoint(words.tolist())
    assert key_name(SECRET) != key_name(bytes(32))


@pytest.mark.parametrize("forged", [9, 256])
def test_forged_ids_weigh_no_more_than_they_are(forged: int) -> None:
    """Of 2 million ids those that hash least under a secret the forger has made up, in two batches.

    Nine cost the forger nine reports; 256 do not hide that half of a batch was shuffled twice.
    """
    made_up = SeededRandom(7).words(2 << 20).reshape(-1, 2)
    least_of_all = np.argsort(hashed(made_up, bytes(32)))[:forged]
    lies = reports(forged, 1)
    lies.records["report_id"] = made_up[least_of_all]
    mine, theirs, common = reports(10_000, 2), reports(10_000, 3), reports(10_000, 4)
    apart = shared({"a": sample(mine, lies), "b": sample(theirs, lies)})
    # Of 256 words 256 f / (10,000 + f) are forged on average: 0.2, or 6.4; 32 are 10 sigma away.
    assert max(apart.values(), default=0.0) < (samples.MOST_SHARED if forged == 9 else 32 / SIZE)
    twice = shared({"a": sample(mine, common, lies), "b": sample(theirs, common, lies)})
    assert twice["a", "b"] > 80 / SIZE  # half of each: 6 sigma


def test_a_sample_is_the_same_however_the_reports_are_cut() -> None:
    whole = reports(5000, 1)
    combine = sampler()
    once = combine.extract_output(combine.add_input(combine.create_accumulator(), whole))
    parts = []
    for start in range(0, 5000, 777):
        block = Reports(PLAN, whole.form, whole.records[start : start + 777][::-1])
        parts.append(combine.add_input(combine.create_accumulator(), block))
    assert combine.extract_output(combine.merge_accumulators(reversed(parts))) == once
    every = sorted(f"{word:016x}" for word in hashed(whole.records["report_id"], SECRET).tolist())
    assert list(once) == every[:SIZE]
    assert least(np.arange(3000, dtype=np.uint64)).tolist() == [*range(SIZE)]


def sample(*blocks: Reports) -> tuple[str, ...]:
    combine = sampler()
    made = combine.merge_accumulators([
        combine.add_input(combine.create_accumulator(), block) for block in blocks
    ])  # fmt: skip
    return combine.extract_output(made)


@pytest.mark.parametrize("sizes", [(40, 40), (2000, 2000), (20_000, 1000), (50, 20_000)])
def test_batches_of_other_reports_have_nothing_in_common(sizes: tuple[int, int]) -> None:
    one, other = (sample(reports(size, k)) for k, size in enumerate(sizes))
    assert shared({"a": one, "b": other}) == {}


def test_common_reports_are_found_and_their_share_is_about_right() -> None:
    """A quarter of 4,000: of some 256 words 64 on average; 30 or 100 are 5 sigma away."""
    mine, common, theirs = reports(3000, 1), reports(1000, 2), reports(3000, 3)
    found = shared({"a": sample(mine, common), "b": sample(theirs, common), "c": sample(mine)})
    assert 30 / SIZE < found["a", "b"] < 100 / SIZE
    assert found["a", "c"] == 1.0  # all that c has is in a
    assert ("b", "c") not in found
    assert shared({"a": sample(mine), "b": sample(mine)}) == {("a", "b"): 1.0}


def summary(batch: str, *blocks: Reports) -> Summary:
    return Summary(shuffle_id=batch, sample=sample(*blocks), **SAID)


def test_what_was_shuffled_twice_is_refused() -> None:
    day, more, few = reports(3000, 1), reports(3000, 2), reports(20, 3)
    said = {"a": summary("a", day), "b": summary("b", day, more), "c": summary("c", more)}
    files = {batch: f"{batch}/reports" for batch in said}
    require_disjoint({"a": files["a"], "c": files["c"]}, said)
    with pytest.raises(RequestError, match=r"about 100 % of the reports behind a/reports are also"):
        require_disjoint({"a": files["a"], "b": files["b"]}, said)
    # A few clients who have sent twice do not stop a release.
    said = {"a": summary("a", day, few), "b": summary("b", more, few)}
    shares = shared({batch: each.sample for batch, each in said.items()})
    assert all(share < 1 / 32 for share in shares.values())


def test_a_small_overlap_is_said_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"a": summary("a", reports(9, 1)), "b": summary("b", reports(9, 2))}
    monkeypatch.setattr(batches, "shared", lambda _: {("a", "b"): 0.01})
    with pytest.warns(Caution, match="about 1 % of the reports behind x are also behind y, and"):
        require_disjoint({"a": "x", "b": "y"}, said)
    monkeypatch.setattr(batches, "shared", samples.shared)
    with pytest.warns(Caution, match="no summary of its shuffle lies beside y"):
        require_disjoint({"a": "x", "b": "y"}, {"a": said["a"]})


def test_a_summary_keeps_a_sample_and_only_a_sample() -> None:
    buffer = io.StringIO(summary("a", reports(300, 1)).model_dump_json())
    assert len(Summary.model_validate_json(buffer.read()).sample) == SIZE
    for wrong in (["x"], ["0" * 15], ["0" * 16] * (SIZE + 1)):
        with pytest.raises(ValueError, match="sample"):
            Summary(shuffle_id="a", sample=wrong, **SAID)
