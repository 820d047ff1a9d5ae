"""A ledger in a file: only whole, only growing, never begun twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.errors import RequestError
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

pytestmark = pytest.mark.filterwarnings("ignore::pipelines.errors.Caution")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger with forty committed releases, several pages long."""
    path = str(tmp_path / "ledger.sqlite")
    ledger = begun(path)
    with ledger.spend(request("0", str(tmp_path / "out"), 0.001)) as reservation:
        reservation.commit()
    entry = ledger.entries()[0]
    for k in range(40):
        assert ledger.write(entry.model_copy(update={"id": f"{k:016x}"}), ledger.read())
    return path


@pytest.mark.verify
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.02, 0.3, 0.5, 0.77, 0.99])
def test_a_truncated_ledger_is_refused_and_left_alone(path: str, share: float) -> None:
    content = Path(path).read_bytes()
    cut = content[: int(share * len(content))]
    Path(path).write_bytes(cut)
    with pytest.raises(RequestError, match=r"--ledger: .*restore it from a copy \("):
        CollectionLedger.open(path)
    assert Path(path).read_bytes() == cut


def test_a_missing_ledger_is_begun_only_where_one_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a #1?%41.sqlite"
    with pytest.raises(RequestError, match=r"there is no .*: `hushbeam ledger init PLAN` begins"):
        CollectionLedger.open(str(path))
    assert not path.exists()
    assert begun(path).entries() == ()
    assert sorted(os.listdir(tmp_path)) == [path.name, f"{path.name}.witness"]
    with pytest.raises(RequestError, match="cannot be begun"):
        begun(tmp_path / "no" / "folder" / "ledger.sqlite", witness=tmp_path / "other")


def test_a_failing_disk_leaves_no_half_ledger(tmp_path: Path, monkeypatch) -> None:
    def broken(_: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.journal.sqlite_keeping.flush", broken)
    with pytest.raises(RequestError, match=r"cannot be begun: No space left"):
        begun(tmp_path / "ledger.sqlite")
    assert os.listdir(tmp_path) == []
