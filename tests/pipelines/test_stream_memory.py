"""Where a stream remembers: a folder that others should not read."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.errors import Caution, RequestError
from pipelines.stream import intake
from pipelines.stream.clocks import ClockEvidence, ClockReading
from pipelines.stream.memory import StreamMemory
from pipelines.stream.state import State


def test_a_folder_that_others_can_enter_is_told_of(tmp_path: Path) -> None:
    """Digests of users lie in it, beside their key."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.warns(Caution, match="chmod 700"):
        StreamMemory(str(tmp_path / "open"), "f00d").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StreamMemory(str(tmp_path / "new"), "f00d").close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


USERS, TALLY, LATE = 987_654_321, 876_543_219, 765_432_198
READ = ClockReading(1_000, "here", 5)


def take_in(state: State, start: int, times: int = 1) -> None:
    """A batch of one window, of which nothing is to outlive it."""
    folder = Path(state.begin_batch())
    for name, content in (("m", b"message" * 8), ("d", b"\1digest\2")):
        (folder / name).write_bytes(content)
    notes = [
        intake.Note(intake.MESSAGES, start, "value", "m", 7),
        intake.Note(intake.USERS, start, "value", "", USERS * times),
        intake.Note(intake.TALLY, start, "value", "left out", TALLY),
        intake.Note(intake.DIGESTS, start, "00000", "d", 1),
    ]
    (folder / intake.MANIFEST).write_text(json.dumps(notes))
    state.commit(str(folder), {f"{start}": 9}, {"late": LATE}, ClockEvidence(start), READ)


def everything(folder: Path) -> bytes:
    """All that is on the disk."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_numbers_of_a_window_and_its_users_are_gone_with_it(tmp_path: Path) -> None:
    """Nor do they stand in the journal, which forgets nothing, nor in a free page of a database."""
    with closing(State(str(tmp_path), "f00d")) as state:
        take_in(state, 60)
        backlog = state.backlog(60)["value"]
        assert (backlog.messages, backlog.users, backlog.tallies) == (7, USERS, {"left out": TALLY})
        assert state.counters() == {"late": LATE}
        secret = (tmp_path / "key").read_bytes()
        journal = (tmp_path / "stream.sqlite").read_bytes()
        for number in (USERS, TALLY, LATE):
            assert str(number).encode() in everything(tmp_path)
            assert str(number).encode() not in journal
        assert len(secret) == 32
        assert not any(secret[k : k + 8] in journal for k in range(25))
        assert secret.hex().encode() not in journal
        take_in(state, 120)
        state.settle(60, "released")
        state.settle(120, "withheld")
        left = everything(tmp_path)
        for gone in (b"message", b"digest\2", *(str(n).encode() for n in (USERS, TALLY, LATE))):
            assert gone not in left
        assert not [*tmp_path.glob("batch*")]
        assert state.counters() == {"late": 2 * LATE}
    with closing(State(str(tmp_path), "f00d")) as state:
        assert state.counters() == {"late": 2 * LATE}
        assert state.open() == {}


def test_what_a_journal_names_and_is_gone_or_another_is_refused(tmp_path: Path) -> None:
    with closing(State(str(tmp_path), "f00d")) as state:
        take_in(state, 60)
        (path,) = tmp_path.glob("batch-1/notes*")
        whole = path.read_bytes()
        path.write_bytes(whole.replace(str(USERS).encode(), b"7"))
        with pytest.raises(RequestError, match="notes60 is gone, or not as it was written"):
            state.backlog(60)
        path.unlink()
        with pytest.raises(RequestError, match="is gone"):
            state.backlog(60)
        path.write_bytes(whole)
        assert state.backlog(60)["value"].users == USERS


def test_a_stream_without_its_key_does_not_go_on(tmp_path: Path) -> None:
    """Users would be other digests, and come once more."""
    State(str(tmp_path), "f00d").close()
    (tmp_path / "key").write_bytes(bytes(32))
    with pytest.raises(RequestError, match="not as it was written"):
        State(str(tmp_path), "f00d")
    (tmp_path / "key").unlink()
    with pytest.raises(RequestError, match="not as it was written"):
        State.looked_at(str(tmp_path))


def test_a_look_that_sees_what_was_seen_adds_nothing(tmp_path: Path) -> None:
    with closing(State(str(tmp_path), "f00d")) as state:
        state.note_file("a", 1, 2, "out of reach")
        before = (tmp_path / "stream.sqlite").read_bytes()
        state.note_file("a", 1, 2, "out of reach")
        state.open_windows([])
        state.forget(["b"])
        assert (tmp_path / "stream.sqlite").read_bytes() == before
        assert state.files("out of reach") == {"a": 2}
