"""The endpoint of reports: what it keeps, what it refuses, and that neither loses a report."""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from mechanisms.catalog import build
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.oblivious import PROOF, STRINGS, Blinded, Evaluator, split
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import Expected
from mechanisms.wire.sealing import seal, seal_slots
from mechanisms.wire.tokens import Issuer, TokenRequest
from pipelines.errors import RequestError
from pipelines.serve import service
from pipelines.serve.application import LARGEST, application
from pipelines.serve.service import FOLDER, place
from pipelines.serve.terms import Role, WindowTerms
from pipelines.serve.window import CLOSED, CONFLICT, FULL, KEPT, Post, WindowStore
from tests.fakes.devices import minted
from tests.oracles.wire import GOLDEN_KEY, PLAN

MECHANISM = build("grr", epsilon=1.0, domain_size=9)
EXPECTED = Expected(PLAN, (MECHANISM,), Form(sealed=True))
SLOTTED = Expected(PLAN, (), Form(sealed=True, slots=2), (2,))
RNG = SeededRandom(4)
SEED = bytes(range(32))
ISSUER = Issuer(SEED)


def body(message: int = 3, plan: bytes = PLAN, metric: int = 0) -> bytes:
    """A device's sealed report."""
    return binary.encode(
        seal(Reports.submitted(plan, metric, [message], RNG), GOLDEN_KEY.public_key())
    )


def slotted() -> bytes:
    ids = RNG.words(2).reshape(1, 2)
    words = np.array([[1, 2]], np.uint64)
    return binary.encode(seal_slots(PLAN, 0, [0, 1], words, ids, GOLDEN_KEY.public_key()))


def terms(expected: Expected = EXPECTED, most: int = 1000, issuer: str = "") -> WindowTerms:
    mark, published = expected.fingerprint.hex(), not expected.slots
    return WindowTerms("reports", "monday", mark, 1, expected.slots, published, most, issuer=issuer)


def opened(folder: Path, of: WindowTerms | None = None) -> WindowStore:
    """A window of a landing folder."""
    (folder / FOLDER).mkdir(exist_ok=True)
    of = of or terms()
    return WindowStore.opened(place(folder, of.role, of.fingerprint), of)


@pytest.fixture
def issuer(tmp_path: Path) -> str:
    file = tmp_path / "keys" / "issuer"
    file.parent.mkdir()
    file.write_bytes(SEED)
    return str(file)


def posted(
    folder: Path,
    bodies: Sequence[bytes],
    tokens: Sequence[bytes] = (),
    largest: int = LARGEST,
) -> list[int]:
    """The answers to some posts, of a process that ends then."""
    paid = [{"Hushbeam-Token": base64.urlsafe_b64encode(token).decode()} for token in tokens]
    with TestClient(application(folder, largest), raise_server_exceptions=False) as client:
        return [
            client.post("/reports", content=content, headers=headers).status_code
            for content, headers in zip(bodies, paid or [{}] * len(bodies), strict=True)
        ]


def landed(folder: Path, expected: Expected = EXPECTED) -> list[list[bytes]]:
    """The records of each landed file, each of which is whole."""
    files = []
    for path in sorted(folder.glob("*.reports")):
        screened = binary.decode(path.read_bytes(), expected)
        assert not screened.dropped
        files.append([record.tobytes() for record in screened.reports.records])
    return files


def records(bodies: Sequence[bytes]) -> list[bytes]:
    return [content[binary.HEADER :] for content in bodies]


def test_a_closed_window_has_landed_whole_and_in_no_order_of_arrival(tmp_path: Path) -> None:
    """That 60 digests are in the order of arrival has a probability of 1e-82."""
    window, sent = opened(tmp_path), [body(k % 9) for k in range(60)]
    assert posted(tmp_path, sent) == [KEPT] * 60
    assert landed(tmp_path) == []
    window.close()
    (file,) = landed(tmp_path)
    assert sorted(file) == sorted(records(sent))
    assert file == sorted(records(sent), key=service.digest)
    assert file not in (records(sent), records(sent)[::-1])


