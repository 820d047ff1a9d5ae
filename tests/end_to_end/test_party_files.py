"""All files of all parties: alike whichever of two devices has sent which of two reports."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from mechanisms.wire.oblivious import PROOF, Blinded
from mechanisms.wire.oblivious import split as elements_of
from mechanisms.wire.sealing import public_key
from mechanisms.wire.tokens import TOKEN, TokenRequest
from pipelines.parties.device import ClientReports
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from pipelines.serve.application import application
from pipelines.serve.service import digest
from pipelines.serve.window import Post
from tests.fakes import parties
from tests.fakes.parties import collect, key, made_keys, shuffle, without_noise

PLAN = """\
collection: heard
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
tokens: 1
epsilon: 2
delta: 1e-6
metrics:
  - {name: heard, kind: strings, search: threshold, column: word, max_length: 20}
"""
WINDOW = "d1"
WORDS = ("soup", "salad")  # a report of each
CROWD = 60  # others who have said each word, so that both are published
SERVICES = {  # folder -> how its window is opened
    "issuing": ("--keys", "issuer", "--devices", "devices"),
    "querying": ("--keys", "issuer", "--devices", "devices", "--queries"),
    "evaluating": ("--keys", "party", "--strings"),
    "landing": ("--keys", "issuer"),
}
ISSUERS = {"issuing": "issuer", "querying": "queries"}  # who know whose a credential is
OTHERS = {"crowd.bin", "log.parquet"}  # other devices', and no party's
START = {"plan.yaml", "issuer", "party", "devices", "keys", "state", *OTHERS}
PIECE = 8  # bytes that two files do not share by chance
# What parties draw, or compute of what is compared here: ids, times, and signatures of both.
RANDOM = re.compile(
    r"(?<=shuffle-memory/\w{32}/)\w{32}|^\w{32} \d+ (?=\(here\))|(?<=,')\w{32}(?='\);$)|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\+00:00| UTC)|"
    r"(?<=[\"'](release|shuffle)_id[\"']: [\"'])\w{32}|(?<=\"inputs\": \")\w{64}|"
    r"(?<=\": \")\w{64}(?=\",?\n)|(?<=\"signature\": \")\w{128}"
)


@dataclass(frozen=True)
class Device:
    """Who sends: what services may see of it, and the secret under which its report is named."""

    credential: str
    address: str
    own: bytes = field(repr=False)


DEVICES = tuple(
    Device(hashlib.sha256(name).hexdigest(), address, hashlib.sha256(name + b"'s own").digest())
    for name, address in ((b"first", "192.0.2.17"), (b"second", "198.51.100.91"))
)


class Services:
    """The applications of all parties, in one process.

    Attributes:
        sender: of the request that is made.
        seen: (service, bytes) that came or were answered, as a party could write down.
    """

    sender: Device

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.seen: list[tuple[str, bytes]] = []
        self._clients = {
            name: stack.enter_context(TestClient(self._addressed(application(Path(name)))))
            for name in SERVICES
        }

    def post(self, by: Device, service: str, path: str, body: bytes, **headers: str) -> bytes:
        """Post as a device, from its address."""
        Services.sender = by
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.seen += [(service, part.encode()) for part in named.values()]
        named |= {"User-Agent": f"browser {by.address}", "X-Forwarded-For": by.address}
        answer = self._clients[service].post(path, content=body, headers=named)
        assert answer.status_code in {200, 204}, answer.text
        self.seen += [(service, body), (service, answer.content)]
        return answer.content

    def _addressed(self, app: Any) -> Any:
        async def addressed(scope: Any, receive: Any, send: Any) -> None:
            client = (self.sender.address if scope["type"] == "http" else "", 4711)
            await app({**scope, "client": client}, receive, send)

        return addressed


@dataclass
class Asked:
    """A device's strings, on their way to the party that evaluates them."""

    services: Services
    device: Device
    token: bytes
    public: bytes
    body: bytes = b""

    def outputs(self, inputs: Sequence[bytes]) -> dict[bytes, bytes]:
        blinded = Blinded(inputs)
        self.body = b"".join(blinded.elements)
        paid = {"Hushbeam_Token": encoded(self.token)}
        path = f"/strings/{WINDOW}"
        answer = self.services.post(self.device, "evaluating", path, self.body, **paid)
        evaluated, proof = elements_of(answer[:-PROOF]), answer[-PROOF:]
        return dict(zip(inputs, blinded.outputs(evaluated, proof, self.public), strict=True))


def encoded(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).decode()


