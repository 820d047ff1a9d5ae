"""A file of another format where ours should stand is refused in a line, and left as it is."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import hushbeam
from hushbeam.studies.engine.journal import REQUEST, journal
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.witness import Seen, Witness
from pipelines.parties.memory import Sent, put, read_note
from pipelines.releases import release, schema
from pipelines.storage.backoff import Backoff
from pipelines.storage.claims import Claim, TakenError
from pipelines.storage.local_object import LocalObject
from pipelines.stream.memory import StreamMemory
from tests.end_to_end import test_shuffle_memory as shuffler
from tests.fakes import canaries
from tests.fakes.ledgers import begun
from tests.fakes.memory_files import MemoryFileSystem
from tests.pipelines.test_export import publish_day

pytestmark = pytest.mark.filterwarnings("ignore::pipelines.errors.Caution")

NONE = "has no format number"
CUT = "is cut off, or is no JSON with each key once: restore it from a copy"
GARBAGE = (b"", b"x", b"\x00\xff" * 300, b"PAR1" + bytes(5000), b'{"version": 1, "spe')
OTHER = (b"[1]", b'{"version": true}')


def renumbered(path: Path, name: str) -> Iterator[tuple[bytes, str]]:
    """(content, what is said of it): a JSON file with other numbers, and what is none of ours."""
    said = json.loads(path.read_bytes())
    for number in (said[name] - 1, said[name] + 1, 99):
        yield json.dumps(said | {name: number}).encode(), f"is of format {number}, and"
    for number in (None, str(said[name]), [1]):
        yield json.dumps(said | {name: number}).encode(), NONE
    yield json.dumps({key: value for key, value in said.items() if key != name}).encode(), NONE
    for content in GARBAGE:
        yield content, CUT
    for content in OTHER:
        yield content, NONE


def files() -> dict[Path, bytes]:
    """All that is on the disk, here and where this account keeps what it keeps, but for locks."""
    folders = (Path.cwd(), Path(os.environ["XDG_STATE_HOME"]))
    found = (path for folder in folders for path in folder.rglob("*"))
    return {path: path.read_bytes() for path in found if path.is_file() and path.name != "lock"}


@pytest.fixture
def refused(run) -> Callable[..., None]:
    """Puts other formats in the place of a file, and holds commands to a refusal of each."""

    def refused(
        path: Path, *commands: Sequence[str], name: str = "version", known: int = 1
    ) -> None:
        whole = path.read_bytes()
        for content, said in renumbered(path, name):
            path.write_bytes(content)
            before = files()
            for words in commands:
                outcome = run([*words])
                assert (outcome.code, outcome.out) == (2, ""), (content, outcome.said)
                assert outcome.err.count("\n") == 1
                assert path.name in outcome.err
                assert said in outcome.err, (content, outcome.err)
                line = f"and this hushbeam keeps format {known}: use the hushbeam that"
                assert (line in outcome.err) == (said != CUT)
                assert not canaries.found(outcome.said)
            assert files() == before
        path.write_bytes(whole)

    return refused


# ---- one machine --------------------------------------------------------------------------------


def test_a_session(run, refused) -> None:
    begin = ["ask", "session", "--epsilon", "1"]
    assert run(begin).code == 0
    question = ["ask", "session", "count", "--input", "none.csv", "--share", "0.1"]
    refused(Path("session/answers.json"), ["ask", "session"], begin, question, known=3)
    refused(Path("session/statement.json"), ["export", "session", "--output", "all.csv"],
            name="statement_version")  # fmt: skip
    assert run(begin).code == 0


def test_running_totals(run, refused) -> None:
    totals = hushbeam.RunningTotals("out", 1.0, 1e-6, 30, secret="kept/secret")
    totals.add("a", 5)
    Path("log.csv").write_text("n\n1\n")
    words = ["count", "--input", "log.csv", "--window", "b", "--horizon", "30", "--epsilon", "1",
             "--output", "out", "--secret", "kept/secret"]  # fmt: skip
    refused(Path("kept/secret"), words)
    kept = json.loads(Path("kept/secret").read_bytes())
    with pytest.raises(RequestError, match="begun with other terms"):  # once it is whole
        hushbeam.RunningTotals("out", 2.0, 1e-6, 30, secret="kept/secret")
    before = files()
    for path, name in (("out/statement.json", "statement_version"), ("out/totals.parquet", "")):
        whole = Path(path).read_bytes()
        damaged = ((content, "is damaged") for content in GARBAGE + OTHER)
        contents = renumbered(Path(path), name) if name else damaged
        for content, said in contents:
            Path(path).write_bytes(content)
            with pytest.raises(RequestError, match=said):
                totals.add("b", 5)
            assert Path(path).read_bytes() == content
        Path(path).write_bytes(whole)
    assert files() == before
    assert json.loads(Path("kept/secret").read_bytes()) == kept
    totals.add("b", 5)


def test_a_release_that_stands_where_a_plan_publishes(run, refused, log: str) -> None:
    Path("plan.yaml").write_text(
        f'collection: c\nversion: 1\nunit: row\ninput: "{log}"\noutput: out\nepsilon: 1\n'
        "metrics: [{name: rows, kind: count}]\n"
    )
    assert run(["run", "plan.yaml"]).code == 0
    export = ["export", "out", "--output", "all.csv"]
    refused(Path("out/statement.json"), ["run", "plan.yaml"], export, name="statement_version")
    assert run(["run", "plan.yaml"]).code == 0


def test_a_table_of_a_release(workspace: Path) -> None:
    publish_day(1, workspace)
    table = release.read_table("2026-11-01/cities", "histogram.parquet")
    metadata = table.schema.metadata
    said = json.loads(metadata[b"hushbeam"])
    assert schema.own(table).column_names == ["value", "estimate", "unbiased", "lower", "upper"]
    for number, why in ((2, "is of format 2"), (None, NONE)):
        wrong = json.dumps(said | {"version": number})
        with pytest.raises(RequestError, match=f"histogram {why}"):
            schema.own(table.replace_schema_metadata({b"hushbeam": wrong}), "histogram")


def test_the_folder_of_a_study(workspace: Path) -> None:
    def opened() -> list[Any]:
        with journal("study", {"--seed": 3}, "data") as known:
            return known.entries

    opened()
    path = Path("study", REQUEST)
    for content, said in renumbered(path, "version"):
        path.write_bytes(content)
        before = files()
        with pytest.raises(RequestError, match=said):
            opened()
        assert files() == before
    # Nor is a journal cut to its whole lines where no request, or no entry, is ours.
    for name, content in (("other", b"garbage"), ("damaged", b"{}\nx\nhalf")):
        Path(name).mkdir()
        Path(name, "journal.jsonl").write_bytes(content)
        for _ in range(2):
            with pytest.raises(RequestError, match="holds other files"), journal(name, {}, ""):
                pass
        assert Path(name, "journal.jsonl").read_bytes() == content


# ---- ledgers ------------------------------------------------------------------------------------


def other_databases(path: Path) -> Iterator[tuple[str, bytes]]:
    """A database with other numbers of its format, and what is none of ours."""
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as database:
        (own,) = database.execute("PRAGMA user_version").fetchone()
        for number in (own - 1, own + 1, 99, 0):
            database.execute(f"PRAGMA user_version = {number}")
            yield f"is of format {number}, and" if number else "format", path.read_bytes()
    path.write_bytes(whole)
    other = path.with_name("other")
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE said (name, value)")
    content = other.read_bytes()
    other.unlink()
    for garbage in (*GARBAGE[1:], content):
        yield "", garbage


@pytest.fixture
def ledger(workspace: Path) -> str:
    begun("ledger.sqlite", witness="seen/witness.json")
    return "ledger.sqlite"


WORDS = ["--ledger", "ledger.sqlite"]
INIT = ["ledger", "init", *WORDS, "--population", "more", "--budget", "1,1e-6", "--unit", "user"]


def test_a_ledger(run, ledger: str) -> None:
    path = Path(ledger)
    whole = path.read_bytes()
    for said, content in [*other_databases(path)]:
        path.write_bytes(content)
        before = files()
        for words in (["ledger", "show", *WORDS], INIT, ["ledger", "adopt", *WORDS, "--lost", "1"]):
            outcome = run(words)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1), (content, outcome.said)
            assert said in outcome.err
            assert ledger in outcome.err
        assert files() == before
    path.write_bytes(whole)
    assert CollectionLedger.open(ledger).read().populations.keys() == {"trips"}


def test_a_witness(refused, ledger: str) -> None:
    refused(Path("seen/witness.json"), ["ledger", "check", *WORDS], INIT)


def test_a_witness_of_another_format_is_not_taken_for_a_lost_one(run, ledger: str) -> None:
    """It may know of more than the ledger: `adopt --lost 0` would forget that."""
    path = Path("seen/witness.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    before = files()
    outcome = run(["ledger", "adopt", *WORDS, "--lost", "0", "--witness", "new.json"])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "witness.json is of format 2, and this hushbeam keeps format 1" in outcome.err
    assert files() == before


def test_a_release_of_another_format_is_not_taken_for_a_strangers(run, ledger: str) -> None:
    """It may know of a longer ledger."""
    stamp = {"id": "f" * 16, "changes": 9, "head": "", "entry": ""}
    Path("out/a").mkdir(parents=True)
    for number, code in ((99, 2), (None, 0)):  # without one it is some other program's
        said = {"statement_version": number, "ledger": stamp}
        Path("out/a/statement.json").write_text(json.dumps(said))
        outcome = run(["ledger", "check", *WORDS, "--releases", "out/*"])
        assert (outcome.code, outcome.err.count("\n")) == (code, int(bool(code))), outcome.said
        assert ("statement.json is of format 99, and" in outcome.err) == bool(code)


def test_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an attempt at the same release; what it drew is not drawn again beside it."""
    MemoryFileSystem.reset()
    own = Claim("memory://bucket/out", "one")
    assert own.take({"table": b"first draw"}) == {"table": b"first draw"}
    whole = MemoryFileSystem.objects[own.path]
    said = json.loads(whole)
    for number, why in ((0, "is of format 0, and"), (2, "is of format 2, and"), (None, NONE)):
        wrong = json.dumps(said | {"version": number}).encode()
        MemoryFileSystem.objects[own.path] = wrong
        with pytest.raises(TakenError, match=why):
            own.take({"table": b"another draw"})
        assert MemoryFileSystem.objects == {own.path: wrong}
    for garbage in GARBAGE[1:]:
        MemoryFileSystem.objects[own.path] = garbage
        with pytest.raises(TakenError, match="another run has claimed"):
            own.take({"table": b"another draw"})
        assert MemoryFileSystem.objects == {own.path: garbage}
    MemoryFileSystem.objects[own.path] = whole
    assert own.take({"table": b"another draw"}) == {"table": b"first draw"}
    MemoryFileSystem.reset()


