"""Tokens from the command line: fetched once, spent once, of one window; and what is said of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SecureRandom
from mechanisms.wire.sealing import create_key, public_key
from mechanisms.wire.tokens import Issuer, TokenRequest
from pipelines.parties.device import ClientReports
from pipelines.parties.string_keys import StringKeys
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.plan.split import split
from tests.fakes import parties
from tests.fakes.issuing import Parties, served
from tests.fakes.parties import collect, shuffle

PLAN = """\
collection: heard
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user per window
tokens: 2
epsilon: 8
delta: 1e-4
metrics:
  - {name: people, kind: count, drawn_by: shuffler}
"""
STRINGS = PLAN.partition("  - {name: people")[0] + (
    "  - {name: heard, kind: strings, search: threshold, column: word, max_length: 20,"
    " rows_per_user: 3}\n"
)
N = 40


@pytest.fixture(autouse=True)
def files(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.parties.asking_parties._PAUSES", (0,) * 5)
    Path("plan.yaml").write_text(PLAN)
    words = pa.array(["yes"] * N + ["no", "perhaps"])
    pq.write_table(pa.table({"user": [*range(N), 0, 1], "word": words}), "log.parquet")
    Path("keys").mkdir()
    create_key(workspace / "keys")


@pytest.fixture
def web(run) -> Iterator[tuple[Parties, str]]:
    """All parties of window d1, and their address."""
    with _web(run) as both:
        yield both


def _web(run, plan: str = PLAN):
    Path("plan.yaml").write_text(plan)
    windows = ["--windows", "d1", "d2", "--folder", "issuer"]
    assert run(["parties", "keys", "issuer", "plan.yaml", *windows]).code == 0
    fingerprint, folder = split(load("plan.yaml"), "d1").fingerprint, KeyFolder("issuer")
    strings = plan == STRINGS
    if strings:
        words = ["plan.yaml", *windows[:-1], "strings"]
        assert run(["parties", "keys", "strings", *words]).code == 0
    issuer = folder.evaluator(fingerprint, "issuer")
    queries = folder.evaluator(fingerprint, "queries") if strings else Issuer(bytes(32))
    party = KeyFolder("strings").evaluator(fingerprint, "strings") if strings else queries
    assert isinstance(issuer, Issuer)
    assert isinstance(queries, Issuer)
    return _served(Parties(issuer, queries, party, most=2))


class _served:
    def __init__(self, one: Parties) -> None:
        self.one, self.around = one, served(one)

    def __enter__(self) -> tuple[Parties, str]:
        return self.one, self.around.__enter__()

    def __exit__(self, *error: object) -> None:
        self.around.__exit__(*error)


def fetch(address: str, into: str, *more: str, window: str = "d1", role: str = "issuer"):
    words = ["--issuer", f"{address}/{role}", "--output", into, "--device-secret", f"{into}.secret"]
    lists = ["--keys", "issuer/keys.json", "--signer", "issuer/signing.public.pem"]
    seen = ["--seen-keys", "seen.json", *more]
    return ["parties", "tokens", "fetch", "plan.yaml", "--window", window, *words, *lists, *seen]


def enrolled(run, one: Parties, device: str) -> None:
    """As docs/parties.md says: what is printed is a line of the issuer's list."""
    outcome = run(["parties", "tokens", "device", f"{device}.secret"])
    assert re.fullmatch("[0-9a-f]{64}\n", outcome.out)
    assert f"{device}.secret stays on this device" in outcome.err
    one.devices.add(outcome.out.strip())


def spend(reports: str, tokens: str, address: str) -> list[str]:
    words = ["--input", reports, "--tokens", tokens, "--to", address, "--seal", parties.key()]
    return ["parties", "tokens", "spend", "plan.yaml", "--window", "d1", *words]