@dataclass
class Window:
    """A window of two devices, from their fetches to the release.

    Attributes:
        drawn: what is random by law -> a name for it: of a device what it has blinded, of a report
            its id, and the tokens that have paid for it.
        services: that run until windows are closed.
        files: moment -> every file of every party, as it stood then.
        order: of the reports in the endpoint's write-ahead log.
    """

    services: Services
    drawn: dict[bytes, str] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def known_as(self, content: bytes, name: str) -> bytes:
        """Name what is random, and its digest, by which services know it."""
        self.drawn |= {content: name, digest(content): f"digest of {name}"}
        return content

    def fetch(self, device: Device, service: str, public: bytes) -> bytes:
        """A token. Of which request it is nobody can tell: one blind takes each to each."""
        Services.sender = device
        request = TokenRequest.drawn(1, SecureRandom())
        body = self.known_as(request.elements[0], f"{service} of {device.address}")
        bearer = f"Bearer {device.credential}"
        path = f"/tokens/{WINDOW}"
        answer = self.services.post(device, service, path, body, Authorization=bearer)
        (token,) = request.tokens(elements_of(answer[:-PROOF]), answer[-PROOF:], public)
        return token

    def report(self, device: Device, word: str, tokens: Sequence[bytes], parted: Split) -> None:
        """Have a word sealed by the party of strings, and post it."""
        token, query = tokens
        asked = Asked(self.services, device, query, evaluator("strings", "party").public)
        client = ClientReports(parted, 0, one=True, own=device.own)
        rows = pa.table({"user": [1], "word": [word]})
        block, _ = client.sealed([rows], public_key(Path(key()).read_bytes()), asked)
        body = binary.encode(block)
        self.services.post(device, "landing", "/reports", body, Hushbeam_Token=encoded(token))
        for name, content in (("token", token), ("query token", query), ("elements", asked.body)):
            self.known_as(content, f"{name} of {word}")
        record = body[binary.HEADER :]
        self.drawn[digest(record)] = self.drawn[digest(body)] = f"digest of {word}"
        self.drawn[block.records["report_id"][0].tobytes()] = f"id of {word}"

    def keep(self, moment: str) -> None:
        """Read all that lies in the folder."""
        files: dict[str, Any] = {}
        for path in sorted(Path().rglob("*")):
            if path.is_file() and path.name not in OTHERS:
                # Of a batch it is drawn in which file a row is.
                name = re.sub(r"reports-\d+-of", "reports-of", self.masked(str(path)))
                files.setdefault(name, []).extend(self.content(path))
        self.files[moment] = {name: sorted(content) for name, content in files.items()}

    def content(self, path: Path) -> list[str]:
        """The rows of a file without what is random by law, or all of it."""
        if path.name.endswith(("-wal", "-shm", ".lock")):
            return []  # the log has the rows of its file, as they came
        if path.suffix == ".sqlite":
            with contextlib.closing(sqlite3.connect(path)) as database:
                return [*map(self.masked, database.iterdump())]
        if path.suffix == ".parquet":
            return [self.masked(str(row)) for row in pq.read_table(path).to_pylist()]
        data = path.read_bytes()
        if data.startswith(binary.MAGIC):
            size = (len(data) - binary.HEADER) // len(WORDS)
            rows = [data[at : at + size] for at in range(binary.HEADER, len(data), size)]
            return [self.masked(row.hex()) for row in (data[: binary.HEADER], *rows)]
        try:
            return [self.masked(data.decode())]
        except UnicodeDecodeError:
            return [self.masked(data.hex())]

    def masked(self, text: str) -> str:
        """With names in the place of what is random."""
        for content, name in self.drawn.items():
            text = re.sub(content.hex(), f"({name})", text, flags=re.IGNORECASE)
        return RANDOM.sub("(random)", text.replace(str(Path().absolute()), "(here)"))

    def come(self) -> list[str]:
        """Whose tokens the endpoint's write-ahead log has, in the order in which they lie in it."""
        (log,) = Path("landing/windows").glob("*.sqlite-wal")
        place = log.read_bytes().find
        spent = {
            word: place(digest(token))
            for token, name in self.drawn.items()
            for word in WORDS
            if name == f"token of {word}"
        }
        return sorted(spent, key=spent.__getitem__)

    def links(self) -> set[bytes]:
        """Pieces of what the issuers know of devices that other parties have, too."""
        known = [content for service, content in self.services.seen if service in ISSUERS]
        for device in DEVICES:
            secret = device.credential.encode()
            known += [bytes.fromhex(device.credential), hashlib.sha256(secret).digest()]
            for role in ISSUERS.values():
                known.append(digest(evaluator(role, "issuer").output(b"device" + secret)))
        others = [content for service, content in self.services.seen if service not in ISSUERS]
        others += [base64.urlsafe_b64decode(one) for one in others if len(one) == TOKEN_TEXT]
        for place in (*(set(SERVICES) - set(ISSUERS)), "out", "released", "state"):
            others += [path.read_bytes() for path in Path(place).rglob("*") if path.is_file()]
        pieces = {one[at : at + PIECE] for one in known for at in range(len(one) - PIECE + 1)}
        return {piece for piece in pieces if any(piece in content for content in others)}


TOKEN_TEXT = len(encoded(bytes(TOKEN)))