# ---- streams ------------------------------------------------------------------------------------


def test_a_streams_state(run, workspace: Path) -> None:
    Path("plan.yaml").write_text(
        "collection: c\nversion: 1\nunit: row\ninput: in/*.parquet\noutput: out/{window}\n"
        "epsilon: 1\nmodel: local\nmin_reports: 20\nstream: {window: 1h, state: state, time: at}\n"
        "metrics: [{name: value, kind: histogram, column: value, domain: 0..3}]\n"
    )
    Path("in").mkdir()
    commands = (["stream", "plan.yaml", "--once"], ["stream", "status", "plan.yaml"])
    assert run(commands[0]).code == 0
    path = Path("state/stream.sqlite")
    whole = path.read_bytes()
    for said, content in [*other_databases(path)]:
        path.write_bytes(content)
        before = files()
        for words in commands:
            outcome = run(words)
            assert (outcome.code, outcome.err.count("\n")) == (2, 1), (content, outcome.said)
            assert (said or NONE) in outcome.err
            assert "state " in outcome.err
            assert "this hushbeam keeps format 4" in outcome.err
        assert files() == before
    path.write_bytes(whole)
    assert run(commands[0]).code == 0


def test_batches_of_a_state_that_is_lost_are_not_swept_away(tmp_path: Path) -> None:
    StreamMemory(str(tmp_path), "f00d").close()
    (tmp_path / "batch-1").mkdir()
    (tmp_path / "stream.sqlite").write_bytes(b"")
    with pytest.raises(RequestError, match=NONE):
        StreamMemory(str(tmp_path), "f00d")
    assert (tmp_path / "batch-1").exists()