def test_a_device_fetches_once_and_spends_each_token_once(run, web, refused) -> None:
    one, address = web
    enrolled(run, one, "b.tokens")
    assert run(fetch(address, "b.tokens")).code == 0
    enrolled(run, one, "a.tokens")
    devices, one.devices = one.devices, set()
    refused(fetch(address, "a.tokens"), "answered 401: it does not know the secret")
    one.devices = devices
    assert run(fetch(address, "a.tokens")).code == 0
    tokens = Path("a.tokens").read_bytes()
    assert len(tokens) == 2 * 64
    assert all(one.issuer.valid(tokens[i : i + 64]) for i in (0, 64))
    assert Path("a.tokens").stat().st_mode & 0o777 == 0o600
    refused(fetch(address, "a.tokens"), "a.tokens is there already")
    Path("a.tokens").rename("first.tokens")
    refused(fetch(address, "a.tokens"), "answered 409: this was used before")
    pq.write_table(pq.read_table("log.parquet").slice(0, 2), "two.parquet")
    said = run(parties.client("--input", "two.parquet", "--output", "two.bin")).out
    assert "`hushbeam parties tokens spend` posts each with one" in said
    for _ in range(2):  # as a command that was cut off: the same again
        assert run(spend("two.bin", "first.tokens", address)).code == 0
    assert len(one.posted) == 2
    pq.write_table(pq.read_table("log.parquet").slice(2, 2), "more.parquet")
    assert run(parties.client("--input", "more.parquet", "--output", "more.bin")).code == 0
    line = "first.tokens has 0 left for 2 reports, one each"
    refused(spend("more.bin", "first.tokens", address), line)
    assert run(parties.client("--input", "log.parquet", "--output", "log.bin")).code == 0
    Path("other.tokens").write_bytes(tokens)
    line = f"other.tokens has 2 left for {N} reports, one each"
    refused(spend("log.bin", "other.tokens", address), line)
    line = _posted_in_part(run, spend("more.bin", "other.tokens", address))
    assert "0 of 2 posted; 2 answered 409: this was" in line
    Path("odd.tokens").write_bytes(tokens[:-1])
    refused(spend("two.bin", "odd.tokens", address), "holds no tokens, which have 64 bytes each")
    Path("forged.tokens").write_bytes(tokens[:64][::-1] * 2)
    line = _posted_in_part(run, spend("two.bin", "forged.tokens", address))
    assert "0 of 2 posted; 2 answered 401: it does" in line
    assert len(one.posted) == 2


def _reports(run, name: str, *rows: int) -> str:
    """The file of some users' reports."""
    pq.write_table(pq.read_table("log.parquet").take([*rows]), f"{name}.parquet")
    log = ["--input", f"{name}.parquet", "--output", f"{name}.bin"]
    assert run(parties.client(*log)).code == 0
    return f"{name}.bin"


def _posted_in_part(run, words: list[str]) -> str:
    """What is said of reports that were not taken; which token is whose stays for the next time."""
    outcome = run(words)
    assert (outcome.code, outcome.out) == (2, "")
    assert Path(f"{words[words.index('--tokens') + 1]}.spent").exists()
    return outcome.err


@pytest.mark.parametrize("status", [302, 307, 200])
def test_who_is_sent_elsewhere_or_answered_by_a_portal_has_posted_nothing(
    run, web, status: int
) -> None:
    one, address = web
    two, why = _reports(run, "two", 0, 1), "portal" if status == 200 else "elsewhere"
    Path("two.tokens").write_bytes(_tokens(one.issuer, 2))
    one.portal = status
    line = _posted_in_part(run, spend(two, "two.tokens", address))
    assert f"0 of 2 posted; 2 answered {status}" in line
    assert why in line
    if status != 200:
        enrolled(run, one, "a.tokens")
        outcome = run(fetch(address, "a.tokens"))
        assert outcome.code == 2
        assert f"answered {status}: it sends devices elsewhere" in outcome.err
    assert one.followed == []  # no token, no credential
    assert one.posted == []
    one.portal = None
    assert run(spend(two, "two.tokens", address)).code == 0
    assert len(one.posted) == 2


def test_a_report_has_its_token_in_whatever_order_files_are_named(run, web, refused) -> None:
    """By their order the first report got another token, and was said to be lost: it was kept."""
    one, address = web
    first, later = _reports(run, "first", 0), _reports(run, "later", 1)
    Path("own.tokens").write_bytes(_tokens(one.issuer, 2))
    assert run(spend(first, "own.tokens", address)).code == 0
    both = spend(later, "own.tokens", address)
    both[both.index("--input") + 1 : both.index("--tokens")] = [later, first]
    assert run(both).code == 0
    assert len(one.posted) == 2
    assert len({token for token, _ in one.posted}) == 2
    pairs = Path("own.tokens.spent")
    assert pairs.stat().st_mode & 0o777 == 0o600
    line = "own.tokens has 0 left for 1 report, one each"
    refused(spend(_reports(run, "third", 2), "own.tokens", address), line)


