"""A release is whole or absent, on a local disk and in an object store."""

from __future__ import annotations

import builtins
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import RequestError
from pipelines.releases import release
from pipelines.releases.signature import SIGNATURE, signing_key
from pipelines.storage import claims
from pipelines.storage.claims import TAKEN, Claim, TakenError
from tests.fakes.memory_files import MemoryFileSystem
from transforms.elements import progress

FILES = {"table.parquet": b"numbers", "report.html": b"<p>words</p>"}
STATEMENT = {"statement_version": 1, "release_id": "one", "n": 3, "why": "naïve ≤ ε"}
BUCKET = "memory://bucket/out"


@pytest.fixture(autouse=True)
def empty_store() -> None:
    MemoryFileSystem.reset()


@pytest.fixture(params=["local", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place to publish, of each kind."""
    return str(tmp_path / "out") if request.param == "local" else BUCKET


def content(folder: str) -> dict[str, bytes]:
    names = [*FILES, release.STATEMENT]
    return {name: release.read(folder, name) for name in names}


def test_publishes_all_files(folder: str) -> None:
    assert not release.holds_release(folder)
    release.publish(folder, FILES, STATEMENT)
    assert release.holds_release(folder)
    written = content(folder)
    statement = written.pop(release.STATEMENT)
    assert written == FILES
    assert json.loads(statement) == STATEMENT
    assert "naïve ≤ ε".encode() in statement


def test_a_retried_worker_finds_its_own_release(folder: str) -> None:
    release.publish(folder, FILES, STATEMENT)
    before = content(folder)
    release.publish(folder, {"table.parquet": b"drawn again"}, STATEMENT)
    assert content(folder) == before


def test_another_job_is_refused(folder: str) -> None:
    release.publish(folder, FILES, STATEMENT)
    before = content(folder)
    with pytest.raises(RequestError, match="already holds a release"):
        release.publish(folder, FILES, STATEMENT | {"release_id": "two"})
    assert content(folder) == before


def test_a_statement_that_json_cannot_hold_publishes_nothing(folder: str) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        release.publish(folder, FILES, STATEMENT | {"error": float("nan")})
    assert not release.holds_release(folder)
    release.require_vacant(folder)


# ---- local -------------------------------------------------------------------------------------


def test_a_local_release_can_be_read_by_others(tmp_path: Path) -> None:
    release.publish(str(tmp_path / "deep" / "down" / "out"), FILES, STATEMENT)
    out = tmp_path / "deep" / "down" / "out"
    assert out.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [*FILES, SIGNATURE, "statement.json"]
    )
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["empty", "link", "out/", "deep/../out"])
def test_a_local_release_takes_the_place_of_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for made in ("empty", "behind", "deep"):
        (tmp_path / made).mkdir()
    (tmp_path / "link").symlink_to("behind")
    release.require_vacant(name)
    release.publish(name, FILES, STATEMENT)
    assert json.loads((tmp_path / name / "statement.json").read_text()) == STATEMENT
    assert (tmp_path / "link").is_symlink()


def test_no_failed_write_leaves_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call that touches the disk fails once, in turn, until none is left to fail."""
    failed = 0
    while True:
        calls = 0

        def fragile(real, fail_at=failed):
            def call(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == fail_at + 1:
                    raise OSError(28, "No space left on device")
                return real(*args, **kwargs)

            return call

        with monkeypatch.context() as patched:
            patched.setattr(release, "open", fragile(builtins.open), raising=False)
            for name in ("makedirs", "fsync", "chmod", "rename"):
                patched.setattr(release.os, name, fragile(getattr(os, name)))
            patched.setattr(release.tempfile, "mkdtemp", fragile(release.tempfile.mkdtemp))
            try:
                release.publish(str(tmp_path / "out"), FILES, STATEMENT)
                break
            except (OSError, RequestError):
                pass
        # Once it has its name it stands whole: a ledger finds it, and counts it.
        assert list(tmp_path.iterdir()) in ([], [tmp_path / "out"])
        assert release.holds_release(str(tmp_path / "out")) == (tmp_path / "out").exists()
        failed += 1
    assert failed >= 10  # three files, opened and synced, and the folder around them
    assert release.holds_release(str(tmp_path / "out"))


def test_who_comes_second_loses_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone publishes between the check and the renaming."""
    out = tmp_path / "out"
    rename = os.rename

    def outrun(source: str, target: str) -> None:
        monkeypatch.setattr(release.os, "rename", rename)
        release.publish(str(out), FILES, STATEMENT | {"release_id": "first"})
        rename(source, target)

    monkeypatch.setattr(release.os, "rename", outrun)
    progress.reset()
    with pytest.raises(TakenError, match="already holds a release"):
        release.publish(str(out), {"table.parquet": b"second"}, STATEMENT)
    assert progress.live() == {TAKEN: 1}
    assert json.loads((out / "statement.json").read_text())["release_id"] == "first"
    assert (out / "table.parquet").read_bytes() == FILES["table.parquet"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_looking_for_a_place_leaves_no_trace(tmp_path: Path) -> None:
    release.require_vacant(str(tmp_path / "not" / "yet" / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_mount_point_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release.os.path, "ismount", lambda path: path == str(tmp_path))
    with pytest.raises(RequestError, match="name a new folder inside it"):
        release.require_vacant(str(tmp_path))


# ---- object stores -----------------------------------------------------------------------------


def test_in_a_store_the_claim_comes_first_and_the_statement_last() -> None:
    release.publish(BUCKET, FILES, STATEMENT)
    names = [path.removeprefix(f"{BUCKET}/") for path in MemoryFileSystem.writes]
    assert names == ["claim-one.json", *FILES, SIGNATURE, "statement.json"]
    assert {*MemoryFileSystem.objects} == {f"{BUCKET}/{name}" for name in names[1:]}


@pytest.mark.parametrize("name", ["claim-one.json", *FILES, SIGNATURE, "statement.json"])
def test_in_a_store_no_failed_write_leaves_anything(name: str) -> None:
    MemoryFileSystem.reset(broken=name)
    MemoryFileSystem.objects["memory://bucket/other"] = b"mine"
    with pytest.raises(OSError, match="the store is down"):
        release.publish(BUCKET, FILES, STATEMENT)
    assert MemoryFileSystem.objects == {"memory://bucket/other": b"mine"}


def test_in_a_store_files_without_a_statement_are_not_overwritten() -> None:
    """What a killed worker leaves is no release, and nobody's to replace without looking."""
    MemoryFileSystem.objects[f"{BUCKET}/table.parquet"] = b"half"
    assert not release.holds_release(BUCKET)
    with pytest.raises(RequestError, match="already holds files"):
        release.publish(BUCKET, FILES, STATEMENT)
    assert MemoryFileSystem.objects == {f"{BUCKET}/table.parquet": b"half"}


def test_in_a_store_a_longer_name_is_another_folder() -> None:
    MemoryFileSystem.objects[f"{BUCKET}-2/statement.json"] = b"{}"
    release.require_vacant(BUCKET)


CLAIM = f"{BUCKET}/claim-two.json"


def test_in_a_store_a_claimed_folder_is_left_to_its_run() -> None:
    content = b'{"release_id": "two", "claimed_at": "2026-11-20T12:00:00+00:00"}'
    MemoryFileSystem.objects[CLAIM] = content
    MemoryFileSystem.objects[f"{BUCKET}/table.parquet"] = b"theirs"
    before = dict(MemoryFileSystem.objects)
    told = (
        r"another run has claimed .*/out since 2026-11-20T12:00:00\+00:00: wait for its release; "
        "if no run is at work there any more, remove the objects of that folder and run again$"
    )
    with pytest.raises(RequestError, match=told):  # before anything is read
        release.require_vacant(BUCKET)
    with pytest.raises(TakenError, match=told):
        release.publish(BUCKET, FILES, STATEMENT)
    assert MemoryFileSystem.objects == before
    for path in before:  # as it says
        del MemoryFileSystem.objects[path]
    release.publish(BUCKET, FILES, STATEMENT)
    assert content_of_store() == FILES


def content_of_store() -> dict[str, bytes]:
    """What lies in the folder, but for the statement and the signature."""
    found = {
        path.removeprefix(f"{BUCKET}/"): data for path, data in MemoryFileSystem.objects.items()
    }
    del found[release.STATEMENT]
    found.pop(SIGNATURE, None)  # of a claim that a test has written it has none
    return found


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b'{"claimed_at": 3}'])
def test_in_a_store_any_claim_counts_whatever_it_says(content: bytes) -> None:
    MemoryFileSystem.objects[CLAIM] = content
    with pytest.raises(TakenError, match="another run has claimed"):
        release.publish(BUCKET, FILES, STATEMENT)
    assert MemoryFileSystem.objects == {CLAIM: content}


def test_in_a_store_a_worker_that_died_goes_on_from_its_own_claim() -> None:
    """With the noise that was drawn: a worker that draws again would show two draws."""
    whole = {**FILES, release.STATEMENT: release.written(STATEMENT)}
    Claim(BUCKET, "one").take(whole)
    MemoryFileSystem.objects[f"{BUCKET}/table.parquet"] = b"half"
    again = {"table.parquet": b"drawn again", "more.parquet": b"too"}
    release.publish(BUCKET, again, STATEMENT)
    assert content_of_store() == FILES
    # It dies once more, between the statement and the end of its claim.
    Claim(BUCKET, "one").take(whole)
    release.publish(BUCKET, again, STATEMENT)
    assert content_of_store() == FILES


@pytest.mark.parametrize("written", range(1, 6))  # the claim, two files, signature, statement
def test_in_a_store_whoever_finds_a_claim_ends_what_was_begun(
    monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Of a run that is killed after any write, which cleans nothing up."""

    def died(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "delete", died)
        patch.setattr(MemoryFileSystem, "create", dying(MemoryFileSystem.create, written))
        with pytest.raises(KeyboardInterrupt):
            release.publish(BUCKET, FILES, STATEMENT)
    left = dict(MemoryFileSystem.objects)
    assert len(left) == written
    assert not release.completed(BUCKET, "two")  # which is not to be had by another name
    assert MemoryFileSystem.objects == left
    if written < 5:
        # A store that fails once more loses nothing of it: what was drawn is not drawn again.
        MemoryFileSystem.broken = release.STATEMENT
        with pytest.raises(OSError, match="the store is down"):
            release.completed(BUCKET, "one")
        assert Claim(BUCKET, "one").files() is not None
        MemoryFileSystem.broken = None
    assert release.completed(BUCKET, "one")
    assert content_of_store() == FILES
    assert json.loads(release.read(BUCKET, release.STATEMENT)) == STATEMENT


def dying(create: Callable[..., object], written: int) -> Callable[..., object]:
    """Makes so many objects."""
    made = itertools.count()

    def creating(self: MemoryFileSystem, path: str, *rest: object, **more: object) -> object:
        if next(made) == written:
            raise KeyboardInterrupt
        return create(self, path, *rest, **more)

    return creating


def test_in_a_store_attempts_that_claim_at_once_write_one_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim, listed = Claim(BUCKET, "one"), claims.claims

    def later(folder: str) -> list[str]:
        """The other attempt had looked before this one wrote, and writes now."""
        MemoryFileSystem.objects[claim.path] = claim._words({"table": b"2"})
        return listed(folder)

    monkeypatch.setattr(claims, "claims", later)
    assert claim.take({"table": b"1"}) == {"table": b"2"}


def test_in_a_store_a_claim_covers_no_other_files() -> None:
    Claim(BUCKET, "one").take({**FILES, release.STATEMENT: release.written(STATEMENT)})
    MemoryFileSystem.objects[f"{BUCKET}/notes.txt"] = b"somebody else's"
    before = dict(MemoryFileSystem.objects)
    with pytest.raises(TakenError, match="holds files of another run"):
        release.completed(BUCKET, "one")
    assert MemoryFileSystem.objects == before


@pytest.mark.parametrize("writes", range(7))
def test_in_a_store_two_runs_never_mix_wherever_they_meet(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """A second run publishes, or tries to, before some write of the first."""
    create, seen, ended = MemoryFileSystem.create, [], []

    def met(self: MemoryFileSystem, path: str, *rest: object, **more: object) -> object:
        seen.append(path)
        if len(seen) == writes + 1:
            monkeypatch.setattr(MemoryFileSystem, "create", create)
            ended.append(attempt("two"))
        return create(self, path, *rest, **more)

    monkeypatch.setattr(MemoryFileSystem, "create", met)
    ended.append(attempt("one"))
    if writes >= 5:  # the first has made its five writes, and nobody came
        ended.insert(0, attempt("two"))
    assert sorted(ended) == [False, True]
    (winner,) = {path.rpartition("-")[2] for path in content_of_store()}
    statement = json.loads(MemoryFileSystem.objects[f"{BUCKET}/statement.json"])
    assert statement["release_id"] == winner


def attempt(name: str) -> bool:
    """Whether a run of this name was the one to publish."""
    try:
        release.publish(BUCKET, {f"{file}-{name}": b"x" for file in FILES}, {"release_id": name})
    except TakenError:
        return False
    return True


def test_what_is_published_outlives_a_power_cut(tmp_path: Path, monkeypatch) -> None:
    """Every file and folder is flushed before the rename, and every changed name after it."""
    target = tmp_path / "a" / "b" / "out"
    happened: list[tuple[str, str]] = []
    really_sync, really_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        happened.append(("flushed", os.readlink(f"/proc/self/fd/{descriptor}")))
        really_sync(descriptor)

    def rename(source: str, goal: str) -> None:
        happened.append(("renamed", source))
        really_rename(source, goal)

    signing_key()  # which may be made on first use
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    release.publish(str(target), {"t.parquet": b"1", "city/t.parquet": b"2"}, {"release_id": "x"})
    kinds = [kind for kind, _ in happened]
    (at,) = (place for place, kind in enumerate(kinds) if kind == "renamed")
    partial = happened[at][1]
    before, after = ([path for _, path in part] for part in (happened[:at], happened[at + 1 :]))
    files = ["/t.parquet", "/city/t.parquet", "/signature.json", "/statement.json"]
    inside = ["", "/city", *files]
    assert sorted(before) == sorted(partial + name for name in inside)
    # A folder's own flush comes after those of what is in it.
    assert before.index(partial) > before.index(f"{partial}/statement.json")
    assert after == [str(target.parent), str(target.parent.parent), str(tmp_path)]


def test_in_a_store_a_claim_that_stays_is_no_failure(monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "delete", _unanswered)
        release.publish(BUCKET, FILES, STATEMENT)
    assert release.holds_release(BUCKET)
    release.publish(BUCKET, FILES, STATEMENT)  # whoever tries again takes it down
    assert sorted(MemoryFileSystem.objects) == sorted(
        f"{BUCKET}/{name}" for name in [*FILES, SIGNATURE, "statement.json"]
    )
    with pytest.raises(RequestError, match="already holds a release"):
        release.require_vacant(BUCKET)


def _unanswered(*_: object) -> None:
    raise OSError(5, "the store does not answer")
