"""The example endpoint: what it keeps, what it refuses, and that neither loses a report."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from mechanisms.catalog import build
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import Expected
from mechanisms.wire.sealing import seal, seal_slots
from tests.oracles.wire import GOLDEN_KEY, PLAN

ROOT = Path(__file__).parents[1]
MECHANISM = build("grr", epsilon=1.0, domain_size=9)
EXPECTED = Expected(PLAN, (MECHANISM,), Form(sealed=True))
SLOTTED = Expected(PLAN, (), Form(sealed=True, slots=2), (2,))
RNG = SeededRandom(4)
LEAST = 5


def _module() -> Any:
    spec = importlib.util.spec_from_file_location(
        "endpoint", ROOT / "examples" / "client" / "endpoint.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENDPOINT = _module()


def body(message: int = 3, plan: bytes = PLAN, metric: int = 0) -> bytes:
    """A device's sealed report."""
    return binary.encode(
        seal(Reports.submitted(plan, metric, [message], RNG), GOLDEN_KEY.public_key())
    )


def slotted() -> bytes:
    ids = RNG.words(2).reshape(1, 2)
    words = np.array([[1, 2]], np.uint64)
    return binary.encode(seal_slots(PLAN, 0, [0, 1], words, ids, GOLDEN_KEY.public_key()))


SERVING: list[Any] = []


def landing(folder: Path, least: int = LEAST, expected: Expected = EXPECTED) -> Any:
    """What a process begins with; the one before has ended, in whatever way."""
    for one in SERVING:
        one.close()
    SERVING[:] = [ENDPOINT.Landing(folder / "landing", expected, least)]
    return SERVING[0]


def waiting(folder: Path, expected: Expected = EXPECTED) -> Path:
    return folder / "landing" / f"{expected.fingerprint.hex()}.waiting"


def posted(where: Any, bodies: list[bytes], largest: int = ENDPOINT.LARGEST) -> list[int]:
    """The answers to some posts."""

    async def all_of_them() -> list[int]:
        async with TestClient(TestServer(ENDPOINT.application(where, largest))) as client:
            return [(await client.post("/reports", data=each)).status for each in bodies]

    return asyncio.run(all_of_them())


def landed(folder: Path, expected: Expected = EXPECTED) -> list[list[bytes]]:
    """The records of each landed file, each of which is whole."""
    files = []
    for path in (folder / "landing").glob("*.reports"):
        screened = binary.decode(path.read_bytes(), expected)
        assert not screened.dropped
        files.append([record.tobytes() for record in screened.reports.records])
    return files


def records(bodies: list[bytes]) -> list[bytes]:
    return [each[binary.HEADER :] for each in bodies]


def test_reports_land_in_files_of_a_least_size_in_another_order(tmp_path: Path) -> None:
    sent = [body(k % 9) for k in range(60)]
    assert posted(landing(tmp_path, 30), sent) == [204] * 60
    files = landed(tmp_path)
    assert sorted(map(len, files)) == [30, 30]
    assert sorted(chain(*files)) == sorted(records(sent))
    # That one file keeps the order of 30 has a probability of 4e-33.
    assert [*records(sent)[:30]] not in files
    assert [*records(sent)[30:]] not in files
    assert not waiting(tmp_path).exists()