# ---- parties ------------------------------------------------------------------------------------


def test_a_shuffles_memory_and_its_summary(run, refused, workspace: Path) -> None:
    parted = shuffler.plan()
    shuffler.write("first.bin", shuffler.reports(parted, 1))
    shuffler.write("second.bin", shuffler.reports(parted, 2))
    assert run(shuffler.shuffle("first.bin", into="a")).code == 0
    again = shuffler.shuffle("second.bin", into="b")
    for name in ("begun.json", "sent.json", "closing.json"):
        refused(next(shuffler.kept().rglob(name)), again)
    refused(Path("a/shuffle.json"), ["parties", "collect", "plan.yaml", "--input", "a"],
            name="summary_version")  # fmt: skip
    ids = next(shuffler.kept().rglob("*.ids"))
    whole = ids.read_bytes()
    for content, said in (
        (whole.replace(b"ids 1\n", b"ids 2\n"), "is of format 2, and"), (whole[20:], NONE),
        *((garbage, NONE) for garbage in GARBAGE),
    ):  # fmt: skip
        ids.write_bytes(content)
        before = files()
        outcome = run(again)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.said
        assert ids.name in outcome.err
        assert said in outcome.err
        assert files() == before
    ids.unlink()
    assert run(again).code == 2
    ids.write_bytes(whole)
    # A neighbour of another format: nobody can tell whether these reports are in it, too.
    summary = Path("a/shuffle.json")
    other = json.dumps(json.loads(summary.read_text()) | {"summary_version": 2}).encode()
    summary.write_bytes(other)
    before = files()
    outcome = run(again)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.said
    assert "shuffle.json is of format 2, and this hushbeam keeps format 1" in outcome.err
    assert files() == before