def test_a_closed_window_holds_no_report_and_no_token(tmp_path: Path, issuer: str) -> None:
    window, sent = opened(tmp_path, terms(issuer=issuer)), [body(), body()]
    tokens = minted(ISSUER, 2, RNG)
    assert posted(tmp_path, sent, tokens) == [KEPT] * 2
    window.close()
    files = [path.read_bytes() for path in (tmp_path / FOLDER).iterdir()]
    for content in (*records(sent), *map(service.digest, (*tokens, *records(sent)))):
        assert not any(content in file for file in files)


def test_a_window_that_is_closed_lands_alike_when_it_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, sent = opened(tmp_path), [body() for _ in range(7)]
    monkeypatch.setattr("pipelines.serve.window._LANDED", 3)
    posted(tmp_path, sent)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.serve.window.new_file", full)
        with pytest.raises(OSError, match="no space"):
            window.close()
    assert posted(tmp_path, [body()]) == [CLOSED]
    window.close()
    files = landed(tmp_path)
    assert [len(file) for file in files] == [3, 3, 1]
    assert sorted(chain(*files)) == sorted(records(sent))
    window.close()
    assert landed(tmp_path) == files


MALFORMED: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no file": lambda: b"anything",
    "a header alone": lambda: body()[: binary.HEADER],
    "cut short": lambda: body()[:-1],
    "more behind it": lambda: body() + b"\x01",
    "another metric": lambda: body(metric=7),
    "not sealed": lambda: binary.encode(Reports.submitted(PLAN, 0, [3], RNG)),
    "shuffled": lambda: binary.encode(
        seal(Reports.shuffled(PLAN, 0, [3]), GOLDEN_KEY.public_key())
    ),
    "slots": slotted,
    "another version": lambda: body()[:8] + b"\x01\x00" + body()[10:],
}
ELSEWHERE: dict[str, Callable[[], bytes]] = {
    "another plan": lambda: body(plan=bytes(16)),
}


@pytest.mark.parametrize("what", [*MALFORMED, *ELSEWHERE])
def test_what_is_no_report_is_refused_and_others_are_not_lost(tmp_path: Path, what: str) -> None:
    window, sent = opened(tmp_path), [body() for _ in range(5)]
    bad = (MALFORMED | ELSEWHERE)[what]()
    statuses = posted(tmp_path, [part for one in sent for part in (one, bad)])
    assert statuses == [KEPT, 400 if what in MALFORMED else 404] * 5
    window.close()
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent))


def test_a_good_report_beside_a_bad_one_is_not_kept_by_half(tmp_path: Path) -> None:
    window, good, bad = opened(tmp_path), body(), body(metric=7)[binary.HEADER :]
    assert posted(tmp_path, [good + bad]) == [400]
    assert window.status().kept == 0
    assert posted(tmp_path, [good]) == [KEPT]
    assert window.status().kept == 1


def test_replays_count_once_whenever_they_come(tmp_path: Path) -> None:
    window, sent = opened(tmp_path), [body(k % 9) for k in range(5)]
    assert posted(tmp_path, [*sent[:2], *sent[:2], sent[0] + records(sent)[0]]) == [KEPT] * 5
    assert posted(tmp_path, [*sent, *sent]) == [KEPT] * 10  # as after a restart
    assert window.status().kept == 5
    window.close()
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent))


def test_a_token_pays_for_one_report_and_answers_for_the_same_one_again(
    tmp_path: Path, issuer: str
) -> None:
    window = opened(tmp_path, terms(issuer=issuer))
    request = TokenRequest.drawn(2, RNG)
    first, second = request.tokens(*ISSUER.evaluate(request.elements), ISSUER.public)
    one, other = body(), body()
    both = one + records([other])[0]
    cases = [
        (one, b"", 401), (one, bytes(64), 401), (one, first[:-1] + bytes(1), 401),
        (both, first, 400),
        (one, first, KEPT), (one, first, KEPT), (other, first, CONFLICT), (one, second, KEPT),
        (other, second, CONFLICT), (one, first, KEPT), (one, first + b"0", 401),
    ]  # fmt: skip
    posts, tokens, answers = zip(*cases, strict=True)
    assert posted(tmp_path, posts, tokens) == [*answers]
    assert posted(tmp_path, [other, one], [first, first]) == [CONFLICT, KEPT]  # after a restart
    window.close()
    assert landed(tmp_path) == [records([one])]