def test_a_report_that_is_refused_does_not_stop_the_others(run, web, refused) -> None:
    one, address = web
    pq.write_table(pq.read_table("log.parquet").slice(0, 4), "four.parquet")
    assert run(parties.client("--input", "four.parquet", "--output", "four.bin")).code == 0
    spent, fresh = _tokens(one.issuer, 1), _tokens(one.issuer, 2)
    one.spent[spent] = b"another report"
    Path("some.tokens").write_bytes(spent + fresh[:64] + bytes(64) + fresh[64:])
    line = "2 of 4 posted; 1 answered 401: it does not know the secret"
    assert line in _posted_in_part(run, spend("four.bin", "some.tokens", address))
    refused(spend("four.bin", "some.tokens", address), "; 1 answered 409: this was used before")
    assert [token for token, _ in one.posted] == [fresh[:64], fresh[64:]]


def test_an_answer_that_is_lost_costs_nothing(run) -> None:
    with _web(run, STRINGS) as (one, address):
        enrolled(run, one, "a.tokens")
        one.lost = 4
        assert run(fetch(address, "a.tokens", "--queries", role="queries")).code == 0
        assert len(one.fetched) == 1
        Path("paid.tokens").write_bytes(_tokens(one.queries, N))
        lists = ["--keys", "strings/keys.json", "--signer", "strings/signing.public.pem"]
        words = ["--strings", address, "--query-tokens", "paid.tokens", *lists]
        one.lost = 3
        log = ["--input", "log.parquet", "--output", "log.bin"]
        assert run(parties.client(*log, *words, "--seen-keys", "strings.seen.json")).code == 0
        assert len(one.spent) == Path("paid.tokens.taken").stat().st_size  # a query each


def test_a_party_that_does_not_answer_is_said_in_words(run, web) -> None:
    outcome = run(fetch("http://127.0.0.1:9", "b.tokens"))
    assert outcome.code == 3
    line = "issuer/tokens/d1 does not answer (Connection refused): run this again later"
    assert line in outcome.err
    assert "urlopen" not in outcome.err


def test_tokens_of_another_window_or_of_a_key_of_ones_own_are_refused(run, web, refused) -> None:
    one, address = web
    for device in ("a.tokens", "b.tokens", "c.tokens"):
        enrolled(run, one, device)
    assert run(fetch(address, "c.tokens")).code == 0
    key = one.issuer
    one.issuer = Issuer(bytes(32))  # for this device alone
    refused(fetch(address, "a.tokens"), "the answer is not of the published key")
    assert not Path("a.tokens").exists()
    one.issuer = key
    refused(fetch(address, "b.tokens", window="d2"), "the answer is not of the published key")
    refused(fetch(address, "b.tokens", window="d3"), "no issuer key of window d3 of this plan")
    assert run(fetch("http://127.0.0.1:9", "b.tokens", window="d1")).code == 3


def test_strings_are_evaluated_for_who_pays_whoever_it_is(run, refused) -> None:
    with _web(run, STRINGS) as (one, address):
        enrolled(run, one, "a.tokens")
        assert run(fetch(address, "a.tokens", "--queries", role="queries")).code == 0
        Path("paid.tokens").write_bytes(Path("a.tokens").read_bytes() + _tokens(one.queries, N))
        lists = ["--keys", "strings/keys.json", "--signer", "strings/signing.public.pem"]
        words = ["--strings", address, "--query-tokens", "paid.tokens", *lists]
        words += ["--seen-keys", "strings.seen.json"]
        log = ["--input", "log.parquet", "--output", "log.bin"]
        assert run(parties.client(*log, *words)).code == 0
        # A query has as many strings as a report, and no user's name or number of strings.
        assert 1 <= len(one.spent) <= N
        assert {*map(len, one.spent.values())} <= {32, 64, 96}
        assert run([*shuffle("log.bin"), "--tokens", "none"]).code == 0
        assert run(collect()).code == 0
        table = pq.read_table("released/d1/heard/strings.parquet")
        assert table["value"].to_pylist() == ["yes"]
        assert abs(table["estimate"].to_pylist()[0] - N) <= 5
        # A device asks for all its slots, whatever it has; the command is the same for one user.
        before, one.strings = len(one.spent), Issuer(bytes(32))
        own = ["--input", "log.parquet", "--output", "own.bin"]
        outcome = run(parties.client(*own, *words))
        assert outcome.code != 0
        assert "not of the published key" in outcome.err
        assert len(one.spent) > before
        Path("paid.tokens.taken").write_bytes(bytes(N + 1))
        refused(parties.client(*own, *words), "--query-tokens: paid.tokens has 0 tokens left")