def test_what_was_cut_off_before_it_counted_is_not_forgotten_for_its_format(
    run, workspace: Path
) -> None:
    """Between the summary and the memory's last word: all of it may have been handed on."""
    shuffler.write("first.bin", shuffler.reports(shuffler.plan(), 1))
    assert run(shuffler.shuffle("first.bin", into="a")).code == 0
    next(shuffler.kept().rglob("sent.json")).unlink()
    summary = Path("a/shuffle.json")
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"summary_version": 2}))
    before = files()
    for into in ("a", "b"):
        outcome = run(shuffler.shuffle("first.bin", into=into))
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.said
        assert "shuffle.json is of format 2" in outcome.err
    assert files() == before


@pytest.mark.parametrize("content", GARBAGE)
def test_keys_and_secrets_are_not_made_anew(content: bytes, run, workspace: Path) -> None:
    """They are bytes for programs in any language, and have no number: their length, or form."""
    for name in ("secret", "device", "key.pem"):
        Path(name).write_bytes(content)
    shuffler.write("first.bin", shuffler.reports(shuffler.plan(), 1))
    before = files()
    for words in (
        shuffler.shuffle("first.bin", into="a", more=("--shuffle-secret", "secret")),
        shuffler.shuffle("first.bin", into="a", more=("--seal", "key.pem")),
        ["parties", "collect", "plan.yaml", "--input", "first.bin", "--key", "key.pem"],
        ["parties", "tokens", "device", "device"],
    ):
        outcome = run(words)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), (words, outcome.said)
        assert words[-1] in outcome.err, outcome.err
    assert files() == before


def test_a_note_and_a_witness_come_back_as_they_were_written(tmp_path: Path) -> None:
    note = Sent(files=("a",), batches={0: (1, 2)}, reports=3)
    put(str(tmp_path / "sent.json"), note)
    assert read_note(Sent, str(tmp_path / "sent.json")) == note
    witness = Witness(
        LocalObject(str(tmp_path / "w.json"), "--witness"), Backoff(SecureRandom(), 1.0)
    )
    witness.follow(Seen(ledger="a", changes=3, head="x"))
    assert witness.seen() == Seen(ledger="a", changes=3, head="x")