def test_a_token_of_another_window_is_refused(tmp_path: Path, issuer: str) -> None:
    opened(tmp_path, terms(issuer=issuer))
    (token,) = minted(Issuer(bytes(32)), 1, RNG)
    assert posted(tmp_path, [body()], [token]) == [401]


def test_of_one_sybil_with_k_tokens_exactly_k_reports_are_kept(tmp_path: Path, issuer: str) -> None:
    window = opened(tmp_path, terms(issuer=issuer))
    tokens, sent = minted(ISSUER, 3, RNG), [body() for _ in range(9)]
    assert posted(tmp_path, sent, tokens * 3) == [KEPT] * 3 + [CONFLICT] * 6
    window.close()
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent[:3]))


def test_windows_change_without_a_restart(tmp_path: Path) -> None:
    """A window that is opened, or closed, beside a service is so for the service at once."""
    later = Expected(bytes(range(1, 17)), (MECHANISM,), EXPECTED.form)
    monday, sent = opened(tmp_path), [body() for _ in range(4)]
    tuesday = [body(plan=later.fingerprint) for _ in range(3)]
    with TestClient(application(tmp_path)) as client:

        def statuses(bodies: Sequence[bytes]) -> list[int]:
            return [client.post("/reports", content=content).status_code for content in bodies]

        assert statuses([*sent[:2], *tuesday]) == [KEPT] * 2 + [404] * 3
        window = opened(tmp_path, terms(later))
        assert statuses([*sent[2:], *tuesday]) == [KEPT] * 5
        monday.close()
        assert statuses([sent[0], body(), *tuesday]) == [CLOSED] * 2 + [KEPT] * 3
    window.close()
    name = f"{later.fingerprint.hex()}-0000.reports"
    (tmp_path / name).rename(tmp_path / "tuesday")
    assert sorted(chain(*landed(tmp_path))) == sorted(records(sent))
    (tmp_path / "tuesday").rename(tmp_path / name)


def test_a_window_has_room_for_so_many(tmp_path: Path) -> None:
    window, sent = opened(tmp_path, terms(most=3)), [body() for _ in range(5)]
    assert posted(tmp_path, sent) == [KEPT] * 3 + [FULL] * 2
    assert window.status().kept == 3


def test_what_was_kept_is_so_again_in_a_window_that_is_full(tmp_path: Path, issuer: str) -> None:
    window, sent = opened(tmp_path, terms(most=3)), [body() for _ in range(4)]
    two, mixed = sent[0] + records(sent)[1], sent[0] + records(sent)[3]
    twice = sent[2] + records(sent)[2]
    assert posted(tmp_path, [two, mixed, sent[0]]) == [KEPT] * 3  # room for one: `sent[3]`
    cases = [sent[2], two, mixed, *sent[:2], sent[3], twice, sent[0] + records(sent)[2]]
    assert posted(tmp_path, cases) == [FULL, *[KEPT] * 5, FULL, FULL]
    assert window.status().kept == 3
    window.close()
    assert sorted(chain(*landed(tmp_path))) == sorted(records([*sent[:2], sent[3]]))
    queries = opened(tmp_path, replace(terms(most=1), role="strings"))
    assert queries.commit([Post(b"t", b"b"), Post(b"u", b"b"), Post(b"t", b"b")], {}) == [
        KEPT, FULL, KEPT,
    ]  # fmt: skip