def _tokens(issuer: Issuer, count: int) -> bytes:
    request = TokenRequest.drawn(count, SecureRandom())
    return b"".join(request.tokens(*issuer.evaluate(request.elements), issuer.public))


def test_a_device_asks_for_all_its_slots(run) -> None:
    with _web(run, STRINGS) as (one, address):
        parted = split(load("plan.yaml"), "d1")
        Path("paid.tokens").write_bytes(_tokens(one.queries, 2))
        public = one.strings.public
        keys = StringKeys(address, "d1", parted.fingerprint, public, "paid.tokens", 3)
        device = ClientReports(parted, 0, one=True, own=bytes(32))
        pem = public_key(Path(parties.key()).read_bytes())
        for words in (["yes"], ["yes", "no"]):
            block, _ = device.sealed([pa.table({"word": words})], pem, keys)
            assert len(block) == 1
        assert [len(body) for body in one.spent.values()] == [96, 96]


@pytest.mark.parametrize("tokens", ["checked", "none"])
def test_the_statement_says_what_the_shuffler_says(run, refused, tokens: str) -> None:
    assert run(parties.client("--input", "log.parquet", "--output", "log.bin")).code == 0
    refused(shuffle("log.bin"), "--tokens is missing: say checked")
    assert run([*shuffle("log.bin"), "--tokens", tokens]).code == 0
    assert json.loads(Path("out/shuffle.json").read_text())["tokens"] == tokens
    assert run(collect()).code == 0
    said = Path("released/d1/statement.json").read_text()
    assert ("an endpoint took a token with each report" in said) == (tokens == "checked")
    assert ("nobody has checked how many a sender made up" in said) == (tokens == "none")


def test_the_plan_says_it_and_so_does_check(run, refused) -> None:
    assert (
        "three parties admit 2 reports of a user and window by tokens"
        in run(["check", "plan.yaml"]).out
    )
    marks = {mark(load("plan.yaml"))}
    for other in (PLAN.replace("tokens: 2\n", ""), PLAN.replace("tokens: 2", "tokens: 3")):
        Path("plan.yaml").write_text(other)
        marks.add(mark(load("plan.yaml")))
    assert len(marks) == 3
    second = "  - {name: rows, kind: histogram, column: word, domain: words.txt"
    Path("words.txt").write_text("yes\nno\n")
    for more, why in (
        (", drawn_by: shuffler}\n", "tokens: a user sends 2 reports here, each of which takes a"),
        ("}\n", "metric rows: cannot be divided among clients, shuffler and collector"),
    ):
        Path("plan.yaml").write_text(PLAN.replace("tokens: 2", "tokens: 1") + second + more)
        said = f"not in three parties, which alone take tokens: {why}"
        assert said in " ".join(run(["check", "plan.yaml"]).out.split())
        refused(shuffle("log.parquet"), why)
    nobody = PLAN.replace("user_column: user\nunit: user per window\n", "")
    Path("plan.yaml").write_text(nobody)
    refused(
        ["check", "plan.yaml"], "tokens is wrong: a user has so many reports: name a user_column"
    )
    Path("plan.yaml").write_text(PLAN.replace("tokens: 2\n", ""))
    refused([*shuffle("log.parquet"), "--tokens", "none"], "--tokens: the plan asks for none")
    refused(
        ["parties", "keys", "issuer", "plan.yaml", "--windows", "d1", "--folder", "f"],
        "no party takes tokens by this plan",
    )
    refused(
        ["parties", "keys", "strings", "plan.yaml", "--windows", "d1", "--folder", "f"],
        "no metric of this plan seals strings whole",
    )