def evaluator(role: Any, folder: str) -> Any:
    return KeyFolder(folder).evaluator(split(load("plan.yaml"), WINDOW).fingerprint, role)


@pytest.fixture
def begun(workspace: Path, run) -> Path:
    """What parties have before a window, and the reports of other devices."""
    users = range(CROWD * len(WORDS))
    parties.prepared(PLAN, pa.table({"user": [*users], "word": [*WORDS] * CROWD}), WINDOW)
    for role in ISSUERS.values():
        made_keys(WINDOW, folder="issuer", role=role)
    shutil.copy(next(Path("issuer").glob("*.queries.seed")), "party")
    lines = [hashlib.sha256(one.credential.encode()).hexdigest() for one in DEVICES]
    Path("devices").write_text("\n".join(lines))
    secret = Path("state/hushbeam/shuffle-secret")
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.write_bytes(bytes(range(32)))
    words = ["--input", "log.parquet", "--output", "crowd.bin", "--strings", "party"]
    assert run(parties.client(*words)).code == 0
    return workspace


Leave = Callable[..., Window]


@pytest.fixture
def leave(begun: Path, run, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """Leaves the files of a window in a folder of its own.

    `swapped`: the first device says the second word. `late`: all comes in the other order.
    `whole`: it is shuffled and published, too.
    """

    def window(name: str, swapped: bool = False, late: bool = False, whole: bool = False) -> Window:
        folder, turn = begun / name, -1 if late else 1
        others = {*(path.name for path in begun.iterdir() if path.name not in START)}
        shutil.copytree(begun, folder, ignore=lambda *_: others)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        parted, serve = split(load("plan.yaml"), WINDOW), ["serve", "plan.yaml", "--window", WINDOW]
        for service, words in SERVICES.items():
            assert run([*serve, "--landing", service, *words, "--open"]).code == 0
        keys = [(one, evaluator(role, "issuer").public) for one, role in ISSUERS.items()]
        said = dict(zip(WORDS, DEVICES[:: -1 if swapped else 1], strict=True))
        with contextlib.ExitStack() as stack:
            made = Window(Services(stack))
            tokens = {one: [made.fetch(one, *each) for each in keys] for one in DEVICES[::turn]}
            for word in WORDS[::turn]:
                made.report(said[word], word, tokens[said[word]], parted)
            made.keep("open")
            made.order = made.come()
        for service, words in SERVICES.items():
            assert run([*serve, "--landing", service, *words, "--close"]).code == 0
        made.keep("closed")
        if whole:
            shuffling = shuffle("landing/*.reports", "crowd.bin")
            assert run([*shuffling, "--tokens", "checked"]).code == 0
            assert run(collect()).code == 0
            made.keep("published")
        return made

    return window


def test_swapped_devices_leave_all_parties_the_same_files(leave: Leave, monkeypatch) -> None:
    """Whoever has all of them, and every byte that came, cannot tell who has sent which report.

    What is random by law has a name in place of its bytes: a request by its device, for one blind
    takes each token to each request; a token, an id and a query by their report. All else of each
    file is compared, and nothing that an issuer knows of a device is in what others have: that two
    such pieces are alike by chance has a probability below 1e-9.
    """
    without_noise(monkeypatch)
    plain, swapped = leave("plain", whole=True), leave("swapped", swapped=True, whole=True)
    assert plain.files == swapped.files
    assert {*plain.files["published"]} > {*plain.files["closed"]} > set()
    figures = " ".join(plain.files["published"]["released/d1/heard/strings.parquet"])
    assert figures.count(f"'estimate': {CROWD + 1:.1f}") == len(WORDS)
    assert plain.links() == swapped.links() == set()


def test_only_the_log_of_an_open_window_tells_who_came_first(leave: Leave) -> None:
    plain, late = leave("plain"), leave("late", late=True)
    assert plain.files == late.files
    assert (plain.order, late.order) == ([*WORDS], [*WORDS][::-1])
    assert not any(path.stat().st_size for path in Path().rglob("*.sqlite-wal"))


def test_an_endpoint_that_keeps_who_has_sent_is_seen(leave: Leave, monkeypatch) -> None:
    def keeping(token: bytes, body: bytes, records: Any = ()) -> Post:
        return Post(token, Services.sender.address.encode(), records)

    monkeypatch.setattr("pipelines.serve.application.Post", keeping)
    plain, again, swapped = leave("plain"), leave("again"), leave("swapped", swapped=True)
    assert plain.files == again.files != swapped.files


def test_a_device_that_is_known_by_its_nonce_is_seen(leave: Leave, monkeypatch) -> None:
    def drawn(count: int, rng: Any) -> TokenRequest:
        return TokenRequest([hashlib.sha256(Services.sender.credential.encode()).digest()])

    monkeypatch.setattr(TokenRequest, "drawn", drawn)
    assert leave("plain").links()