def test_keys_that_are_forgotten_end_their_window(tmp_path: Path, issuer: str) -> None:
    """A process that has read no seed answered 500, until it looked; a fresh one, too."""
    opened(tmp_path, terms(issuer=issuer))
    (token,) = minted(ISSUER, 1, RNG)
    headers = {"Hushbeam-Token": base64.urlsafe_b64encode(token).decode()}
    with TestClient(application(tmp_path), raise_server_exceptions=False) as client:
        assert client.post("/reports", content=body()[:-1]).status_code == 400  # it is open
        Path(issuer).unlink()
        answer = client.post("/reports", content=body(), headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert posted(tmp_path, [body()], [token]) == [CLOSED]


@pytest.mark.parametrize("damage", ["garbage", "terms", "version"])
def test_one_damaged_window_costs_no_other_one(tmp_path: Path, damage: str) -> None:
    later = Expected(bytes(range(1, 17)), (MECHANISM,), EXPECTED.form)
    window, other = opened(tmp_path), opened(tmp_path, terms(later))
    window.release()
    if damage == "garbage":
        window.path.write_bytes(b"no database" * 99)
    else:
        change = {"terms": "UPDATE window SET terms = '{'", "version": "PRAGMA user_version = 7"}
        database = sqlite3.connect(window.path, isolation_level=None)
        database.execute(change[damage])
        database.close()
    assert posted(tmp_path, [body(), body(plan=later.fingerprint)]) == [503, KEPT]
    said = metrics(tmp_path)
    assert "hushbeam_unreadable_windows 1\n" in said
    assert said.count("hushbeam_window_closed") == 1
    other.close()
    assert "hushbeam_kept" in metrics(tmp_path)


@pytest.mark.parametrize("what", ["new", "copy", "unclaimed"])
def test_only_the_file_that_was_opened_takes_tokens(tmp_path: Path, issuer: str, what: str) -> None:
    """By its place alone a window could be emptied: each token was taken again."""
    mine = terms(issuer=issuer)
    path = opened(tmp_path, mine).path
    (token,) = minted(ISSUER, 1, RNG)
    assert posted(tmp_path, [body()], [token]) == [KEPT]
    claim = Path(issuer).with_suffix(".reports")
    note = claim.read_text()
    assert claim.stat().st_mode & 0o777 == 0o600
    path.rename(tmp_path / "away")
    if what == "copy":
        path.write_bytes((tmp_path / "away").read_bytes())
    else:
        with pytest.raises(RequestError, match=f"was opened in {tmp_path}; another folder"):
            opened(tmp_path, mine)
        assert not path.exists()
        claim.unlink()
        opened(tmp_path, mine)
        claim.write_text(note) if what == "new" else claim.unlink()
    assert posted(tmp_path, [body()], [token]) == [404]
    if what != "unclaimed":
        with pytest.raises(RequestError, match="or a restored copy would take each token again"):
            opened(tmp_path, mine)
    (tmp_path / "away").replace(path)
    claim.write_text(note)
    opened(tmp_path, mine)
    assert posted(tmp_path, [body()], [token]) == [CONFLICT]


@pytest.mark.parametrize("path", ["/reports", "/strings/monday"])
def test_a_body_that_does_not_come_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """2,048 of them held a process for ever."""
    monkeypatch.setattr("pipelines.serve.application.WITHIN", 0.05)
    opened(tmp_path)
    party(tmp_path, "strings")
    (token,) = minted(ISSUER, 1, RNG)
    headers = [(b"hushbeam-token", base64.urlsafe_b64encode(token))]
    sent: list[Message] = []

    async def posting(pause: float) -> None:
        async def receive() -> Message:
            await asyncio.sleep(pause)
            return {"type": "http.request", "body": b"H", "more_body": True}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await application(tmp_path)(scope | {"query_string": b""}, receive, send)

    for pause in (3600, 0.01):  # nothing, and a byte now and then
        sent.clear()
        asyncio.run(asyncio.wait_for(posting(pause), 60))
        assert sent[0]["status"] == 408
        assert (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.parametrize(("lull", "posts", "commits"), [(0.5, 5, 1), (1e9, 40, 1), (0, 5, 5)])
def test_posts_share_a_commit_while_others_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lull: float, posts: int, commits: int
) -> None:
    """Those that come one by one, too; but who come together do not wait for yet more."""
    window, sizes = opened(tmp_path), []
    window.release()
    monkeypatch.setattr(service, "_LULL", lull)

    def commit(_: object, group: list[Post], __: object) -> list[int]:
        sizes.append(len(group))
        return [KEPT] * len(group)

    monkeypatch.setattr(service, "_commit", commit)

    async def run() -> None:
        party = service.Service(tmp_path)
        mine = party.window("reports", EXPECTED.fingerprint.hex())
        assert mine is not None
        tasks = []
        for number in range(posts):
            tasks.append(asyncio.create_task(party.keep(mine, Post(b"", bytes([number])))))
            if lull == 0:
                await tasks[-1]
            elif lull < 1:
                await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.gather(*tasks), 60) == [KEPT] * posts

    asyncio.run(run())
    assert (sum(sizes), len(sizes)) == (posts, commits)


