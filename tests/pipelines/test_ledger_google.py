"""A ledger in Cloud Storage, by Google's own library, against a bucket with bad days."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.errors import FailedError, RequestError
from pipelines.journal import journal as journals
from pipelines.ledger.beginning import adopt
from pipelines.ledger.entries import Budget
from pipelines.ledger.evidence import standing
from pipelines.ledger.ledger import CollectionLedger
from pipelines.releases import release
from pipelines.storage.google_object import GoogleObject
from pipelines.storage.objects import Changed, Unavailable
from tests.fakes import ledger_rivals
from tests.fakes.bucket_server import Bucket, serving
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

pytestmark = pytest.mark.filterwarnings("ignore::pipelines.errors.Caution")

PATH = "gs://bucket/folder/a ledger.json"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket that hangs for half a second, if it does."""
    with serving(backoff=0.5) as (bucket, address):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        yield bucket


@pytest.fixture
def ledger(bucket: Bucket, tmp_path: Path) -> CollectionLedger:
    """In the bucket, begun while it is well."""
    return begun(PATH, witness=tmp_path / "witness.json")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to the bucket may take a fifth of a second, and is repeated else."""
    honest = GoogleObject.__init__
    monkeypatch.setattr(
        GoogleObject, "__init__", lambda self, name, timeout=0.2: honest(self, name, timeout)
    )


def test_a_release_goes_through_its_states(
    bucket: Bucket, ledger: CollectionLedger, tmp_path: Path
) -> None:
    output = str(tmp_path / "out")
    with ledger.spend(request("monday", output)) as reservation:
        release.publish(output, {}, reservation.stamp)
        reservation.commit()
    (entry,) = CollectionLedger.open(PATH).entries()
    assert entry.state == "committed"
    assert list(bucket.objects) == ["folder/a ledger.json"]
    assert bucket.uploads == 4  # begun, a population, reserved, committed
    with CollectionLedger.open(PATH).spend(request("monday", output)) as again:
        assert again.published


def test_a_ledger_goes_on_in_segments_and_is_adopted(
    bucket: Bucket, ledger: CollectionLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    folders = [str(tmp_path / "out" / "*")]
    for day in range(6):
        output = str(tmp_path / "out" / str(day))
        with CollectionLedger.open(PATH, folders).spend(request(str(day), output)) as reservation:
            release.publish(output, {}, reservation.stamp)
            reservation.commit()
    (tmp_path / "witness.json").unlink()
    lost = Budget(epsilon=0.1, delta=0.0)
    adopt(PATH, str(tmp_path / "other.json"), lost, False, [*standing(folders)])
    adopted = CollectionLedger.open(PATH, folders)
    assert [entry.window for entry in adopted.entries()] == [*"012345", "lost"]
    assert adopted.read().seen.changes == 16  # 14, its new beginning, and what was lost
    own, *earlier = sorted(bucket.objects, key=len)
    assert own == "folder/a ledger.json"
    ends = sorted(int(name.split("-")[1]) for name in earlier if name.endswith(".json"))
    assert ends[0] <= 5
    assert ends[-1] == 14


def test_a_swap_of_an_older_generation_changes_nothing(bucket: Bucket) -> None:
    target = GoogleObject(PATH)
    assert target.fetch() == (b"", 0)
    target.swap(b"one", 0)
    content, generation = target.fetch()
    assert content == b"one"
    target.swap(b"two", generation)
    for stale in (0, generation):
        with pytest.raises(Changed):
            target.swap(b"three", stale)
    assert target.fetch()[0] == b"two"


@pytest.mark.parametrize("fault", [408, 429, 500, 503, "hang", "lost", "lost 503"])
@pytest.mark.usefixtures("impatient")
def test_bad_days_of_writes_end_well(
    bucket: Bucket, ledger: CollectionLedger, tmp_path: Path, fault: int | str
) -> None:
    output = str(tmp_path / "out")
    bucket.faults.extend([fault, fault])
    with ledger.spend(request("monday", output)) as reservation:
        bucket.faults.clear()
        bucket.faults.append(fault)
        reservation.commit()
    (entry,) = ledger.entries()
    assert entry.state == "committed"
    assert len(entry.operations) == 2


@pytest.mark.parametrize("fault", [429, 503, "hang"])
@pytest.mark.usefixtures("impatient")
def test_bad_days_of_reads_end_well(
    bucket: Bucket, ledger: CollectionLedger, fault: int | str
) -> None:
    bucket.reading.extend([fault, fault])
    assert ledger.entries() == ()


@pytest.mark.parametrize("fault", [503, "hang"])
@pytest.mark.usefixtures("impatient")
@pytest.mark.usefixtures("ledger")
def test_a_silent_bucket_is_given_up_in_time(bucket: Bucket, fault: int | str) -> None:
    ledger = CollectionLedger.at(PATH, timeout=1.0)  # nothing is asked of the bucket yet
    bucket.reading.extend([fault] * 1000)
    with pytest.raises(FailedError, match="did not answer within 1 s; try again later"):
        ledger.entries()
    assert len(bucket.reading) > 900  # a few tries, and not one for each fault


@pytest.mark.parametrize(
    ("status", "said"),
    [(400, r"was refused \(400\)"), (401, "no credentials"), (403, r"was refused \(403\)")],
)
def test_a_refusal_is_told_at_once(
    bucket: Bucket, ledger: CollectionLedger, status: int, said: str
) -> None:
    bucket.reading.append(status)
    with pytest.raises(RequestError, match=said):
        ledger.entries()


def test_no_bucket_and_no_server_are_told_apart(bucket: Bucket, monkeypatch) -> None:
    with pytest.raises(RequestError, match="there is no bucket other"):
        CollectionLedger.open("gs://other/ledger.json")
    with pytest.raises(RequestError, match="there is no gs://bucket/new"):
        CollectionLedger.open("gs://bucket/new")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    with pytest.raises(Unavailable):
        GoogleObject(PATH).fetch()


@pytest.mark.parametrize("path", ["gs://bucket", "gs://bucket/", "gs:///x", "gs://bucket/folder/"])
def test_an_address_names_an_object(path: str) -> None:
    with pytest.raises(RequestError, match="names no object; write gs://BUCKET"):
        CollectionLedger.open(path)


@pytest.mark.verify
def test_of_sixteen_processes_that_want_the_last_share_one_gets_it(
    tmp_path: Path, monkeypatch
) -> None:
    with serving() as (bucket, address), ledger_rivals.rivals(address) as pool:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        for number in range(3):
            bucket.faults.extend([429, 503, "lost 503"] * 3)
            path, folder = f"gs://bucket/{number}.json", str(tmp_path / str(number))
            assert ledger_rivals.one_round(pool, path, folder) == (1, 1.0)