def test_every_order_is_as_likely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three reports, 3,000 times: each place has 1,000 of each, within 6.5 deviations of 26."""
    where, sent = landing(tmp_path), [body(k) for k in range(3)]
    monkeypatch.setattr(where, "_write", lambda path, records: None)
    places = np.zeros((3, 3), int)
    for _ in range(3000):
        where.waiting, where.known = [], set()
        for each in sent:
            where.add(each)
        order = [records(sent).index(record) for record in where.waiting]
        places[order, range(3)] += 1
    assert (np.abs(places - 1000) < 6.5 * np.sqrt(3000 * 2 / 9)).all()


MALFORMED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no file": lambda: b"anything",
    "a header alone": lambda: body()[: binary.HEADER],
    "cut short": lambda: body()[:-1],
    "more behind it": lambda: body() + b"\x01",
    "another plan": lambda: body(plan=bytes(16)),
    "another metric": lambda: body(metric=7),
    "not sealed": lambda: binary.encode(Reports.submitted(PLAN, 0, [3], RNG)),
    "shuffled": lambda: binary.encode(
        seal(Reports.shuffled(PLAN, 0, [3]), GOLDEN_KEY.public_key())
    ),
    "slots": slotted,
    "another version": lambda: body()[:8] + b"\x01\x00" + body()[10:],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_report_is_refused_and_others_are_not_lost(tmp_path: Path, what: str) -> None:
    where, sent = landing(tmp_path), [body() for _ in range(LEAST)]
    bad = MALFORMED[what]()
    statuses = posted(where, [part for each in sent for part in (each, bad)])
    assert statuses == [204, 400] * LEAST
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent))


def test_a_good_report_beside_a_bad_one_is_not_kept_by_half(tmp_path: Path) -> None:
    where = landing(tmp_path)
    good, bad = body(), body(metric=7)[binary.HEADER :]
    assert posted(where, [good + bad]) == [400]
    assert not where.waiting
    assert posted(where, [good]) == [204]
    assert where.waiting == records([good])


def test_replays_count_once_whenever_they_come(tmp_path: Path) -> None:
    sent = [body(k % 9) for k in range(LEAST)]
    where = landing(tmp_path)
    assert posted(where, [*sent[:2], *sent[:2], sent[0] + records(sent)[0]]) == [204] * 5
    again = landing(tmp_path)  # as after a restart
    assert sorted(again.waiting) == sorted(records(sent[:2]))
    assert posted(again, [*sent, *sent]) == [204] * 2 * LEAST
    after = landing(tmp_path)
    assert posted(after, sent) == [204] * LEAST
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent))
    assert after.waiting == []


def test_a_crash_between_landing_and_forgetting_lands_nothing_twice(tmp_path: Path) -> None:
    where, sent = landing(tmp_path), [body() for _ in range(LEAST)]
    posted(where, sent[:-1])
    left = waiting(tmp_path).read_bytes()
    posted(where, sent[-1:])
    waiting(tmp_path).write_bytes(left)
    again = landing(tmp_path)
    assert again.waiting == []
    posted(again, [body() for _ in range(LEAST)])
    everything = [*chain(*landed(tmp_path))]
    assert len({*everything}) == len(everything) == 2 * LEAST


def test_another_window_over_the_same_folder_loses_nothing(tmp_path: Path) -> None:
    """Of 2 x 60 answered reports, too few for a file, none is overwritten by the next window's."""
    tomorrow = Expected(bytes(range(1, 17)), (MECHANISM,), EXPECTED.form)
    sent = [body(k % 9) for k in range(60)]
    later = [body(k % 9, plan=tomorrow.fingerprint) for k in range(60)]
    assert posted(landing(tmp_path, 100), sent) == [204] * 60
    assert posted(landing(tmp_path, 100, tomorrow), later) == [204] * 60
    again = landing(tmp_path, 100)
    assert sorted(again.waiting) == sorted(records(sent))
    assert sorted(landing(tmp_path, 100, tomorrow).waiting) == sorted(records(later))


def test_one_process_serves_a_folder(tmp_path: Path) -> None:
    """A second one would overwrite what the first has answered for: 60 reports of 120."""
    where, sent = landing(tmp_path, 100), [body() for _ in range(3)]
    posted(where, sent)
    with pytest.raises(ENDPOINT.TakenError, match="another endpoint serves"):
        ENDPOINT.Landing(tmp_path / "landing", EXPECTED, 100)
    where.close()
    child = os.fork()
    if child == 0:  # another process finds all of it
        left = ENDPOINT.Landing(tmp_path / "landing", EXPECTED, 100).waiting
        os._exit(0 if sorted(left) == sorted(records(sent)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_could_not_be_written_is_not_answered_for(tmp_path: Path, monkeypatch) -> None:
    where, one = landing(tmp_path), body()

    def full(path: Path, records: list[bytes]) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(where, "_write", full)
        assert posted(where, [one]) == [500]
    assert (where.waiting, posted(where, [one])) == ([], [204])
    assert landing(tmp_path).waiting == records([one])


def test_large_bodies_are_refused(tmp_path: Path) -> None:
    where, one = landing(tmp_path), body()
    many = one + b"".join(records([body() for _ in range(20)]))
    assert posted(where, [many, one], largest=1000) == [413, 204]
    assert where.waiting == records([one])


def test_counters_of_any_width_land_together(tmp_path: Path) -> None:
    where, sent = landing(tmp_path, 2, SLOTTED), [slotted(), slotted()]
    assert posted(where, [*sent, body()]) == [204, 204, 400]
    assert sorted(chain(*landed(tmp_path, SLOTTED))) == sorted(records(sent))


def test_nothing_of_the_sender_or_the_time_is_kept(tmp_path: Path, caplog, capfd) -> None:
    caplog.set_level(0)
    posted(landing(tmp_path), [body() for _ in range(LEAST + 1)] + [b"canary 7171"])
    files = [path for path in (tmp_path / "landing").iterdir() if path.name != ".lock"]
    assert len(files) == 2
    for path in files:
        assert (path.stat().st_mtime, path.stat().st_atime) == (0, 0)
        form = EXPECTED.form.dtype.itemsize
        assert (path.stat().st_size - binary.HEADER) % form == 0
        assert path == waiting(tmp_path) or len(path.stem) == 32
    told = "".join(capfd.readouterr()) + "".join(os.listdir(tmp_path / "landing"))
    assert "127.0.0.1" not in told
    assert "canary" not in told + caplog.text