def test_terms_of_an_open_window_do_not_change(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(RequestError, match="other terms"):
        opened(tmp_path, terms(most=7))


@pytest.mark.parametrize("kind", ["disk", "commit"])
def test_what_could_not_be_written_is_not_answered_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    window, one, other = opened(tmp_path), body(), body()

    def full(*_: object) -> list[int]:
        raise sqlite3.OperationalError("database or disk is full")

    with TestClient(application(tmp_path)) as client:
        post = lambda content: client.post("/reports", content=content).status_code  # noqa: E731
        assert post(one) == KEPT
        with monkeypatch.context() as patch:
            patch.setattr(WindowStore, "_keep" if kind == "disk" else "commit", full)
            assert post(other) == 503
            assert client.get("/health").status_code == 503
            assert "hushbeam_commit_failures 1\n" in client.get("/metrics").text
        assert window.status().kept == 1
        assert post(other) == KEPT
        assert client.get("/health").status_code == 200
    assert window.status().kept == 2


def test_a_group_that_fails_is_kept_by_none_of_its_posts(tmp_path: Path, monkeypatch) -> None:
    window = opened(tmp_path)
    posts = [Post(bytes([k]) * 16, b"b", ((bytes([k]) * 16, b"r"),)) for k in range(3)]
    keep, calls = WindowStore._keep, iter(range(9))

    def third(*arguments: object) -> tuple[int, int]:
        if next(calls) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        return keep(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(WindowStore, "_keep", third)
        with pytest.raises(sqlite3.OperationalError):
            window.commit(posts, {})
    assert window.status().kept == 0
    assert window.commit(posts, {}) == [KEPT] * 3
    assert window.status().kept == 3


def test_large_bodies_are_refused(tmp_path: Path) -> None:
    window, one = opened(tmp_path), body()
    many = one + b"".join(records([body() for _ in range(20)]))
    assert posted(tmp_path, [many, one], largest=1000) == [413, KEPT]
    assert window.status().kept == 1


def test_counters_of_any_width_land_together(tmp_path: Path) -> None:
    window, sent = opened(tmp_path, terms(SLOTTED)), [slotted(), slotted()]
    assert posted(tmp_path, [*sent, body()]) == [KEPT, KEPT, 400]
    window.close()
    assert sorted(chain(*landed(tmp_path, SLOTTED))) == sorted(records(sent))


def test_a_browser_of_another_site_may_post_with_a_token(tmp_path: Path) -> None:
    opened(tmp_path)
    headers = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "hushbeam-token",
    }
    with TestClient(application(tmp_path)) as client:
        assert client.options("/reports", headers=headers).status_code == 200
        answer = client.post("/reports", content=body(), headers={"Origin": "https://example.org"})
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_a_browser_may_read_that_a_process_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path)
    site = {"Origin": "https://site.example"}
    with TestClient(application(tmp_path)) as client:
        for most, wanted in ((1, KEPT), (0, 503), (1, KEPT)):
            monkeypatch.setattr("pipelines.serve.application.AT_ONCE", most)
            answer = client.post("/reports", content=body(), headers=site)
            assert answer.status_code == wanted
            assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers.get("retry-after") is None


def test_a_log_that_is_read_while_its_window_is_closed_is_emptied_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened(tmp_path)
    posted(tmp_path, [body()])
    monkeypatch.setattr("pipelines.serve.window._TIMEOUT", 0.05)
    reader = sqlite3.connect(window.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM records").fetchall()
    with pytest.raises(sqlite3.OperationalError, match="not emptied"):
        WindowStore(window.path).close()
    reader.close()
    WindowStore(window.path).close()
    assert not [path for path in (tmp_path / FOLDER).glob("*-wal") if path.stat().st_size]


def test_several_writers_spend_a_token_once(tmp_path: Path) -> None:
    """Four connections, as of four processes, and 50 tokens with a body of each connection."""
    path = opened(tmp_path).path
    answers: list[list[int]] = []

    def one(number: int) -> None:
        window = WindowStore(path)
        mine = []
        for k in range(50):
            record = bytes([number, k]) * 8
            mine += window.commit([Post(bytes([k]) * 16, record, ((record, record),))], {})
        answers.append(mine)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    totals = [sorted(column) for column in zip(*answers, strict=True)]
    assert totals == [[KEPT, CONFLICT, CONFLICT, CONFLICT]] * 50


def metrics(folder: Path) -> str:
    with TestClient(application(folder)) as client:
        return client.get("/metrics").text


@pytest.mark.parametrize("expected", [EXPECTED, SLOTTED], ids=["published", "hidden"])
def test_metrics_show_no_count_that_the_release_hides(tmp_path: Path, expected: Expected) -> None:
    window, make = opened(tmp_path, terms(expected)), slotted if expected.slots else body
    before = metrics(tmp_path)
    assert 'hushbeam_window_closed{window="monday",role="reports"} 0' in before
    for number in (1, 5):  # no number of posts, kept or refused, changes what is shown
        posted(tmp_path, [*(make() for _ in range(number)), make()[:-1], b"canary"])
        assert metrics(tmp_path) == before
    window.close()
    after = metrics(tmp_path).splitlines()
    kept = [line for line in after if line.startswith(("hushbeam_kept", "hushbeam_refused"))]
    assert kept == [] if expected.slots else [
        'hushbeam_kept{window="monday",role="reports"} 6',
        'hushbeam_refused{window="monday",role="reports",answer="400"} 1',
    ]  # fmt: skip


def test_nothing_of_the_sender_is_kept_or_said(tmp_path: Path, caplog, capfd) -> None:
    caplog.set_level(0, "pipelines")
    caplog.set_level(0, "uvicorn")
    window = opened(tmp_path)
    posted(tmp_path, [body() for _ in range(6)] + [b"canary 7171"])
    texts = [*map(os.fsencode, os.listdir(tmp_path)), "".join(capfd.readouterr()).encode()]
    texts += [path.read_bytes() for path in (tmp_path / FOLDER).iterdir()]
    window.close()
    texts += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for canary in (b"testclient", b"127.0.0.1", b"canary", b"user-agent"):
        assert not any(canary in text for text in texts)
    assert "canary" not in caplog.text


# ---- the issuer, and the OPRF party --------------------------------------------------------------


CREDENTIAL, OTHER = bytes(range(32)).hex(), bytes(32).hex()


def party(folder: Path, role: Role, most: int = 3) -> WindowStore:
    """A window of a party that evaluates: of the issuer, or of the OPRF party."""
    for name in ("issuer", "strings"):
        (folder / name).write_bytes(SEED)
    enrolled = [
        hashlib.sha256(credential.encode()).hexdigest() for credential in (CREDENTIAL, OTHER)
    ]
    (folder / "devices").write_text("\n".join(enrolled))
    (folder / FOLDER).mkdir(exist_ok=True)
    files = {name: str(folder / name) for name in ("issuer", "strings", "devices")}
    made = WindowTerms(role, "monday", PLAN.hex(), 1, (), True, 1000, most, **files)
    return WindowStore.opened(place(folder, role, "monday"), made)


def evaluated(folder: Path, path: str, bodies: Sequence[bytes], **headers: str) -> list[object]:
    """What is answered: content, or a status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with TestClient(application(folder)) as client:
        answers = [client.post(path, content=content, headers=named) for content in bodies]
    return [a.content if a.status_code == 200 else a.status_code for a in answers]


def test_a_device_fetches_once_and_may_ask_again_for_the_same(tmp_path: Path) -> None:
    party(tmp_path, "tokens")
    requests = [TokenRequest.drawn(count, RNG) for count in (2, 2, 4)]
    bodies = [b"".join(request.elements) for request in requests]
    path, known = "/tokens/monday", {"Authorization": f"Bearer {CREDENTIAL}"}
    assert evaluated(tmp_path, path, bodies) == [401] * 3
    assert evaluated(tmp_path, path, bodies, Authorization="Bearer 00") == [401] * 3
    assert evaluated(tmp_path, path, [b"", bodies[0][:-1], bodies[2]], **known) == [400] * 3
    assert evaluated(tmp_path, path, [bytes([255]) * 32], **known) == [400]
    first, second, again = evaluated(tmp_path, path, [bodies[0], bodies[1], bodies[0]], **known)
    assert second == CONFLICT
    for answer in (first, again):
        assert isinstance(answer, bytes)
        tokens = requests[0].tokens(split(answer[:-PROOF]), answer[-PROOF:], ISSUER.public)
        assert [ISSUER.valid(token) for token in tokens] == [True, True]
    assert evaluated(tmp_path, "/tokens/tuesday", bodies[:1], **known) == [404]


def test_devices_that_are_enrolled_meanwhile_are_known_at_once(tmp_path: Path) -> None:
    party(tmp_path, "tokens")
    late, listed = bytes([7] * 32).hex(), tmp_path / "devices"
    body = b"".join(TokenRequest.drawn(2, RNG).elements)
    known = {"Authorization": f"Bearer {late}"}
    with TestClient(application(tmp_path)) as client:
        answers = []
        for more in ("", f"\n{hashlib.sha256(late.encode()).hexdigest()}\n", "\nü"):
            listed.write_text(listed.read_text() + more, "utf-8")
            answers.append(client.post("/tokens/monday", content=body, headers=known).status_code)
    assert answers == [401, 200, 200]  # what cannot be read leaves the last list


@pytest.mark.parametrize("end", ["closed", "forgotten"])
def test_a_process_lets_go_of_keys_that_another_one_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    window = party(tmp_path, "strings")
    monkeypatch.setattr(service, "_SWEEP", 0.01)

    async def serving() -> None:
        mine = service.Service(tmp_path).window("strings", "monday")
        assert mine is not None
        assert {mine.issuer.public, mine.strings.public}  # which reads the seeds
        await asyncio.sleep(0.1)
        assert {"issuer", "strings"} <= vars(mine).keys()
        if end == "closed":
            window.close()
        else:
            (tmp_path / "strings").unlink()
        while not mine.closed:
            await asyncio.sleep(0.01)
        assert not {"issuer", "strings"} & vars(mine).keys()

    asyncio.run(asyncio.wait_for(serving(), 60))


def test_devices_fetch_as_many_as_they_are(tmp_path: Path) -> None:
    """The number of elements is of a request, whoever has fetched before."""
    party(tmp_path, "tokens", most=1)
    for credential in (CREDENTIAL, OTHER):
        body = TokenRequest.drawn(1, RNG).elements[0]
        (answer,) = evaluated(
            tmp_path, "/tokens/monday", [body], Authorization=f"Bearer {credential}"
        )
        assert isinstance(answer, bytes)


def test_an_issuer_keeps_nothing_that_names_a_device(tmp_path: Path) -> None:
    window, request = party(tmp_path, "tokens"), TokenRequest.drawn(2, RNG)
    body = b"".join(request.elements)
    evaluated(tmp_path, "/tokens/monday", [body], Authorization=f"Bearer {CREDENTIAL}")
    assert window.status().kept == 1
    kept = b"".join(path.read_bytes() for path in (tmp_path / FOLDER).iterdir())
    for known in (CREDENTIAL.encode(), bytes.fromhex(CREDENTIAL), request.elements[0]):
        assert known not in kept
        assert service.digest(known) not in kept
        assert hashlib.sha256(known).digest() not in kept


def test_strings_are_paid_for_with_a_token_each(tmp_path: Path) -> None:
    window = party(tmp_path, "strings")
    plains = [b"one", b"two", b"three"]
    blinded, other = Blinded(plains), Blinded([b"four"])
    bodies = [b"".join(request.elements) for request in (blinded, other, blinded)]
    (token,) = minted(ISSUER, 1, RNG)
    paid = {"Hushbeam-Token": base64.urlsafe_b64encode(token).decode()}
    path = "/strings/monday"
    assert evaluated(tmp_path, path, bodies) == [401] * 3
    first, second, again = evaluated(tmp_path, path, bodies, **paid)
    assert second == CONFLICT
    key = Evaluator(SEED, STRINGS)
    for answer in (first, again):
        assert isinstance(answer, bytes)
        outputs = blinded.outputs(split(answer[:-PROOF]), answer[-PROOF:], key.public)
        assert outputs == [*map(key.output, plains)]
    window.close()
    assert evaluated(tmp_path, path, bodies[:1], **paid) == [CLOSED]
